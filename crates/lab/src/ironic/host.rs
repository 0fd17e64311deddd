//! The simulated servers, from their administrator's view.

use serde::{Deserialize, Serialize};

/// A user name and a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl Credentials {
    /// From anything that is text.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            username: username.into(),
            password: password.into(),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// What a server's BMC speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Redfish over HTTP(S).
    Redfish,
    /// IPMI, through the `ipmitool` program.
    Ipmi,
}

/// A simulated server: its name, its network cards and how to reach its BMC.
///
/// Every BMC has an address of its own, 127.0.0.1 with a port for each, and knows no other server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Host {
    /// The system's UUID, the same in every instance.
    pub uuid: String,
    /// The system's name, such as `host-1`. Numbers begin at 1.
    pub name: String,
    /// What its BMC speaks.
    pub protocol: Protocol,
    /// The port of its BMC on 127.0.0.1.
    pub port: u16,
    /// What its BMC takes, unless a fault says otherwise.
    pub credentials: Credentials,
    /// The MACs of its network cards. The first boots.
    pub macs: Vec<String>,
    pub(super) tls: bool,
}

impl Host {
    pub(super) fn new(protocol: Protocol, number: u16, port: u16, tls: bool) -> Self {
        let (family, kind, name) = match protocol {
            Protocol::Redfish => ("8000", 0, "host"),
            Protocol::Ipmi => ("9000", 1, "ipmi"),
        };
        let [high, low] = number.to_be_bytes();
        Self {
            uuid: format!("00000000-0000-4000-{family}-{number:012}"),
            name: format!("{name}-{number}"),
            protocol,
            port,
            credentials: Credentials::new("admin", format!("secret-of-{name}-{number}")),
            macs: vec![format!("52:54:{kind:02x}:{high:02x}:{low:02x}:01")],
            tls,
        }
    }

    /// Where its BMC is, as Ironic's `redfish_address`. An IPMI BMC has only a host and a port.
    pub fn bmc_url(&self) -> String {
        format!("{}://127.0.0.1:{}", if self.tls { "https" } else { "http" }, self.port)
    }

    /// The path of its system in Redfish, Ironic's `redfish_system_id`.
    pub fn system_id(&self) -> String {
        format!("/redfish/v1/Systems/{}", self.uuid)
    }

    /// The BMC's address as a BareMetalHost has it in `spec.bmc.address`.
    pub fn bmc_address(&self) -> String {
        match self.protocol {
            Protocol::Redfish => format!("redfish-virtualmedia+{}{}", self.bmc_url(), self.system_id()),
            Protocol::Ipmi => format!("ipmi://127.0.0.1:{}", self.port),
        }
    }

    /// The MAC that the server boots from.
    pub fn boot_mac(&self) -> &str {
        &self.macs[0]
    }
}
