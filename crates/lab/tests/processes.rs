//! Programs die with the process that started them, also when that one has no chance to do anything about it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use metal3_lab::instance::{self, Claim, Scratch};
use metal3_lab::ports::Port;
use metal3_lab::process::{Child, Program};

/// Set for the copy of this test binary that plays the parent which gets killed; the folder that it works in.
const PARENT: &str = "METAL3_LAB_TEST_PARENT";

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the process runs; a zombie does not.
fn runs(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

fn program(folder: &Path, script: &str) -> Program {
    Program {
        name: "script".to_owned(),
        executable: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        log: folder.join("logs/script.log"),
        ..Program::default()
    }
}

/// What the copy of this binary does: starts a program from a thread that ends at once, takes the folder and a port,
/// says so, and waits to be killed.
fn play_parent(folder: &Path) -> anyhow::Result<()> {
    let _claim = Claim::take(folder)?;
    let port = Port::free()?;
    let sleeper = program(folder, "exec sleep 1000");
    let child = std::thread::spawn(move || Child::spawn(&sleeper))
        .join()
        .map_err(|_| anyhow::anyhow!("panicked"))??;
    // The program must outlive the thread that asked for it; a moment, because the kernel's signal comes at once.
    std::thread::sleep(Duration::from_millis(300));
    child.ensure_alive()?;
    fs::write(folder.join("ready.part"), format!("{} {}", child.pid(), port.number()))?;
    fs::rename(folder.join("ready.part"), folder.join("ready"))?;
    loop {
        std::thread::sleep(Duration::from_secs(1000));
    }
}

#[test]
fn a_killed_parent_leaves_nothing_behind() {
    if let Some(folder) = std::env::var_os(PARENT) {
        return play_parent(Path::new(&folder)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_parent_leaves_nothing_behind", "--nocapture"])
        .env(PARENT, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ready = folder.path().join("ready");
    wait_until("the parent has started its program", || {
        ready.exists() || parent.try_wait().unwrap().is_some()
    });
    let text = fs::read_to_string(ready).expect("the parent ended by itself");
    let (pid, port) = text.split_once(' ').unwrap();
    let (pid, port): (u32, u16) = (pid.parse().unwrap(), port.parse().unwrap());
    assert!(runs(pid));
    assert_eq!(instance::owner(folder.path()).unwrap(), Some(parent.id()));
    assert!(Port::take(port).unwrap().is_none(), "another process holds the port");

    parent.kill().unwrap(); // SIGKILL: no destructor runs
    parent.wait().unwrap();
    wait_until("the program is gone", || !runs(pid));
    assert_eq!(
        instance::owner(folder.path()).unwrap(),
        None,
        "nobody has to clean up the lock of a dead owner"
    );
    assert!(Port::take(port).unwrap().is_some(), "nor that of its port");
}

#[test]
fn an_owner_is_asked_to_stop_and_waited_for() {
    if let Some(folder) = std::env::var_os(PARENT) {
        return play_parent(Path::new(&folder)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(
        !instance::stop_owner(folder.path(), Duration::ZERO).unwrap(),
        "nobody is there"
    );
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_owner_is_asked_to_stop_and_waited_for", "--nocapture"])
        .env(PARENT, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the owner is ready", || folder.path().join("ready").exists());
    let taken = Claim::take(folder.path()).unwrap_err().to_string();
    assert!(taken.contains(&format!("in use by process {}", parent.id())), "{taken}");
    assert!(instance::stop_owner(folder.path(), Duration::from_secs(20)).unwrap());
    assert!(!parent.wait().unwrap().success(), "ended by the signal");
    Claim::take(folder.path()).expect("free again");
}

#[test]
fn a_program_whose_parent_is_gone_before_the_start_does_not_run() {
    // The shell between setpriv and the program compares its parent with the number it was given: any other stands for
    // a parent that died in between and left it to somebody else.
    let folder = tempfile::tempdir().unwrap();
    let child = Child::spawn(&program(folder.path(), "tr '\\0' ' ' </proc/$$/cmdline; sleep 1000")).unwrap();
    let line = || fs::read(format!("/proc/{}/cmdline", child.pid())).unwrap();
    wait_until("the program itself runs", || line().starts_with(b"/bin/sh\0-c\0tr"));
    let orphan = Command::new("setpriv")
        .args([
            "--pdeathsig",
            "KILL",
            "--",
            "/bin/sh",
            "-c",
            metal3_lab::process::GUARD,
            "1",
            "/bin/true",
        ])
        .status()
        .unwrap();
    assert_eq!(orphan.code(), Some(125));
}

#[tokio::test]
async fn stopping_is_polite_first_and_takes_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let polite = Child::spawn(&program(
        folder.path(),
        "trap 'echo bye; exit 3' TERM; echo hello; sleep 1000 & wait",
    ))
    .unwrap();
    polite
        .wait_until("its greeting", Duration::from_secs(20), async || {
            anyhow::ensure!(polite.log_tail().contains("hello"), "{}", polite.log_tail());
            Ok(())
        })
        .await
        .unwrap();
    polite.stop(Duration::from_secs(20)).await;
    assert_eq!(polite.exit_status().unwrap().code(), Some(3));
    let gone = format!("{:#}", polite.ensure_alive().unwrap_err());
    assert!(
        gone.contains("script ended (exit status: 3)") && gone.contains("bye"),
        "{gone}"
    );

    let mut stubborn = program(
        folder.path(),
        "trap '' TERM; sleep 1000 & echo $! >part; mv part child; wait",
    );
    stubborn.cwd = Some(folder.path().to_owned());
    let stubborn = Child::spawn(&stubborn).unwrap();
    wait_until("its own child", || folder.path().join("child").exists());
    let grandchild: u32 = fs::read_to_string(folder.path().join("child"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(stubborn.is_alive() && runs(grandchild));
    stubborn.stop(Duration::from_millis(200)).await;
    assert!(!stubborn.is_alive());
    wait_until("the grandchild is gone", || !runs(grandchild));
}

#[tokio::test]
async fn a_program_that_ends_early_is_reported_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let mut dying = program(folder.path(), "echo \"no port for $NAME\"; exit 1");
    dying.env = vec![("NAME".into(), "me".into())];
    let child = Child::spawn(&dying).unwrap();
    let failed = child
        .wait_until("readiness", Duration::from_secs(20), async || anyhow::bail!("not yet"))
        .await;
    let message = format!("{:#}", failed.unwrap_err());
    assert!(
        message.contains("script ended") && message.contains("no port for me"),
        "{message}"
    );

    let mut missing = dying.clone();
    missing.executable = "/nowhere/at-all".into();
    let child = Child::spawn(&missing).unwrap();
    let failed = child
        .wait_until("readiness", Duration::from_secs(20), async || anyhow::bail!("not yet"))
        .await;
    assert!(format!("{:#}", failed.unwrap_err()).contains("/nowhere/at-all"));

    let idle = Child::spawn(&program(folder.path(), "exec sleep 1000")).unwrap();
    let late = idle
        .wait_until("readiness", Duration::from_millis(100), async || {
            anyhow::bail!("still warming up")
        })
        .await;
    assert!(format!("{:#}", late.unwrap_err()).contains("last seen: still warming up"));
    let pid = idle.pid();
    drop(idle);
    assert!(!runs(pid), "dropping kills");
}

#[test]
fn scratch_folders_of_the_dead_are_swept() {
    let family = format!("metal3-lab-test-{}", std::process::id());
    let one = Scratch::new(&family).unwrap();
    let parent = one.folder().parent().unwrap().to_owned();
    let abandoned = parent.join("abandoned");
    fs::create_dir_all(abandoned.join("etcd")).unwrap();
    let other = Scratch::new(&family).unwrap();
    assert!(!abandoned.exists(), "nobody holds it");
    assert!(one.folder().exists() && other.folder().exists(), "both are held");
    let path = one.folder().to_owned();
    drop(one);
    assert!(!path.exists());
    drop(other);
    fs::remove_dir_all(parent).unwrap();
}
