//! The cgroups of a server: one in every hierarchy, so that it sees none of other servers', and can be ended as a whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::POLL;

const ROOT: &str = "/sys/fs/cgroup";
/// How long killed processes may take to go.
const PATIENCE: Duration = Duration::from_secs(10);

/// The folders of this process's own cgroups, one for each hierarchy. Fails where there is no cgroup v1.
pub fn parents() -> Result<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/cgroup").context("this machine has no cgroups")?;
    let parents = folders(&text);
    if !Path::new(ROOT).join("pids").is_dir() {
        bail!("it has cgroup v2 only, and servers that really boot were only tried with v1 hierarchies");
    }
    Ok(parents.into_iter().filter(|folder| folder.is_dir()).collect())
}

/// The folders in the text of `/proc/PID/cgroup`: lines of a number, controllers and a path.
fn folders(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    lines
        .map(|(controllers, path)| {
            let hierarchy = match controllers {
                "" => "unified",
                controllers => controllers.trim_start_matches("name="),
            };
            Path::new(ROOT).join(hierarchy).join(path.trim_start_matches('/'))
        })
        .collect()
}

/// Makes a cgroup below another.
pub fn make(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the cgroup {}", folder.display()))?;
    // A new one of this hierarchy has no processors and no memory until it is told.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (own, parent) = (folder.join(file), folder.join("..").join(file));
        if own.exists() {
            let text = fs::read(&parent).with_context(|| format!("cannot read {}", parent.display()))?;
            fs::write(&own, text).with_context(|| format!("cannot write {}", own.display()))?;
        }
    }
    Ok(())
}

/// The programs of this name in a cgroup and below it.
pub fn running(cgroup: &Path, program: &str) -> Result<Vec<Pid>> {
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let is_it = |number: &&str| {
        let name = read(&Path::new("/proc").join(number).join("comm"));
        name.is_ok_and(|name| name.trim_end() == program)
    };
    let members = read(&cgroup.join("cgroup.procs"))?;
    let found = members.lines().filter(is_it);
    let mut found: Vec<_> = found.filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect();
    for folder in below(cgroup) {
        found.extend(running(&folder, program)?);
    }
    Ok(found)
}

/// Kills everything in cgroups and below them, and removes them. Those that do not exist are passed over. Blocks.
pub fn end(cgroups: &[PathBuf]) -> Result<()> {
    let start = Instant::now();
    loop {
        for cgroup in cgroups.iter().filter(|cgroup| cgroup.is_dir()) {
            kill(cgroup);
            remove(cgroup);
        }
        let Some(left) = cgroups.iter().find(|cgroup| cgroup.is_dir()) else {
            return Ok(());
        };
        if start.elapsed() > PATIENCE {
            bail!("{} cannot be removed", left.display());
        }
        std::thread::sleep(POLL);
    }
}

fn kill(cgroup: &Path) {
    let members = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    let members = members.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?));
    for pid in members {
        kill_process(pid, Signal::KILL).ok(); // fails for one that has just ended
    }
    for folder in below(cgroup) {
        kill(&folder);
    }
}

/// As much of it as is empty.
fn remove(cgroup: &Path) {
    for folder in below(cgroup) {
        remove(&folder);
    }
    fs::remove_dir(cgroup).ok(); // fails while processes are going: the caller tries again
}

fn below(cgroup: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hierarchy_has_a_folder() {
        let text = "10:name=systemd:/\n6:memory:/a/b\n2:cpu,cpuacct:/\n0::/c\n";
        let paths = folders(text);
        let wanted = ["systemd/", "memory/a/b", "cpu,cpuacct/", "unified/c"];
        assert_eq!(paths, wanted.map(|path| Path::new(ROOT).join(path)));
    }
}
