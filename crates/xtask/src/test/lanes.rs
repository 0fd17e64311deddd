//! Programs that mostly wait, side by side. Each line that they print carries the program's name, so that a person can
//! follow both and a log that ends early still tells how far each of them came.

use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use parking_lot::{Condvar, Mutex};

/// How many tests run at once. Four keep two cores busy; with more, the time-outs that Ironic itself has for its agents and
/// management controllers begin to expire.
const AT_ONCE: usize = 4;

/// No program takes half of this. One that hangs is ended, so that the others still tell something.
const LONGEST: Duration = Duration::from_secs(1500);

/// A program to run.
pub struct Job {
    /// What stands before each of its lines.
    pub name: String,
    /// What is told of it at its start and at its failure.
    pub title: String,
    /// How many tests it runs at once.
    pub width: usize,
    pub command: Command,
}

/// Runs them in the given order, each as soon as there is room for it. Returns the titles of those that failed.
pub fn run(jobs: Vec<Job>) -> anyhow::Result<Vec<String>> {
    let (room, is_more) = (Mutex::new(AT_ONCE), Condvar::new());
    thread::scope(|scope| {
        let mut running = Vec::new();
        for job in jobs {
            let width = job.width;
            is_more.wait_while(&mut room.lock(), |room| *room < width);
            *room.lock() -= width;
            let (room, is_more) = (&room, &is_more);
            running.push(scope.spawn(move || {
                let title = job.title.clone();
                let outcome = passes(job, LONGEST);
                *room.lock() += width;
                is_more.notify_one();
                outcome.map(|is_ok| (!is_ok).then_some(title))
            }));
        }
        let ended = running.into_iter().map(thread::ScopedJoinHandle::join);
        let failed: anyhow::Result<Vec<_>> = ended
            .map(|end| end.map_err(|_| anyhow::anyhow!("a thread that runs a test program panicked"))?)
            .collect();
        Ok(failed?.into_iter().flatten().collect())
    })
}

fn passes(mut job: Job, longest: Duration) -> anyhow::Result<bool> {
    println!("\n$ {}", job.title);
    let start = Instant::now();
    let (reader, writer) = std::io::pipe()?;
    job.command.stdout(writer.try_clone()?).stderr(writer);
    let child = job.command.spawn();
    let mut child = child.with_context(|| format!("cannot start {}", job.title))?;
    // It holds the other end of the pipe: until it is dropped, the reader sees no end.
    drop(job.command);
    let name = &job.name;
    thread::scope(|scope| -> anyhow::Result<()> {
        let (ended, is_over) = mpsc::channel();
        scope.spawn(move || {
            for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                print(name, &String::from_utf8_lossy(&line));
            }
            ended.send(()).ok();
        });
        if is_over.recv_timeout(longest).is_err() {
            print(name, &format!("ended: it has run for {}", super::minutes(longest)));
            // The servers that it started end with it.
            child.kill()?;
        }
        Ok(())
    })?;
    let is_ok = child.wait()?.success();
    let word = if is_ok { "passed" } else { "FAILED" };
    print(&job.name, &format!("{word} after {}", super::minutes(start.elapsed())));
    Ok(is_ok)
}

/// One write for each line: lines of two programs do not mix.
fn print(name: &str, line: &str) {
    let text = format!("{name:16} | {line}\n");
    // A reader that is gone is no reason to stop.
    std::io::stdout().lock().write_all(text.as_bytes()).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job {
            name: name.to_owned(),
            title: format!("run {name}"),
            width: 2,
            command,
        }
    }

    #[test]
    fn those_that_fail_are_told_and_the_others_run_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| format!("echo out; echo err >&2; touch {}", folder.path().join(name).display());
        let jobs = vec![
            job("a", &touch("a")),
            job("b", "exit 3"),
            job("c", "kill -9 $$"),
            job("d", &touch("d")),
        ];
        let mut failed = run(jobs).unwrap();
        failed.sort();
        assert_eq!(failed, ["run b", "run c"]);
        assert!(folder.path().join("a").exists() && folder.path().join("d").exists());
    }

    #[test]
    fn one_that_hangs_is_ended_and_has_failed() {
        let start = Instant::now();
        let is_ok = passes(job("hangs", "echo begun; exec sleep 600"), Duration::from_millis(200)).unwrap();
        assert!(!is_ok && start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn two_run_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let pipe = pipe.display();
        // Each end of a named pipe waits for the other.
        let failed = run(vec![
            job(
                "writer",
                &format!("mkfifo {pipe}.new && mv {pipe}.new {pipe} && echo hello > {pipe}"),
            ),
            job(
                "reader",
                &format!("until [ -p {pipe} ]; do :; done; read line < {pipe} && [ $line = hello ]"),
            ),
        ]);
        assert_eq!(failed.unwrap(), Vec::<String>::new());
    }
}
