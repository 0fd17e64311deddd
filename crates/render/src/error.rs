//! Why data cannot be rendered.

use std::fmt;

use crate::pool::Pool;

/// Why data cannot be rendered: the field of the template that asks, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct RenderError {
    /// A path into the Metal3DataTemplate, such as `spec.networkData.networks.ipv4[mgmt].fromPoolRef`; in brackets stands
    /// what tells the list's entries apart.
    pub field: String,
    /// What is missing or wrong there, and what to do.
    pub problem: Box<Problem>,
}

impl RenderError {
    pub(crate) fn new(field: impl Into<String>, problem: Problem) -> Self {
        Self {
            field: field.into(),
            problem: Box::new(problem),
        }
    }
}

/// What is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Problem {
    #[error("\"{object}\" is none of machine, metal3machine and baremetalhost")]
    UnknownObject { object: String },

    #[error("{object} has no annotation {annotation}, or an empty one; set it")]
    NoAnnotation { object: ObjectName, annotation: String },

    #[error(
        "{host} has no network interface {interface} with a MAC address ({}); name another one, or inspect the host again",
        listed(known)
    )]
    NoInterface {
        host: ObjectName,
        interface: String,
        known: Vec<String>,
    },

    #[error("{host} has no spec.bootMACAddress; set it, or name an interface instead")]
    NoBootMac { host: ObjectName },

    #[error("no source of the MAC address is given; set string, fromHostInterface or fromAnnotation")]
    NoMacSource,

    #[error("\"{value}\" is not a MAC address: six pairs of hexadecimal digits, separated by : or -")]
    BadMac { value: String },

    #[error("no pool is named; set fromPoolRef, fromPoolAnnotation or ipAddressFromIPPool")]
    NoPool,

    #[error("{pool} has the name of {other}, which {other_field} asks; give one of the two another name")]
    SameName {
        pool: Pool,
        other: Pool,
        other_field: String,
    },

    #[error("there is no address from {0}")]
    NoAddress(Pool),

    #[error("{0} tells no prefix length; set it in the pool")]
    NoPrefix(Pool),

    #[error("{0} is not the length of a prefix")]
    BadPrefix(i32),

    #[error("{pool} has given {address}, which is not an IPv{version} address; name a pool of IPv{version}")]
    WrongFamily { pool: Pool, address: String, version: u8 },

    #[error(
        "the parameters {} would overwrite keys that the bond has anyway; use bondMode, bondXmitHashPolicy and bondLinks \
         for them",
        names.join(", ")
    )]
    TakenParameters { names: Vec<String> },
}

/// An object in words for people, such as `BareMetalHost metal3/host-0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

fn listed(interfaces: &[String]) -> String {
    if interfaces.is_empty() {
        "inspection has found none".to_owned()
    } else {
        format!("it has {}", interfaces.join(", "))
    }
}
