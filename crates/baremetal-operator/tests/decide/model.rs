//! A small Ironic: one node, its verbs and what comes of them, with delays, locks and faults. It refuses loudly what the
//! real one would refuse, because a decision that read the node must not ask for it.

use std::collections::BTreeMap;

use baremetal_operator::host::plan::Effect;
use metal3_ironic::{MASK, Node, Op, PatchOp, PowerState, PowerTarget, ProvisionRequest, ProvisionState, Verb};
use serde_json::{Value, json};

/// Operations that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Verify,
    Inspect,
    Clean,
    Deploy,
    Adopt,
    Power,
    TearDown,
    Service,
    Disc,
}

#[derive(Clone, Debug)]
enum DiscWork {
    Attach(String),
    Detach,
}

#[derive(Clone, Debug)]
pub struct Ironic {
    pub node: Option<Node>,
    pub ports: Vec<String>,
    pub is_inspected: bool,
    /// How often each operation still fails.
    pub faults: BTreeMap<Fault, u32>,
    /// Everything that was accepted, in order.
    pub log: Vec<String>,
    /// BIOS settings in force.
    pub bios: BTreeMap<String, String>,
    /// The URL of the firmware that is on the server; none if that is not known.
    pub firmware: Option<String>,
    /// The firmware that the work under way writes.
    pending_firmware: Option<String>,
    /// What is in the virtual drive.
    pub disc: Option<String>,
    /// The work on it that is under way.
    disc_work: Option<DiscWork>,
    /// How often time passes until a disc is inserted or ejected.
    pub disc_takes: usize,
    disc_left: usize,
    /// The settings that the work under way sets.
    pending: BTreeMap<String, String>,
    /// Whether the BMC accepts settings and applies none.
    pub ignores_settings: bool,
    /// Whether others lock the node now and then.
    pub has_locks: bool,
    seed: u64,
    nodes_made: u32,
    changes: u32,
}

const DELETABLE: [&str; 4] = ["manageable", "enroll", "adopt failed", "available"];
const PATCHABLE_WITH_TARGET: [&str; 10] = [
    "deploy failed",
    "inspect failed",
    "inspect wait",
    "clean failed",
    "error",
    "verifying",
    "adopt failed",
    "rescue failed",
    "service hold",
    "service failed",
];

/// Where every image is redirected to.
pub const REDIRECT: &str = "http://mirror/";

/// The states in which interfaces can be changed.
const RECONFIGURABLE: [&str; 5] = ["enroll", "inspecting", "inspect wait", "manageable", "available"];

impl Ironic {
    pub fn new(seed: u64) -> Self {
        Self {
            node: None,
            ports: Vec::new(),
            is_inspected: false,
            faults: BTreeMap::new(),
            log: Vec::new(),
            bios: BTreeMap::from([("Turbo".to_owned(), "Off".to_owned())]),
            firmware: None,
            pending_firmware: None,
            disc: None,
            disc_work: None,
            disc_takes: 1,
            disc_left: 0,
            pending: BTreeMap::new(),
            ignores_settings: false,
            has_locks: false,
            seed,
            nodes_made: 0,
            changes: 0,
        }
    }

    /// How often this was accepted.
    pub fn count(&self, what: &str) -> usize {
        self.log.iter().filter(|entry| *entry == what).count()
    }

    /// One in `n`, the same at every run.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33).is_multiple_of(n)
    }

    /// Nothing moves until somebody asks for it.
    pub fn is_idle(&self) -> bool {
        self.node.as_ref().is_none_or(|node| {
            node.reservation.is_none() && node.target_power_state.is_none() && !is_moving(&node.provision_state)
        })
    }

    fn fails(&mut self, fault: Fault) -> bool {
        self.faults.get_mut(&fault).is_some_and(|left| {
            let fails = *left > 0;
            *left = left.saturating_sub(1);
            fails
        })
    }

    /// Time passes: what runs comes one step further, or not.
    pub fn tick(&mut self) {
        if self.node.as_ref().is_some_and(|n| n.reservation.is_some()) {
            self.disc_left = self.disc_left.saturating_sub(1);
            if self.disc_work.is_some() && self.disc_left > 0 {
                return;
            }
            let fails = self.disc_work.is_some() && self.fails(Fault::Disc);
            let node = self.node.as_mut().unwrap();
            node.reservation = None;
            match self.disc_work.take() {
                Some(_) if fails => node.last_error = Some("the drive is stuck".into()),
                Some(DiscWork::Attach(url)) => self.disc = Some(url),
                Some(DiscWork::Detach) => self.disc = None,
                None => {}
            }
            return;
        }
        if self.one_in(3) {
            return;
        }
        if self.has_locks && self.one_in(4) {
            if let Some(node) = &mut self.node {
                node.reservation = Some("conductor-1".into());
            }
            self.touch();
            return;
        }
        self.move_power();
        self.move_provision();
    }

    fn move_power(&mut self) {
        let Some(target) = self.node.as_ref().and_then(|n| n.target_power_state.clone()) else {
            return;
        };
        let fails = self.fails(Fault::Power);
        let node = self.node.as_mut().unwrap();
        node.target_power_state = None;
        if fails {
            node.last_error = Some("the BMC does not answer".into());
        } else {
            node.power_state = Some(match target.as_str() {
                "rebooting" => PowerState::On,
                other => PowerState::from(other),
            });
        }
    }

    fn move_provision(&mut self) {
        let Some(state) = self.node.as_ref().map(|n| n.provision_state.clone()) else {
            return;
        };
        let to_available = self.node.as_ref().unwrap().target_provision_state.as_deref() == Some("available");
        let step = |ok: &'static str, bad: &'static str, fault: Fault| (ok, bad, Some(fault));
        let (ok, bad, fault) = match state.as_str() {
            "verifying" => step("manageable", "enroll", Fault::Verify),
            "inspecting" => ("inspect wait", "", None),
            "inspect wait" => step("manageable", "inspect failed", Fault::Inspect),
            "cleaning" => ("clean wait", "", None),
            "clean wait" if to_available => step("available", "clean failed", Fault::Clean),
            "clean wait" => step("manageable", "clean failed", Fault::Clean),
            "deploying" => ("wait call-back", "", None),
            "wait call-back" => step("active", "deploy failed", Fault::Deploy),
            "adopting" => step("active", "adopt failed", Fault::Adopt),
            "servicing" => ("service wait", "", None),
            "service wait" => step("active", "service failed", Fault::Service),
            "deleting" => step("cleaning", "error", Fault::TearDown),
            _ => return,
        };
        let fails = fault.is_some_and(|fault| self.fails(fault));
        let node = self.node.as_mut().unwrap();
        let next = ProvisionState::from(if fails { bad } else { ok });
        note_change(node);
        if fails {
            node.last_error = Some(format!("{state} failed"));
            if matches!(next, ProvisionState::CleanFailed | ProvisionState::ServiceFailed) {
                node.maintenance = true;
                node.fault = Some("it failed".into());
            }
        }
        if !is_moving(&next) && (!fails || next == ProvisionState::Enroll) {
            node.target_provision_state = None;
        }
        match (state.as_str(), fails) {
            ("inspect wait", false) => {
                self.is_inspected = true;
                let finished_at = &mut node.detail.as_mut().unwrap().inspection_finished_at;
                finished_at.clone_from(&node.provision_updated_at);
            }
            ("deleting", false) => {
                node.instance_uuid = None;
                node.detail.as_mut().unwrap().instance_info.clear();
                node.power_state = Some(PowerState::Off);
            }
            ("deploying", _) => {
                if let Some(Value::String(source)) = node.detail.as_mut().unwrap().instance_info.get_mut("image_source")
                {
                    source.insert_str(0, REDIRECT);
                }
            }
            ("wait call-back" | "service wait", false) => node.power_state = Some(PowerState::On),
            ("clean wait", false) => node.power_state = Some(PowerState::Off),
            _ => {}
        }
        node.provision_state = next;
        if fails && matches!(state.as_str(), "servicing" | "service wait") {
            // Settings and firmware need no ramdisk: the disc stays in, unless the servicing fails.
            self.disc = None;
        }
        if matches!(state.as_str(), "clean wait" | "service wait") {
            if let Some(url) = self.pending_firmware.take() {
                self.firmware = (!fails).then_some(url);
            }
            let pending = std::mem::take(&mut self.pending);
            if !fails && !self.ignores_settings {
                self.bios.extend(pending);
            }
        }
    }

    /// Carries out one effect; false where the real Ironic would answer with 409 and the caller tries again.
    pub fn apply(&mut self, effect: &Effect) -> bool {
        let entry = match effect {
            Effect::Provision { request, .. } => request.target.as_str().to_owned(),
            Effect::Power {
                target: PowerTarget::On,
                ..
            } => "power on".to_owned(),
            Effect::Power {
                target: PowerTarget::Reboot | PowerTarget::SoftReboot,
                ..
            } => "reboot".to_owned(),
            Effect::Power { .. } => "power off".to_owned(),
            other => other.label().to_owned(),
        };
        if let Effect::CreateNode(body) = effect {
            assert!(self.node.is_none(), "a second node");
            self.nodes_made += 1;
            let uuid = body.uuid.clone().unwrap_or_else(|| format!("node-{}", self.nodes_made));
            let record = json!({"uuid": uuid, "name": body.name,
                "provision_state": "enroll", "power_state": null, "driver": body.driver,
                "driver_info": masked(&json!(body.driver_info)), "properties": body.properties,
                "automated_clean": body.automated_clean, "disable_power_off": body.disable_power_off,
                "inspect_interface": body.inspect_interface, "instance_info": {}});
            self.node = Some(serde_json::from_value(record).unwrap());
            self.ports.clear();
            self.is_inspected = false;
        } else {
            // Somebody may take the lock between the look and the call; that changes the record as well.
            let is_locked_now = self.has_locks && effect.is_ironic_mutation() && self.one_in(6);
            let Some(node) = &mut self.node else { return false };
            if is_locked_now && node.reservation.is_none() {
                node.reservation = Some("conductor-1".into());
                self.touch();
                return false;
            }
            if node.reservation.is_some() {
                return false;
            }
            match effect {
                Effect::CreatePort { mac, .. } => {
                    assert!(!self.ports.contains(mac), "a second port");
                    self.ports.push(mac.clone());
                }
                Effect::DeletePort { port, .. } => self.ports.retain(|mac| format!("port-{mac}") != *port),
                Effect::PatchNode { ops, .. } => patch(node, ops),
                Effect::SetTargetRaid { logical_disks, .. } => {
                    let detail = node.detail.as_mut().unwrap();
                    detail
                        .target_raid_config
                        .insert("logical_disks".into(), json!(logical_disks));
                }
                Effect::Provision { request, .. } => {
                    provision(node, request);
                    let steps = request.clean_steps.iter().chain(&request.service_steps);
                    let firmware = steps.clone().find(|s| s.interface == "firmware");
                    let url = firmware.and_then(|s| s.args["settings"][0]["url"].as_str());
                    self.pending_firmware = url.map(str::to_owned);
                    for setting in steps
                        .filter(|s| s.interface == "bios")
                        .flat_map(|s| s.args["settings"].as_array().unwrap())
                    {
                        let text = |key: &str| setting[key].as_str().unwrap().to_owned();
                        self.pending.insert(text("name"), text("value"));
                    }
                }
                Effect::Power { target, .. } => {
                    assert!(node.target_power_state.is_none(), "power changes already");
                    node.last_error = None;
                    let never_off = node.detail.as_ref().unwrap().disable_power_off == Some(true);
                    let word = match target {
                        PowerTarget::On => "power on",
                        PowerTarget::Off | PowerTarget::SoftOff => {
                            assert!(!never_off, "a node that is never switched off");
                            "power off"
                        }
                        PowerTarget::Reboot | PowerTarget::SoftReboot => "rebooting",
                    };
                    node.target_power_state = Some(word.into());
                }
                Effect::AttachDisc { url, .. } => {
                    assert_eq!(self.disc, None, "a disc is in the drive already");
                    (node.last_error, node.reservation) = (None, Some("conductor-1".into()));
                    self.disc_work = Some(DiscWork::Attach(url.as_str().to_owned()));
                    self.disc_left = self.disc_takes;
                }
                Effect::DetachDisc { .. } => {
                    (node.last_error, node.reservation) = (None, Some("conductor-1".into()));
                    self.disc_work = Some(DiscWork::Detach);
                    self.disc_left = self.disc_takes;
                }
                Effect::SetMaintenance { .. } => node.maintenance = true,
                Effect::ClearMaintenance { .. } => {
                    node.maintenance = false;
                    node.fault = None;
                }
                Effect::DeleteNode { .. } => {
                    let may_go = DELETABLE.contains(&node.provision_state.as_str()) && node.instance_uuid.is_none();
                    assert!(node.maintenance || may_go, "this node cannot be deleted: {node:?}");
                    self.node = None;
                    self.ports.clear();
                }
                _ => return true, // Kubernetes' business
            }
        }
        self.log.push(entry);
        self.touch();
        true
    }

    /// Every change of the record has its time.
    fn touch(&mut self) {
        self.changes += 1;
        if let Some(detail) = self.node.as_mut().and_then(|n| n.detail.as_mut()) {
            detail.updated_at = Some(format!("change-{}", self.changes));
        }
    }

    /// The database is lost, the machine goes on.
    pub fn lose(&mut self) {
        self.node = None;
        self.ports.clear();
        self.is_inspected = false;
    }
}

fn is_moving(state: &ProvisionState) -> bool {
    state.as_str().ends_with("ing") || state.as_str().ends_with("wait") || *state == ProvisionState::DeployWait
}

fn masked(info: &Value) -> Value {
    let mut info = info.clone();
    for (key, value) in info.as_object_mut().unwrap() {
        if key.ends_with("password") {
            *value = MASK.into();
        }
    }
    info
}

fn patch(node: &mut Node, ops: &[PatchOp]) {
    let state = node.provision_state.as_str();
    let is_open = node.target_provision_state.is_none() || PATCHABLE_WITH_TARGET.contains(&state);
    assert!(is_open, "a node in state {state} cannot be patched");
    let detail = node.detail.as_mut().unwrap();
    for op in ops {
        let value = op.value.clone().filter(|_| op.op == Op::Add);
        let (section, key) = op.path[1..].split_once('/').unwrap_or(("", &op.path[1..]));
        let map = match section {
            "driver_info" => &mut detail.driver_info,
            "properties" => &mut detail.properties,
            "instance_info" => &mut detail.instance_info,
            "extra" => &mut detail.extra,
            "" => {
                match key {
                    "driver_info" => {
                        detail.driver_info = serde_json::from_value(masked(&value.unwrap())).unwrap();
                    }
                    "instance_uuid" => node.instance_uuid = value.map(|v| v.as_str().unwrap().to_owned()),
                    "deploy_interface" | "raid_interface" => {
                        assert!(
                            RECONFIGURABLE.contains(&state),
                            "its {key} cannot be changed in state {state}"
                        );
                        let field = if key == "raid_interface" {
                            &mut detail.raid_interface
                        } else {
                            &mut detail.deploy_interface
                        };
                        *field = value.map(|v| v.as_str().unwrap().to_owned());
                    }
                    "network_data" => {
                        detail.network_data = value.unwrap().as_object().unwrap().clone().into_iter().collect();
                    }
                    "automated_clean" => detail.automated_clean = value.map(|v| v.as_bool().unwrap()),
                    "inspect_interface" => detail.inspect_interface = value.map(|v| v.as_str().unwrap().to_owned()),
                    "disable_power_off" => detail.disable_power_off = value.map(|v| v.as_bool().unwrap()),
                    other => panic!("the model has no field {other}"),
                }
                continue;
            }
            other => panic!("the model has no section {other}"),
        };
        match value {
            Some(_) if key == "image_pull_secret" => drop(map.insert(key.to_owned(), MASK.into())),
            Some(value) => drop(map.insert(key.to_owned(), value)),
            None => assert!(map.remove(key).is_some(), "{key} is not there to be removed"),
        }
    }
}

/// The time of the last change of the state: another one after each.
fn note_change(node: &mut Node) {
    let count: u32 = node.provision_updated_at.as_deref().map_or(0, |at| at.parse().unwrap());
    node.provision_updated_at = Some((count + 1).to_string());
}

fn provision(node: &mut Node, request: &ProvisionRequest) {
    let verb = request.target;
    let state = node.provision_state.as_str().to_owned();
    let (next, target) = match (verb, state.as_str()) {
        (Verb::Manage, "enroll") => ("verifying", Some("manageable")),
        (Verb::Manage, "available" | "clean failed" | "inspect failed" | "adopt failed") => ("manageable", None),
        (Verb::Provide, "manageable") => ("cleaning", Some("available")),
        (Verb::Clean, "manageable") => ("cleaning", Some("manageable")),
        (Verb::Inspect, "manageable" | "inspect failed") => ("inspecting", Some("manageable")),
        (Verb::Active, "available" | "deploy failed") => ("deploying", Some("active")),
        (Verb::Deleted, "active" | "deploy failed" | "wait call-back" | "error") => ("deleting", Some("available")),
        (Verb::Adopt, "manageable" | "adopt failed") => ("adopting", Some("active")),
        (Verb::Service, "active" | "service failed") => ("servicing", Some("active")),
        (Verb::Abort, "service wait" | "service failed") => ("active", None),
        (Verb::Abort, "inspect wait") => ("inspect failed", Some("manageable")),
        (Verb::Abort, "clean wait") => ("clean failed", Some("available")),
        _ => panic!("{verb} is not possible in state {state}"),
    };
    let is_refused = node.maintenance
        && (matches!(verb, Verb::Active | Verb::Clean | Verb::Provide | Verb::Service)
            || verb == Verb::Abort && state == "service failed");
    assert!(!is_refused, "{verb} is refused in maintenance");
    if verb == Verb::Active {
        let detail = node.detail.as_ref().unwrap();
        let (key, steps) = match detail.deploy_interface.as_deref() {
            Some("ramdisk") => ("boot_iso", 0),
            Some("custom-agent") => ("metal3_deploy_method", 1),
            _ => ("image_source", 0),
        };
        assert!(detail.instance_info.contains_key(key), "deployed without {key}");
        assert_eq!(request.deploy_steps.len(), steps);
        assert_eq!(request.configdrive.is_none(), key == "boot_iso", "config drive");
    }
    if verb == Verb::Clean {
        let detail = node.detail.as_ref().unwrap();
        assert!(!request.clean_steps.is_empty(), "cleaning without steps");
        let creates = request.clean_steps.iter().any(|s| s.step == "create_configuration");
        let is_told = detail.target_raid_config.get("logical_disks").is_some();
        assert!(!creates || is_told, "volumes are created that Ironic was not told");
    }
    if verb == Verb::Inspect {
        node.detail.as_mut().unwrap().inspection_finished_at = None;
    }
    note_change(node);
    node.last_error = (verb == Verb::Abort).then(|| "It was aborted by request.".to_owned());
    node.provision_state = ProvisionState::from(next);
    node.target_provision_state = target.map(str::to_owned);
    // Known since the BMC was reached for the first time.
    if verb == Verb::Manage && node.power_state.is_none() {
        node.power_state = Some(PowerState::Off);
    }
}
