//! Process metrics from the kernel, under the standard names of Prometheus clients.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

/// Read from /proc at each scrape. Unreadable values are omitted.
#[derive(Debug)]
pub struct Process;

/// The unit of CPU times in /proc on every platform that we build for, whatever the kernel's own rate.
const TICKS_PER_SECOND: f64 = 100.0;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(seconds) = cpu_seconds(&stat) {
            let metric = ConstCounter::new(seconds);
            let descriptor = encoder.encode_descriptor(
                "process_cpu_seconds",
                "CPU time used by this process, in seconds",
                None,
                metric.metric_type(),
            )?;
            metric.encode(descriptor)?;
        }
        let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Memory in RAM, in bytes",
                kilobytes(&status, "VmRSS:"),
            ),
            (
                "process_virtual_memory_bytes",
                "Address space, in bytes",
                kilobytes(&status, "VmSize:"),
            ),
            ("process_threads", "Threads", field(&status, "Threads:")),
            ("process_open_fds", "Open files", open_files()),
            (
                "process_max_fds",
                "Limit of open files",
                field(&limits, "Max open files"),
            ),
            (
                "process_start_time_seconds",
                "Start, in seconds since 1970",
                start_time(&stat, &boot),
            ),
        ] {
            if let Some(value) = value {
                let metric = ConstGauge::new(value);
                let descriptor = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
                metric.encode(descriptor)?;
            }
        }
        Ok(())
    }
}

/// The first number behind a label.
fn field(text: &str, label: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(label))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn kilobytes(status: &str, label: &str) -> Option<f64> {
    field(status, label).map(|kilobytes| kilobytes * 1024.0)
}

/// A numbered field of /proc/self/stat, counted as in proc(5). The second one, the program's name, may hold blanks.
fn stat_field(stat: &str, number: usize) -> Option<f64> {
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((stat_field(stat, 14)? + stat_field(stat, 15)?) / TICKS_PER_SECOND)
}

fn start_time(stat: &str, boot: &str) -> Option<f64> {
    Some(field(boot, "btime")? + stat_field(stat, 22)? / TICKS_PER_SECOND)
}

fn open_files() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count).ok().map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_as_documented() {
        let stat = "7 (odd ) name) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 3 0 12345 1 2";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(start_time(stat, "cpu 1\nbtime 1000\n"), Some(1123.45));
        assert_eq!(kilobytes("Name: x\nVmRSS:\t    12 kB\n", "VmRSS:"), Some(12288.0));
        assert_eq!(cpu_seconds(""), None);
    }
}
