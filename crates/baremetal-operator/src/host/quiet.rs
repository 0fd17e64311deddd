//! Nothing is called when nothing changed.
//!
//! A reconciliation is asked for by any event: our own status write comes back through the watch, one change of a node
//! can be several events. Whoever sees exactly what it saw at its last end, before the time that it set itself, has
//! nothing to decide.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use metal3_ironic::Node;
use metal3_runtime::store::ObjectKey;

use super::firmware::AtHand as AtHandFirmware;
use super::observed::{DataImageAtHand, DeploymentSecrets, NodeView, Observed, Outage, SecretView};

/// What is at hand without a call.
#[derive(Clone, Debug, PartialEq)]
struct AtHand {
    host: Option<String>,
    secret: SecretView,
    network_data: Option<String>,
    deployment_secrets: DeploymentSecrets,
    hardware_data: Option<i64>,
    data_image: DataImageAtHand,
    node: NodeView,
    firmware: AtHandFirmware,
    outage: Option<Outage>,
}

impl AtHand {
    /// What a reconciliation begins with.
    fn before(seen: &Observed) -> Self {
        Self {
            host: seen.host.resource_version(),
            secret: seen.secret.clone(),
            network_data: seen.network_data.version().map(str::to_owned),
            deployment_secrets: seen.deployment_secrets.clone(),
            hardware_data: seen.hardware_data_edit,
            data_image: seen.data_image_at_hand,
            node: seen.node.clone(),
            firmware: seen.firmware,
            outage: seen.outage.clone(),
        }
    }

    /// What the next one begins with if nothing changes: what this one read itself is then at hand. A change that came
    /// after this one read differs from it, and is therefore not missed. `None` where that cannot be told. `listed` is the
    /// node as it is at hand now: one of two equal records is enough.
    fn after(seen: &Observed, listed: &NodeView) -> Option<Self> {
        let node = match &seen.node {
            NodeView::Live(node) => {
                let node = NodeView::Listed(Arc::new(Node {
                    detail: None,
                    ..(**node).clone()
                }));
                if node == *listed { listed.clone() } else { node }
            }
            NodeView::Gone => return None,
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Listed(_) => seen.node.clone(),
        };
        let secret = match &seen.secret {
            SecretView::Found(found) => SecretView::NotLooked {
                version: Some(found.version.clone()),
            },
            SecretView::NotLooked { .. } | SecretView::Missing | SecretView::Invalid { .. } => seen.secret.clone(),
        };
        Some(Self {
            host: seen.host.resource_version(),
            secret,
            network_data: seen.network_data.version().map(str::to_owned),
            deployment_secrets: seen.deployment_secrets.clone(),
            hardware_data: seen.hardware_data_edit,
            data_image: seen.data_image_at_hand,
            node,
            firmware: seen.firmware,
            outage: seen.outage.clone(),
        })
    }
}

/// How each host's last reconciliation left the world.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<HashMap<ObjectKey, Last>>);

/// What is known of one host.
#[derive(Debug, Default)]
struct Last {
    /// How often it was told to look, whatever it sees.
    calls: u64,
    /// How many of these calls the present reconciliation began after.
    heard: u64,
    /// What was at hand at the last end, and until when that is enough.
    left: Option<(AtHand, Duration)>,
}

impl Quiet {
    /// How often the host was told to look: asked before a reconciliation reads anything, for [`begin`](Self::begin).
    pub fn calls(&self, host: &ObjectKey) -> u64 {
        self.lock().entry(host.clone()).or_default().calls
    }

    /// A reconciliation begins that has heard so many calls.
    pub fn begin(&self, host: &ObjectKey, heard: u64) {
        let mut hosts = self.lock();
        let last = hosts.entry(host.clone()).or_default();
        last.heard = heard;
        last.left = None;
    }

    /// A reconciliation ended with what it saw and stored, and wants to be asked again at `due` (on the scale
    /// of [`metal3_runtime::Clock::elapsed`]). Whoever was called meanwhile may have read before what it was called for: then
    /// this says nothing. `listed` is the node as it is at hand now.
    pub fn left(&self, host: &ObjectKey, seen: &Observed, listed: &NodeView, due: Duration) {
        let Some(at_hand) = AtHand::after(seen, listed) else {
            return;
        };
        if let Some(last) = self.lock().get_mut(host).filter(|last| last.heard == last.calls) {
            last.left = Some((at_hand, due));
        }
    }

    /// How long nothing has to be done, if nothing changed since.
    pub fn remaining(&self, host: &ObjectKey, seen: &Observed, now: Duration) -> Option<Duration> {
        let hosts = self.lock();
        let (at_hand, due) = hosts.get(host)?.left.as_ref()?;
        let left = due.checked_sub(now).filter(|left| !left.is_zero())?;
        (*at_hand == AtHand::before(seen)).then_some(left)
    }

    /// The next reconciliation has to look, whatever it sees, also where one is under way. What was never reconciled looks
    /// anyway: it may be nobody's host.
    pub fn call(&self, host: &ObjectKey) {
        if let Some(last) = self.lock().get_mut(host) {
            last.calls += 1;
            last.left = None;
        }
    }

    /// The host is gone.
    pub fn forget(&self, host: &ObjectKey) {
        self.lock().remove(host);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Last>> {
        self.0.lock()
    }
}
