//! One entry of a pool: its fields, and the addresses it contains.

use std::fmt::Display;
use std::net::IpAddr;

use ipnet::IpNet;
use metal3_api::ipam::PoolEntry;

use super::address::{Version, number, parse, parse_subnet};

/// A contiguous range of addresses of one version, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// IPv4 or IPv6.
    pub version: Version,
    /// The lowest as a number.
    pub first: u128,
    /// The highest as a number.
    pub last: u128,
}

impl Range {
    /// Whether the range contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        Version::of(address) == self.version && (self.first..=self.last).contains(&number(address))
    }
}

/// How many indexes the random strategy draws from, counted from [`Entry::base`]. Some may lie outside of the range: host bits of
/// a subnet do not reduce the count, and an `end` beyond the subnet counts too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many; at least one.
    Finite(u64),
    /// None.
    Empty,
    /// No end is given, or more than fit 63 bits: nothing can be drawn.
    Unbounded,
}

/// The parsed range fields of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    start: Option<IpAddr>,
    end: Option<IpAddr>,
    subnet: Option<IpNet>,
}

impl Entry {
    /// Parses the range fields. Errors consist of the field (`start`, `end`, `subnet`, or empty for the whole entry) and a
    /// message. The result contains the valid fields.
    pub fn read(text: &PoolEntry) -> (Self, Vec<(&'static str, String)>) {
        let mut errors = Vec::new();
        let start = read("start", "Start", &text.start, parse, &mut errors);
        let end = read("end", "End", &text.end, parse, &mut errors);
        let subnet = read("subnet", "Subnet", &text.subnet, parse_subnet, &mut errors);
        if text.start.is_empty() && text.end.is_empty() && text.subnet.is_empty() {
            errors.push(("", "must specify at least one of start, end, subnet".to_owned()));
        }
        // Of two versions, upstream admits either order; such an entry is useless.
        if let (Some(start), Some(end)) = (start, end)
            && Version::of(end) == Version::of(start)
            && end < start
        {
            errors.push(("", format!("end {end} is before start {start}")));
        }
        (Self { start, end, subnet }, errors)
    }

    /// Why the entry is useless although each field is valid: it contains no address. By field, as in [`Entry::read`].
    pub fn useless(&self) -> Option<(&'static str, String)> {
        let version = self.version()?;
        if self.start.is_none() && self.subnet.is_none() {
            return Some(("end", "gives no address without start or subnet".to_owned()));
        }
        if let Some(end) = self.end
            && self.start.is_some()
            && Version::of(end) != version
        {
            return Some(("end", format!("{end} is {}, but start is {version}", Version::of(end))));
        }
        if let (Some(start), Some(subnet)) = (self.start, self.subnet)
            && !subnet.contains(&start)
        {
            return Some(("start", format!("{start} is not in the subnet {subnet}")));
        }
        if self.range().is_none() {
            return Some((
                "subnet",
                "has no address behind the one that it is written with".to_owned(),
            ));
        }
        None
    }

    /// Fields with no effect, or a smaller one than intended.
    pub fn odd(&self) -> Option<(&'static str, String)> {
        let end = self.end?;
        if self.start.is_none() {
            return Some(("end", "has no effect without start".to_owned()));
        }
        let subnet = self.subnet?;
        let message = format!("{end} is not in the subnet {subnet}; the subnet ends before it");
        (!subnet.contains(&end)).then_some(("end", message))
    }

    fn version(&self) -> Option<Version> {
        let start = self.start.map(Version::of);
        start
            .or(self.subnet.map(|subnet| Version::of(subnet.addr())))
            .or(self.end.map(Version::of))
    }

    /// The address with index 0 as a number, and its version.
    fn base(&self) -> Option<(Version, u128)> {
        match (self.start, self.subnet) {
            (Some(start), _) => Some((Version::of(start), number(start))),
            // The address keeps its host bits; the address itself is not allocated.
            (None, Some(subnet)) => Some((Version::of(subnet.addr()), number(subnet.addr()).checked_add(1)?)),
            (None, None) => None,
        }
    }

    /// The available addresses. They begin at index 0 and end where the arithmetic first fails.
    pub fn range(&self) -> Option<Range> {
        let (version, first) = self.base()?;
        let mut last = version.max();
        if let Some(end) = self.end
            && self.start.is_some()
        {
            if Version::of(end) != version {
                return None;
            }
            last = last.min(number(end));
        }
        if let Some(subnet) = self.subnet {
            if Version::of(subnet.addr()) != version || first < number(subnet.network()) {
                return None;
            }
            last = last.min(number(subnet.broadcast()));
        }
        (first <= last).then_some(Range { version, first, last })
    }

    /// The number of indexes to draw from.
    pub fn size(&self) -> Size {
        let (first, last, extra) = match (self.start, self.end, self.subnet) {
            (Some(start), Some(end), _) if Version::of(start) == Version::of(end) => (number(start), number(end), 1),
            (Some(start), None, Some(subnet)) => (number(start), number(subnet.broadcast()), 1),
            (None, _, Some(subnet)) => (number(subnet.network()), number(subnet.broadcast()), 0),
            _ => return Size::Unbounded,
        };
        let Some(size) = last.checked_sub(first).and_then(|n| n.checked_add(extra)) else {
            return Size::Unbounded;
        };
        match u64::try_from(size) {
            Ok(0) => Size::Empty,
            Ok(size) if i64::try_from(size).is_ok() => Size::Finite(size),
            _ => Size::Unbounded,
        }
    }

    /// Whether an address is within the bounds, as admission defines them: every given field must hold, also an `end` without
    /// `start`, and every IPv6 address is above every IPv4 one.
    pub fn bounds(&self, address: IpAddr) -> bool {
        let given = self.start.is_some() || self.end.is_some() || self.subnet.is_some();
        given
            && self.start.is_none_or(|start| start <= address)
            && self.end.is_none_or(|end| address <= end)
            && self.subnet.is_none_or(|subnet| subnet.contains(&address))
    }

    /// The subnet, if one is given.
    pub fn subnet(&self) -> Option<IpNet> {
        self.subnet
    }
}

/// Parses one field, if it is set.
fn read<T, E: Display>(
    field: &'static str,
    title: &str,
    text: &str,
    parse: impl Fn(&str) -> Result<T, E>,
    errors: &mut Vec<(&'static str, String)>,
) -> Option<T> {
    let read = (!text.is_empty()).then(|| parse(text))?;
    read.map_err(|error| errors.push((field, format!("invalid {title}: {error}"))))
        .ok()
}
