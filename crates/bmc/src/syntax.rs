//! Taking an address apart. What the parts mean is not looked at here.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::error::{AddressError, Part};

/// The longest quotation in an error.
const LONGEST_QUOTE: usize = 80;

/// An address in its parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// In lower case.
    pub scheme: String,
    /// Without brackets, otherwise as written.
    pub host: String,
    pub port: Option<u16>,
    /// Decoded; empty or starting with a slash.
    pub path: String,
    /// As written, without the question mark.
    pub query: Option<String>,
}

/// Quotes parts of an address in errors, unless they might be user-info.
///
/// People paste `redfish://admin:pa/ss@host`, where everything up to the last `@` is meant as credentials, but the grammar
/// sees a host `admin` and a port `pa`. So nothing that begins before the last `@` is quoted.
#[derive(Clone, Copy)]
struct Source<'a> {
    text: &'a str,
}

impl Source<'_> {
    /// `part` must be a slice of the text; of anything else it is not known where it came from, so it is not quoted.
    fn quote(self, part: &str) -> Option<String> {
        let offset = (part.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?;
        let user_info_ends = self.text.rfind('@').map_or(0, |at| at + 1);
        if part.is_empty() || offset < user_info_ends || offset + part.len() > self.text.len() {
            return None;
        }
        if part.chars().count() <= LONGEST_QUOTE {
            return Some(part.to_owned());
        }
        Some(part.chars().take(LONGEST_QUOTE).chain(['…']).collect())
    }

    fn error(self, part: Part, quoted: &str, problem: impl Into<String>) -> AddressError {
        AddressError::new(part, self.quote(quoted), problem)
    }
}

/// Takes an address apart.
pub(crate) fn split(text: &str) -> Result<Parts, AddressError> {
    let source = Source { text };
    if text.is_empty() {
        return Err(AddressError::new(
            Part::Address,
            None,
            "is empty; write something like redfish://192.0.2.7/redfish/v1/Systems/1",
        ));
    }
    if text.chars().any(char::is_control) {
        let problem = "has a control character in it, such as the end of a line; remove it";
        return Err(AddressError::new(Part::Address, None, problem));
    }
    // A fragment means nothing to a BMC, and is dropped like user-info.
    let text = text.split('#').next().unwrap_or_default();
    match scheme_of(text) {
        Some((scheme, rest)) => after_scheme(source, scheme, rest),
        None if text.starts_with("//") => Err(AddressError::new(
            Part::Scheme,
            None,
            "is missing; write it before the slashes, as in redfish://…",
        )),
        None if text.starts_with(':') => Err(AddressError::new(
            Part::Scheme,
            None,
            "is missing before the colon; write something like redfish://…",
        )),
        // A host without a scheme is an IPMI address; with a port, the colon must come before any slash.
        None if text.starts_with('[') && !text.contains("]:") => {
            let problem = "needs a port when it stands without a type; write ipmi:// before it";
            Err(source.error(Part::Host, text, problem))
        }
        None => after_scheme(source, "ipmi", text),
    }
}

/// Splits at the colon of a scheme, if there is one: a letter, then letters, digits, `+`, `-` and `.`.
fn scheme_of(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    (scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(allowed)).then_some((scheme, rest))
}

fn after_scheme(source: Source<'_>, scheme: &str, rest: &str) -> Result<Parts, AddressError> {
    // `redfish:host/path` is meant as `redfish://host/path`; `redfish:/path` has no host.
    let rest = match rest.strip_prefix("//") {
        Some(rest) => rest,
        None if rest.starts_with('/') => "",
        None => rest,
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = host_and_port(source, authority)?;
    Ok(Parts {
        scheme: scheme.to_ascii_lowercase(),
        host: host.to_owned(),
        port,
        path: decode(path).map_err(|problem| source.error(Part::Path, path, problem))?,
        query: query.filter(|query| !query.is_empty()).map(str::to_owned),
    })
}

fn host_and_port<'a>(source: Source<'_>, authority: &'a str) -> Result<(&'a str, Option<u16>), AddressError> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let Some((host, port)) = bracketed.split_once(']') else {
            return Err(source.error(Part::Host, authority, "has an opening bracket but no closing one"));
        };
        if host.contains('%') {
            let problem =
                "is an IPv6 address with a zone, which means nothing to Ironic; leave out the % and what follows";
            return Err(source.error(Part::Host, host, problem));
        }
        if host.parse::<Ipv6Addr>().is_err() {
            return Err(source.error(Part::Host, host, "is not an IPv6 address; only those stand in brackets"));
        }
        return match port.strip_prefix(':') {
            Some(port) => Ok((host, port_number(source, port)?)),
            None if port.is_empty() => Ok((host, None)),
            None => Err(source.error(Part::Port, port, "must follow the closing bracket after a colon")),
        };
    }
    if authority.parse::<Ipv6Addr>().is_ok() {
        let problem = "is an IPv6 address, which must stand in brackets";
        return Err(source.error(Part::Host, authority, problem));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if host.is_empty() {
        return Err(AddressError::new(
            Part::Host,
            None,
            "is missing; write it after the two slashes",
        ));
    }
    if !is_host(host) {
        let problem = "is neither an IP address nor a host name (labels of letters, digits and inner hyphens, at most 63 long, joined by dots, 253 in all)";
        return Err(source.error(Part::Host, host, problem));
    }
    Ok((host, port.map(|port| port_number(source, port)).transpose()?.flatten()))
}

/// An empty port is none.
fn port_number(source: Source<'_>, port: &str) -> Result<Option<u16>, AddressError> {
    if port.is_empty() {
        return Ok(None);
    }
    match port.parse::<u16>() {
        Ok(number) if number > 0 && port.bytes().all(|b| b.is_ascii_digit()) => Ok(Some(number)),
        _ => Err(source.error(Part::Port, port, "is not a number from 1 to 65535")),
    }
}

/// The longest name of DNS (RFC 1035).
const LONGEST_NAME: usize = 253;

fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-')
            && bytes.first() != Some(&b'-')
            && bytes.last() != Some(&b'-')
    };
    host.parse::<Ipv4Addr>().is_ok() || (host.len() <= LONGEST_NAME && host.split('.').all(is_label))
}

/// Resolves `%41` and the like. The error says what is wrong.
fn decode(text: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let digit = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            return Err("has a % that is not followed by two hexadecimal digits; a literal % is written %25");
        };
        bytes.extend(u8::try_from(high * 16 + low));
        rest = &tail[2..];
    }
    let decoded = String::from_utf8(bytes).map_err(|_| "is not UTF-8 once its %-escapes are resolved")?;
    if decoded.chars().any(char::is_control) {
        Err("has a control character among its %-escapes")
    } else {
        Ok(decoded)
    }
}

/// The opposite of resolving: escapes what would end the path or be taken for an escape.
pub(crate) fn encode(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '%' => text.push_str("%25"),
            '?' => text.push_str("%3F"),
            '#' => text.push_str("%23"),
            ' ' => text.push_str("%20"),
            c => text.push(c),
        }
    }
    text
}

/// The first value of a parameter, decoded; a plus sign is a space.
pub(crate) fn parameter(query: &str, name: &str) -> Option<String> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decode(&key.replace('+', " ")).ok()? == name {
            decode(&value.replace('+', " ")).ok()
        } else {
            None
        }
    })
}
