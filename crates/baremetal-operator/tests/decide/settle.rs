//! Hosts on the model: they settle in what the specification asks for, with as few calls as it takes, whatever fails on
//! the way, wherever the operator dies, and whoever looks at an old copy.

use std::sync::Arc;
use std::time::Duration;

use baremetal_operator::host::cached::take_hardware;
use baremetal_operator::host::observed::{
    DiscRequest, HardwareView, Lookup, Memory, NodeView, Observed, PowerRequest, SecretView,
};
use baremetal_operator::host::plan::{Decision, Effect, Need, Next, Plan, WaitReason, Wake};
use baremetal_operator::host::{decide, unrecord_restart};
use jiff::SignedDuration;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, DataImage, HardwareDetails};
use metal3_ironic::{Node, PowerState, PowerTarget};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::arbitrary::OTHER_IMAGE;
use crate::model::{Fault, Ironic};
use crate::world::{IMAGE, Sight, World, data_image, host, image, merge, secret, stored, turbo};

/// What an inspection finds: a NIC besides the one that the host boots from.
fn inventory() -> HardwareDetails {
    serde_json::from_value(json!({"hostname": "h", "cpu": {"arch": "x86_64"}, "nics": [{"mac": "52:54:00:00:00:09"}]}))
        .unwrap()
}

/// A host, its Ironic and one operator.
#[derive(Clone)]
struct Site {
    /// As it is stored; none when it is gone.
    host: Option<BareMetalHost>,
    ironic: Ironic,
    memory: Memory,
    secret_is_claimed: bool,
    /// A wish for a BIOS setting, and how often it was edited. Its controller looks at the wish at once, and at the host never
    /// again.
    turbo: Option<(&'static str, i64)>,
    on_reboot: bool,
    /// The wish for a disc, and how often it was edited.
    data_image: Option<DataImage>,
    now: jiff::Timestamp,
    /// The node as the fleet was last listed.
    listed: Option<Node>,
    effects: usize,
    /// The operator dies after this many effects.
    dies_after: Option<usize>,
    /// Every version of the host that was stored.
    history: Vec<BareMetalHost>,
    passes: usize,
    /// Before this pass another operator looks at a copy of the host that is so many versions old.
    intrusion: Option<(usize, usize)>,
}

/// How a pass ended.
#[derive(Debug, PartialEq)]
enum End {
    Next(Next),
    /// Killed, or told that its copy of the host is old, or refused by a lock.
    Cut,
}

impl Site {
    fn new(seed: u64, spec: &Value) -> Self {
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
            secret_is_claimed: false,
            turbo: None,
            on_reboot: false,
            data_image: None,
            now: crate::world::now(),
            listed: None,
            effects: 0,
            dies_after: None,
            passes: 0,
            intrusion: None,
        }
    }

    fn stored(&self) -> &BareMetalHost {
        self.host.as_ref().unwrap()
    }

    /// Changes the stored host; every change is another version.
    fn write(&mut self, change: impl FnOnce(&mut BareMetalHost)) {
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
    fn store(&mut self, decided: &BareMetalHostStatus) {
        let status = stored(self.stored(), decided, self.now);
        self.write(|host| host.status = status);
    }

    /// An edit by the user: what goes, and what comes.
    fn edit(&mut self, less: &Value, more: &Value) {
        self.write(|host| {
            let mut value = serde_json::to_value(&host.spec).unwrap();
            merge(&mut value, less);
            merge(&mut value, more);
            host.spec = serde_json::from_value(value).unwrap();
            host.metadata.generation = host.metadata.generation.map(|g| g + 1);
        });
    }

    fn delete(&mut self) {
        if self.stored().metadata.finalizers.is_none() {
            self.host = None; // nothing keeps it
            return;
        }
        self.write(|host| {
            host.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
            host.metadata.generation = host.metadata.generation.map(|g| g + 1);
        });
    }

    fn world(&self, host: &BareMetalHost) -> World {
        let mut world = World::new(host.clone(), self.ironic.node.clone(), Sight::Listed);
        let version = if self.secret_is_claimed { "8" } else { "7" };
        let mut found = secret(version, 1);
        found.claimed = self.secret_is_claimed;
        world.secret = SecretView::Found(found);
        world.watched_version = Some(version.into());
        world.ports.clone_from(&self.ironic.ports);
        world.inventory = self.ironic.is_inspected.then(inventory);
        world.firmware.settings = self.turbo.map(|(value, edits)| turbo(value, edits, edits));
        world.on_reboot.settings = self.on_reboot;
        world.bios.clone_from(&self.ironic.bios);
        world.data_image.clone_from(&self.data_image);
        world.disc = Ok(self.ironic.disc.is_some());
        world.memory = self.memory.clone();
        world.now = self.now;
        world
    }

    /// One reconciliation, as `host::reconcile` makes it, of this copy of the host.
    fn reconcile(&mut self, cached: &BareMetalHost) -> End {
        let mut seen = self.world(cached).seen();
        let listed = self.listed.clone().map(|node| Node { detail: None, ..node });
        seen.node = listed.map_or(NodeView::Unlisted, |node| NodeView::Listed(Arc::new(node)));
        for _ in 0..12 {
            let plan = self.decide(&mut seen);
            let before = self.host.as_ref().and_then(|host| host.status.clone());
            for effect in &plan.effects {
                let is_applied = if *effect == Effect::ConfirmHost {
                    self.confirm(&mut seen, &plan)
                } else {
                    self.apply(&mut seen, effect)
                };
                if !is_applied {
                    if matches!(effect, Effect::Power { .. }) {
                        self.write(|host| unrecord_restart(host.status.as_mut().unwrap(), before.as_ref()));
                    }
                    return End::Cut;
                }
                self.effects += 1;
                if self.dies_after == Some(self.effects) {
                    self.memory = Memory::default();
                    return End::Cut;
                }
            }
            seen.learn(&plan, self.now);
            if plan.next == Next::Again {
                let mut host = (*seen.host).clone();
                let stored = host.status.replace(plan.status).unwrap_or_default();
                seen.stored_state.get_or_insert(stored.provisioning.state);
                seen.host = Arc::new(host);
                continue;
            }
            self.memory = seen.memory.clone();
            if plan.next != Next::Gone {
                if self.host.as_ref().map(|h| &h.metadata.resource_version)
                    != Some(&seen.host.metadata.resource_version)
                {
                    return End::Cut; // 409
                }
                self.store(&plan.status);
            }
            return End::Next(plan.next);
        }
        panic!("passes without an end")
    }

    fn decide(&mut self, seen: &mut Observed) -> Plan {
        let mut world = self.world(&seen.host);
        if let (Some(known), Some(stored)) = (world.host.status.as_mut(), &self.host) {
            known.hardware = stored.status.as_ref().and_then(|status| status.hardware.clone());
        }
        let mut looks: Vec<Need> = Vec::new();
        loop {
            match decide(seen, self.now) {
                Decision::Act(plan) => return *plan,
                Decision::Look(need) => {
                    assert!(!looks.contains(&need), "{need:?} again");
                    looks.push(need);
                    world.answer(seen, need);
                    if need == Need::LiveNode {
                        // No list shows less than what was read.
                        self.listed.clone_from(&self.ironic.node);
                    }
                }
            }
        }
    }

    /// As `host::confirm`: the intent is stored before the effect, where the status changes anyway.
    fn confirm(&mut self, seen: &mut Observed, plan: &Plan) -> bool {
        let version = |host: &BareMetalHost| host.metadata.resource_version.clone();
        if self.host.as_ref().and_then(version) != version(&seen.host) {
            return false;
        }
        if plan.next == Next::Again {
            return true;
        }
        let mut intent = plan.status.clone();
        if let Some(before) = self.stored().status.as_ref().filter(|s| s.error_type.is_some()) {
            intent.operational_status.clone_from(&before.operational_status);
            intent.error_type.clone_from(&before.error_type);
            intent.error_message.clone_from(&before.error_message);
        }
        self.store(&intent);
        let mut fresh = self.stored().clone();
        take_hardware(&mut fresh);
        seen.host = Arc::new(fresh);
        if let Some(details) = intent.hardware {
            seen.hardware = HardwareView::Known(Arc::new(*details));
        }
        seen.stored_state = None;
        true
    }

    /// False where the effect was refused because somebody else was faster.
    fn apply(&mut self, seen: &mut Observed, effect: &Effect) -> bool {
        let is_current =
            self.host.as_ref().map(|h| &h.metadata.resource_version) == Some(&seen.host.metadata.resource_version);
        let live = |site: &Self| NodeView::Live(Arc::new(site.ironic.node.clone().unwrap()));
        match effect {
            Effect::AddFinalizer => {
                if !is_current {
                    return false;
                }
                self.write(|host| host.metadata.finalizers = Some(vec!["baremetalhost.metal3.io".into()]));
                let mut fresh = self.stored().clone();
                fresh.status.clone_from(&seen.host.status);
                seen.host = Arc::new(fresh);
            }
            Effect::ClaimSecret => {
                self.secret_is_claimed = true;
                seen.secret = SecretView::Found(secret("8", 1));
            }
            Effect::ConfirmHost => panic!("confirmed by itself"),
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
            Effect::RecordDataImage(status) => {
                let Some(image) = &mut self.data_image else {
                    return false;
                };
                image.status = Some((**status).clone());
                seen.data_image = Lookup::Found(Arc::new(image.clone()));
                seen.memory.disc_request = None;
            }
            Effect::ClaimNetworkData
            | Effect::WriteRamdisk(_)
            | Effect::ReleaseRamdisk
            | Effect::WriteHardwareData(_)
            | Effect::RecordFirmware(_)
            | Effect::ReleaseHardwareData
            | Effect::ReleaseSecret
            | Effect::ReleaseFormerSecret(_) => {}
            mutation => {
                if !self.ironic.apply(mutation) {
                    return false;
                }
                match mutation {
                    Effect::CreateNode(_) => {
                        seen.memory.accepted_digest = Some(1);
                        seen.node = live(self);
                        seen.ports = Lookup::NotFound;
                        seen.memory.ports_with = None;
                        seen.reconfigured = true;
                    }
                    Effect::CreatePort { .. } | Effect::EnablePort { .. } => {
                        self.world(&seen.host).answer(seen, Need::Ports);
                    }
                    Effect::PatchNode { ops, .. } => {
                        if ops.iter().any(|op| op.path == "/driver_info") {
                            seen.memory.accepted_digest = Some(1);
                            seen.reconfigured = true;
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

    /// Goes on until nothing is left to do, or says what keeps it.
    fn settle(&mut self) -> Result<(), String> {
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
                End::Next(Next::Settled | Next::Gone) if is_idle => return Ok(()),
                End::Next(Next::Wait(wait)) => match &wait.wake {
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

    /// What the DataImage's own controller does.
    fn release_data_image(&mut self) {
        let is_going = |image: &DataImage| image.metadata.deletion_timestamp.is_some();
        if self.ironic.disc.is_none() && self.data_image.as_ref().is_some_and(is_going) {
            self.data_image = None;
        }
    }

    /// What another operator does that has lost the lease, or that has just got it, and does not know it yet.
    fn intrude(&mut self) {
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

    /// What the specification asks for has come true.
    fn check(&self) {
        let Some(host) = &self.host else {
            assert_eq!(self.ironic.node, None, "a node was left behind");
            return;
        };
        let status = host.status.as_ref().unwrap();
        let is_detached = annotation(host, DETACHED).is_some();
        assert_eq!(status.operational_status.as_str() == "detached", is_detached);
        assert_eq!(annotation(host, STATUS), None, "it is taken over");
        if is_detached {
            assert_eq!(self.ironic.node, None, "it is out of Ironic");
            return;
        }
        // What an image runs on is rebooted, and what is free is inspected; elsewhere the annotations wait for that.
        let served = if status.provisioning.state.as_str() == "provisioned" {
            "reboot.metal3.io"
        } else {
            "inspect.metal3.io"
        };
        assert_eq!(annotation(host, served), None, "{served} is served");
        let node = self.ironic.node.as_ref().unwrap();
        let runs = host.spec.online || is_there(host);
        let image = host.spec.image.as_ref().map(|i| i.url.as_str()).filter(|_| runs);
        let method = host
            .spec
            .custom_deploy
            .as_ref()
            .map(|c| c.method.as_str())
            .filter(|_| runs);
        let wanted = image.or(method);
        let state = status.provisioning.state.as_str();
        assert_eq!(
            state,
            if wanted.is_some() { "provisioned" } else { "available" },
            "{status:?}"
        );
        // Settings are changed while nothing runs.
        if wanted.is_none()
            && let Some((value, _)) = self.turbo
        {
            assert_eq!(self.ironic.bios["Turbo"], value);
        }
        // RAID is set up while nothing runs.
        let raid = host.spec.raid.as_ref().and_then(|r| r.software_raid_volumes.as_ref());
        if wanted.is_none()
            && let Some(volumes) = raid
        {
            let recorded = status
                .provisioning
                .raid
                .as_ref()
                .and_then(|r| r.software_raid_volumes.as_ref());
            assert_eq!(recorded, Some(volumes));
        }
        // Whatever else was written since.
        let found = status.hardware.as_deref();
        assert!(found.is_none_or(|found| *found == inventory()), "{found:?}");
        assert_eq!(found.is_some(), self.ironic.count("inspect") > 0);
        assert_eq!(status.error_type, None, "{status:?}");
        assert_eq!(status.error_count, 0);
        assert_eq!(status.provisioning.image.as_ref().map(|i| i.url.as_str()), image);
        assert_eq!(
            status.provisioning.custom_deploy.as_ref().map(|c| c.method.as_str()),
            method
        );
        let info = &node.detail.as_ref().unwrap().instance_info;
        let deployed = ["metal3_deploy_method", "boot_iso", "image_source"]
            .into_iter()
            .find_map(|key| info.get(key).and_then(Value::as_str));
        // A machine that was taken over does not say what runs on it, and what is written about an available one counts
        // for nothing.
        let is_taken_over = deployed.is_none() && self.ironic.count("adopt") > 0;
        assert!(deployed == wanted || wanted.is_none() || is_taken_over, "{deployed:?}");
        assert_eq!(node.provision_state.as_str() == "active", wanted.is_some());
        let is_held = annotation(host, HOLD).is_some() && state == "provisioned" && !host.spec.disable_power_off;
        assert_eq!(node.power_state == Some(PowerState::On), host.spec.online && !is_held);
        assert_eq!(status.powered_on, host.spec.online && !is_held);
        assert_eq!(status.provisioning.id, node.uuid);
    }

    /// The calls that hurt when repeated.
    fn costly(&self) -> Vec<(&'static str, usize)> {
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

const DETACHED: &str = "baremetalhost.metal3.io/detached";
const HOLD: &str = "reboot.metal3.io/somebody";
const STATUS: &str = "baremetalhost.metal3.io/status";

fn annotation<'h>(host: &'h BareMetalHost, key: &str) -> Option<&'h String> {
    host.metadata.annotations.as_ref()?.get(key)
}

/// An image is on it, which being switched off does not change.
fn is_there(host: &BareMetalHost) -> bool {
    let status = host.status.as_ref().map(|s| &s.provisioning);
    status.is_some_and(|p| p.image.is_some() || p.custom_deploy.is_some())
}

/// What a user does, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Image(&'static str),
    LiveIso(&'static str),
    /// A custom deploy by this method, without an image.
    Custom(&'static str),
    NoImage,
    /// Software RAID over so many volumes, or none.
    Raid(usize),
    /// Nothing is said of RAID any more.
    NoRaid,
    /// A wish for a BIOS setting.
    Turbo(&'static str),
    On,
    Off,
    Delete,
    /// Ironic loses its database.
    Lose,
    Detach,
    Attach,
    Reboot,
    /// Somebody wants it off for a while.
    Hold,
    Release,
    InspectAgain,
    /// A disc for the next start.
    Disc(&'static str),
    NoDisc,
    /// The object is created again elsewhere, with its status in an annotation.
    Move,
}

impl Site {
    fn act(&mut self, act: Act) {
        if self
            .host
            .as_ref()
            .is_none_or(|h| h.metadata.deletion_timestamp.is_some())
        {
            return;
        }
        match act {
            Act::Image(url) => self.edit(
                &json!({"image": null, "customDeploy": null}),
                &json!({"image": image(url)}),
            ),
            Act::LiveIso(url) => self.edit(
                &json!({"image": null, "customDeploy": null}),
                &json!({"image": {"url": url, "format": "live-iso"}}),
            ),
            Act::Custom(method) => {
                self.edit(&json!({"image": null}), &json!({"customDeploy": {"method": method}}));
            }
            Act::NoImage => self.edit(&json!({"image": null, "customDeploy": null}), &json!({})),
            Act::Raid(volumes) => {
                let volumes = vec![json!({"level": "1"}); volumes];
                self.edit(
                    &json!({"raid": null}),
                    &json!({"raid": {"softwareRAIDVolumes": volumes}}),
                );
            }
            Act::Turbo(value) => {
                let edits = self.turbo.map_or(1, |(_, edits)| edits + 1);
                self.turbo = Some((value, edits));
            }
            Act::NoRaid => self.edit(&json!({"raid": null}), &json!({})),
            Act::On => self.edit(&json!({}), &json!({"online": true})),
            Act::Off => self.edit(&json!({}), &json!({"online": false})),
            Act::Delete => self.delete(),
            Act::Lose => self.ironic.lose(),
            Act::Detach => self.annotate(DETACHED, Some("{}")),
            Act::Attach => self.annotate(DETACHED, None),
            Act::Reboot => self.annotate("reboot.metal3.io", Some(r#"{"mode":"soft"}"#)),
            Act::Hold => self.annotate(HOLD, Some("")),
            Act::Release => self.annotate(HOLD, None),
            Act::Disc(url) => {
                let edits = self.data_image.as_ref().and_then(|image| image.metadata.generation);
                let status = json!(
                    self.data_image
                        .as_ref()
                        .and_then(|image| image.status.clone())
                        .unwrap_or_default()
                );
                let mut image = data_image(url, &status);
                image.metadata.generation = Some(edits.unwrap_or_default() + 1);
                self.data_image = Some(image);
            }
            Act::NoDisc => {
                if let Some(image) = &mut self.data_image {
                    image.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
                    image.metadata.generation = image.metadata.generation.map(|g| g + 1);
                }
                self.release_data_image();
            }
            Act::InspectAgain => self.annotate("inspect.metal3.io", Some("")),
            // What has no status yet is only created again.
            Act::Move if self.stored().status.is_none() => {}
            Act::Move => {
                let status = json!(self.stored().status).to_string();
                self.write(|host| host.status = None);
                self.annotate(STATUS, Some(&status));
                self.memory = Memory::default();
            }
        }
    }

    fn annotate(&mut self, key: &str, value: Option<&str>) {
        self.write(|host| {
            let all = host.metadata.annotations.get_or_insert_default();
            match value {
                Some(value) => drop(all.insert(key.to_owned(), value.to_owned())),
                None => drop(all.remove(key)),
            }
        });
    }

    fn live_through(&mut self, acts: &[Act]) {
        self.settle().unwrap();
        self.check();
        for act in acts {
            self.act(*act);
            self.settle().unwrap_or_else(|why| panic!("{act:?}: {why}"));
            self.check();
        }
    }
}

const ISO: &str = "http://images/l.iso";

const LIVES: [&[Act]; 20] = [
    &[Act::Delete],
    &[Act::Image(IMAGE), Act::Delete],
    &[Act::Image(IMAGE), Act::Image(OTHER_IMAGE), Act::NoImage, Act::Delete],
    &[Act::Image(IMAGE), Act::Off, Act::On, Act::Delete],
    &[Act::Off, Act::Image(IMAGE), Act::On, Act::NoImage],
    &[Act::Image(IMAGE), Act::Lose, Act::Delete],
    &[Act::Lose, Act::Image(IMAGE), Act::NoImage, Act::Lose, Act::Delete],
    &[
        Act::LiveIso(ISO),
        Act::Image(IMAGE),
        Act::Lose,
        Act::NoImage,
        Act::Delete,
    ],
    &[
        Act::Custom("install"),
        Act::Custom("replace"),
        Act::LiveIso(ISO),
        Act::Lose,
        Act::Delete,
    ],
    &[Act::Image(IMAGE), Act::Detach, Act::Attach, Act::NoImage, Act::Detach],
    &[Act::Image(IMAGE), Act::Detach, Act::Delete],
    &[Act::Image(IMAGE), Act::Reboot, Act::Reboot, Act::Delete],
    &[
        Act::Image(IMAGE),
        Act::Hold,
        Act::Reboot,
        Act::Release,
        Act::Off,
        Act::Reboot,
    ],
    &[
        Act::InspectAgain,
        Act::Image(IMAGE),
        Act::NoImage,
        Act::InspectAgain,
        Act::Delete,
    ],
    &[Act::Image(IMAGE), Act::Move, Act::Reboot, Act::Delete],
    &[Act::Image(IMAGE), Act::Lose, Act::Move, Act::Lose, Act::Move, Act::Off],
    &[Act::Move, Act::Image(IMAGE), Act::Move, Act::NoImage, Act::Move],
    &[
        Act::Raid(1),
        Act::Image(IMAGE),
        Act::NoImage,
        Act::Raid(2),
        Act::NoRaid,
        Act::Delete,
    ],
    &[
        Act::Turbo("On"),
        Act::Image(IMAGE),
        Act::Turbo("Off"),
        Act::Reboot,
        Act::NoImage,
        Act::Raid(1),
        Act::Turbo("On"),
        Act::Delete,
    ],
    &[
        Act::Raid(1),
        Act::Raid(0),
        Act::Raid(1),
        Act::Raid(2),
        Act::Raid(1),
        Act::Delete,
    ],
];

/// What is never switched off restarts in one go.
const NEVER_OFF: &[Act] = &[
    Act::Image(IMAGE),
    Act::Reboot,
    Act::Hold,
    Act::Reboot,
    Act::Release,
    Act::Hold,
    Act::Release,
];

#[test]
fn a_life_costs_each_call_once() {
    let mut site = Site::new(1, &json!({"online": true}));
    site.live_through(&[Act::Image(IMAGE), Act::Image(OTHER_IMAGE), Act::NoImage, Act::Delete]);
    let mut expected = vec![
        ("create node", 1),
        // The NIC that the host boots from, and the one that inspection finds.
        ("create port", 2),
        ("inspect", 1),
        ("provide", 1),
        ("clean", 0),
        ("service", 0),
        ("active", 2),
    ];
    expected.extend([
        ("deleted", 2),
        ("adopt", 0),
        ("power on", 2),
        ("power off", 1),
        ("reboot", 0),
        ("attach disc", 0),
        ("detach disc", 0),
        ("delete node", 1),
    ]);
    assert_eq!(site.costly(), expected, "{:?}", site.ironic.log);
}

/// The operator dies after any one effect, with the status unwritten and all memory lost: the end and the costs are the
/// same as if it had lived.
#[rstest]
fn death_after_any_effect_costs_nothing(
    #[values(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19)] life: usize,
) {
    die_everywhere(LIVES[life], &json!({}));
}

/// What may be serviced is changed at its next start, and only then.
const SERVICED: &[Act] = &[
    Act::Image(IMAGE),
    Act::Turbo("On"),
    Act::Reboot,
    Act::Reboot,
    Act::Turbo("Off"),
    Act::Off,
    Act::On,
    Act::Delete,
];

#[test]
fn a_service_is_done_once_at_the_next_start() {
    let serviced = |dies_after| {
        let mut site = Site::new(7, &json!({}));
        site.on_reboot = true;
        site.dies_after = dies_after;
        site.live_through(SERVICED);
        site
    };
    let unharmed = serviced(None);
    assert_eq!(unharmed.ironic.count("service"), 2);
    assert_eq!(unharmed.ironic.bios["Turbo"], "Off");
    for n in 1..=unharmed.effects {
        let site = serviced(Some(n));
        assert_eq!(
            site.costly(),
            unharmed.costly(),
            "died after effect {n}: {:?}",
            site.ironic.log
        );
    }
}

const DISC: &str = "http://images/d.iso";
const OTHER_DISC: &str = "http://images/e.iso";

/// Discs are changed at the next start, and only then.
const DISCS: &[(Act, Option<&str>)] = &[
    (Act::Image(IMAGE), None),
    (Act::Disc(DISC), None),
    (Act::Reboot, Some(DISC)),
    (Act::Reboot, Some(DISC)),
    (Act::Disc(OTHER_DISC), Some(DISC)),
    (Act::Reboot, Some(OTHER_DISC)),
    (Act::NoDisc, Some(OTHER_DISC)),
    (Act::Reboot, None),
];

#[rstest]
#[case::switched_off(&json!({}))]
#[case::never_switched_off(&json!({"disablePowerOff": true}))]
fn a_disc_is_changed_once_at_the_next_start(#[case] spec: &Value) {
    let lived = |dies_after| {
        let mut site = Site::new(7, spec);
        site.dies_after = dies_after;
        site.settle().unwrap();
        for (act, disc) in DISCS {
            site.act(*act);
            site.settle().unwrap_or_else(|why| panic!("{act:?}: {why}"));
            site.check();
            assert_eq!(site.ironic.disc.as_deref(), *disc, "after {act:?}");
        }
        site
    };
    let unharmed = lived(None);
    assert_eq!(unharmed.ironic.count("attach disc"), 2);
    assert_eq!(unharmed.ironic.count("detach disc"), 2);
    for n in 1..=unharmed.effects {
        let site = lived(Some(n));
        assert_eq!(
            site.costly(),
            unharmed.costly(),
            "died after effect {n}: {:?}",
            site.ironic.log
        );
    }
}

/// What could not be attached is told on the DataImage, tried again later, and keeps the host off meanwhile.
#[test]
fn a_disc_that_fails_is_tried_again_before_the_start() {
    let mut site = Site::new(7, &json!({}));
    site.live_through(&[Act::Image(IMAGE), Act::Disc(DISC)]);
    site.ironic.faults.insert(Fault::Disc, 3);
    site.act(Act::Reboot);
    let begin = site.now;
    site.settle().unwrap();
    site.check();
    assert_eq!(site.ironic.disc.as_deref(), Some(DISC));
    assert_eq!(site.ironic.count("attach disc"), 4);
    assert!(
        site.now.duration_since(begin) > SignedDuration::from_mins(4),
        "there are pauses between"
    );
    let status = site.data_image.unwrap().status.unwrap();
    assert_eq!((status.attached_image.url.as_str(), status.error.count), (DISC, 0));
}

/// A service restarts a host that is never switched off: it counts as the restart that was asked for.
#[test]
fn a_service_is_the_restart_of_what_is_never_off() {
    let lived = |dies_after| {
        let mut site = Site::new(7, &json!({"disablePowerOff": true}));
        site.on_reboot = true;
        site.dies_after = dies_after;
        site.live_through(&[Act::Image(IMAGE), Act::Turbo("On"), Act::Reboot, Act::Reboot]);
        site
    };
    let unharmed = lived(None);
    assert_eq!(unharmed.ironic.count("service"), 1);
    assert_eq!(unharmed.ironic.count("reboot"), 1, "for the second annotation");
    assert_eq!(unharmed.ironic.bios["Turbo"], "On");
    for n in 1..=unharmed.effects {
        let site = lived(Some(n));
        assert_eq!(
            site.costly(),
            unharmed.costly(),
            "died after effect {n}: {:?}",
            site.ironic.log
        );
    }
}

#[test]
fn death_costs_no_restart_of_what_is_never_off() {
    let site = die_everywhere(NEVER_OFF, &json!({"disablePowerOff": true}));
    assert_eq!(site.ironic.count("reboot"), 4, "one for each annotation");
    assert_eq!(site.ironic.count("power off"), 0);
}

/// Ironic refuses a restart while somebody else holds the node, and the lock leaves its trace in the node's record.
#[test]
fn a_lock_costs_no_restart_of_what_is_never_off() {
    for seed in 0..40 {
        let mut site = Site::new(seed, &json!({"disablePowerOff": true}));
        site.ironic.has_locks = true;
        site.live_through(NEVER_OFF);
        assert_eq!(site.ironic.count("reboot"), 4, "seed {seed}: one for each annotation");
    }
}

fn die_everywhere(acts: &[Act], spec: &Value) -> Site {
    let mut unharmed = Site::new(7, spec);
    unharmed.live_through(acts);
    for n in 1..=unharmed.effects {
        let mut site = Site::new(7, spec);
        site.dies_after = Some(n);
        site.live_through(acts);
        assert_eq!(
            site.costly(),
            unharmed.costly(),
            "died after effect {n}: {:?}",
            site.ironic.log
        );
    }
    unharmed
}

/// Somebody acts on an old copy of the host: nothing is deployed, torn down or removed that would not be anyway.
#[rstest]
fn an_old_copy_does_no_harm(
    #[values(0, 1, 2, 3, 4, 8, 9, 11, 17, 18)] life: usize,
    #[values(1, 2, 3, 5, 8)] age: usize,
) {
    let acts = LIVES[life];
    let mut alone = Site::new(7, &json!({}));
    alone.live_through(acts);
    let harm = [
        "create node",
        "clean",
        "active",
        "deleted",
        "delete node",
        "inspect",
        "adopt",
        "reboot",
    ];
    let mut found = Vec::new();
    for pass in 2..=alone.passes {
        let mut site = Site::new(7, &json!({}));
        site.intrusion = Some((pass, age));
        site.live_through(acts);
        let count = |site: &Site| harm.map(|what| (what, site.ironic.count(what)));
        if count(&site) != count(&alone) {
            found.push(format!("before pass {pass}: {:?}", site.ironic.log));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        Just(Act::Image(IMAGE)),
        Just(Act::Image(OTHER_IMAGE)),
        Just(Act::LiveIso(ISO)),
        Just(Act::Custom("install")),
        Just(Act::Custom("replace")),
        Just(Act::NoImage),
        (0..3_usize).prop_map(Act::Raid),
        Just(Act::NoRaid),
        Just(Act::Turbo("On")),
        Just(Act::Turbo("Off")),
        Just(Act::On),
        Just(Act::Off),
        Just(Act::Lose),
        Just(Act::Delete),
        Just(Act::Detach),
        Just(Act::Attach),
        Just(Act::Reboot),
        Just(Act::Hold),
        Just(Act::Release),
        Just(Act::InspectAgain),
        Just(Act::Disc(DISC)),
        Just(Act::Disc(OTHER_DISC)),
        Just(Act::NoDisc),
        Just(Act::Move),
    ];
    prop::collection::vec(act, 1..5)
}

fn faults() -> impl Strategy<Value = Vec<(Fault, u32)>> {
    let kind = prop_oneof![
        Just(Fault::Verify),
        Just(Fault::Inspect),
        Just(Fault::Clean),
        Just(Fault::Deploy),
        Just(Fault::Adopt),
        Just(Fault::Power),
        Just(Fault::TearDown),
        Just(Fault::Service),
        Just(Fault::Disc),
    ];
    prop::collection::vec((kind, 1..3_u32), 0..3)
}

proptest! {
    #![proptest_config(crate::cases(400))]

    /// Any life with delays, locks, faults and one death.
    #[test]
    fn any_life_settles(seed in any::<u64>(), acts in acts(), faults in faults(), death in prop::option::of(1..40_usize)) {
        let mut site = Site::new(seed, &json!({}));
        site.ironic.has_locks = true;
        site.ironic.faults = faults.into_iter().collect();
        site.dies_after = death;
        site.live_through(&acts);
    }

    /// Users change their mind while something runs.
    #[test]
    fn changes_of_mind_settle(seed in any::<u64>(), acts in acts(), pauses in prop::collection::vec(0..25_usize, 5)) {
        let mut site = Site::new(seed, &json!({}));
        for (act, pause) in acts.iter().zip(pauses) {
            for _ in 0..pause {
                let Some(host) = site.host.clone() else { break };
                site.listed.clone_from(&site.ironic.node);
                site.reconcile(&host);
                site.now += SignedDuration::from_secs(6);
                site.ironic.tick();
            }
            site.act(*act);
        }
        if let Err(why) = site.settle() {
            return Err(TestCaseError::fail(why));
        }
        site.check();
    }
}
