//! A program's activity and resource usage between two moments.

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

use std::collections::BTreeMap;
use std::time::Instant;

use metal3_lab::audit::Position;

use super::env::Measured;
use super::process::{self, Usage};
use super::requests::Requests;

/// The moment from which something is measured.
#[derive(Debug)]
pub struct Mark {
    pub start: Instant,
    place: Position,
    usage: Usage,
    programs: BTreeMap<String, f64>,
    machine: String,
}

/// What a time cost.
#[derive(Debug)]
pub struct Cost {
    /// Requests of the program to the API server.
    pub requests: Requests,
    pub before: Usage,
    pub after: Usage,
    /// CPU seconds of each program, this one and what it started: they share the machine.
    pub programs: BTreeMap<String, f64>,
    /// How long it was.
    pub seconds: f64,
    /// The machine, with its load average in the minute before the start.
    pub machine: String,
}

impl Measured {
    pub fn mark(&self) -> anyhow::Result<Mark> {
        Ok(Mark {
            machine: process::machine(),
            usage: process::usage(self.pid())?,
            programs: process::cpu_of_all()?,
            place: self.audit.end()?,
            start: Instant::now(),
        })
    }

    pub fn cost(&self, since: &Mark) -> anyhow::Result<Cost> {
        let seconds = since.start.elapsed().as_secs_f64();
        let mut programs = process::cpu_of_all()?;
        for (program, cpu) in &mut programs {
            *cpu -= since.programs.get(program).copied().unwrap_or_default();
        }
        Ok(Cost {
            requests: self.requests(&self.user, since)?,
            before: since.usage,
            after: process::usage(self.pid())?,
            programs,
            seconds,
            machine: since.machine.clone(),
        })
    }

    /// What a user has asked of the API server.
    pub fn requests(&self, user: &str, since: &Mark) -> anyhow::Result<Requests> {
        Ok(Requests::of(&self.audit.since(since.place)?.0, user))
    }

    /// Whether the program has asked anything.
    pub fn is_busy(&self, since: &Mark) -> anyhow::Result<bool> {
        Ok(self.requests(&self.user, since)?.sum() > 0)
    }
}

impl Cost {
    /// CPU seconds.
    pub fn cpu(&self) -> f64 {
        self.after.cpu - self.before.cpu
    }

    pub fn minutes(&self) -> f64 {
        self.seconds / 60.0
    }

    /// Memory as a table has it: before / after / peak.
    pub fn memory(&self) -> String {
        memory(&self.before, &self.after)
    }
}

/// Resident memory before and after, and its peak.
pub fn memory(before: &Usage, after: &Usage) -> String {
    format!("{:.0} / {:.0} / {:.0} MiB", before.rss, after.rss, after.peak)
}

/// Objects that the program brought where they should be.
#[derive(Debug)]
pub struct Arrivals {
    /// Seconds from the start until an object was there, in the order of arrival.
    pub seconds: Vec<f64>,
    pub cost: Cost,
}

impl Arrivals {
    /// Seconds until the last was there.
    pub fn wall(&self) -> f64 {
        self.seconds.last().copied().unwrap_or_default()
    }

    /// API requests for each.
    pub fn requests_each(&self) -> f64 {
        self.cost.requests.sum() as f64 / self.seconds.len() as f64
    }

    /// How much more of everything an object took here than in a run with fewer.
    pub fn growth_from(&self, fewer: &Self) -> String {
        let of = |share: fn(&Self) -> f64| {
            let each = |run: &Self| share(run) / run.seconds.len() as f64;
            each(self) / each(fewer)
        };
        format!(
            "time × {:.2}, requests × {:.2}, CPU × {:.2} (goal ≤ 1.2)",
            of(Self::wall),
            of(|run| run.cost.requests.sum() as f64),
            of(|run| run.cost.cpu()),
        )
    }
}
