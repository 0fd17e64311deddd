//! The record of what servers leave on the machine, written before it is made. A lab that is killed cannot clean up; the next
//! one ends exactly what the record names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::settings::Setting;
use super::{cgroup, disk};

const FILE: &str = "record.json";

/// What there is to undo.
#[derive(Debug, Serialize, Deserialize)]
pub struct Record {
    /// Which boot of the machine this is: after another one only the disks are left.
    boot: String,
    /// Process 1 of the servers' namespaces.
    pub network: Option<Process>,
    /// The servers' cgroups.
    pub cgroups: Vec<PathBuf>,
    /// What was changed in the kernel.
    pub settings: Vec<Setting>,
    /// The folders of the servers.
    pub servers: Vec<PathBuf>,
}

/// A process, beyond the reuse of its number.
#[derive(Debug, Serialize, Deserialize)]
pub struct Process {
    number: i32,
    /// When it was started, in the kernel's ticks.
    start: String,
}

impl Process {
    /// The running process of this number.
    pub fn of(number: i32) -> Result<Self> {
        let start = start(number).with_context(|| format!("no process {number}"))?;
        Ok(Self { number, start })
    }

    fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.number).filter(|_| start(self.number).as_ref() == Some(&self.start)) {
            kill_process(pid, Signal::KILL).ok(); // fails if it has just ended
        }
    }
}

/// Field 22 of its `stat`; the name before it may have blanks and brackets.
fn start(number: i32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}

impl Record {
    /// Of nothing.
    pub fn new() -> Result<Self> {
        Ok(Self {
            boot: boot()?,
            network: None,
            cgroups: Vec::new(),
            settings: Vec::new(),
            servers: Vec::new(),
        })
    }

    /// The record in this folder, if there is one.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .with_context(|| format!("cannot read {}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes it into a folder.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let unfinished = folder.join("record.json.unfinished");
        let text = serde_json::to_string_pretty(self).context("cannot write JSON")?;
        fs::write(&unfinished, text).context("cannot write the record of servers")?;
        fs::rename(&unfinished, folder.join(FILE)).context("cannot move the record of servers to its place")
    }

    /// Ends and removes what it names, and then the record in `folder`. Logs stay. Blocks.
    pub fn undo(&self, folder: &Path) -> Result<()> {
        if boot()? == self.boot {
            self.network.iter().for_each(Process::kill);
            cgroup::end(&self.cgroups)?;
            self.settings.iter().try_for_each(Setting::restore)?;
        }
        self.servers.iter().try_for_each(|server| disk::erase(server))?;
        let file = folder.join(FILE);
        if file.exists() {
            fs::remove_file(file).context("cannot remove the record of servers")?;
        }
        Ok(())
    }
}

fn boot() -> Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").context("this machine's boot has no name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_the_same_number_that_was_started_later_is_not_killed() {
        let number = i32::try_from(std::process::id()).unwrap();
        let mut own = Process::of(number).unwrap();
        own.start = "1".to_owned();
        own.kill(); // or this test would end here
        assert!(Process::of(i32::MAX).is_err());
    }

    #[test]
    fn a_record_removes_the_disks_that_it_names_and_then_itself() {
        let folder = tempfile::tempdir().unwrap();
        let server = folder.path().join("host-1");
        fs::create_dir_all(server.join("disk/upper")).unwrap();
        fs::write(server.join("console.log"), "said").unwrap();
        let mut record = Record::new().unwrap();
        record.servers.push(server.clone());
        record.cgroups.push(folder.path().join("no-cgroup"));
        record.write(folder.path()).unwrap();

        let found = Record::read(folder.path()).unwrap().unwrap();
        found.undo(folder.path()).unwrap();
        assert!(!server.join("disk").exists() && server.join("console.log").exists());
        assert!(Record::read(folder.path()).unwrap().is_none());
    }
}
