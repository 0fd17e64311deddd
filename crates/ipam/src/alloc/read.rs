//! Parses a pool's spec once, and finds all its problems.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use metal3_api::ipam::{IPPoolSpec, PoolEntry};

use super::address::{Version, parse};
use super::entry::{Entry, Range, Size};
use super::fit;
use super::plan::{Plan, Problem, Settings, Severity, Strategy, Usable};

/// Maximum number of problems of each severity.
pub(super) const MOST_PROBLEMS: usize = 100;

/// Kubernetes allows 253 characters. A `-` and the longest address take some of them.
const LONGEST_PREFIX: usize = 253 - 1 - "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".len();

impl Plan {
    /// Parses a spec. This never fails: invalid parts are left out, and listed in [`Plan::problems`].
    pub fn read(text: &IPPoolSpec) -> Self {
        let mut plan = Self {
            strategy: if text.allocation_strategy.as_str() == "random" {
                Strategy::Random
            } else {
                Strategy::Sequential
            },
            defaults: Settings {
                prefix: text.prefix,
                gateway: text.gateway.as_str().into(),
                dns_servers: text.dns_servers.clone().into(),
            },
            ..Self::default()
        };
        plan.read_name_prefix(&text.name_prefix);
        plan.read_settings("spec", &text.gateway, &text.dns_servers, text.prefix);
        let mut taken = Taken::default();
        for (index, entry) in text.pools.iter().enumerate() {
            plan.read_entry(&format!("spec.pools[{index}]"), entry, &mut taken);
        }
        plan.union = taken.0.into_values().collect();
        plan.read_reservations(&text.pre_allocations);
        let reserved: HashSet<IpAddr> = plan.reserved.values().copied().collect();
        plan.find_gateway_in_ranges("spec", &text.gateway, &reserved);
        for (index, entry) in text.pools.iter().enumerate() {
            plan.find_gateway_in_ranges(&format!("spec.pools[{index}]"), &entry.gateway, &reserved);
        }
        plan.problems.sort_by_key(|problem| problem.severity);
        plan
    }

    /// Prefix of every object's name.
    fn read_name_prefix(&mut self, prefix: &str) {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        // What follows the last dot goes on with the address.
        let parts = prefix.split('.').rev().enumerate();
        let are_labels = parts.into_iter().all(|(from_end, part)| {
            let is_allowed = part.chars().all(|c| is_plain(c) || c == '-');
            is_allowed && part.starts_with(is_plain) && (from_end == 0 || part.ends_with(is_plain))
        });
        if are_labels && prefix.len() <= LONGEST_PREFIX {
            return;
        }
        let message = format!(
            "no object can have a name that begins with {prefix:?}: it takes lower-case letters, digits, \"-\" and \".\", \
             letters or digits first and on both sides of each \".\", and {LONGEST_PREFIX} characters at most"
        );
        self.say(Severity::Error, "spec.namePrefix".to_owned(), message);
    }

    fn read_entry(&mut self, field: &str, text: &PoolEntry, taken: &mut Taken) {
        self.read_settings(field, &text.gateway, &text.dns_servers, text.prefix);
        let (entry, errors) = Entry::read(text);
        let is_readable = errors.is_empty();
        for (part, message) in errors {
            self.say(Severity::Error, path(field, part), message);
        }
        if !is_readable {
            return;
        }
        if let Some((part, message)) = entry.useless() {
            return self.say(Severity::Error, path(field, part), message);
        }
        if let Some((part, message)) = entry.odd() {
            self.say(Severity::Warning, path(field, part), message);
        }
        let size = entry.size();
        if self.strategy == Strategy::Random && !matches!(size, Size::Finite(_)) {
            let message = "cannot be used with allocationStrategy \"random\": its number of addresses has no bound, or \
                           does not fit 63 bits";
            return self.say(Severity::Error, field.to_owned(), message.to_owned());
        }
        let Some(range) = entry.range() else { return };
        let settings = self.settings_of(text);
        let prefix = fit::prefix(settings.prefix, range);
        self.ask(field, "prefix", text.prefix != 0, prefix);
        let gateway = parse(&settings.gateway).ok();
        let gateway = gateway.and_then(|ip| fit::gateway(ip, range, entry.subnet(), settings.prefix));
        self.ask(field, "gateway", !text.gateway.is_empty(), gateway);
        if let Some(other) = taken.add(range) {
            let message = format!("shares addresses with an entry before it ({})", shown(other));
            self.say(Severity::Warning, field.to_owned(), message);
        }
        self.usable.push(Usable { range, size, settings });
    }

    /// The settings of an entry's addresses: its own, otherwise the pool's. All entries share those, which may be as large as an
    /// object.
    fn settings_of(&self, text: &PoolEntry) -> Settings {
        let mut settings = self.defaults.clone();
        if text.prefix != 0 {
            settings.prefix = text.prefix;
        }
        if !text.gateway.is_empty() {
            settings.gateway = text.gateway.as_str().into();
        }
        if !text.dns_servers.is_empty() {
            settings.dns_servers = text.dns_servers.clone().into();
        }
        settings
    }

    fn read_settings(&mut self, field: &str, gateway: &str, dns: &[String], prefix: i64) {
        if let Some(Err(error)) = (!gateway.is_empty()).then(|| parse(gateway)) {
            self.say(Severity::Error, path(field, "gateway"), error.to_string());
        }
        for (index, server) in dns.iter().enumerate() {
            if let Err(error) = parse(server) {
                let part = format!("dnsServers[{index}]");
                self.say(Severity::Error, path(field, &part), error.to_string());
            }
        }
        if !(0..=128).contains(&prefix) {
            let message = format!("{prefix} is no prefix length: it must be between 0 and 128");
            self.say(Severity::Error, path(field, "prefix"), message);
        }
    }

    fn read_reservations(&mut self, texts: &BTreeMap<String, String>) {
        let mut holders: HashMap<IpAddr, &str> = HashMap::new();
        for (name, text) in texts {
            let field = path("spec.preAllocations", name);
            let address = match parse(text) {
                Ok(address) => address,
                Err(error) => {
                    self.say(Severity::Error, field, error.to_string());
                    continue;
                }
            };
            if let Some(other) = holders.get(&address) {
                let message = format!("{address} is kept for the claim {other} already");
                self.say(Severity::Error, field.clone(), message);
            }
            if !self.contains(address) {
                let message = format!("{address} is out of bounds of the pools given");
                self.say(Severity::Error, field, message);
            }
            // Even if it is invalid, no other claim may get the address.
            holders.entry(address).or_insert(name);
            self.reserved.insert(name.clone(), address);
        }
    }

    /// Claims get a gateway like any other address of the ranges.
    fn find_gateway_in_ranges(&mut self, field: &str, gateway: &str, reserved: &HashSet<IpAddr>) {
        let Ok(address) = parse(gateway) else { return };
        if self.contains(address) && !reserved.contains(&address) {
            let advice = "leave it out of the ranges, or keep it in spec.preAllocations";
            let message = format!("{address} is one of the addresses that claims get; {advice}");
            self.say(Severity::Warning, path(field, "gateway"), message);
        }
    }

    /// Settings that do not fit an entry are reported where they were written: at the entry, or once at the pool.
    fn ask(&mut self, field: &str, part: &str, is_own: bool, message: Option<String>) {
        let Some(message) = message else { return };
        let (field, message) = if is_own {
            (path(field, part), message)
        } else {
            (path("spec", part), format!("does not fit {field}: {message}"))
        };
        if self.problems.iter().all(|problem| problem.field != field) {
            self.say(Severity::Warning, field, message);
        }
    }

    /// A spec can have very many problems. No more are kept than a user reads.
    fn say(&mut self, severity: Severity, field: String, message: String) {
        let alike = self.problems.iter().filter(|problem| problem.severity == severity);
        if alike.count() >= MOST_PROBLEMS {
            return;
        }
        self.problems.push(Problem {
            field,
            message,
            severity,
        });
    }
}

/// The path of a subfield, or of the field itself.
fn path(field: &str, part: &str) -> String {
    let dot = if part.is_empty() { "" } else { "." };
    format!("{field}{dot}{part}")
}

/// The ranges covered so far, without overlaps, by their first address.
#[derive(Default)]
struct Taken(BTreeMap<(Version, u128), Range>);

impl Taken {
    /// Adds a range, and returns its overlap with earlier ones, if any.
    fn add(&mut self, mut range: Range) -> Option<Range> {
        let mut common = None;
        while let Some((&key, &other)) = self.0.range(..=(range.version, range.last)).next_back()
            && other.version == range.version
            && other.last >= range.first
        {
            self.0.remove(&key);
            common = Some(other);
            (range.first, range.last) = (range.first.min(other.first), range.last.max(other.last));
        }
        self.0.insert((range.version, range.first), range);
        common
    }
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
