//! What a process uses, as the kernel counts it.

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
}

/// Looks at a process.
pub fn usage(pid: u32) -> anyhow::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process is gone")?;
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|f| f.parse::<f64>().ok())
            .unwrap_or_default()
    };
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = |key: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(key));
        line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok())
            .unwrap_or_default()
    };
    Ok(Usage {
        cpu: (ticks(11) + ticks(12)) / TICKS_PER_SECOND,
        rss: kib("VmRSS:") / 1024.0,
        peak: kib("VmHWM:") / 1024.0,
    })
}

/// The conditions of the measurement.
pub fn machine() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{cores} cores, load average {load} at the start")
}
