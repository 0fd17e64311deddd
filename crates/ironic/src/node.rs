//! A node as Ironic shows it.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::foreign::without_answers;
use crate::state::{PowerState, ProvisionState};
use crate::view::View;

/// The fields asked for in lists: everything a poller needs to notice a change, nothing that costs the server
/// per-node work. `updated_at` is not among them because Ironic refuses it; `health` is appended when the server knows it.
pub(crate) const LIST_FIELDS: &[&str] = &[
    "uuid",
    "name",
    "provision_state",
    "target_provision_state",
    "power_state",
    "target_power_state",
    "last_error",
    "maintenance",
    "maintenance_reason",
    "fault",
    "reservation",
    "instance_uuid",
    "boot_interface",
    "provision_updated_at",
];

/// A node. Read alone it comes with [`NodeDetail`]; out of a list it does not.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Ironic's own identifier, chosen at creation.
    pub uuid: String,
    /// Our name for it, unique among nodes.
    pub name: Option<String>,
    /// The current state.
    pub provision_state: ProvisionState,
    /// The target of the running, or failed, action. Absent in stable states only.
    pub target_provision_state: Option<String>,
    /// Power as last seen; absent when Ironic could not ask the BMC.
    pub power_state: Option<PowerState>,
    /// The power change in progress, such as `power off` or `rebooting`.
    pub target_power_state: Option<String>,
    /// Why the last action failed. It may be absent after a failure, and may stay after its cause is gone.
    pub last_error: Option<String>,
    /// Whether the node is in maintenance: Ironic does no work on it.
    pub maintenance: bool,
    /// The reason of the maintenance.
    pub maintenance_reason: Option<String>,
    /// The failure that put the node into maintenance: `power failure`, `clean failure`, `service failure`, ….
    pub fault: Option<String>,
    /// The conductor that holds the node's lock. While it is set the other fields may not be final.
    pub reservation: Option<String>,
    /// The consumer of the node: for us the uid of the host.
    pub instance_uuid: Option<String>,
    /// Boot interface in use, such as `redfish-virtual-media`.
    pub boot_interface: Option<String>,
    /// When `provision_state` last changed, RFC 3339.
    pub provision_updated_at: Option<String>,
    /// What the BMC says of the machine: `OK`, `Warning`, `Critical`. Absent before API 1.109.
    pub health: Option<String>,
    /// The rest of the record; absent in lists.
    pub detail: Option<Box<NodeDetail>>,
}

/// The costly part of a node's record. Secrets in the maps come masked from Ironic, as [`crate::MASK`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeDetail {
    /// Hardware type: `redfish`, `idrac`, `ipmi`.
    pub driver: Option<String>,
    /// How to reach the BMC, and what to boot for our ramdisk.
    pub driver_info: Fields,
    /// Facts and wishes about the hardware: `capabilities`, `cpu_arch`, ….
    pub properties: Fields,
    /// What to deploy.
    pub instance_info: Fields,
    /// Network description handed to the ramdisk.
    pub network_data: Fields,
    /// Free-form data for clients, which Ironic stores and ignores.
    pub extra: Fields,
    /// The RAID volumes that a cleaning was last asked to create.
    pub target_raid_config: Fields,
    /// Whether automated cleaning is wanted; absent means the server's default.
    pub automated_clean: Option<bool>,
    /// Whether Ironic must never switch the machine off. Absent before API 1.95.
    pub disable_power_off: Option<bool>,
    /// BIOS settings interface.
    pub bios_interface: Option<String>,
    /// Deployment interface.
    pub deploy_interface: Option<String>,
    /// Firmware update interface.
    pub firmware_interface: Option<String>,
    /// Inspection interface.
    pub inspect_interface: Option<String>,
    /// Management interface.
    pub management_interface: Option<String>,
    /// Power interface.
    pub power_interface: Option<String>,
    /// RAID interface.
    pub raid_interface: Option<String>,
    /// Vendor passthru interface.
    pub vendor_interface: Option<String>,
    /// The cleaning step at work, for messages.
    pub clean_step: Fields,
    /// The deployment step at work, for messages.
    pub deploy_step: Fields,
    /// The service step at work, for messages.
    pub service_step: Fields,
    /// When the last inspection succeeded, RFC 3339. Absent from the start of the next one until that succeeds.
    pub inspection_finished_at: Option<String>,
    /// When the record was changed last, RFC 3339. Every lock and every accepted request changes it.
    pub updated_at: Option<String>,
}

impl NodeDetail {
    /// Whether Ironic was asked to abort what this node waits for, and does so once the step under way is over.
    #[must_use]
    pub fn awaits_abort(&self, node: &Node) -> bool {
        let step = match node.provision_state {
            ProvisionState::CleanWait => &self.clean_step,
            ProvisionState::DeployWait => &self.deploy_step,
            ProvisionState::ServiceWait => &self.service_step,
            _ => return false,
        };
        step.get("abort_after") == Some(&Value::Bool(true))
    }
}

impl Node {
    /// Whether the last action was ended on request, or because its conductor went away, and not by a fault. Ironic tells them
    /// apart by its own text alone (`conductor/inspection.py`, `conductor/utils.py`). Errors of BMCs contain the same word:
    /// "Connection aborted."
    #[must_use]
    pub fn was_aborted(&self) -> bool {
        let last_error = self.last_error.as_deref().unwrap_or_default();
        [
            "Inspection was aborted by request",
            "Operation was aborted due to conductor take over",
        ]
        .into_iter()
        .any(|text| last_error.starts_with(text))
    }

    /// Reads a node's record; none if it has no `uuid`. A record without `driver` is one out of a narrow list.
    fn from_record(record: &Value) -> Option<Self> {
        let view = View::of(record);
        let detailed = view.at("driver").is_present() || view.at("driver_info").is_present();
        // Some releases write the Python word instead of null.
        let power = view.text("power_state").filter(|word| word != "None");
        Some(Self {
            uuid: view.text("uuid")?,
            name: view.text("name"),
            provision_state: view.text("provision_state").as_deref().map_or_else(
                // Null is how very old records spell `available`; nothing of ours is that old, so show it as it is.
                || ProvisionState::Other(String::new()),
                ProvisionState::from,
            ),
            target_provision_state: view.text("target_provision_state"),
            power_state: power.as_deref().map(PowerState::from),
            target_power_state: view.text("target_power_state"),
            last_error: view.text("last_error").map(|text| without_answers(&text)),
            maintenance: view.boolean("maintenance").unwrap_or_default(),
            maintenance_reason: view.text("maintenance_reason").map(|text| without_answers(&text)),
            fault: view.text("fault"),
            reservation: view.text("reservation"),
            instance_uuid: view.text("instance_uuid"),
            boot_interface: view.text("boot_interface"),
            provision_updated_at: view.text("provision_updated_at"),
            health: view.text("health"),
            detail: detailed.then(|| Box::new(NodeDetail::from_record(view))),
        })
    }
}

impl NodeDetail {
    fn from_record(view: View<'_>) -> Self {
        let map = |key| view.object(key).map(|map| Fields(map.clone())).unwrap_or_default();
        Self {
            driver: view.text("driver"),
            driver_info: map("driver_info"),
            properties: map("properties"),
            instance_info: map("instance_info"),
            network_data: map("network_data"),
            automated_clean: view.boolean("automated_clean"),
            disable_power_off: view.boolean("disable_power_off"),
            bios_interface: view.text("bios_interface"),
            deploy_interface: view.text("deploy_interface"),
            firmware_interface: view.text("firmware_interface"),
            inspect_interface: view.text("inspect_interface"),
            management_interface: view.text("management_interface"),
            power_interface: view.text("power_interface"),
            raid_interface: view.text("raid_interface"),
            vendor_interface: view.text("vendor_interface"),
            extra: map("extra"),
            target_raid_config: map("target_raid_config"),
            clean_step: map("clean_step"),
            deploy_step: map("deploy_step"),
            service_step: map("service_step"),
            inspection_finished_at: view.text("inspection_finished_at"),
            updated_at: view.text("updated_at"),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Value::deserialize(deserializer)?;
        Self::from_record(&record).ok_or_else(|| serde::de::Error::custom("a node without uuid"))
    }
}

/// A network port of a node, which is how a ramdisk that calls in is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Ironic's identifier of the port.
    pub uuid: String,
    /// MAC address in lower case.
    pub address: String,
    /// The node it belongs to.
    pub node_uuid: String,
    /// Whether the node may boot from it.
    pub pxe_enabled: Option<bool>,
    /// Free-form data for clients, which Ironic ignores.
    pub extra: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Value::deserialize(deserializer)?;
        let view = View::of(&record);
        let need = |key: &'static str| {
            view.text(key)
                .ok_or_else(|| serde::de::Error::custom(format!("a port without {key}")))
        };
        Ok(Self {
            uuid: need("uuid")?,
            address: need("address")?.to_ascii_lowercase(),
            node_uuid: need("node_uuid")?,
            pxe_enabled: view.boolean("pxe_enabled"),
            extra: view.object("extra").cloned().unwrap_or_default(),
        })
    }
}

/// Ironic's validation of a node's settings: the answer to `GET …/validate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validation {
    /// The error of the boot interface; `None` if it is valid.
    pub boot: Option<String>,
    /// The error of the deploy interface; `None` if it is valid.
    pub deploy: Option<String>,
}

impl Validation {
    /// Whether both interfaces that a deployment needs are valid. The others may have errors: not every node has them.
    pub fn is_deployable(&self) -> bool {
        self.boot.is_none() && self.deploy.is_none()
    }
}

impl<'de> Deserialize<'de> for Validation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Value::deserialize(deserializer)?;
        let opinion = |interface: &str| {
            let view = View::of(&record).at(interface);
            if view.boolean("result") == Some(true) {
                return None;
            }
            let reason = view.text("reason").map(|text| without_answers(&text));
            Some(reason.unwrap_or_else(|| "no reason given".to_owned()))
        };
        Ok(Self {
            boot: opinion("boot"),
            deploy: opinion("deploy"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(value: Value) -> Node {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_record_of_nulls_is_a_node() {
        let mut record = json!({"uuid": "u"});
        for field in LIST_FIELDS
            .iter()
            .skip(1)
            .chain(&["health", "driver_info", "automated_clean", "clean_step"])
        {
            record[*field] = Value::Null;
        }
        let node = node(record);
        assert_eq!(node.provision_state, ProvisionState::Other(String::new()));
        assert_eq!(
            (node.name, node.power_state, node.maintenance, node.detail),
            (None, None, false, None)
        );
    }

    #[test]
    fn unknown_fields_and_states_survive() {
        let node = node(json!({"uuid": "u", "provision_state": "polishing", "power_state": "None", "links": [1, {}]}));
        assert_eq!(node.provision_state.as_str(), "polishing");
        assert_eq!(node.power_state, None);
    }

    // OWN 31aa: an error of a BMC counted as an abortion.
    #[test]
    fn only_ironics_own_words_say_that_an_action_was_aborted() {
        let was_aborted = |words: Option<&str>| node(json!({"uuid": "u", "last_error": words})).was_aborted();
        assert!(was_aborted(Some("Inspection was aborted by request.")));
        assert!(was_aborted(Some("Operation was aborted due to conductor take over")));
        assert!(!was_aborted(Some("('Connection aborted.', RemoteDisconnected('…'))")));
        assert!(!was_aborted(None));
    }

    // OWN 31wd: see foreign.rs.
    #[test]
    fn no_error_has_what_a_foreign_server_answered() {
        let text = "Received status code 403 from http://internal/, expected 200. Response body: secret";
        let record = json!({"uuid": "u", "last_error": text, "maintenance_reason": text});
        let node = node(record);
        let validation =
            json!({"boot": {"result": false, "reason": text}, "deploy": {"result": false, "reason": text}});
        let validation: Validation = serde_json::from_value(validation).unwrap();
        for told in [
            node.last_error,
            node.maintenance_reason,
            validation.boot,
            validation.deploy,
        ] {
            let told = told.unwrap();
            assert!(told.contains("status code 403") && !told.contains("secret"), "{told}");
        }
    }

    #[test]
    fn a_whole_record_has_detail() {
        let node = node(json!({
            "uuid": "u", "name": "ns~host", "driver": "redfish", "power_state": "power on", "maintenance": true,
            "driver_info": {"redfish_password": "******"}, "properties": null, "automated_clean": false,
            "instance_info": {"capabilities": {}}, "raid_interface": "no-raid", "network_data": {},
        }));
        assert_eq!(node.power_state, Some(PowerState::On));
        let detail = node.detail.unwrap();
        assert_eq!(detail.driver.as_deref(), Some("redfish"));
        assert_eq!(detail.driver_info["redfish_password"], crate::MASK);
        assert_eq!(detail.automated_clean, Some(false));
        assert_eq!(detail.instance_info["capabilities"], json!({}));
        assert!(detail.properties.is_empty());
    }

    #[test]
    fn a_node_without_uuid_is_refused() {
        assert!(serde_json::from_value::<Node>(json!({"name": "x"})).is_err());
        assert!(serde_json::from_value::<Node>(json!([])).is_err());
    }

    #[test]
    fn validation_wants_boot_and_deploy_only() {
        let fine = json!({"boot": {"result": true}, "deploy": {"result": true, "reason": null},
            "console": {"result": null, "reason": "not supported"}, "raid": {"result": false, "reason": "no"}});
        assert!(serde_json::from_value::<Validation>(fine).unwrap().is_deployable());
        let poor = json!({"boot": {"result": false, "reason": "no kernel"}, "deploy": {"result": null}});
        let poor: Validation = serde_json::from_value(poor).unwrap();
        assert_eq!(poor.boot.as_deref(), Some("no kernel"));
        assert_eq!(poor.deploy.as_deref(), Some("no reason given"));
        assert!(!serde_json::from_value::<Validation>(json!({})).unwrap().is_deployable());
    }
}
