//! How long each state took, split into Ironic's time and ours. Pure.
//!
//! **Wall time** of a phase is the time between the watch's events that begin and end it, as they arrive here.
//!
//! **Ironic's part** is the part of it in which Ironic did something with the host's node or held its lock. Ironic's
//! conductor logs each change of a node's state, power and lock as it writes it ([`Moment`], to the millisecond), so
//! nothing is polled and nothing is missed. The removal of a node is not among these changes; it ends with the answer
//! to our DELETE.
//!
//! **Ours** is the rest: the node was at rest, so the next step was the operator's. That contains the operator's look
//! at Ironic that tells it so, its own requests as long as they lock no node, its writes to Kubernetes and the watch's
//! delivery to here. It is an upper bound of what the operator could save, and not flattered by what Ironic does
//! meanwhile with other nodes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use metal3_lab::ironic::{Moment, Request};

use super::columns;
use super::story::{Phase, Spell, Story};

/// How exact the numbers are, for the output.
pub const METHOD: &str = "\
Ironic: time in which it worked on the host's node or held its lock, by its own log of node states (exact to 1 ms).
Ours: the rest, the node was at rest and the next step was the operator's. It includes the operator's look at Ironic,
its writes to Kubernetes and the delivery of the watch's events that begin and end a state (some 10 ms each).";

/// A time in which Ironic was busy with a node, in seconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    pub from: f64,
    pub to: f64,
    pub what: &'static str,
}

/// When Ironic was busy with which node. What has not ended by `now` ends there.
pub fn busy(moments: &[Moment], requests: &[Request], now: f64) -> BTreeMap<String, Vec<Busy>> {
    let mut open: BTreeMap<&str, (f64, &'static str)> = BTreeMap::new();
    let mut all: BTreeMap<String, Vec<Busy>> = BTreeMap::new();
    let mut close =
        |node: &str, (from, what), to| all.entry(node.to_owned()).or_default().push(Busy { from, to, what });
    for moment in moments {
        let work = work(moment);
        match open.get(moment.node.as_str()) {
            Some((_, what)) if Some(*what) == work => continue,
            Some(begun) => close(&moment.node, *begun, moment.time),
            None => {}
        }
        match work {
            Some(what) => open.insert(&moment.node, (moment.time, what)),
            None => open.remove(moment.node.as_str()),
        };
    }
    for (node, begun) in open {
        let removal = requests.iter().filter(|request| {
            let is_removal = request.method == "DELETE" && request.path == "/v1/nodes/{id}" && request.member == node;
            is_removal && request.status < 300 && request.time >= begun.0
        });
        close(node, begun, removal.map(|request| request.time).next().unwrap_or(now));
    }
    all
}

/// What Ironic does with the node at this moment.
fn work(moment: &Moment) -> Option<&'static str> {
    if moment.is_at_rest() {
        return None;
    }
    Some(match moment.provision_state.as_deref() {
        Some("verifying") => "verifying",
        Some("inspecting" | "inspect wait") => "inspecting",
        Some("cleaning" | "clean wait") => "cleaning",
        Some("deploying" | "wait call-back") => "deploying",
        Some("deleting") => "tearing down",
        Some("adopting") => "adopting",
        Some("servicing" | "service wait") => "servicing",
        _ if moment.target_power_state.is_some() => "power",
        _ => "locked",
    })
}

/// How long one host's phase took, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    pub wall: f64,
    pub ironic: BTreeMap<&'static str, f64>,
}

impl Cost {
    /// Of some spells of a host whose node was busy then and then.
    pub fn of<'a>(spells: impl IntoIterator<Item = &'a Spell>, busy: &[Busy]) -> Self {
        let mut cost = Self::default();
        for spell in spells {
            let (from, to) = (unix(spell.from), unix(spell.to));
            cost.wall += to - from;
            for work in busy {
                let common = work.to.min(to) - work.from.max(from);
                if common > 0.0 {
                    *cost.ironic.entry(work.what).or_default() += common;
                }
            }
        }
        cost
    }

    pub fn ironic(&self) -> f64 {
        self.ironic.values().sum()
    }

    pub fn ours(&self) -> f64 {
        (self.wall - self.ironic()).max(0.0)
    }
}

/// The same phases of several hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub title: String,
    pub costs: Vec<Cost>,
}

/// A row for each phase, and one for all of the way up.
pub fn rows(stories: &[Story], busy: &BTreeMap<String, Vec<Busy>>) -> Vec<Row> {
    let row = |title: &str, phases: &[Phase]| {
        let costs = stories.iter().filter_map(|story| {
            let spells: Vec<_> = story
                .spells
                .iter()
                .filter(|spell| phases.contains(&spell.phase))
                .collect();
            let busy = story
                .node
                .as_ref()
                .and_then(|node| busy.get(node))
                .map_or(&[][..], Vec::as_slice);
            (!spells.is_empty()).then(|| Cost::of(spells, busy))
        });
        Row {
            title: title.to_owned(),
            costs: costs.collect(),
        }
    };
    let mut rows: Vec<_> = Phase::ALL.iter().map(|phase| row(phase.as_str(), &[*phase])).collect();
    rows.insert(Phase::UP.len(), row("until provisioned", &Phase::UP));
    rows
}

/// The table for people. Numbers of several hosts are medians.
pub fn table(rows: &[Row]) -> String {
    let titles = ["STATE", "HOSTS", "WALL", "SLOWEST", "IRONIC", "OURS", "WHAT IRONIC DID"];
    let mut table = columns::table(titles);
    for row in rows {
        let over = |pick: &dyn Fn(&Cost) -> f64| median(row.costs.iter().map(pick).collect());
        let slowest = row.costs.iter().map(|cost| cost.wall).fold(0.0, f64::max);
        let numbers = [over(&|cost| cost.wall), slowest, over(&Cost::ironic), over(&Cost::ours)];
        let kinds: BTreeSet<_> = row.costs.iter().flat_map(|cost| cost.ironic.keys()).collect();
        let times = kinds
            .into_iter()
            .map(|what| (what, over(&|cost| cost.ironic.get(what).copied().unwrap_or(0.0))));
        let parts: Vec<String> = times
            .filter(|(_, time)| *time >= 0.005)
            .map(|(what, time)| format!("{what} {time:.2}"))
            .collect();
        let mut cells = vec![row.title.clone(), row.costs.len().to_string()];
        if row.costs.is_empty() {
            // Such as preparing, where there is nothing to prepare.
            cells.extend(numbers.map(|_| "-".to_owned()));
            cells.push("no host stayed in this state".to_owned());
        } else {
            cells.extend(numbers.map(|number| format!("{number:.2} s")));
            cells.push(parts.join(", "));
        }
        table.add_row(cells);
    }
    columns::align_numbers(&mut table, 1..6);
    table.trim_fmt()
}

/// The middle one, or the mean of the two in the middle; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.len() % 2) {
        (None, _) => 0.0,
        (Some(value), 1) => *value,
        (Some(value), _) => f64::midpoint(values[middle - 1], *value),
    }
}

/// Seconds since 1970.
pub fn unix(time: Timestamp) -> f64 {
    time.as_duration().as_secs_f64()
}

#[cfg(test)]
mod tests;
