//! What this process remembers of hosts between passes: one entry for each host, behind one lock. All of it may be lost
//! without harm.
//!
//! Any event triggers a pass: our own status write comes back through the watch, and one change of a node can cause
//! several events. If all cached state is as the last pass left it, there is nothing to decide before the time that the
//! last pass set, and no call is made. [`AtHand::of`] lists what is compared.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use metal3_ironic::Node;
use metal3_runtime::store::ObjectKey;
use parking_lot::Mutex;

use super::checks::Checks;
use super::observed::{
    DataImageAtHand, DeploymentSecrets, Memory, NetworkDataView, NodeView, Observed, Outage, SecretView,
};
use super::{firmware, waits::Waiting};

/// The memories of all hosts.
#[derive(Debug, Default)]
pub struct Memories(Mutex<HashMap<ObjectKey, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    /// The UID of the host. A host that is created anew under the name inherits nothing.
    uid: Option<String>,
    /// The part that decisions read.
    memory: Memory,
    /// The host's ramdisk has changed since `memory` was read: a pass in progress would write back the old state.
    has_new_ramdisk: bool,
    /// The number of passes in a row that met trouble with Ironic or the Kubernetes API.
    failures: u32,
    /// How often the host was woken regardless of changes.
    wakes: u64,
    /// The value of `wakes` when the current pass began.
    heard: u64,
    /// The cached state at the last end, and how long the host may stay idle if it does not change.
    idle: Option<(AtHand, Duration)>,
    /// What the host waits for.
    waiting: Option<Waiting>,
    /// The checks of its credentials.
    checks: Checks,
}

/// The initial state of a pass.
#[derive(Debug, Default)]
pub struct Begin {
    /// The part that decisions read.
    pub memory: Memory,
    /// The number of passes in a row that met trouble.
    pub failures: u32,
    wakes: u64,
}

impl Memories {
    /// Forgets an earlier host of this name: it may have been replaced before a pass saw that it was gone.
    pub fn keep_only(&self, host: &ObjectKey, uid: Option<&str>) {
        self.entry(host, uid, |_| ());
    }

    /// The checks of the credentials of this host.
    pub fn checks(&self, host: &ObjectKey, uid: Option<&str>) -> Checks {
        self.entry(host, uid, |entry| entry.checks.clone())
    }

    fn entry<T>(&self, host: &ObjectKey, uid: Option<&str>, of: impl FnOnce(&Entry) -> T) -> T {
        let mut hosts = self.0.lock();
        let entry = hosts.entry(host.clone()).or_default();
        if entry.uid.as_deref() != uid {
            *entry = Entry {
                uid: uid.map(str::to_owned),
                ..Entry::default()
            };
        }
        of(entry)
    }

    /// Starts a pass; call this before observing anything.
    pub fn begin(&self, host: &ObjectKey) -> Begin {
        let mut hosts = self.0.lock();
        let entry = hosts.entry(host.clone()).or_default();
        if std::mem::take(&mut entry.has_new_ramdisk) {
            entry.memory.ramdisk = None;
        }
        Begin {
            memory: entry.memory.clone(),
            failures: entry.failures,
            wakes: entry.wakes,
        }
    }

    /// How long the host may stay idle, if nothing has changed since the last pass. Otherwise a pass starts.
    pub fn idle(&self, host: &ObjectKey, begin: &Begin, seen: &Observed, now: Duration) -> Option<Duration> {
        let mut hosts = self.0.lock();
        let entry = hosts.get_mut(host)?;
        if let Some((at_hand, due)) = &entry.idle {
            let left = due.checked_sub(now).filter(|left| !left.is_zero());
            if left.is_some() && AtHand::of(seen, &seen.node).as_ref() == Some(at_hand) {
                return left;
            }
        }
        entry.heard = begin.wakes;
        entry.idle = None;
        None
    }

    /// Ends a pass. `idle` is the time until which nothing has to be done (on the scale of
    /// [`metal3_runtime::Clock::elapsed`]), and the node as it is cached now. Only what was decided on is remembered. If the
    /// host was woken in the meantime, it may have been read before the change that woke it. Returns whether its node has been
    /// proven to be its own since.
    pub fn end(&self, host: &ObjectKey, seen: &Observed, failures: u32, idle: Option<(Duration, NodeView)>) -> bool {
        let mut hosts = self.0.lock();
        // Do not recreate the entry of a host that is gone.
        let Some(entry) = hosts.get_mut(host) else {
            return false;
        };
        let proven = &seen.memory.proven_node;
        let is_newly_proven = proven.is_some() && *proven != entry.memory.proven_node;
        entry.memory = seen.memory.clone();
        entry.failures = failures;
        if entry.heard == entry.wakes
            && let Some((due, listed)) = idle
        {
            entry.idle = AtHand::of(seen, &listed).map(|at_hand| (at_hand, due));
        }
        is_newly_proven
    }

    /// Forces the next pass to run even if nothing changed, also if a pass is in progress. A host without an entry is
    /// reconciled anyway.
    pub fn wake(&self, host: &ObjectKey) {
        if let Some(entry) = self.0.lock().get_mut(host) {
            entry.wakes += 1;
            entry.idle = None;
        }
    }

    /// Records that the host's ramdisk has changed.
    pub fn ramdisk_changed(&self, host: &ObjectKey) {
        if let Some(entry) = self.0.lock().get_mut(host) {
            entry.has_new_ramdisk = true;
        }
        self.wake(host);
    }

    /// Sets what the host waits for; returns the previous wait.
    pub fn waits(&self, host: &ObjectKey, now: Option<Waiting>) -> Option<Waiting> {
        match self.0.lock().get_mut(host) {
            Some(entry) => std::mem::replace(&mut entry.waiting, now),
            None => None,
        }
    }

    /// What the host waits for.
    pub fn waiting(&self, host: &ObjectKey) -> Option<Waiting> {
        self.0.lock().get(host)?.waiting
    }

    /// Forgets the host; returns what it waited for.
    pub fn forget(&self, host: &ObjectKey) -> Option<Waiting> {
        self.0.lock().remove(host)?.waiting
    }
}

/// The state that is available without a call.
#[derive(Clone, Debug, PartialEq)]
struct AtHand {
    host: [Option<String>; 2],
    secret: SecretView,
    may_claim_unread: bool,
    node: NodeView,
    network_data: Option<String>,
    deployment_secrets: DeploymentSecrets,
    hardware_data: Option<i64>,
    data_image: DataImageAtHand,
    firmware: firmware::AtHand,
    firmware_trouble: firmware::Trouble,
    outage: Option<Outage>,
    can_disable_power_off: bool,
}

impl AtHand {
    /// What the next pass starts with if nothing changes: what a pass has read itself is then cached. A change after
    /// the read differs from it, and is therefore not missed. `None` if that cannot be determined. `listed` is the node
    /// as it is cached now: one of two equal records is enough.
    ///
    /// Every field of [`Observed`] is named here, so that the compiler asks about a new one.
    fn of(seen: &Observed, listed: &NodeView) -> Option<Self> {
        let Observed {
            host,
            secret,
            may_claim_unread,
            node,
            network_data,
            deployment_secrets,
            hardware_data_edit,
            data_image_at_hand,
            firmware,
            firmware_trouble,
            outage,
            settings,
            // As the host.
            hardware: _,
            stored: _,
            before_intent: _,
            has_refused_power: _,
            is_confirmed: _,
            // Read when a decision requests it.
            ports: _,
            boot_mac_owner: _,
            inventory: _,
            bmc_name: _,
            bmc_access: _,
            credential_check: _,
            hardware_data: _,
            ramdisk: _,
            config_drive: _,
            pull_secret: _,
            data_image: _,
            disc: _,
            disc_refusal: _,
            firmware_objects: _,
            bios: _,
            components: _,
            validation: _,
            slot: _,
            // Our own state: it ends with the time until which the host stays idle.
            reconfigured: _,
            memory: _,
            failures: _,
            seed: _,
        } = seen;
        let node = as_listed(node)?;
        let node = if node == *listed { listed.clone() } else { node };
        let secret = match secret {
            SecretView::Found(found) => SecretView::NotLooked {
                version: Some(found.version.clone()),
            },
            SecretView::NotLooked { .. } | SecretView::Missing | SecretView::Invalid { .. } => secret.clone(),
        };
        Some(Self {
            host: [host.metadata.uid.clone(), host.metadata.resource_version.clone()],
            secret,
            may_claim_unread: *may_claim_unread,
            node,
            network_data: NetworkDataView::version(network_data).map(str::to_owned),
            deployment_secrets: deployment_secrets.clone(),
            hardware_data: *hardware_data_edit,
            data_image: *data_image_at_hand,
            firmware: *firmware,
            firmware_trouble: firmware_trouble.clone(),
            outage: outage.clone(),
            can_disable_power_off: settings.can_disable_power_off,
        })
    }
}

/// The node that was decided on, as the fleet's view shows it if it has not changed since. `None` if the node is gone: the view
/// may still show it.
pub fn as_listed(node: &NodeView) -> Option<NodeView> {
    match node {
        NodeView::Live(node) => Some(NodeView::Listed(Arc::new(Node {
            detail: None,
            ..(**node).clone()
        }))),
        NodeView::Gone => None,
        NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Listed(_) => Some(node.clone()),
    }
}

#[cfg(test)]
mod tests {
    use metal3_api::metal3::BareMetalHost;
    use serde_json::json;

    use super::*;
    use crate::settings::HostSettings;

    /// The companions of the host wait for that.
    #[test]
    fn a_proof_that_is_new_is_told_once() {
        let memories = Memories::default();
        let key = ObjectKey::new("n", "h");
        let host: BareMetalHost =
            serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h", "namespace": "n"}, "spec": {"online": true}}))
            .unwrap();
        let mut seen = Observed::new(host, Arc::new(HostSettings::default()));
        let mut end = |node: Option<&str>| {
            seen.memory.proven_node = node.map(str::to_owned);
            memories.end(&key, &seen, 0, None)
        };
        assert!(!end(Some("u")), "nothing is kept of a host that is gone");
        memories.begin(&key);
        let told = [None, Some("u"), Some("u"), None, Some("u"), Some("v")].map(&mut end);
        assert_eq!(told, [false, true, false, false, true, true]);
    }
}
