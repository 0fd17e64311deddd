//! The simulated servers: their administrator's data, their faults, and their counters.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::Credentials;
use crate::words::Power;

/// The network of the simulated BMCs. Nothing listens there.
const NETWORK: u32 = u32::from_be_bytes([10, 0, 0, 0]);
/// How many servers that network has room for.
pub(crate) const MOST: u32 = 0x00ff_fffe;

/// A server as its administrator knows it. All of it follows from its number.
#[derive(Debug, Clone)]
pub struct Server {
    /// Counts from 0.
    pub number: u32,
    /// Its name, such as `server-0`.
    pub name: String,
    /// The address of its BMC.
    pub ip: Ipv4Addr,
    /// What its BMC takes, unless a fault says otherwise.
    pub credentials: Credentials,
    /// The MACs of its network cards. The first boots.
    pub macs: [String; 2],
}

impl Server {
    pub(crate) fn new(number: u32) -> Self {
        let [_, high, middle, low] = (number + 1).to_be_bytes();
        Self {
            number,
            name: format!("server-{number}"),
            ip: Ipv4Addr::from(NETWORK + number + 1),
            credentials: Credentials::new("admin", format!("secret-of-server-{number}")),
            macs: [1, 2].map(|card| format!("52:54:0{card}:{high:02x}:{middle:02x}:{low:02x}")),
        }
    }

    /// The number of the server with this BMC address.
    pub(crate) fn number_at(ip: Ipv4Addr) -> Option<u32> {
        u32::from(ip).checked_sub(NETWORK + 1).filter(|number| *number < MOST)
    }

    /// Its Redfish BMC as a BareMetalHost has it in `spec.bmc.address`.
    pub fn redfish_address(&self) -> String {
        format!("redfish-virtualmedia+http://{}/redfish/v1/Systems/1", self.ip)
    }

    /// Its IPMI BMC in the same place.
    pub fn ipmi_address(&self) -> String {
        format!("ipmi://{}", self.ip)
    }

    /// The MAC that it boots from.
    pub fn boot_mac(&self) -> &str {
        &self.macs[0]
    }
}

/// A server's faults. The texts are the error messages that Ironic gets.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// The BMC takes another password than the one that [`Server::credentials`] says.
    pub password: Option<String>,
    /// The BMC does not answer.
    pub bmc_down: bool,
    /// Every action with the BMC takes this much longer, in milliseconds. Its node is locked that much longer.
    pub bmc_delay_ms: u64,
    /// Power requests are accepted and ignored.
    pub power_ignored: bool,
    /// The BMC cannot do soft power changes.
    pub no_soft_power: bool,
    /// The BMC refuses virtual media.
    pub media_refused: bool,
    /// Changes of BIOS settings are accepted and never come into force: Ironic waits for them until its timeout.
    pub settings_ignored: bool,
    /// Changes of BIOS settings are taken back once Ironic has seen them in force.
    pub settings_reverted: bool,
    /// The image cannot be had: a deployment fails before its ramdisk.
    pub image_error: Option<String>,
    /// Inspection fails.
    pub inspect_error: Option<String>,
    /// The last step of a cleaning fails.
    pub clean_error: Option<String>,
    /// The last step of a deployment fails.
    pub deploy_error: Option<String>,
    /// The last step of a service fails.
    pub service_error: Option<String>,
    /// Taking over fails.
    pub adopt_error: Option<String>,
    /// Taking down fails.
    pub undeploy_error: Option<String>,
    /// The ramdisk does not report. Ironic gives up after its timeout.
    pub agent_dead: bool,
    /// After so many failures by one of the errors above the server is well. None: never.
    pub failures: Option<u32>,
    /// Merged into the inventory that inspection finds.
    pub inventory: Map<String, Value>,
}

impl Faults {
    pub(crate) fn delay(&self) -> Duration {
        Duration::from_millis(self.bmc_delay_ms)
    }
}

/// What a server went through. A wipe of Ironic's database does not touch it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Nodes that were created for it.
    pub creates: u32,
    /// Nodes of it that were deleted.
    pub deletes: u32,
    /// Verifications.
    pub verifies: u32,
    /// Inspections.
    pub inspections: u32,
    /// Automated cleanings that booted a ramdisk.
    pub cleans: u32,
    /// Cleanings with steps of the user's.
    pub manual_cleans: u32,
    /// Deployments.
    pub deploys: u32,
    /// Instances taken down.
    pub undeploys: u32,
    /// Take-overs.
    pub adopts: u32,
    /// Services.
    pub services: u32,
    /// Power-ons that were asked for over the API.
    pub power_ons: u32,
    /// The same of power-offs.
    pub power_offs: u32,
    /// The same of reboots.
    pub reboots: u32,
}

/// Virtual media, according to the BMC.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Medium {
    pub device: &'static str,
    pub image: String,
}

/// The hardware behind a BMC.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub is_on: bool,
    pub counters: Counters,
    pub faults: Option<Box<Faults>>,
    pub more: Option<Box<More>>,
}

/// What few machines have.
#[derive(Debug, Default)]
pub(crate) struct More {
    pub media: Vec<Medium>,
    pub bios: BTreeMap<String, String>,
    pub firmware: BTreeMap<String, String>,
    /// Subscriptions to the BMC's events, by identifier.
    pub subscriptions: BTreeMap<String, Value>,
    /// The configuration drive of the last deployment.
    pub config_drive: Option<Value>,
}

impl Machine {
    pub fn power(&self) -> Power {
        if self.is_on { Power::On } else { Power::Off }
    }

    pub fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// One of the failures that [`Faults::failures`] counts.
    pub fn fail(&mut self, text: impl Fn(&Faults) -> Option<String>) -> Option<String> {
        let faults = self.faults.as_mut()?;
        let text = text(faults)?;
        if let Some(left) = &mut faults.failures {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.faults = None;
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_its_address() {
        for number in [0, 1, 254, 255, 65_535, 9_999] {
            assert_eq!(Server::number_at(Server::new(number).ip), Some(number));
        }
        assert_eq!(Server::number_at(Ipv4Addr::new(192, 0, 2, 1)), None);
        assert_eq!(Server::number_at(Ipv4Addr::new(10, 0, 0, 0)), None);
    }

    #[test]
    fn counted_failures_end() {
        let mut machine = Machine {
            faults: Some(Box::new(Faults {
                deploy_error: Some("disk".to_owned()),
                failures: Some(2),
                ..Faults::default()
            })),
            ..Machine::default()
        };
        let seen: Vec<bool> = (0..3)
            .map(|_| machine.fail(|f| f.deploy_error.clone()).is_some())
            .collect();
        assert_eq!(seen, [true, true, false]);
    }
}
