//! A host, its Ironic and its operator, as the loop of passes has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use baremetal_operator::host::cached::take_hardware;
use baremetal_operator::host::firmware::{Kinds, Made, components};
use baremetal_operator::host::named_url::DeniedRanges;
use baremetal_operator::host::observed::{
    DiscRequest, HardwareView, Lookup, Memory, NetworkDataView, NodeView, Observed, PowerRequest, SecretFound,
    SecretView,
};
use baremetal_operator::host::plan::{Decision, Effect, Intent, Read, Then, WaitReason, Wake};
use baremetal_operator::host::{decide, disc, held, unrecord_restart};
use jiff::SignedDuration;
use kube::ResourceExt;
use metal3_api::metal3::names::annotation::{DETACHED, LEFT_DISC};
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, DataImage, HardwareDetails, HostFirmwareComponents};
use metal3_ironic::{Node, PowerTarget, Verb};
use serde_json::{Value, json};

use crate::model::Ironic;
use crate::world::{Plan, Sight, World, host, merge, network_data, note, secret, stored, turbo};

/// What an inspection finds: a NIC besides the one that the host boots from.
pub(super) fn inventory() -> HardwareDetails {
    serde_json::from_value(json!({"hostname": "h", "cpu": {"arch": "x86_64"}, "nics": [{"mac": "52:54:00:00:00:09"}]}))
        .unwrap()
}

/// Applies the note of a disc to a host.
fn merge_note(host: &mut BareMetalHost, patch: &Value) {
    let annotations = host.metadata.annotations.get_or_insert_default();
    match patch["metadata"]["annotations"][LEFT_DISC].as_str() {
        Some(note) => drop(annotations.insert(LEFT_DISC.to_owned(), note.to_owned())),
        None => drop(annotations.remove(LEFT_DISC)),
    }
}

/// A host, its Ironic and one operator.
#[derive(Clone)]
pub(super) struct Site {
    /// As it is stored; none when it is gone.
    pub(super) host: Option<BareMetalHost>,
    pub(super) ironic: Ironic,
    pub(super) memory: Memory,
    /// The Secrets with the operator's marks, and how often the marks of each were changed, which gives it another version.
    pub(super) marked: BTreeSet<String>,
    pub(super) secret_changes: BTreeMap<String, u32>,
    /// The operator may patch Secrets.
    pub(super) may_claim_unread: bool,
    /// A wish for a BIOS setting, and how often it was edited. Its controller looks at the wish at once, and at the host never
    /// again.
    pub(super) turbo: Option<(&'static str, i64)>,
    /// A wish for firmware, and what was made of it. Its controller looks at it at once.
    pub(super) components: Option<HostFirmwareComponents>,
    pub(super) on_reboot: bool,
    /// Inspection was switched off for a while.
    pub(super) was_uninspected: bool,
    /// The wish for a disc, and how often it was edited.
    pub(super) data_image: Option<DataImage>,
    pub(super) now: jiff::Timestamp,
    /// The node as the fleet was last listed.
    pub(super) listed: Option<Node>,
    pub(super) effects: usize,
    /// The operator dies after this many effects.
    pub(super) dies_after: Option<usize>,
    /// Every version of the host that was stored.
    pub(super) history: Vec<BareMetalHost>,
    pub(super) passes: usize,
    /// Before this pass another operator looks at a copy of the host that is so many versions old.
    pub(super) intrusion: Option<(usize, usize)>,
}

/// How a pass ended.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    Then(Then),
    /// Killed, or told that its copy of the host is old, or refused by a lock.
    Cut,
}

impl Site {
    pub(super) fn new(seed: u64, spec: &Value) -> Self {
        let mut fresh = host(
            "",
            &json!({"status": null, "metadata": {"finalizers": null, "generation": 1}}),
        );
        let mut value = serde_json::to_value(&fresh.spec).unwrap();
        merge(&mut value, spec);
        fresh.spec = serde_json::from_value(value).unwrap();
        Self {
            history: vec![fresh.clone()],
            host: Some(fresh),
            ironic: Ironic::new(seed),
            memory: Memory::default(),
            marked: BTreeSet::new(),
            secret_changes: BTreeMap::new(),
            may_claim_unread: seed.is_multiple_of(2),
            turbo: None,
            components: None,
            on_reboot: false,
            was_uninspected: false,
            data_image: None,
            now: crate::world::now(),
            listed: None,
            effects: 0,
            dies_after: None,
            passes: 0,
            intrusion: None,
        }
    }

    pub(super) fn stored(&self) -> &BareMetalHost {
        self.host.as_ref().unwrap()
    }

    /// Changes the stored host; every change is another version.
    pub(super) fn write(&mut self, change: impl FnOnce(&mut BareMetalHost)) {
        let host = self.host.as_mut().unwrap();
        let before = host.clone();
        change(host);
        if *host == before {
            return;
        }
        let version: u64 = host.metadata.resource_version.as_ref().unwrap().parse().unwrap();
        host.metadata.resource_version = Some((version + 1).to_string());
        self.history.push(host.clone());
    }

    /// Stores what was decided, as the API server does with the operator's patch.
    pub(super) fn store(&mut self, decided: &BareMetalHostStatus) {
        let status = stored(self.stored(), decided, self.now);
        self.write(|host| host.status = status);
    }

    /// An edit by the user: what goes, and what comes.
    pub(super) fn edit(&mut self, less: &Value, more: &Value) {
        self.write(|host| {
            let mut value = serde_json::to_value(&host.spec).unwrap();
            merge(&mut value, less);
            merge(&mut value, more);
            host.spec = serde_json::from_value(value).unwrap();
            host.metadata.generation = host.metadata.generation.map(|g| g + 1);
        });
    }

    pub(super) fn delete(&mut self) {
        if self.stored().metadata.finalizers.is_none() {
            self.host = None; // nothing keeps it
            return;
        }
        self.write(|host| {
            host.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
            host.metadata.generation = host.metadata.generation.map(|g| g + 1);
        });
    }

    fn version_of(&self, secret: &str) -> String {
        let changes = self.secret_changes.get(secret).copied().unwrap_or_default();
        format!("{secret}-{changes}")
    }

    /// The credentials that a host names. Each Secret has others.
    fn credentials(&self, host: &BareMetalHost) -> SecretFound {
        let name = &host.spec.bmc.credentials_name;
        let mut found = secret(&self.version_of(name), name.bytes().map(u64::from).sum());
        found.claimed = self.marked.contains(name);
        found
    }

    fn network_data(&self, host: &BareMetalHost) -> NetworkDataView {
        let name = &host.spec.preprovisioning_network_data_name;
        if name.is_empty() {
            return NetworkDataView::NotLooked {
                version: None,
                claimed: false,
            };
        }
        network_data(&self.version_of(name), self.marked.contains(name))
    }

    fn set_marked(&mut self, secret: &str, is_marked: bool) {
        let is_change = if is_marked {
            self.marked.insert(secret.to_owned())
        } else {
            self.marked.remove(secret)
        };
        if is_change {
            *self.secret_changes.entry(secret.to_owned()).or_default() += 1;
        }
    }

    /// Marks a Secret, which the host must say before.
    fn mark(&mut self, secret: &str, is_current: bool) {
        let host = self.stored();
        let is_noted = held::names(host).contains(secret) || held::given(host).any(|given| given == secret);
        assert!(
            is_noted || !is_current,
            "{secret} is marked, and nobody would know it after a death"
        );
        self.set_marked(secret, true);
    }

    /// A change of the host's metadata by the operator, which goes on with what it has decided; false where its copy is old.
    fn write_metadata(&mut self, seen: &mut Observed, change: impl FnOnce(&mut BareMetalHost)) -> bool {
        if self.host.as_ref().map(|h| &h.metadata.resource_version) != Some(&seen.host.metadata.resource_version) {
            return false;
        }
        self.write(change);
        let mut fresh = self.stored().clone();
        fresh.status.clone_from(&seen.host.status);
        seen.host = Arc::new(fresh);
        true
    }

    pub(super) fn world(&self, host: &BareMetalHost) -> World {
        let mut world = World::new(host.clone(), self.ironic.node.clone(), Sight::Listed);
        let found = self.credentials(host);
        world.watched_version = Some(found.version.clone());
        world.secret = SecretView::Found(found);
        world.network_data = self.network_data(host);
        world.may_claim_unread = self.may_claim_unread;
        world.ports.clone_from(&self.ironic.ports);
        world.inventory = self.ironic.is_inspected.then(inventory);
        world.firmware.settings = self.turbo.map(|(value, edits)| turbo(value, edits, edits));
        world.firmware.updates.clone_from(&self.components);
        world.on_reboot = Kinds {
            settings: self.on_reboot,
            updates: self.on_reboot,
        };
        world.bios.clone_from(&self.ironic.bios);
        world.data_image.clone_from(&self.data_image);
        world.disc = Ok(self.ironic.disc.is_some());
        world.memory = self.memory.clone();
        world.now = self.now;
        world
    }

    /// One reconciliation, as `host::reconcile` makes it, of this copy of the host.
    pub(super) fn reconcile(&mut self, cached: &BareMetalHost) -> End {
        let mut seen = self.world(cached).seen();
        let listed = self.listed.clone().map(|node| Node { detail: None, ..node });
        seen.node = listed.map_or(NodeView::Unlisted, |node| NodeView::Listed(Arc::new(node)));
        for _ in 0..12 {
            let plan = self.decide(&mut seen);
            let (effects, afterwards) = plan.effects.split_at(plan.before_report);
            if !self.carry_out(&mut seen, effects) {
                return End::Cut;
            }
            plan.teach(&mut seen, self.now);
            if plan.then == Then::Again {
                seen.carry(plan.status);
                continue;
            }
            self.memory = seen.memory.clone();
            if plan.then != Then::Gone && !self.report(&mut seen, &plan.status) {
                return End::Cut; // 409
            }
            if !self.carry_out(&mut seen, afterwards) {
                return End::Cut;
            }
            self.memory = seen.memory.clone();
            return End::Then(plan.then);
        }
        panic!("passes without an end")
    }

    /// False where an effect failed, or the operator died.
    fn carry_out(&mut self, seen: &mut Observed, effects: &[Effect]) -> bool {
        let before = self.host.as_ref().and_then(|host| host.status.clone());
        for effect in effects {
            let is_applied = if let Effect::ConfirmHost { intent } = effect {
                self.confirm(seen, intent.as_deref())
            } else {
                self.apply(seen, effect)
            };
            if !is_applied {
                if matches!(effect, Effect::Power { .. }) {
                    self.write(|host| unrecord_restart(host.status.as_mut().unwrap(), before.as_ref()));
                }
                return false;
            }
            self.effects += 1;
            if self.dies_after == Some(self.effects) {
                self.memory = Memory::default();
                return false;
            }
        }
        true
    }

    pub(super) fn decide(&mut self, seen: &mut Observed) -> Plan {
        let mut world = self.world(&seen.host);
        if let (Some(known), Some(stored)) = (world.host.status.as_mut(), &self.host) {
            known.hardware = stored.status.as_ref().and_then(|status| status.hardware.clone());
        }
        let mut reads: Vec<Read> = Vec::new();
        loop {
            match decide(seen, self.now) {
                Decision::Act(plan) => return Plan::of(*plan),
                Decision::Fetch(need) => {
                    assert!(!reads.contains(&need), "{need:?} again");
                    reads.push(need);
                    world.answer(seen, need);
                    if need == Read::LiveNode {
                        // No list shows less than what was read.
                        self.listed.clone_from(&self.ironic.node);
                    }
                }
            }
        }
    }

    /// The intent is stored before the effect, where the status changes anyway.
    fn confirm(&mut self, seen: &mut Observed, intent: Option<&Intent>) -> bool {
        match intent {
            Some(intent) => self.report(seen, &intent.status),
            None => self.is_current(seen),
        }
    }

    fn is_current(&self, seen: &Observed) -> bool {
        let version = |host: &BareMetalHost| host.metadata.resource_version.clone();
        self.host.as_ref().and_then(version) == version(&seen.host)
    }

    /// Stores a status over the version that was judged; false where that is old.
    fn report(&mut self, seen: &mut Observed, status: &BareMetalHostStatus) -> bool {
        if !self.is_current(seen) {
            return false;
        }
        self.store(status);
        let mut fresh = self.stored().clone();
        take_hardware(&mut fresh);
        seen.stored = fresh.status.clone().map(Arc::new);
        seen.host = Arc::new(fresh);
        if let Some(details) = &status.hardware {
            seen.hardware = HardwareView::Known(Arc::new((**details).clone()));
        }
        true
    }

    /// False where the effect was refused because somebody else was faster.
    pub(super) fn apply(&mut self, seen: &mut Observed, effect: &Effect) -> bool {
        let is_current =
            self.host.as_ref().map(|h| &h.metadata.resource_version) == Some(&seen.host.metadata.resource_version);
        let live = |site: &Self| NodeView::Live(Arc::new(site.ironic.node.clone().unwrap()));
        match effect {
            Effect::AddFinalizer { secrets } => {
                return self.write_metadata(seen, |host| {
                    host.metadata.finalizers = Some(vec!["baremetalhost.metal3.io".into()]);
                    note(host, secrets);
                });
            }
            Effect::NoteSecrets(secrets) => return self.write_metadata(seen, |host| note(host, secrets)),
            Effect::ClaimSecret => {
                self.mark(&seen.host.spec.bmc.credentials_name, is_current);
                seen.secret = SecretView::Found(self.credentials(&seen.host));
            }
            Effect::ClaimNetworkData => {
                self.mark(&seen.host.spec.preprovisioning_network_data_name, is_current);
                seen.network_data = self.network_data(&seen.host);
            }
            Effect::ReleaseFormerSecret(name) => {
                let is_wanted = held::wanted(self.stored()).any(|wanted| wanted == name);
                assert!(!is_wanted, "{name} is let go, and the specification names it");
                self.set_marked(name, false);
                let mut names = held::names(&seen.host);
                names.remove(name);
                return self.write_metadata(seen, |host| note(host, &names));
            }
            Effect::ReleaseSecret => {
                for name in held::all(&seen.host) {
                    self.set_marked(&name, false);
                }
            }
            Effect::UnclaimSecret => self.set_marked(&seen.host.spec.bmc.credentials_name.clone(), false),
            Effect::ConfirmHost { .. } => panic!("confirmed by itself"),
            Effect::RemoveAnnotation { key, value } => {
                let annotations = self.stored().metadata.annotations.clone().unwrap_or_default();
                if annotations.get(key) != Some(value) {
                    return false;
                }
                self.write(|host| drop(host.metadata.annotations.as_mut().unwrap().remove(key)));
                let mut fresh = self.stored().clone();
                fresh.status.clone_from(&seen.host.status);
                seen.host = Arc::new(fresh);
            }
            Effect::RemoveFinalizer => self.host = None,
            Effect::RecordDataImage(record) => {
                let Some(image) = &mut self.data_image else {
                    return false;
                };
                image.status = Some(record.status.clone());
                seen.data_image = Lookup::Found(Arc::new(image.clone()));
                seen.memory.disc_request = None;
                seen.memory.disc_failure = record.failure;
            }
            Effect::RecordFirmware { updates, .. } => {
                if let Some(object) = &mut self.components {
                    object.status.get_or_insert_default().updates.clone_from(updates);
                }
                self.judge_components();
                let written = self.components.clone();
                seen.learn_firmware_objects(|objects| objects.updates = written);
            }
            Effect::NoteDisc(record) => {
                let patch = disc::noted(&seen.host, &record.status);
                if !self.write_metadata(seen, |host| merge_note(host, &patch)) {
                    return false;
                }
                seen.learn_note(record);
            }
            Effect::WriteRamdisk(_)
            | Effect::ReleaseRamdisk
            | Effect::WriteHardwareData(_)
            | Effect::RecordSettings { .. }
            | Effect::ReleaseHardwareData => {}
            mutation => {
                if !self.ironic.apply(mutation) {
                    return false;
                }
                match mutation {
                    Effect::CreateNode(_) => {
                        seen.memory.accepted_digest = Some(self.credentials(&seen.host).digest);
                        seen.node = live(self);
                        seen.ports = Lookup::NotFound;
                        seen.memory.ports_with = None;
                        seen.reconfigured = true;
                    }
                    Effect::CreatePort { .. } | Effect::SetPortBoot { .. } | Effect::DeletePort { .. } => {
                        self.world(&seen.host).answer(seen, Read::Ports);
                    }
                    Effect::PatchNode { ops, .. } => {
                        if ops.iter().any(|op| op.path == "/driver_info") {
                            seen.memory.accepted_digest = Some(self.credentials(&seen.host).digest);
                            seen.reconfigured = true;
                        }
                        if ops.iter().any(|op| op.path == "/network_data") {
                            seen.memory.network_data = seen.network_data.version().map(str::to_owned);
                        }
                        if ops.iter().any(|op| op.path == "/instance_info/image_pull_secret") {
                            seen.memory.sent_pull_secret = Some(5);
                        }
                        seen.node = live(self);
                    }
                    Effect::Power { target, .. } => {
                        let on = *target == PowerTarget::On;
                        seen.memory.power_request = Some(PowerRequest { on });
                        seen.memory.disc_request = None;
                    }
                    Effect::Provision { request, .. } if request.target == Verb::Service => {
                        seen.memory.disc_request = None;
                    }
                    Effect::AttachDisc { .. } | Effect::DetachDisc { .. } => {
                        let is_attached = matches!(mutation, Effect::AttachDisc { .. });
                        seen.memory.disc_request = Some(if is_attached {
                            DiscRequest::Attach
                        } else {
                            DiscRequest::Detach
                        });
                        seen.disc = Lookup::NotLooked;
                        if let NodeView::Live(node) = &seen.node {
                            seen.node = NodeView::Listed(node.clone());
                        }
                    }
                    Effect::SetMaintenance { .. } | Effect::ClearMaintenance { .. } | Effect::SetTargetRaid { .. } => {
                        if let NodeView::Live(node) = &seen.node {
                            seen.node = NodeView::Listed(node.clone());
                        }
                    }
                    Effect::DeleteNode { .. } => {
                        seen.node = NodeView::Gone;
                        seen.ports = Lookup::NotFound;
                        seen.boot_mac_owner = Lookup::NotLooked;
                        seen.memory = Memory::default();
                    }
                    _ => {}
                }
            }
        }
        true
    }

    /// So many passes, whether there is something to do or not.
    pub(super) fn pass(&mut self, passes: usize) {
        for _ in 0..passes {
            let Some(host) = self.host.clone() else { break };
            self.listed.clone_from(&self.ironic.node);
            self.reconcile(&host);
            self.now += SignedDuration::from_secs(6);
            self.ironic.tick();
        }
    }

    /// Goes on until nothing is left to do, or says what keeps it.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let mut idle_waits = 0;
        for _ in 0..600 {
            let Some(current) = self.host.clone() else {
                return Ok(());
            };
            if !self.ironic.one_in(4) {
                self.listed.clone_from(&self.ironic.node);
            }
            self.passes += 1;
            self.intrude();
            let is_fresh = self.listed == self.ironic.node;
            let end = self.reconcile(&current);
            let is_idle = self.ironic.is_idle() && is_fresh;
            let mut pause = Duration::from_secs(5);
            match &end {
                End::Then(Then::Idle | Then::Gone) if is_idle => return Ok(()),
                End::Then(Then::Wait(wait)) => match &wait.wake {
                    // What the user asked for, for as long as he does.
                    Wake::Change if matches!(wait.reason, WaitReason::Detached | WaitReason::RebootAnnotation) => {
                        if is_idle {
                            return Ok(());
                        }
                    }
                    Wake::Change => return Err(format!("{:?}: {}", wait.reason, wait.message)),
                    Wake::After(after) if is_idle => pause = *after,
                    // The call that the plan made moves the node; a node that is at rest then moves for nobody.
                    Wake::Node | Wake::NodeOr(_) if is_idle => {
                        idle_waits += 1;
                        if idle_waits > 20 {
                            return Err(format!("waits for a node at rest: {:?}: {}", wait.reason, wait.message));
                        }
                    }
                    _ => idle_waits = 0,
                },
                _ => idle_waits = 0,
            }
            self.now += SignedDuration::try_from(pause).unwrap() + SignedDuration::from_secs(1);
            self.ironic.tick();
            self.release_data_image();
        }
        Err(format!(
            "does not settle: {:?} {:?}",
            self.host.as_ref().and_then(|h| h.status.clone()),
            self.ironic.node
        ))
    }

    /// What the host says of a disc that no DataImage records.
    pub(super) fn note_of_disc(&self) -> Option<&str> {
        let annotations = self.stored().metadata.annotations.as_ref()?;
        annotations.get(LEFT_DISC).map(String::as_str)
    }

    /// What the controller of HostFirmwareComponents says of the wish for firmware.
    pub(super) fn judge_components(&mut self) {
        if let Some(object) = &mut self.components {
            let judged = components::status(object, Vec::new(), &DeniedRanges::default(), Made::No(""), self.now);
            object.status = Some(judged);
        }
    }

    /// What the DataImage's own controller does: it looks into the drive, unless the host is detached.
    pub(super) fn release_data_image(&mut self) {
        let is_going = |image: &&DataImage| image.metadata.deletion_timestamp.is_some();
        let Some(image) = self.data_image.as_ref().filter(is_going) else {
            return;
        };
        let is_detached = |host: &BareMetalHost| host.annotations().contains_key(DETACHED);
        let Some(host) = self.host.as_ref() else {
            self.data_image = None;
            return;
        };
        if self.ironic.disc.is_some() && !is_detached(host) {
            return;
        }
        let recorded = image
            .status
            .as_ref()
            .is_some_and(|status| !status.attached_image.url.is_empty());
        if let Some(patch) = recorded.then(|| disc::note_of(image, host)).flatten() {
            self.write(|host| merge_note(host, &patch));
        }
        self.data_image = None;
    }

    /// What another operator does that has lost the lease, or that has just got it, and does not know it yet.
    pub(super) fn intrude(&mut self) {
        let Some((pass, age)) = self.intrusion else { return };
        let Some(old) = self.history.len().checked_sub(1 + age).filter(|_| pass == self.passes) else {
            return;
        };
        let old = self.history[old].clone();
        let ours = (self.memory.clone(), self.effects, self.listed.clone());
        self.memory = Memory::default();
        self.listed.clone_from(&self.ironic.node);
        self.reconcile(&old);
        (self.memory, self.effects, self.listed) = ours;
    }

    /// The calls that hurt when repeated.
    pub(super) fn costly(&self) -> Vec<(&'static str, usize)> {
        let all = [
            "create node",
            "create port",
            "inspect",
            "provide",
            "clean",
            "service",
            "active",
            "deleted",
            "adopt",
            "power on",
            "power off",
            "reboot",
            "attach disc",
            "detach disc",
            "delete node",
        ];
        all.into_iter().map(|what| (what, self.ironic.count(what))).collect()
    }
}
