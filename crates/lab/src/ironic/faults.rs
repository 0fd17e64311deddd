//! What can be made to go wrong while the lab runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Credentials, Host};

/// Which servers a fault is for. What is set for one server wins over what is set for all, knob by knob.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// Every server.
    All,
    /// One server.
    Host(&'a Host),
}

impl Target<'_> {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::All => "all",
            Self::Host(host) => &host.uuid,
        }
    }
}

impl<'a> From<&'a Host> for Target<'a> {
    fn from(host: &'a Host) -> Self {
        Self::Host(host)
    }
}

/// Faults of a BMC. The default is none.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BmcFaults {
    /// The BMC takes only these credentials: those that were right are wrong now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// Nobody listens at the BMC's address, and open connections are reset.
    #[serde(skip_serializing_if = "is_false")]
    pub down: bool,
    /// Every request takes that much longer.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub delay: Option<Duration>,
    /// Every request is answered with this HTTP status. An IPMI BMC is then silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Requests to change the power are accepted, and nothing happens.
    #[serde(skip_serializing_if = "is_false")]
    pub power_ignored: bool,
    /// Requests to change the power are refused with status 400.
    #[serde(skip_serializing_if = "is_false")]
    pub power_refused: bool,
    /// Inserting virtual media fails with status 500.
    #[serde(skip_serializing_if = "is_false")]
    pub no_virtual_media: bool,
}

/// Faults of a ramdisk's agent, and what its server looks like to it. The default is none.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AgentFaults {
    /// How long the next ramdisk takes to boot, instead of the instance's
    /// [`boot_delay`](super::IronicConfig::boot_delay).
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub boot_delay: Option<Duration>,
    /// How long each step takes, instead of the instance's [`step_delay`](super::IronicConfig::step_delay).
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "seconds")]
    pub step_delay: Option<Duration>,
    /// What the agent never gets to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never: Option<Stage>,
    /// The agent dies as soon as it has begun the step of this name, such as `write_image`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dies_in_step: Option<String>,
    /// The step of this name does not end until the fault is cleared. Heartbeats go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hangs_in_step: Option<String>,
    /// Steps that fail, by name, with the text that they fail with.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fails_step: BTreeMap<String, String>,
    /// Heartbeats carry a token that Ironic did not give.
    #[serde(skip_serializing_if = "is_false")]
    pub wrong_token: bool,
    /// An inspection ends with this error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection_error: Option<String>,
    /// What an inspection reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inventory: Option<Inventory>,
}

/// What an agent can fail to get to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It never runs at all.
    Boot,
    /// It never reports an inventory.
    Inspect,
    /// It never asks Ironic which node it is on, so it does nothing but report an inventory.
    LookUp,
    /// It never sends a heartbeat, so Ironic never calls it.
    Heartbeat,
}

/// How a server differs from the usual one: 16 GiB, 8 CPUs, one network card, a 100 GiB and a 500 GiB disk.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Inventory {
    /// How many network cards it has, one at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nics: Option<u16>,
    /// Its disks. None of them is something else than the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<Disk>>,
    /// Its CPU architecture, as the kernel calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Its manufacturer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Its product name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Its memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Its logical CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u16>,
    /// Merged into the agent's `inventory` object last: objects member by member, everything else replaced.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub merge: Value,
}

/// A disk of an [`Inventory`]; what else the agent reports of it is made up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Disk {
    /// Its device, such as `/dev/sda`.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Whether it rotates.
    pub rotational: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn seconds<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(|value| value.as_secs_f64()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_set_is_sent() {
        assert_eq!(serde_json::to_value(BmcFaults::default()).unwrap(), json!({}));
        assert_eq!(serde_json::to_value(AgentFaults::default()).unwrap(), json!({}));
        let faults = BmcFaults {
            down: true,
            delay: Some(Duration::from_millis(1500)),
            ..BmcFaults::default()
        };
        assert_eq!(
            serde_json::to_value(faults).unwrap(),
            json!({"down": true, "delay": 1.5})
        );
        let faults = AgentFaults {
            never: Some(Stage::LookUp),
            inventory: Some(Inventory {
                disks: Some(Vec::new()),
                ..Inventory::default()
            }),
            ..AgentFaults::default()
        };
        assert_eq!(
            serde_json::to_value(faults).unwrap(),
            json!({"never": "look_up", "inventory": {"disks": []}})
        );
    }
}
