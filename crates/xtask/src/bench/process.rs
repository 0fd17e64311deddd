//! A process's resource usage, from the kernel.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;

/// The kernel's clock tick; 100 on every Linux that we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU and memory of a process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// CPU seconds so far, user and system.
    pub cpu: f64,
    /// Resident memory in MiB.
    pub rss: f64,
    /// Its peak.
    pub peak: f64,
    /// The part of the resident memory that is the program's file and its libraries, which the kernel can drop and read again.
    pub file: f64,
}

/// Looks at a process.
pub fn usage(pid: u32) -> anyhow::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = |key: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(key));
        line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok())
            .unwrap_or_default()
    };
    Ok(Usage {
        cpu: Stat::of(&stat).cpu,
        rss: kib("VmRSS:") / 1024.0,
        peak: kib("VmHWM:") / 1024.0,
        file: kib("RssFile:") / 1024.0,
    })
}

/// CPU seconds so far of this process and of those that it started, by the names of their programs: what a measured process
/// shared the machine with.
pub fn cpu_of_all() -> anyhow::Result<BTreeMap<String, f64>> {
    let us = std::process::id();
    let mut sums = BTreeMap::new();
    for entry in fs::read_dir("/proc").context("cannot list processes")? {
        let folder = entry?.path();
        let Some(pid) = folder.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()) else {
            continue;
        };
        // One that has ended meanwhile.
        let Ok(text) = fs::read_to_string(folder.join("stat")) else {
            continue;
        };
        let stat = Stat::of(&text);
        if pid == us || stat.parent == us {
            *sums.entry(stat.name.to_owned()).or_default() += stat.cpu;
        }
    }
    Ok(sums)
}

/// A line of `/proc/PID/stat`, as far as it is needed.
#[derive(Debug, PartialEq)]
struct Stat<'a> {
    name: &'a str,
    parent: u32,
    cpu: f64,
}

impl<'a> Stat<'a> {
    fn of(text: &'a str) -> Self {
        // The name stands in brackets and may hold some itself.
        let (name, rest) = text.rsplit_once(')').unwrap_or_default();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks = |index: usize| fields.get(index).and_then(|f| f.parse::<f64>().ok());
        Self {
            name: name.split_once('(').map_or("", |(_, name)| name),
            parent: fields.get(1).and_then(|f| f.parse().ok()).unwrap_or_default(),
            cpu: (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / TICKS_PER_SECOND,
        }
    }
}

/// The conditions of the measurement.
pub fn machine() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, load average {load} at the start")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 1 1 1";
        let stat = Stat {
            name: "a (b) c",
            parent: 7,
            cpu: 2.0,
        };
        assert_eq!(Stat::of(line), stat);
    }

    #[test]
    fn this_process_is_among_all() {
        let own = usage(std::process::id()).unwrap();
        assert!(own.file > 0.0 && own.file < own.rss);
        assert!(!cpu_of_all().unwrap().is_empty());
    }
}
