//! What may be done at all, worked out from the host and its node alone and not from the code that decides.

use std::collections::BTreeSet;

use baremetal_operator::fleet::Slot;
use baremetal_operator::host::observed::{Lookup, NodeView, Observed, SecretView};
use baremetal_operator::host::plan::Effect;
use baremetal_operator::reference;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, OperationalStatus};
use metal3_bmc::{BmcAddress, Credentials};
use metal3_ironic::{Node, PowerState, PowerTarget, Verb};

use crate::world::Plan;

/// The judge of one plan.
pub struct Oracle<'a> {
    host: &'a BareMetalHost,
    state: String,
    is_deleting: bool,
    /// The URL that the specification asks for.
    wanted: Option<String>,
    deployed: Option<String>,
}

/// A deletion that is to wait until the host is detached asks for nothing before that; one that has begun in earnest goes on.
pub fn is_on_its_way_out(host: &BareMetalHost) -> bool {
    let status = host.status.clone().unwrap_or_default();
    let annotations = host.metadata.annotations.as_ref();
    let detached = annotations.and_then(|all| all.get("baremetalhost.metal3.io/detached"));
    let waits = match detached {
        Some(text) => Oracle::argument(text, "deleteAction") == "delay",
        None => status.operational_status == OperationalStatus::Detached,
    };
    host.metadata.deletion_timestamp.is_some() && (!waits || status.provisioning.state.as_str() == "deleting")
}

fn method(deploy: Option<&metal3_api::metal3::CustomDeploy>) -> Option<&str> {
    deploy.map(|c| c.method.as_str()).filter(|m| !m.is_empty())
}

impl<'a> Oracle<'a> {
    pub fn new(host: &'a BareMetalHost) -> Self {
        let status = host.status.clone().unwrap_or_default();
        Self {
            host,
            state: status.provisioning.state.as_str().to_owned(),
            is_deleting: is_on_its_way_out(host),
            wanted: host
                .spec
                .image
                .as_ref()
                .map(|i| i.url.clone())
                .filter(|u| !u.is_empty()),
            deployed: status
                .provisioning
                .image
                .as_ref()
                .map(|i| i.url.clone())
                .filter(|u| !u.is_empty()),
        }
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.host.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }

    /// What an annotation's JSON says of one thing, `null` where it is no JSON.
    fn argument(text: &str, name: &str) -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(text).unwrap_or_default()[name].clone()
    }

    /// The user wants the host out of Ironic.
    fn is_detached(&self, ends: &str) -> bool {
        // One pass may lead through several states to the one where it rests.
        let rests = ["provisioned", "externally provisioned", "ready", "available"].contains(&ends);
        self.annotation("baremetalhost.metal3.io/detached")
            .is_some_and(|text| !self.state_is(&["deleting"]) && (rests || Self::argument(text, "force") == true))
    }

    /// Whether a reboot is asked for that counts in this state.
    fn wants_reboot(&self, ends: &str) -> bool {
        let is_deployed = ["provisioned", "externally provisioned"].contains(&ends);
        let annotations = self.host.metadata.annotations.iter().flatten();
        annotations
            .filter(|(key, _)| *key == "reboot.metal3.io" || key.starts_with("reboot.metal3.io/"))
            .any(|(_, text)| is_deployed || Self::argument(text, "force") == true)
    }

    fn wants_no_inspection(&self) -> bool {
        let mode = self.host.spec.inspection_mode.as_ref();
        mode.is_some_and(|mode| mode.as_str() == "disabled") || self.annotation("inspect.metal3.io") == Some("disabled")
    }

    /// Somebody's workload, which is off and to be switched on, or is to be restarted.
    fn is_about_to_start(&self, node: Option<&Node>, ends: &str) -> bool {
        let is_off = node.is_some_and(|n| n.power_state == Some(PowerState::Off));
        let restarts = self.host.spec.disable_power_off && self.wants_reboot(ends);
        let is_deployed = ["provisioned", "externally provisioned"].contains(&ends);
        is_deployed && !self.is_deleting && (self.host.spec.online && is_off || restarts)
    }

    /// No workload, or one that is given up, with the disc of the last one.
    fn has_disc_of_last_user(&self, seen: &Observed, ends: &str) -> bool {
        let Lookup::Found(image) = &seen.data_image else {
            return false;
        };
        let holds = image
            .status
            .as_ref()
            .is_some_and(|status| !status.attached_image.url.is_empty());
        let in_use = ["provisioned", "externally provisioned", "provisioning"];
        holds && (self.is_deleting || !self.state_is(&in_use) || !in_use.contains(&ends))
    }

    fn has_another_driver(&self, node: Option<&Node>) -> bool {
        let driver = node.and_then(|n| n.detail.as_ref()?.driver.as_deref());
        let scheme = self.host.spec.bmc.address.split([':', '+']).next().unwrap_or_default();
        let wanted = match scheme {
            "ipmi" | "libvirt" => "ipmi",
            _ if scheme.starts_with("idrac") => "idrac",
            _ => "redfish",
        };
        driver.is_some_and(|driver| driver != wanted)
    }

    fn state_is(&self, states: &[&str]) -> bool {
        states.contains(&self.state.as_str())
    }

    /// Something is wanted on the host.
    fn wants_deployment(&self) -> bool {
        self.wanted.is_some() || method(self.host.spec.custom_deploy.as_ref()).is_some()
    }

    /// Nothing runs on the host, and it is to be kept.
    fn may_prepare(&self) -> bool {
        let states = [
            "registering",
            "inspecting",
            "match profile",
            "preparing",
            "ready",
            "available",
            "deprovisioning",
        ];
        !self.is_deleting && (self.state_is(&states) || self.state.is_empty())
    }

    fn wants_other_raid(&self) -> bool {
        let recorded = self.host.status.as_ref().and_then(|s| s.provisioning.raid.as_ref());
        self.host.spec.raid.as_ref() != recorded
    }

    /// Somebody asked for the end of what is deployed, or is being deployed.
    fn wants_tear_down(&self) -> bool {
        let status = self.host.status.clone().unwrap_or_default();
        let deployed_method = method(status.provisioning.custom_deploy.as_ref());
        let wanted_method = method(self.host.spec.custom_deploy.as_ref());
        self.is_deleting
            || self.state == "deprovisioning"
            || deployed_method.is_some() && deployed_method != wanted_method
            || self.deployed.is_some() && self.deployed != self.wanted
            || !self.wants_deployment()
    }

    /// Whether this pass may lead into the tear-down of what stands there.
    fn may_tear_down(&self, node: Option<&Node>) -> bool {
        let status = self.host.status.clone().unwrap_or_default();
        // What nobody deployed here is torn down only when it is given up to us.
        let is_foreign = self.state == "externally provisioned" && self.host.spec.externally_provisioned;
        let failed = self.state == "provisioning" && status.error_type.is_some();
        // A failed deployment of another kind is in the way as well.
        let runs_another = !self.state_is(&["provisioned", "externally provisioned"])
            && node.is_some_and(|n| ["active", "deploy failed"].contains(&n.provision_state.as_str()));
        (self.wants_tear_down() || failed || runs_another) && !is_foreign
    }

    /// Why this plan must not be carried out.
    pub fn objections(&self, seen: &Observed, plan: &Plan) -> Vec<String> {
        let mutations: Vec<_> = plan.effects.iter().filter(|e| e.is_ironic_mutation()).collect();
        let mut found = Vec::new();
        if mutations.len() > 1 {
            found.push(format!("{} mutations in one pass", mutations.len()));
        }
        let node = match &seen.node {
            NodeView::Live(node) => Some(&**node),
            _ => None,
        };
        let ends = plan.status.provisioning.state.as_str();
        if ends == "deprovisioning" && self.state != ends && !self.may_tear_down(node) {
            found.push("nobody asked for deprovisioning".to_owned());
        }
        if ends == "provisioning" && self.state != ends && !(self.host.spec.online && self.wants_deployment()) {
            found.push("nobody asked for provisioning".to_owned());
        }
        for effect in &plan.effects {
            let hurts = !matches!(
                effect,
                Effect::CreateNode(_)
                    | Effect::CreatePort { .. }
                    | Effect::SetPortBoot { .. }
                    | Effect::DeletePort { .. }
                    | Effect::PatchNode { .. }
                    | Effect::SetTargetRaid { .. }
                    | Effect::ClearMaintenance { .. }
                    | Effect::AttachDisc { .. }
                    | Effect::DetachDisc { .. }
            ) && !matches!(effect, Effect::Provision { request, .. } if matches!(request.target, Verb::Manage | Verb::Adopt))
                && !matches!(
                    effect,
                    Effect::Power {
                        target: PowerTarget::On,
                        ..
                    }
                );
            if effect.is_ironic_mutation()
                && hurts
                && !plan.effects.iter().any(|e| matches!(e, Effect::ConfirmHost { .. }))
            {
                found.push(format!("{effect:?} for a copy of the host that may be old"));
            }
            if self.takes_slot(effect) && seen.slot != Lookup::Found(Slot::Granted) {
                found.push(format!("{effect:?} without a slot"));
            }
            if effect.is_ironic_mutation() {
                found.extend(Self::footing(seen, node, effect));
            }
            if !self.allows(effect, seen, node, ends) {
                found.push(format!("nobody asked for {effect:?}"));
            }
        }
        found.extend(self.secrets(plan));
        found
    }

    /// What the specification names, and what the status says that Ironic was given: the host cannot do without them.
    fn needs_secret(&self, name: &str, status: &BareMetalHostStatus) -> bool {
        let spec = &self.host.spec;
        let given = [&status.good_credentials, &status.tried_credentials];
        let given = given.into_iter().filter_map(|given| given.credentials.as_ref());
        let named = [&spec.bmc.credentials_name, &spec.preprovisioning_network_data_name];
        named
            .into_iter()
            .chain(given.map(|secret| &secret.name))
            .any(|needed| needed == name)
    }

    /// The note of the Secrets with the operator's marks is ahead of the marks, and loses none that is marked.
    fn secrets(&self, plan: &Plan) -> Vec<String> {
        let read = |text: Option<&str>| -> BTreeSet<String> {
            let names = text.into_iter().flat_map(|text| text.split(','));
            names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let mut noted = read(self.annotation("baremetalhost.metal3.io/held-secrets"));
        let spec = &self.host.spec;
        let before = self.host.status.clone().unwrap_or_default();
        let mut found = Vec::new();
        for effect in &plan.effects {
            let marked = match effect {
                Effect::AddFinalizer { secrets } | Effect::NoteSecrets(secrets) => {
                    let lost: Vec<_> = noted.difference(secrets).cloned().collect();
                    if !lost.is_empty() {
                        found.push(format!("{effect:?} loses {lost:?}"));
                    }
                    noted.clone_from(secrets);
                    continue;
                }
                Effect::ClaimSecret => &spec.bmc.credentials_name,
                Effect::ClaimNetworkData => &spec.preprovisioning_network_data_name,
                Effect::ReleaseFormerSecret(name) => {
                    if self.needs_secret(name, &plan.status) {
                        found.push(format!("{effect:?}, which is needed"));
                    }
                    if !noted.contains(name) {
                        found.push(format!("{effect:?}, which was never marked"));
                    }
                    continue;
                }
                _ => continue,
            };
            // An operator before this one has left it in the status.
            let given = [&before.good_credentials, &before.tried_credentials];
            let given = given.into_iter().filter_map(|given| given.credentials.as_ref());
            let is_known = noted.contains(marked) || given.map(|secret| &secret.name).any(|name| name == marked);
            if !is_known {
                found.push(format!("{effect:?} of {marked}, which is not noted"));
            }
        }
        found
    }

    /// Virtual media load no network, and a deletion waits for nobody.
    fn takes_slot(&self, effect: &Effect) -> bool {
        let scheme = self.host.spec.bmc.address.split(':').next().unwrap_or_default();
        let is_exempt = scheme.contains("virtualmedia") || scheme.contains("uefihttp");
        let Effect::Provision { request, .. } = effect else {
            return false;
        };
        let works = matches!(
            request.target,
            Verb::Inspect | Verb::Provide | Verb::Clean | Verb::Active | Verb::Deleted
        );
        works && !is_exempt && !self.is_deleting
    }

    /// A mutation stands on a node that this pass read, that is the right one, and that nobody else works on.
    fn footing(seen: &Observed, node: Option<&Node>, effect: &Effect) -> Option<String> {
        let id = match effect {
            Effect::CreateNode(_) => {
                return (seen.node != NodeView::Gone).then(|| "created without knowing that there is none".to_owned());
            }
            Effect::PatchNode { node, ops } if seen.node == NodeView::Gone => {
                // A node without a name that has a port with the boot MAC address becomes the host's.
                let is_nobodys =
                    matches!(&seen.boot_mac_owner, Lookup::Found(o) if o.node == *node && o.name.is_none());
                let is_named = ops.len() == 1 && ops[0].path == "/name";
                return (!is_nobodys || !is_named).then(|| format!("{effect:?} on somebody's node"));
            }
            Effect::CreatePort { node, .. }
            | Effect::SetPortBoot { node, .. }
            | Effect::DeletePort { node, .. }
            | Effect::PatchNode { node, .. }
            | Effect::SetTargetRaid { node, .. }
            | Effect::Provision { node, .. }
            | Effect::Power { node, .. }
            | Effect::AttachDisc { node, .. }
            | Effect::DetachDisc { node }
            | Effect::SetMaintenance { node }
            | Effect::ClearMaintenance { node }
            | Effect::DeleteNode { node } => node,
            _ => return None,
        };
        let Some(node) = node else {
            return Some(format!("{effect:?} on a node that was not read"));
        };
        if *id != node.uuid {
            return Some(format!("{effect:?} on another node than {}", node.uuid));
        }
        if is_unproven(seen, node) {
            return Some(format!("{effect:?} on a node that is not proven to be the host's"));
        }
        node.reservation
            .is_some()
            .then(|| format!("{effect:?} on a locked node"))
    }

    fn allows(&self, effect: &Effect, seen: &Observed, node: Option<&Node>, ends: &str) -> bool {
        let in_state = |states: &[&str]| node.is_some_and(|n| states.contains(&n.provision_state.as_str()));
        let is_managed = !self.state_is(&["unmanaged", "levitating"]) || self.host.spec.has_bmc_details();
        match effect {
            Effect::AddFinalizer { .. } => !self.is_deleting,
            // Before a Secret is marked: see `secrets`.
            Effect::NoteSecrets(_) => !self.is_deleting && is_managed,
            Effect::ClaimSecret | Effect::UnclaimSecret | Effect::ClaimNetworkData | Effect::WriteHardwareData(_) => {
                !self.is_deleting && is_managed
            }
            Effect::WriteRamdisk(_) => is_managed,
            // Of what was written: never while it is still to be written.
            Effect::RecordFirmware { .. } | Effect::RecordSettings { .. } => node.is_some() && !self.is_deleting,
            Effect::AttachDisc { .. } => self.is_about_to_start(node, ends),
            Effect::RecordDataImage(_) | Effect::NoteDisc(_) | Effect::DetachDisc { .. } => {
                self.is_about_to_start(node, ends) || self.has_disc_of_last_user(seen, ends)
            }
            // Which one: see `secrets`. What a moved host uses is not known before its status is taken over.
            Effect::ReleaseFormerSecret(_) => {
                !self.is_deleting && self.annotation("baremetalhost.metal3.io/status").is_none()
            }
            Effect::ReleaseHardwareData | Effect::ReleaseRamdisk | Effect::ReleaseSecret | Effect::RemoveFinalizer => {
                let status = self.host.status.clone().unwrap_or_default();
                let is_detached = status.operational_status == OperationalStatus::Detached;
                let is_enrolled_for_it = |n: &Node| Some(&n.uuid) == self.host.metadata.uid.as_ref();
                let is_foreign =
                    node.is_some_and(|n| n.uuid != status.provisioning.id && (is_detached || !is_enrolled_for_it(n)));
                self.is_deleting && (node.is_none_or(|node| is_unproven(seen, node)) || is_foreign)
            }
            // Enrolled for another type of BMC, and never verified.
            Effect::DeleteNode { .. }
                if ends == "registering" && in_state(&["enroll"]) && self.has_another_driver(node) =>
            {
                !self.is_deleting
            }
            Effect::SetMaintenance { .. } | Effect::DeleteNode { .. } => {
                self.is_deleting && self.state == "deleting" || self.is_detached(ends)
            }
            // The last one has no meaning for any program but us, and each is told of, or served, when it goes.
            Effect::RemoveAnnotation { key, value } => {
                self.annotation(key) == Some(value)
                    && [
                        "reboot.metal3.io",
                        "inspect.metal3.io",
                        "inspect.metal3.io/hardwaredetails",
                        "baremetalhost.metal3.io/status",
                    ]
                    .contains(&key.as_str())
            }
            Effect::CreateNode(_) => is_managed && !self.state_is(&["deleting"]),
            Effect::ConfirmHost { .. }
            | Effect::CreatePort { .. }
            | Effect::PatchNode { .. }
            | Effect::ClearMaintenance { .. } => true,
            Effect::SetPortBoot { .. } => in_state(&["enroll", "manageable"]),
            // By what the ramdisk has found, which sees all NICs.
            Effect::DeletePort { .. } => {
                let by = node.and_then(|n| n.detail.as_ref()?.inspect_interface.as_deref());
                in_state(&["manageable"]) && ends == "inspecting" && by == Some("agent")
            }
            Effect::SetTargetRaid { .. } => self.may_prepare() && in_state(&["manageable"]),
            Effect::Power { target, .. } => {
                let is_on = node.map(|n| n.power_state.clone()) == Some(Some(PowerState::On));
                match target {
                    PowerTarget::On => self.host.spec.online && !self.is_deleting && !is_on,
                    PowerTarget::Off | PowerTarget::SoftOff => {
                        !self.host.spec.disable_power_off
                            && (self.is_deleting || !self.host.spec.online || self.wants_reboot(ends))
                    }
                    PowerTarget::Reboot | PowerTarget::SoftReboot => {
                        self.host.spec.disable_power_off && self.wants_reboot(ends) && is_on && !self.is_deleting
                    }
                }
            }
            Effect::Provision { request, .. } => match request.target {
                Verb::Manage => in_state(&["enroll", "available", "clean failed", "inspect failed", "adopt failed"]),
                Verb::Inspect => {
                    // One pass may lead through `available`.
                    let may_be_asked = ["available", "ready", "preparing", "match profile", "deprovisioning"];
                    let is_asked = self.state_is(&may_be_asked)
                        && self.annotation("inspect.metal3.io").is_some_and(|v| v != "disabled");
                    (self.state_is(&["", "unmanaged", "registering", "inspecting"]) || is_asked)
                        && !self.is_deleting
                        && in_state(&["manageable", "inspect failed"])
                }
                Verb::Provide => {
                    in_state(&["manageable"])
                        && (!self.state_is(&["externally provisioned"]) || !self.host.spec.externally_provisioned)
                        && (self.wants_deployment() && !self.is_deleting || self.wants_tear_down())
                }
                Verb::Active => {
                    self.wants_deployment()
                        && request
                            .deploy_steps
                            .iter()
                            .map(|s| s.step.as_str())
                            .eq(method(self.host.spec.custom_deploy.as_ref()))
                        && !self.is_deleting
                        && self.state == "provisioning"
                        && in_state(&["available", "deploy failed"])
                }
                Verb::Deleted if self.is_detached(ends) => in_state(&["wait call-back"]),
                Verb::Deleted => {
                    let states = ["active", "deploy failed", "wait call-back", "error", "service failed"];
                    let restarts = ends == "provisioning" && self.wants_reboot(ends) && in_state(&["wait call-back"]);
                    let ends_it = ends == "powering off before delete" && in_state(&["wait call-back"]);
                    self.state == "deprovisioning" && in_state(&states) || restarts || ends_it
                }
                Verb::Adopt => {
                    self.state_is(&["provisioned", "externally provisioned"]) | self.host.spec.externally_provisioned
                        && !self.is_deleting
                        && in_state(&["manageable", "adopt failed"])
                }
                Verb::Abort => {
                    let stops = self.wants_reboot(ends) || self.wants_no_inspection();
                    let restarts = ends == "inspecting" && stops && in_state(&["inspect wait"]);
                    let given_up = self.state_is(&["provisioned", "externally provisioned"])
                        && in_state(&["service wait", "service failed"]);
                    self.is_deleting || self.is_detached(ends) || restarts || given_up
                }
                Verb::Clean => {
                    let raid = request.clean_steps.iter().any(|s| s.interface == "raid");
                    self.may_prepare()
                        && self.state == "preparing"
                        && in_state(&["manageable"])
                        && (!raid || self.wants_other_raid())
                }
                // At a start, or after an attempt, of what is in use.
                Verb::Service => {
                    let is_off = node.is_some_and(|n| n.power_state == Some(PowerState::Off));
                    let restarts = self.host.spec.disable_power_off && self.wants_reboot(ends);
                    self.state_is(&["provisioned", "externally provisioned"])
                        && !self.is_deleting
                        && !request.service_steps.is_empty()
                        && (in_state(&["service failed"]) || (is_off || restarts) && in_state(&["active"]))
                }
            },
        }
    }
}

/// The table of legal moves, deletion aside.
const MOVES: [(&str, &[&str]); 12] = [
    ("", &["unmanaged", "registering"]),
    ("unmanaged", &["registering"]),
    ("registering", &["inspecting", "preparing", "externally provisioned"]),
    ("match profile", &["preparing"]),
    ("inspecting", &["preparing"]),
    ("preparing", &["available"]),
    (
        "ready",
        &["inspecting", "preparing", "provisioning", "externally provisioned"],
    ),
    (
        "available",
        &["inspecting", "preparing", "provisioning", "externally provisioned"],
    ),
    ("provisioning", &["provisioned", "deprovisioning"]),
    ("provisioned", &["deprovisioning"]),
    ("externally provisioned", &["provisioned"]),
    ("deprovisioning", &["available"]),
];

/// The moves that a deletion adds, or forces.
const LAST_MOVES: [(&str, &[&str]); 15] = [
    ("", &["deleting"]),
    ("unmanaged", &["deleting"]),
    ("registering", &["deleting"]),
    ("match profile", &["powering off before delete"]),
    ("inspecting", &["powering off before delete"]),
    ("preparing", &["powering off before delete"]),
    ("ready", &["powering off before delete"]),
    ("available", &["powering off before delete"]),
    ("externally provisioned", &["powering off before delete"]),
    ("levitating", &["powering off before delete"]),
    ("provisioning", &["deprovisioning"]),
    ("provisioned", &["deprovisioning"]),
    ("deprovisioning", &["powering off before delete", "deleting"]),
    ("powering off before delete", &["deleting"]),
    ("deleting", &[]),
];

/// Whether one pass may lead from one state to another, by way of others.
pub fn can_reach(from: &str, to: &str, is_deleting: bool, is_detached: bool) -> bool {
    if is_deleting && is_detached && to == reference::FROM_ANY.to {
        return true;
    }
    let table: &[(&str, &[&str])] = if is_deleting { &LAST_MOVES } else { &MOVES };
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(state) = reached.get(next) {
        let targets = table
            .iter()
            .find(|(name, _)| name == state)
            .map_or(&[][..], |(_, targets)| targets);
        for target in targets {
            if !reached.contains(target) {
                reached.push(target);
            }
        }
        next += 1;
    }
    reached.contains(&to)
}

/// What users read of moves is what decisions are held against.
#[test]
fn the_declared_moves_are_the_legal_ones() {
    let of = |table: &[(&'static str, &[&'static str])], is_deletion: bool| {
        let mut rows = Vec::new();
        for (from, targets) in table {
            // A state that only a newer operator knows.
            rows.extend(
                targets
                    .iter()
                    .filter(|_| *from != "levitating")
                    .map(|to| (*from, *to, is_deletion)),
            );
        }
        rows
    };
    let mut legal = of(&MOVES, false);
    legal.extend(of(&LAST_MOVES, true));
    legal.sort_unstable();
    let mut declared: Vec<_> = reference::MOVES.iter().map(|m| (m.from, m.to, m.is_deletion)).collect();
    declared.sort_unstable();
    assert_eq!(declared, legal);
}

/// The node was neither enrolled under the host's UID nor marked with it, and its BMC is another than the host's, or has not accepted the
/// credentials of the host's Secret.
fn is_unproven(seen: &Observed, node: &Node) -> bool {
    let wanted = BmcAddress::parse(&seen.host.spec.bmc.address)
        .map(|address| address.driver_info(&Credentials::default(), false))
        .unwrap_or_default();
    let stored = node.detail.as_ref().map(|detail| &detail.driver_info);
    let is_its_bmc = ["redfish_address", "ipmi_address"]
        .iter()
        .any(|key| wanted.contains_key(*key) && stored.and_then(|info| info.get(*key)) == wanted.get(*key));
    let has_accepted = matches!(seen.secret, SecretView::Found(_)) && seen.credential_check == Lookup::Found(Ok(()));
    let uid = seen.host.metadata.uid.as_deref();
    let detail = node.detail.as_ref();
    let mark = detail.and_then(|detail| detail.extra.get("metal3_host_uid")?.as_str());
    Some(node.uuid.as_str()) != uid && (mark.is_none() || mark != uid) && !(is_its_bmc && has_accepted)
}
