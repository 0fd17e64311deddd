//! A parsed BMC address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::access::{Access, Family, TYPES, Transport, Type, look_up};
use crate::error::{AddressError, Part};
use crate::syntax::{Parts, encode, parameter, split};

/// Privilege levels that Ironic knows; it compares them letter by letter.
const PRIVILEGE_LEVELS: &[&str] = &["ADMINISTRATOR", "OPERATOR", "USER", "CALLBACK"];

/// An address whose type is known and whose parts make sense. `Display` writes it in full form, without user-info.
#[derive(Clone, PartialEq, Eq)]
pub struct BmcAddress {
    kind: &'static Type,
    transport: Option<Transport>,
    host: String,
    port: Option<u16>,
    path: String,
    query: Option<String>,
    privilege_level: Option<String>,
}

impl BmcAddress {
    /// Reads an address. Metal3 accepts, besides `type://host:port/path`: a host with or without port (IPMI), and
    /// `type:host`. An address without any host is refused here, while Metal3 leaves that to Ironic.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let Parts {
            scheme,
            host,
            port,
            path,
            query,
        } = match split(text) {
            Ok(parts) => parts,
            // An unknown type is the more helpful complaint: `fe80::1` is not a type `fe80` with a bad port.
            Err(error) => return Err(unknown_type(text).unwrap_or(error)),
        };
        let Some((kind, transport)) = look_up(&scheme) else {
            return Err(unknown_type(text).unwrap_or_else(|| AddressError::new(Part::Scheme, None, known_types())));
        };
        let privilege_level = query.as_deref().and_then(|query| parameter(query, "privilegelevel"));
        if let Some(level) = &privilege_level
            && kind.access.family == Family::Ipmi
            && !PRIVILEGE_LEVELS.contains(&level.as_str())
        {
            let quoted = (!text.contains('@')).then(|| format!("privilegelevel={}", shortened(level)));
            let problem = format!(
                "names no privilege level of IPMI; write one of {}",
                PRIVILEGE_LEVELS.join(", ")
            );
            return Err(AddressError::new(Part::Query, quoted, problem));
        }
        Ok(Self {
            kind,
            transport,
            host,
            port,
            path,
            query,
            privilege_level,
        })
    }

    /// Driver, interfaces and abilities.
    pub fn access(&self) -> &'static Access {
        &self.kind.access
    }

    /// The type in full, as messages name it: `redfish+http`.
    pub fn bmc_type(&self) -> String {
        match self.transport {
            Some(transport) => format!("{}+{}", self.kind.name, transport.name()),
            None => self.kind.name.to_owned(),
        }
    }

    /// Host name or IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The IP address, unless the host is a name.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The port, if it is given.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The path with its escapes resolved; empty or starting with a slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport.unwrap_or(Transport::Https)
    }

    pub(crate) fn privilege_level(&self) -> Option<&str> {
        self.privilege_level.as_deref()
    }

    /// `host`, `host:port`, `[address]:port`.
    pub(crate) fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }
}

impl FromStr for BmcAddress {
    type Err = AddressError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for BmcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.bmc_type(), self.authority(), encode(&self.path))?;
        match &self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for BmcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BmcAddress({self})")
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

fn known_types() -> String {
    let names: Vec<_> = TYPES.iter().map(|known| known.name).collect();
    format!(
        "is none of {}; those with redfish or virtualmedia in their name may end in +http or +https",
        names.join(", ")
    )
}

/// The complaint about a scheme that is not known, with a guess at what was meant; none if the scheme is known or absent.
fn unknown_type(text: &str) -> Option<AddressError> {
    let (scheme, rest) = text.split_once(':')?;
    let looks_like_one = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let scheme = scheme.to_ascii_lowercase();
    if !looks_like_one || look_up(&scheme).is_some() {
        return None;
    }
    // In `user:password@host` the user would be taken for the type.
    if text.contains('@') && !rest.starts_with("//") {
        let problem = "is missing; write something like redfish://host, and put user and password into the Secret";
        return Some(AddressError::new(Part::Scheme, None, problem));
    }
    let (name, suffix) = scheme
        .split_once('+')
        .map_or((scheme.as_str(), None), |(name, suffix)| (name, Some(suffix)));
    let remedy = if text.parse::<std::net::Ipv6Addr>().is_ok() {
        format!("is the beginning of an IPv6 address; write ipmi://[{text}] or redfish://[{text}]")
    } else if !rest.is_empty() && rest.len() <= 5 && rest.bytes().all(|b| b.is_ascii_digit()) {
        format!("is not known; if it is a host with a port, write ipmi://{scheme}:{rest}")
    } else if let (Some(suffix), true) = (suffix, TYPES.iter().any(|known| known.name == name)) {
        match look_up(&format!("{name}+https")) {
            Some(_) => format!(
                "is not known; after {name} there may be +http or +https, not +{}",
                shortened(suffix)
            ),
            None => format!("is not known; {name} knows no +{}, write {name}", shortened(suffix)),
        }
    } else {
        match name {
            "idrac" => "is no longer supported; write idrac-redfish or idrac-virtualmedia".to_owned(),
            "ilo4" | "ilo5" | "ilo" | "ilo4-virtualmedia" => {
                "is no longer supported; write redfish or redfish-virtualmedia".to_owned()
            }
            "irmc" | "ibmc" => "is no longer supported; write redfish or ipmi".to_owned(),
            "http" | "https" => format!("is how Redfish is spoken; write redfish+{name}"),
            _ => known_types(),
        }
    };
    Some(AddressError::new(Part::Scheme, Some(shortened(&scheme)), remedy))
}
