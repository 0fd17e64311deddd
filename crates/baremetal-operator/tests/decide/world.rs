//! One host and what is true around it, built from short JSON, and answers to whatever a decision asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use baremetal_operator::fleet::Slot;
use baremetal_operator::host::firmware::{
    AtHand, Edit, Kinds, Objects, Seen, Trouble, Wish, settings_wish, updates_wish,
};
use baremetal_operator::host::observed::{
    ConfigDriveView, DataImageAtHand, DeploymentSecrets, HardwareView, Lookup, MacOwner, Memory, NetworkDataView,
    NodeView, Observed, Outage, OutageKind, PullSecret, PullSecretView, SecretFound, SecretView,
};
use baremetal_operator::host::plan::{self, Decision, Effect, EventReason, HostReport, Learned, Read, Then};
use baremetal_operator::host::{decide, deployment_mark, disc, port_mark, status_change};
use baremetal_operator::settings::HostSettings;
use jiff::Timestamp;
use metal3_api::metal3::{
    BareMetalHost, BareMetalHostStatus, DataImage, ErrorType, FirmwareComponentStatus, HardwareDetails,
    HostFirmwareComponents, HostFirmwareSettings, HostUpdatePolicy, HostUpdatePolicySpec, PreprovisioningImage,
    UpdatePolicy,
};
use metal3_ironic::{BiosSetting, Node, Port};
use metal3_runtime::controller::Next;
use metal3_runtime::events;
use metal3_runtime::timing::operator::PROOF_AGAIN;
use metal3_testkit::leaks::{CANARY, expect_none_in};
use serde_json::{Map, Value, json};

pub const NODE: &str = "node-1";
/// The UID of the host.
pub const UID: &str = "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01";
pub const MAC: &str = "52:54:00:12:34:56";
pub const IMAGE: &str = "http://images/a.qcow2";
pub const OCI: &str = "oci://registry.example/os:1";
pub const SUM: &str = "aaaa";
/// The annotation with the Secrets that may carry the operator's marks for a host.
pub const HELD: &str = "baremetalhost.metal3.io/held-secrets";

pub fn now() -> Timestamp {
    "2026-01-02T12:00:00.7Z".parse().unwrap()
}

/// RFC 7396: null removes, objects are merged, everything else replaces.
pub fn merge(into: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *into = change.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in change {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

fn merged(mut base: Value, change: &Value) -> Value {
    merge(&mut base, change);
    base
}

/// The node carries the specification of the third generation.
pub fn configured(since: &str) -> Value {
    json!({"type": "Configured", "status": "True", "reason": "Configured", "message": "",
        "observedGeneration": 3, "lastTransitionTime": since})
}

/// A host that was registered, has seen its specification, and stands in `state`.
pub fn host(state: &str, change: &Value) -> BareMetalHost {
    let credentials = json!({"credentials": {"name": "bmc", "namespace": "n"}, "credentialsVersion": "7"});
    let condition = |type_: &str| {
        json!({"type": type_, "status": "False", "reason": "NotWaiting", "message": "",
            "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let base = json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": "h", "namespace": "n", "uid": UID, "generation": 3, "resourceVersion": "1",
            "finalizers": ["baremetalhost.metal3.io"]},
        "spec": {"online": true, "bootMACAddress": MAC,
            "bmc": {"address": "redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1", "credentialsName": "bmc"}},
        "status": {"operationalStatus": "OK", "hardwareProfile": "unknown", "poweredOn": true, "errorMessage": "",
            "lastUpdated": "2026-01-01T00:00:00Z",
            "provisioning": {"state": state, "ID": NODE, "bootMode": "UEFI",
                "rootDeviceHints": {"deviceName": "/dev/sda"}},
            "goodCredentials": credentials, "triedCredentials": credentials,
            "conditions": [configured("2026-01-01T00:00:00Z"), condition("Manageable"), condition("Waiting")]},
    });
    serde_json::from_value(merged(base, change)).unwrap()
}

/// The host's node, configured as the operator wants it.
pub fn node(state: &str, change: &Value) -> Node {
    let base = json!({
        "uuid": NODE, "name": "n~h", "provision_state": state, "power_state": "power on", "driver": "redfish",
        "driver_info": {"redfish_address": "https://192.0.2.1", "redfish_system_id": "/redfish/v1/Systems/1",
            "redfish_username": "admin", "redfish_password": "******"},
        "properties": {"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"},
        // That of a host that was moved.
        "extra": {"metal3_host_uid": UID},
        "automated_clean": true, "disable_power_off": false, "instance_info": {},
        // What failed has changed since it was told what to do.
        "provision_updated_at": if state == "deploy failed" { "2" } else { "1" },
        "inspect_interface": "agent", "inspection_finished_at": "2026-01-01T00:00:00+00:00", "updated_at": "2026-01-01T00:00:00+00:00",
    });
    serde_json::from_value(merged(base, change)).unwrap()
}

/// The mark of a node at rest that is told to deploy this.
fn marked(mut description: Value, wanted: &Value) -> Value {
    let host = host("provisioning", &json!({"spec": wanted}));
    let (key, mark) = deployment_mark(&host.spec, &node("available", &json!({}))).unwrap();
    description["instance_info"][key] = mark;
    description
}

/// What a node carries that was given the image.
pub fn instance(url: &str) -> Value {
    marked(unmarked(url), &json!({"image": image(url)}))
}

/// What a node carries that was given the image by an operator without marks.
pub fn unmarked(url: &str) -> Value {
    json!({"instance_uuid": "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01", "driver_info": {"force_persistent_boot_device": "Default"},
        "instance_info": {"image_source": url, "image_checksum": SUM, "capabilities": {},
            "root_device": {"name": "s== /dev/sda"}}})
}

/// What a node carries that was given this by custom deploy.
pub fn custom(method: &str, url: Option<&str>) -> Value {
    let mut mark = instance(IMAGE);
    mark["driver_info"] = json!({});
    mark["deploy_interface"] = json!("custom-agent");
    mark["instance_info"] = json!({"metal3_deploy_method": method, "capabilities": {},
        "root_device": {"name": "s== /dev/sda"}});
    let mut wanted = json!({"customDeploy": {"method": method}});
    if let Some(url) = url {
        wanted["image"] = image(url);
        merge(
            &mut mark["instance_info"],
            &json!({"image_source": url, "image_os_hash_value": SUM}),
        );
    }
    marked(mark, &wanted)
}

/// What a node carries that was given the ISO.
pub fn live(url: &str) -> Value {
    let mut mark = instance(url);
    mark["deploy_interface"] = json!("ramdisk");
    mark["instance_info"] = json!({"boot_iso": url, "capabilities": {}, "root_device": {"name": "s== /dev/sda"}});
    marked(mark, &json!({"image": {"url": url, "format": "live-iso"}}))
}

/// What a node carries that was given the image of a registry with credentials.
pub fn oci(url: &str) -> Value {
    let mut mark = instance(url);
    mark["instance_info"] = json!({"image_source": url, "image_pull_secret": "******", "capabilities": {},
        "root_device": {"name": "s== /dev/sda"}});
    marked(mark, &json!({"image": {"url": url, "ociAuthSecretName": "registry"}}))
}

fn found(kind: &str, observed: i64) -> Value {
    json!({"type": kind, "status": "True", "reason": "Success", "message": "", "observedGeneration": observed,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// The wish for a BIOS setting.
pub fn turbo(value: &str, generation: i64, observed: i64) -> HostFirmwareSettings {
    serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareSettings",
        "metadata": {"name": "h", "namespace": "n", "generation": generation}, "spec": {"settings": {"Turbo": value}},
        "status": {"settings": {"Turbo": "Off"}, "conditions": [found("ChangeDetected", observed), found("Valid", observed)]}}))
    .unwrap()
}

/// The settings of a BMC that tells no types.
fn typeless(bios: &BTreeMap<String, String>) -> Vec<BiosSetting> {
    let of = |(name, value): (&String, &String)| BiosSetting {
        name: name.clone(),
        value: value.clone(),
        ..BiosSetting::default()
    };
    bios.iter().map(of).collect()
}

/// The wish for a BIOS.
pub fn bios(url: &str, generation: i64, status: &Value) -> HostFirmwareComponents {
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareComponents",
        "metadata": {"name": "h", "namespace": "n", "generation": generation},
        "spec": {"updates": [{"component": "bios", "url": url}]}, "status": status});
    serde_json::from_value(object).unwrap()
}

/// The status of a host after an API server took the patch that stores a decided one.
pub fn stored(host: &BareMetalHost, decided: &BareMetalHostStatus, now: Timestamp) -> Option<BareMetalHostStatus> {
    let Some(patch) = status_change(host, host.status.as_ref(), decided, now).unwrap() else {
        return host.status.clone();
    };
    let mut value = json!(host);
    json_patch::patch(&mut value, &patch).unwrap();
    serde_json::from_value::<BareMetalHost>(value).unwrap().status
}

/// The wish for a disc, and what was recorded of it.
pub fn data_image(url: &str, status: &Value) -> DataImage {
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "DataImage",
        "metadata": {"name": "h", "namespace": "n", "uid": "image", "generation": 1}, "spec": {"url": url}, "status": status});
    serde_json::from_value(object).unwrap()
}

pub fn image(url: &str) -> Value {
    json!({"url": url, "checksum": SUM})
}

pub fn secret(version: &str, digest: u64) -> SecretFound {
    SecretFound {
        username: "admin".into(),
        password: format!("{CANARY}bmc"),
        version: version.into(),
        digest,
        claimed: true,
        object: None,
    }
}

/// A Secret that is of no use, and may be marked all the same.
pub fn invalid(problem: &str, claimed: bool) -> SecretView {
    SecretView::Invalid {
        problem: problem.into(),
        claimed,
    }
}

pub fn network_data(version: &str, claimed: bool) -> NetworkDataView {
    NetworkDataView::Found {
        description: Arc::new(json!({"links": [{"id": "secret-of-network-data"}], "networks": [], "services": []})),
        version: version.into(),
        claimed,
        object: None,
    }
}

pub fn unusable_network_data() -> NetworkDataView {
    NetworkDataView::Unusable {
        why: "its network data is no mapping".into(),
        version: "3".into(),
    }
}

/// The ramdisk of a host, built as it was asked for.
pub fn ramdisk(change: &Value) -> PreprovisioningImage {
    let base = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "PreprovisioningImage",
        "metadata": {"name": "h", "namespace": "n", "generation": 2, "resourceVersion": "5",
            "finalizers": ["baremetalhost.metal3.io/preprovisioningImage"]},
        "spec": {"architecture": "x86_64", "acceptFormats": ["iso", "initrd"]},
        "status": {"imageUrl": "http://images/ramdisk.iso", "format": "iso", "architecture": "x86_64",
            "conditions": [{"type": "Ready", "status": "True", "reason": "ImageSuccess", "message": "",
                "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    serde_json::from_value(merged(base, change)).unwrap()
}

pub fn down() -> Outage {
    Outage {
        kind: OutageKind::Unreachable,
        cause: "connection refused".into(),
    }
}

/// Says on a host which Secrets may carry the operator's marks for it.
pub fn note(host: &mut BareMetalHost, secrets: &BTreeSet<String>) {
    let text = secrets.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    let annotations = host.metadata.annotations.get_or_insert_default();
    if text.is_empty() {
        annotations.remove(HELD);
    } else {
        annotations.insert(HELD.to_owned(), text);
    }
}

/// How much of the node is at hand before anything is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Live,
    Listed,
    /// The list does not have the node, although it may exist.
    Unlisted,
    /// Ironic is down; the node is known from before.
    ListedThenDown,
    /// Ironic is down, and nothing is known from before.
    Unknown,
}

/// Everything that is true; a look reveals it.
#[derive(Clone)]
pub struct World {
    pub host: BareMetalHost,
    pub node: Option<Node>,
    pub sight: Sight,
    /// What a read of the Secret answers.
    pub secret: SecretView,
    /// The version that the metadata watch has seen; `None`: it has seen none.
    pub watched_version: Option<String>,
    /// It may be claimed by a patch that reads it.
    pub may_claim_unread: bool,
    pub ports: Vec<String>,
    /// The host may boot from none of them.
    pub disabled_ports: bool,
    /// Whether somebody else has created them.
    pub others_ports: bool,
    pub mac_owner: Option<MacOwner>,
    pub inventory: Option<HardwareDetails>,
    pub hardware_data: Option<HardwareDetails>,
    pub ramdisk: Option<PreprovisioningImage>,
    /// What a read of the ramdisk's network data answers.
    pub network_data: NetworkDataView,
    /// What the BMC answers to Ironic instead of letting it in.
    pub bmc_refuses: Option<String>,
    /// Whether the name of the BMC stands for an IPv6 address, or why nobody knows.
    pub bmc_is_ipv6: Result<bool, String>,
    pub config_drive: Result<Value, String>,
    /// The firmware objects beside the host, and what they may do while it is in use.
    pub firmware: Objects,
    pub firmware_trouble: Trouble,
    pub on_reboot: Kinds,
    /// Whether all HostUpdatePolicies are known.
    pub has_policies: bool,
    /// Whether all firmware objects are known.
    pub has_firmware_listed: bool,
    /// What Ironic knows of the BIOS.
    pub bios: BTreeMap<String, String>,
    /// The versions that Ironic knows.
    pub components: Vec<FirmwareComponentStatus>,
    /// The registry's credentials.
    pub pull_secret: Result<String, String>,
    pub problems: Vec<String>,
    /// The generation of a HardwareData that somebody else wrote.
    pub hardware_data_edit: Option<i64>,
    pub deployment_secrets: DeploymentSecrets,
    pub data_image: Option<DataImage>,
    /// Whether a disc is in the drive, or what the BMC says instead.
    pub disc: Result<bool, String>,
    /// What a wish for a slot is answered with.
    pub slot: Slot,
    pub memory: Memory,
    pub settings: HostSettings,
    pub reconfigured: bool,
    pub now: Timestamp,
}

impl fmt::Debug for World {
    /// In few lines: a counterexample is read by people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "metadata {}", json!(self.host.metadata))?;
        writeln!(f, "spec {}", json!(self.host.spec))?;
        writeln!(f, "status {}", json!(self.host.status))?;
        let node = self.node.as_ref().map(|n| {
            let detail = n.detail.as_ref();
            json!({"uuid": n.uuid, "state": n.provision_state.as_str(), "target": n.target_provision_state,
                "power": format!("{:?}", n.power_state), "power to": n.target_power_state, "error": n.last_error.as_ref().map(|e| e.chars().take(40).collect::<String>()),
                "maintenance": n.maintenance, "fault": n.fault, "reservation": n.reservation,
                "instance": n.instance_uuid, "image": detail.map(|d| d.instance_info.get("image_source").cloned()),
                "automated clean": detail.map(|d| d.automated_clean)})
            .to_string()
        });
        writeln!(f, "node {}, seen {:?}", node.unwrap_or_default(), self.sight)?;
        writeln!(
            f,
            "secret {:?} {:?}, ports {:?}",
            self.watched_version, self.secret, self.ports
        )?;
        write!(f, "owner {:?}, {:?}, {:?}", self.mac_owner, self.memory, self.problems)
    }
}

/// What came of one decision.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub reads: Vec<Read>,
    /// As it was when the plan was made.
    pub seen: Observed,
    pub plan: Plan,
}

impl World {
    pub fn new(host: BareMetalHost, node: Option<Node>, sight: Sight) -> Self {
        Self {
            host,
            node,
            sight,
            secret: SecretView::Found(secret("7", 1)),
            watched_version: Some("7".into()),
            may_claim_unread: false,
            ports: vec![MAC.into()],
            disabled_ports: false,
            others_ports: false,
            mac_owner: None,
            inventory: None,
            hardware_data: None,
            ramdisk: None,
            network_data: NetworkDataView::NotLooked {
                version: None,
                claimed: false,
            },
            bmc_refuses: None,
            bmc_is_ipv6: Ok(false),
            config_drive: Ok(json!({"meta_data": {"name": "secret-of-meta-data"}})),
            firmware: Objects::default(),
            firmware_trouble: Trouble::default(),
            on_reboot: Kinds::default(),
            has_policies: true,
            has_firmware_listed: true,
            bios: BTreeMap::from([("Turbo".to_owned(), "Off".to_owned())]),
            components: Vec::new(),
            pull_secret: Ok(format!("user:{CANARY}registry")),
            problems: Vec::new(),
            hardware_data_edit: None,
            deployment_secrets: DeploymentSecrets::default(),
            data_image: None,
            disc: Ok(false),
            slot: Slot::Granted,
            memory: Memory {
                accepted_digest: Some(1),
                proven_node: Some(NODE.to_owned()),
                ..Memory::default()
            },
            settings: HostSettings::default(),
            reconfigured: false,
            now: now(),
        }
    }

    /// A host in `state`, its node in `node_state`, seen as the last list had it.
    pub fn at(state: &str, node_state: &str) -> Self {
        Self::new(
            host(state, &json!({})),
            Some(node(node_state, &json!({}))),
            Sight::Listed,
        )
    }

    pub fn with_host(mut self, change: &Value) -> Self {
        let mut value = serde_json::to_value(&self.host).unwrap();
        merge(&mut value, change);
        self.host = serde_json::from_value(value).unwrap();
        self
    }

    pub fn annotated(self, key: &str, value: &str) -> Self {
        self.with_host(&json!({"metadata": {"annotations": {key: value}}}))
    }

    /// Says on the host which Secrets may carry the operator's marks for it.
    pub fn note(&mut self, secrets: &BTreeSet<String>) {
        note(&mut self.host, secrets);
    }

    pub fn with_spec(self, change: &Value) -> Self {
        self.with_host(&json!({"spec": change}))
    }

    pub fn with_status(self, change: &Value) -> Self {
        self.with_host(&json!({"status": change}))
    }

    /// The specification was edited since the status was stored.
    pub fn edited(self) -> Self {
        self.with_host(&json!({"metadata": {"generation": 4}}))
    }

    pub fn deleting(self) -> Self {
        self.with_host(&json!({"metadata": {"generation": 4, "deletionTimestamp": "2026-01-02T00:00:00Z"}}))
    }

    pub fn with_node(mut self, change: &Value) -> Self {
        let state = self.node.as_ref().unwrap().provision_state.as_str().to_owned();
        self.node = Some(node(&state, change));
        self
    }

    /// The node was enrolled under the host's own UID. Every other one has to be proven to be the host's.
    pub fn enrolled(mut self) -> Self {
        let uid = self.host.metadata.uid.clone().unwrap();
        if let Some(node) = &mut self.node {
            node.uuid.clone_from(&uid);
        }
        self.with_status(&json!({"provisioning": {"ID": uid}}))
    }

    /// An error that was recorded earlier, held back by a back-off that began at `since`.
    pub fn failed(self, error: &str, count: i32, since: &str) -> Self {
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": "waits",
                "observedGeneration": 3, "lastTransitionTime": since})
        };
        self.with_status(
            &json!({"operationalStatus": "error", "errorType": error, "errorMessage": "it broke",
            "errorCount": count, "conditions": [configured(since), condition("Manageable", "True", "Manageable"),
                condition("Waiting", "True", "BackOff")]}),
        )
    }

    /// Asks for a BIOS setting, as seen by a controller that looked at the object's third generation.
    pub fn with_turbo(mut self, value: &str, observed: i64) -> Self {
        self.firmware.settings = Some(turbo(value, 3, observed));
        self
    }

    /// Asks for another BIOS, of which an operator recorded this URL before.
    pub fn with_bios_update(mut self, applied: Option<&str>) -> Self {
        let updates: Vec<_> = applied
            .map(|url| json!({"component": "bios", "url": url}))
            .into_iter()
            .collect();
        let status = json!({"updates": updates, "conditions": [found("ChangeDetected", 3), found("Valid", 3)]});
        self.firmware.updates = Some(bios("http://firmware/2", 3, &status));
        self
    }

    /// Changes may be made at the next start of a host that is in use.
    pub fn on_reboot(mut self) -> Self {
        self.on_reboot = Kinds::ALL;
        self
    }

    fn policy(&self) -> HostUpdatePolicy {
        let policy = |is_on_reboot: bool| {
            Some(if is_on_reboot {
                UpdatePolicy::OnReboot
            } else {
                UpdatePolicy::OnPreparing
            })
        };
        let spec = HostUpdatePolicySpec {
            firmware_settings: policy(self.on_reboot.settings),
            firmware_updates: policy(self.on_reboot.updates),
        };
        HostUpdatePolicy::new("h", spec)
    }

    fn firmware_at_hand(&self) -> AtHand {
        if !self.has_firmware_listed {
            return AtHand::default();
        }
        let nothing = Seen {
            wish: Wish::Nothing,
            edit: None,
        };
        let settings = self
            .firmware
            .settings
            .as_ref()
            .map(|o| (settings_wish(o), Edit::of(&o.metadata)));
        let updates = self
            .firmware
            .updates
            .as_ref()
            .map(|o| (updates_wish(o), Edit::of(&o.metadata)));
        let seen = |found: Option<(Wish, Option<Edit>)>| found.map_or(nothing, |(wish, edit)| Seen { wish, edit });
        AtHand {
            settings: seen(settings),
            updates: seen(updates),
            on_reboot: self.has_policies.then_some(self.on_reboot),
        }
    }

    pub fn seen(&self) -> Observed {
        let cause = Some(down());
        let listed = || {
            self.node.as_ref().map(|node| {
                Arc::new(Node {
                    detail: None,
                    ..node.clone()
                })
            })
        };
        Observed {
            secret: match (&self.secret, &self.watched_version) {
                (SecretView::Missing, Some(_)) => SecretView::Missing,
                (_, version) => SecretView::NotLooked {
                    version: version.clone(),
                },
            },
            may_claim_unread: self.may_claim_unread,
            node: match (self.sight, &self.node) {
                (Sight::Live, Some(node)) => NodeView::Live(Arc::new(node.clone())),
                (Sight::Live, None) => NodeView::Gone,
                (Sight::Listed, _) => listed().map_or(NodeView::Unlisted, NodeView::Listed),
                (Sight::Unlisted, _) => NodeView::Unlisted,
                (Sight::ListedThenDown, _) => {
                    listed().map_or(NodeView::Unknown { cause: cause.clone() }, NodeView::Listed)
                }
                (Sight::Unknown, _) => NodeView::Unknown { cause: cause.clone() },
            },
            network_data: match &self.network_data {
                NetworkDataView::Found { version, claimed, .. } => NetworkDataView::NotLooked {
                    version: Some(version.clone()),
                    claimed: *claimed,
                },
                NetworkDataView::Unusable { version, .. } | NetworkDataView::WithoutKey { version } => {
                    NetworkDataView::NotLooked {
                        version: Some(version.clone()),
                        claimed: false,
                    }
                }
                other => other.clone(),
            },
            deployment_secrets: self.deployment_secrets.clone(),
            hardware_data_edit: self.hardware_data_edit,
            data_image_at_hand: self.data_image_at_hand().with_note(&self.host),
            firmware: self.firmware_at_hand(),
            firmware_trouble: self.firmware_trouble.clone(),
            outage: matches!(self.sight, Sight::ListedThenDown | Sight::Unknown).then(down),
            reconfigured: self.reconfigured,
            memory: self.memory.clone(),
            ..Observed::new(self.host.clone(), Arc::new(self.settings.clone()))
        }
    }

    fn data_image_at_hand(&self) -> DataImageAtHand {
        let Some(image) = &self.data_image else {
            return DataImageAtHand::Absent;
        };
        let status = image.status.as_ref();
        DataImageAtHand::Present {
            generation: image.metadata.generation,
            holds_disc: status.is_some_and(|status| !status.attached_image.url.is_empty()),
        }
    }

    /// What the operator's reading would have put into `seen`.
    pub fn answer(&self, seen: &mut Observed, need: Read) {
        let is_down = matches!(self.sight, Sight::ListedThenDown | Sight::Unknown);
        match need {
            Read::Credentials => seen.secret = self.secret.clone(),
            Read::ConfigDrive => {
                seen.config_drive = match &self.config_drive {
                    Ok(drive) => ConfigDriveView::Ready(Arc::new(drive.clone().into())),
                    Err(why) => ConfigDriveView::Unusable(why.clone()),
                }
            }
            Read::Firmware => {
                seen.firmware_objects = Lookup::Found(Arc::new(Objects {
                    policy: (!self.has_policies).then(|| self.policy()),
                    ..self.firmware.clone()
                }));
            }
            Read::PullSecret => {
                seen.pull_secret = match &self.pull_secret {
                    Ok(credentials) => PullSecretView::Ready(PullSecret {
                        credentials: credentials.clone(),
                        digest: 5,
                    }),
                    Err(why) => PullSecretView::Unusable(EventReason::ImageAuthParseError, why.clone()),
                }
            }
            Read::LiveNode
            | Read::Ports
            | Read::BootMacOwner
            | Read::Inventory
            | Read::BmcAccess
            | Read::CredentialCheck
            | Read::Bios
            | Read::Components
            | Read::Disc
            | Read::Validation
                if is_down =>
            {
                seen.node = NodeView::Unknown { cause: Some(down()) };
                seen.outage = Some(down());
            }
            Read::DataImage => {
                let image = disc::with_note(self.data_image.clone(), &seen.host);
                seen.data_image = image.map_or(Lookup::NotFound, |image| Lookup::Found(Arc::new(image)));
            }
            Read::Disc => seen.disc = Lookup::Found(self.disc.clone()),
            Read::Components => seen.components = Lookup::Found(Arc::new(self.components.clone())),
            Read::Bios => seen.bios = Lookup::Found(Arc::new(typeless(&self.bios))),
            Read::LiveNode => {
                match self.node.clone() {
                    Some(node) => seen.learn_node(node),
                    None => seen.node = NodeView::Gone,
                }
                if self.node.is_none() {
                    seen.memory.ports_with = None;
                }
            }
            Read::Ports => {
                let mark = || {
                    if self.others_ports {
                        Map::new()
                    } else {
                        port_mark(&self.host)
                    }
                };
                let port = |mac: &String| Port {
                    uuid: format!("port-{mac}"),
                    address: mac.clone(),
                    node_uuid: NODE.into(),
                    pxe_enabled: Some(!self.disabled_ports),
                    extra: mark(),
                };
                seen.ports = Lookup::Found(self.ports.iter().map(port).collect());
            }
            Read::BootMacOwner => {
                seen.boot_mac_owner = self.mac_owner.clone().map_or(Lookup::NotFound, Lookup::Found);
            }
            Read::Inventory => {
                seen.inventory = self
                    .inventory
                    .clone()
                    .map_or(Lookup::NotFound, |details| Lookup::Found(Arc::new(details)));
            }
            Read::Ramdisk => {
                seen.ramdisk = self
                    .ramdisk
                    .clone()
                    .map_or(Lookup::NotFound, |image| Lookup::Found(Arc::new(image)));
            }
            Read::NetworkData => {
                seen.network_data = match &self.network_data {
                    NetworkDataView::NotLooked { .. } => NetworkDataView::Missing,
                    other => other.clone(),
                }
            }
            Read::BmcAccess => {
                seen.bmc_access = Lookup::Found(self.bmc_refuses.clone().map_or(Ok(()), Err));
                if self.bmc_refuses.is_none() {
                    seen.reconfigured = false;
                }
            }
            Read::CredentialCheck => {
                seen.credential_check = Lookup::Found(self.bmc_refuses.clone().map_or(Ok(()), Err));
                let version = match &seen.secret {
                    SecretView::Found(found) => Some(found.version.clone()),
                    _ => None,
                };
                seen.memory.refused_secret = version.filter(|_| self.bmc_refuses.is_some());
                let until = self.now.saturating_add(PROOF_AGAIN).unwrap();
                seen.memory.refused_until = self.bmc_refuses.as_ref().map(|_| until);
            }
            Read::BmcName => seen.bmc_name = Lookup::Found(self.bmc_is_ipv6.clone()),
            Read::HardwareData => {
                seen.hardware_data = self
                    .hardware_data
                    .clone()
                    .map_or(Lookup::NotFound, |details| Lookup::Found(Arc::new(details)));
            }
            Read::Hardware => {
                let stored = self.host.status.as_ref().and_then(|status| status.hardware.as_deref());
                seen.hardware = stored.map_or(HardwareView::None, |details| {
                    HardwareView::Known(Arc::new(details.clone()))
                });
            }
            Read::Validation => seen.validation = Lookup::Found(self.problems.clone()),
            Read::Slot => seen.slot = Lookup::Found(self.slot),
        }
    }

    /// The status of a plan is stored.
    pub fn store(&mut self, plan: &Plan) {
        self.host.status = stored(&self.host, &plan.status, self.now);
    }

    /// Storing the status of a plan would write nothing.
    pub fn is_stored(&self, plan: &Plan) -> bool {
        status_change(&self.host, self.host.status.as_ref(), &plan.status, self.now)
            .unwrap()
            .is_none()
    }

    /// One decision with all the reads that it asks for. Asking twice for the same is a circle.
    pub fn decide(&self) -> Outcome {
        let mut seen = self.seen();
        let mut reads = Vec::new();
        loop {
            match decide(&seen, self.now) {
                Decision::Act(plan) => {
                    return Outcome {
                        reads,
                        seen,
                        plan: Plan::of(*plan),
                    };
                }
                Decision::Fetch(read) => {
                    assert!(!reads.contains(&read), "{read:?} was answered already: {reads:?}");
                    reads.push(read);
                    self.answer(&mut seen, read);
                }
            }
        }
    }
}

/// A plan with its report spread out.
#[derive(Clone, Debug)]
pub struct Plan {
    pub status: BareMetalHostStatus,
    pub effects: Vec<Effect>,
    /// So many of them come before the report.
    pub before_report: usize,
    pub events: Vec<events::Event>,
    pub then: Then,
    pub learned: Learned,
    pub refusal: ErrorType,
    pub next: Next,
}

impl Plan {
    /// What is stored and told of it has nothing from a Secret.
    pub fn of(plan: plan::Plan) -> Self {
        let report = plan.report.status.unwrap();
        expect_none_in("a status", &serde_json::to_string(&report.status).unwrap());
        let intents = plan.effects.iter().filter_map(|effect| match effect {
            Effect::ConfirmHost { intent } => intent.as_ref(),
            _ => None,
        });
        let told = intents.flat_map(|intent| intent.events.clone()).map(Into::into);
        let events: Vec<events::Event> = told.chain(plan.report.events).collect();
        for event in &events {
            expect_none_in("an event", &event.message);
        }
        Self {
            events,
            before_report: plan.effects.len(),
            effects: [plan.effects, plan.afterwards].concat(),
            status: report.status,
            then: report.then,
            learned: report.learned.unwrap_or_default(),
            refusal: report.refusal,
            next: plan.next,
        }
    }

    /// What a host remembers after it was carried out.
    pub fn teach(&self, seen: &mut Observed, now: Timestamp) {
        let report = HostReport::new(self.status.clone(), self.then.clone());
        seen.learn(&report, self.learned, now);
    }
}
