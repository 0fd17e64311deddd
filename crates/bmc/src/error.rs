//! What is wrong with an address, and what would be right.

use std::fmt;

/// The part of an address that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// The address as a whole: empty, or not printable.
    Address,
    /// The type of BMC, before the colon.
    Scheme,
    /// The host name or IP address.
    Host,
    /// The port number.
    Port,
    /// The path, which names the system inside the BMC.
    Path,
    /// The parameters after the question mark.
    Query,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "address",
            Self::Scheme => "type",
            Self::Host => "host",
            Self::Port => "port",
            Self::Path => "path",
            Self::Query => "query",
        })
    }
}

/// A BMC address that cannot be used. `Display` is made for users: it names and quotes the wrong part, and says what to
/// write instead. It never holds user-info.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid BMC address: {} {problem}", Quote(*part, quoted.as_deref()))]
pub struct AddressError {
    part: Part,
    quoted: Option<String>,
    problem: String,
}

impl AddressError {
    pub(crate) fn new(part: Part, quoted: Option<String>, problem: impl Into<String>) -> Self {
        Self {
            part,
            quoted,
            problem: problem.into(),
        }
    }

    /// Which part is wrong.
    pub fn part(&self) -> Part {
        self.part
    }
}

/// `host "a_b"`, or only `host` where quoting might tell a password.
struct Quote<'a>(Part, Option<&'a str>);

impl fmt::Display for Quote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(text) => write!(f, "{} {text:?}", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}
