//! Bodies of the calls that change something.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::fields::{Fields, Masked};
use crate::state::Verb;

/// The body of `POST /v1/nodes`. What is none, an empty text or an empty map is left out, so that Ironic's default applies.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CreateNode {
    /// Hardware type: `redfish`, `idrac`, `ipmi`.
    pub driver: String,
    /// Unique name.
    pub name: String,
    /// Our own choice of identifier; Ironic makes one up when absent.
    #[serde(skip_serializing_if = "absent")]
    pub uuid: Option<String>,
    /// How to reach the BMC.
    #[serde(skip_serializing_if = "empty")]
    pub driver_info: Fields,
    /// `capabilities`, `cpu_arch`, ….
    #[serde(skip_serializing_if = "empty")]
    pub properties: Fields,
    /// BIOS settings interface.
    #[serde(skip_serializing_if = "absent")]
    pub bios_interface: Option<String>,
    /// Boot interface.
    #[serde(skip_serializing_if = "absent")]
    pub boot_interface: Option<String>,
    /// Deployment interface.
    #[serde(skip_serializing_if = "absent")]
    pub deploy_interface: Option<String>,
    /// Firmware update interface.
    #[serde(skip_serializing_if = "absent")]
    pub firmware_interface: Option<String>,
    /// Inspection interface.
    #[serde(skip_serializing_if = "absent")]
    pub inspect_interface: Option<String>,
    /// Management interface.
    #[serde(skip_serializing_if = "absent")]
    pub management_interface: Option<String>,
    /// Power interface.
    #[serde(skip_serializing_if = "absent")]
    pub power_interface: Option<String>,
    /// RAID interface.
    #[serde(skip_serializing_if = "absent")]
    pub raid_interface: Option<String>,
    /// Vendor passthru interface.
    #[serde(skip_serializing_if = "absent")]
    pub vendor_interface: Option<String>,
    /// Forbid Ironic to switch the machine off. `false` is dropped by the client when the server is too old to know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_power_off: Option<bool>,
    /// Whether tearing down and `provide` clean the disks; given here, the first configuration needs no patch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automated_clean: Option<bool>,
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn absent(text: &Option<String>) -> bool {
    text.as_ref().is_none_or(String::is_empty)
}

fn empty(fields: &Fields) -> bool {
    fields.is_empty()
}

/// The body of `POST /v1/ports`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CreatePort {
    /// The node the port belongs to.
    pub node_uuid: String,
    /// MAC address; the client sends it in lower case, as Ironic keeps it.
    pub address: String,
    /// Whether the node may boot from it.
    pub pxe_enabled: bool,
    /// What the one who creates it wants to find on it again.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// One step of manual cleaning or of a service.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which interface performs it: `bios`, `raid`, `deploy`, `firmware`, `management`, `power`.
    pub interface: String,
    /// Name of the step.
    pub step: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}(", self.interface, self.step)?;
        f.debug_map()
            .entries(self.args.iter().map(|(key, value)| (key, Masked { key, value })))
            .finish()?;
        f.write_str(")")
    }
}

/// One step of a deployment. Ironic insists on `args` and `priority` here.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct DeployStep {
    /// Which interface performs it, usually `deploy`.
    pub interface: String,
    /// Name of the step.
    pub step: String,
    /// Its arguments, possibly none.
    pub args: Map<String, Value>,
    /// Higher runs earlier; 80 takes the place of writing the image.
    pub priority: i64,
}

impl fmt::Debug for DeployStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}@{}(", self.interface, self.step, self.priority)?;
        f.debug_map()
            .entries(self.args.iter().map(|(key, value)| (key, Masked { key, value })))
            .finish()?;
        f.write_str(")")
    }
}

/// The body of `PUT …/states/provision`. `Debug` shows that there is a configuration drive, not what is in it.
#[derive(Clone, PartialEq, Serialize)]
pub struct ProvisionRequest {
    /// Where to go.
    #[serde(serialize_with = "word")]
    pub target: Verb,
    /// Configuration drive as `{meta_data, network_data, user_data}`, for [`Verb::Active`] only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configdrive: Option<Value>,
    /// Steps for [`Verb::Clean`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clean_steps: Vec<Step>,
    /// Steps for [`Verb::Active`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deploy_steps: Vec<DeployStep>,
    /// Steps for [`Verb::Service`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_steps: Vec<Step>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn word<S: serde::Serializer>(verb: &Verb, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(verb.as_str())
}

impl From<Verb> for ProvisionRequest {
    fn from(target: Verb) -> Self {
        Self {
            target,
            configdrive: None,
            clean_steps: Vec::new(),
            deploy_steps: Vec::new(),
            service_steps: Vec::new(),
        }
    }
}

impl fmt::Debug for ProvisionRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ProvisionRequest");
        shown.field("target", &self.target);
        if let Some(value) = &self.configdrive {
            shown.field(
                "configdrive",
                &Masked {
                    key: "configdrive",
                    value,
                },
            );
        }
        for (name, steps) in [
            ("clean_steps", &self.clean_steps),
            ("service_steps", &self.service_steps),
        ] {
            if !steps.is_empty() {
                shown.field(name, steps);
            }
        }
        if !self.deploy_steps.is_empty() {
            shown.field("deploy_steps", &self.deploy_steps);
        }
        shown.finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_node_leaves_out_what_is_empty() {
        let node = CreateNode {
            driver: "redfish".to_owned(),
            name: "ns~host".to_owned(),
            bios_interface: Some(String::new()),
            boot_interface: Some("ipxe".to_owned()),
            disable_power_off: Some(false),
            ..CreateNode::default()
        };
        assert_eq!(
            serde_json::to_value(node).unwrap(),
            json!({"driver": "redfish", "name": "ns~host", "boot_interface": "ipxe", "disable_power_off": false})
        );
    }

    #[test]
    fn a_plain_verb_is_all_there_is() {
        assert_eq!(
            serde_json::to_value(ProvisionRequest::from(Verb::Manage)).unwrap(),
            json!({"target": "manage"})
        );
    }

    #[test]
    fn steps_look_as_ironic_wants_them() {
        let settings: Map<String, Value> = [("settings".to_owned(), json!([]))].into_iter().collect();
        let request = ProvisionRequest {
            clean_steps: vec![
                Step {
                    interface: "bios".to_owned(),
                    step: "apply_configuration".to_owned(),
                    args: settings,
                },
                Step {
                    interface: "raid".to_owned(),
                    step: "delete_configuration".to_owned(),
                    args: Map::new(),
                },
            ],
            deploy_steps: vec![DeployStep {
                interface: "deploy".to_owned(),
                step: "install".to_owned(),
                args: Map::new(),
                priority: 80,
            }],
            ..Verb::Clean.into()
        };
        assert_eq!(
            serde_json::to_value(request).unwrap(),
            json!({"target": "clean",
                "clean_steps": [{"interface": "bios", "step": "apply_configuration", "args": {"settings": []}},
                                {"interface": "raid", "step": "delete_configuration"}],
                "deploy_steps": [{"interface": "deploy", "step": "install", "args": {}, "priority": 80}]})
        );
    }

    #[test]
    fn debug_shows_no_configuration_drive() {
        let request = ProvisionRequest {
            configdrive: Some(json!({"user_data": "hunter2"})),
            ..ProvisionRequest::from(Verb::Active)
        };
        let shown = format!("{request:?}");
        assert!(shown.contains("configdrive") && !shown.contains("hunter2"), "{shown}");
    }
}
