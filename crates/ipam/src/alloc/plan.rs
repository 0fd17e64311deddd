//! What a pool's specification means, read once.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::address::{Subnet, Version, parse};
use super::entry::{Entry, EntryText, Range, Size};

/// The texts of a pool's specification; empty means absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolText {
    /// `random`, or anything else for sequential.
    pub strategy: String,
    /// The entries in their order.
    pub entries: Vec<EntryText>,
    /// Addresses that are kept for claims, by the claim's name.
    pub reserved: BTreeMap<String, String>,
    /// Prefix length where the entry has none.
    pub prefix: i64,
    /// Gateway where the entry has none.
    pub gateway: String,
    /// DNS servers where the entry has none.
    pub dns_servers: Vec<String>,
}

/// How a free address is chosen within an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The lowest free one.
    #[default]
    Sequential,
    /// The first free one from a random place on, beginning again at the start of the entry.
    Random,
}

/// How much a problem matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// What is written there has no effect: an entry gives no addresses, a reservation cannot be honoured.
    Error,
    /// It has an effect, but probably not the one that was meant.
    Warning,
}

/// Something wrong with a specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field's path, such as `spec.pools[0].start`.
    pub field: String,
    /// What is wrong, to be read behind the path.
    pub message: String,
    /// How much it matters.
    pub severity: Severity,
}

/// What goes with an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Prefix length; 0 if none is given.
    pub prefix: i64,
    /// Gateway; empty if none is given.
    pub gateway: String,
    /// DNS servers.
    pub dns_servers: Vec<String>,
}

/// An entry as the allocator uses it.
#[derive(Clone, Debug)]
pub(super) struct Usable {
    pub(super) range: Range,
    pub(super) size: Size,
    pub(super) settings: Settings,
}

/// A specification, read: ranges, reservations, settings, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(super) strategy: Strategy,
    pub(super) usable: Vec<Usable>,
    pub(super) reserved: BTreeMap<String, IpAddr>,
    /// All addresses that can be allocated, without overlaps, in order.
    union: Vec<Range>,
    defaults: Settings,
    problems: Vec<Problem>,
}

impl Plan {
    /// Reads a specification. Nothing stops it: what cannot be used is left out, and named in [`Plan::problems`].
    pub fn read(text: &PoolText) -> Self {
        let mut plan = Self {
            strategy: if text.strategy == "random" {
                Strategy::Random
            } else {
                Strategy::Sequential
            },
            defaults: Settings {
                prefix: text.prefix,
                gateway: text.gateway.clone(),
                dns_servers: text.dns_servers.clone(),
            },
            ..Self::default()
        };
        plan.read_settings("spec", &text.gateway, &text.dns_servers, text.prefix, None);
        for (index, entry) in text.entries.iter().enumerate() {
            plan.read_entry(&format!("spec.pools[{index}]"), entry);
        }
        plan.union = merged(plan.usable.iter().map(|entry| entry.range).collect());
        for (name, address) in &text.reserved {
            plan.read_reservation(name, address);
        }
        plan.problems.sort_by_key(|problem| problem.severity);
        plan
    }

    /// What is wrong with the specification, errors first.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The strategy.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// How many addresses there are; the whole of IPv6 counts one less than it has.
    pub fn total(&self) -> u128 {
        self.union.iter().fold(0, |sum: u128, range| {
            sum.saturating_add((range.last - range.first).saturating_add(1))
        })
    }

    /// Whether an address can be allocated from one of the entries.
    pub fn contains(&self, address: IpAddr) -> bool {
        let behind = self.union.partition_point(|range| {
            (range.version, range.first) <= (Version::of(address), super::Line::number(address))
        });
        behind
            .checked_sub(1)
            .and_then(|at| self.union.get(at))
            .is_some_and(|range| range.contains(address))
    }

    /// The address that is kept for a claim of this name.
    pub fn reserved_for(&self, claim: &str) -> Option<IpAddr> {
        self.reserved.get(claim).copied()
    }

    /// Every address that is kept for a claim.
    pub fn reserved(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.reserved.iter().map(|(name, address)| (name.as_str(), *address))
    }

    /// What goes with an address: the settings of the first entry that has it, or else the pool's.
    pub fn settings(&self, address: IpAddr) -> Settings {
        self.entry_of(address)
            .map_or_else(|| self.defaults.clone(), |entry| entry.settings.clone())
    }

    pub(super) fn entry_of(&self, address: IpAddr) -> Option<&Usable> {
        self.usable.iter().find(|entry| entry.range.contains(address))
    }

    fn read_entry(&mut self, field: &str, text: &EntryText) {
        let (entry, errors) = Entry::read(text);
        let settings = Settings {
            prefix: if text.prefix == 0 {
                self.defaults.prefix
            } else {
                text.prefix
            },
            gateway: or(&text.gateway, &self.defaults.gateway).to_owned(),
            dns_servers: if text.dns_servers.is_empty() {
                self.defaults.dns_servers.clone()
            } else {
                text.dns_servers.clone()
            },
        };
        self.read_settings(field, &text.gateway, &text.dns_servers, text.prefix, entry.subnet());
        let mut at = |severity, (part, message): (&str, String)| {
            let dot = if part.is_empty() { "" } else { "." };
            self.problems.push(Problem {
                field: format!("{field}{dot}{part}"),
                message,
                severity,
            });
        };
        let is_readable = errors.is_empty();
        for error in errors {
            at(Severity::Error, error);
        }
        if !is_readable {
            return;
        }
        if let Some(useless) = entry.useless() {
            return at(Severity::Error, useless);
        }
        if let Some(odd) = entry.odd() {
            at(Severity::Warning, odd);
        }
        let size = entry.size();
        if self.strategy == Strategy::Random && !matches!(size, Size::Finite(_)) {
            let message = "cannot be used with allocationStrategy \"random\": its number of addresses has no bound, or \
                           does not fit 63 bits";
            return at(Severity::Error, ("", message.to_owned()));
        }
        let Some(range) = entry.range() else { return };
        if let Some(other) = self.usable.iter().position(|other| overlaps(other.range, range)) {
            let message = format!(
                "shares addresses with an entry before it ({})",
                shown(self.usable[other].range)
            );
            at(Severity::Warning, ("", message));
        }
        self.usable.push(Usable { range, size, settings });
    }

    fn read_settings(&mut self, field: &str, gateway: &str, dns: &[String], prefix: i64, subnet: Option<Subnet>) {
        let mut say = |field: String, message: String, severity| {
            self.problems.push(Problem {
                field,
                message,
                severity,
            });
        };
        if !gateway.is_empty() {
            match parse(gateway) {
                Err(error) => say(format!("{field}.gateway"), error.to_string(), Severity::Error),
                Ok(address) => {
                    if let Some(subnet) = subnet.filter(|subnet| !subnet.contains(address)) {
                        let message = format!("{address} is not in the subnet {}/{}", subnet.address, subnet.prefix);
                        say(format!("{field}.gateway"), message, Severity::Warning);
                    }
                }
            }
        }
        for (index, server) in dns.iter().enumerate() {
            if let Err(error) = parse(server) {
                say(
                    format!("{field}.dnsServers[{index}]"),
                    error.to_string(),
                    Severity::Error,
                );
            }
        }
        if !(0..=128).contains(&prefix) {
            let message = format!("{prefix} is no prefix length: it must be between 0 and 128");
            say(format!("{field}.prefix"), message, Severity::Error);
        }
    }

    fn read_reservation(&mut self, name: &str, text: &str) {
        let mut errors = Vec::new();
        let address = parse(text).map_err(|error| errors.push(error.to_string())).ok();
        if let Some(address) = address {
            if let Some((other, _)) = self.reserved.iter().find(|(_, other)| **other == address) {
                errors.push(format!("{address} is kept for the claim {other} already"));
            }
            if self.entry_of(address).is_none() {
                errors.push(format!("{address} is out of bounds of the pools given"));
            }
        }
        self.problems.extend(errors.into_iter().map(|message| Problem {
            field: format!("spec.preAllocations.{name}"),
            message,
            severity: Severity::Error,
        }));
        // An error or not, nobody else may get the address.
        self.reserved.extend(address.map(|address| (name.to_owned(), address)));
    }
}

fn or<'a>(own: &'a str, default: &'a str) -> &'a str {
    if own.is_empty() { default } else { own }
}

fn overlaps(a: Range, b: Range) -> bool {
    a.version == b.version && a.first <= b.last && b.first <= a.last
}

fn shown(range: Range) -> String {
    let end = |number| {
        range
            .version
            .address(number)
            .map_or_else(String::new, |address| address.to_string())
    };
    format!("{} to {}", end(range.first), end(range.last))
}

fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut union: Vec<Range> = Vec::new();
    for range in ranges {
        match union.last_mut() {
            Some(before) if before.version == range.version && range.first <= before.last.saturating_add(1) => {
                before.last = before.last.max(range.last);
            }
            _ => union.push(range),
        }
    }
    union
}
