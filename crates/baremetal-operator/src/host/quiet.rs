//! Nothing is called when nothing changed.
//!
//! A reconciliation is asked for by any event: our own status write comes back through the watch, one change of a node
//! can be several events. Whoever sees exactly what it saw at its last end, before the time that it set itself, has
//! nothing to decide.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt;
use metal3_ironic::Node;

use super::firmware::AtHand as AtHandFirmware;
use super::observed::{NodeView, Observed, Outage, SecretView};
use crate::fleet::HostKey;

/// What is at hand without a call.
#[derive(Clone, Debug, PartialEq)]
struct AtHand {
    host: Option<String>,
    secret: SecretView,
    network_data: Option<String>,
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
            node: seen.node.clone(),
            firmware: seen.firmware,
            outage: seen.outage.clone(),
        }
    }

    /// What the next one begins with if nothing changes: what this one read itself is then at hand. A change that came
    /// after this one read differs from it, and is therefore not missed. `None` where that cannot be told.
    fn after(seen: &Observed) -> Option<Self> {
        let node = match &seen.node {
            NodeView::Live(node) => NodeView::Listed(Arc::new(Node {
                detail: None,
                ..(**node).clone()
            })),
            NodeView::Gone => return None,
            NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Listed(_) => seen.node.clone(),
        };
        let secret = match &seen.secret {
            SecretView::Found(found) => SecretView::NotLooked {
                version: Some(found.version.clone()),
            },
            SecretView::NotLooked { .. } | SecretView::Missing | SecretView::Invalid(_) => seen.secret.clone(),
        };
        Some(Self {
            host: seen.host.resource_version(),
            secret,
            network_data: seen.network_data.version().map(str::to_owned),
            node,
            firmware: seen.firmware,
            outage: seen.outage.clone(),
        })
    }
}

/// How each host's last reconciliation left the world.
#[derive(Debug, Default)]
pub struct Quiet(Mutex<HashMap<HostKey, (AtHand, Duration)>>);

impl Quiet {
    /// A reconciliation ended with what it saw and stored, and wants to be asked again at `due` (on the scale
    /// of [`metal3_runtime::Clock::elapsed`]).
    pub fn left(&self, host: &HostKey, seen: &Observed, due: Duration) {
        if let Some(at_hand) = AtHand::after(seen) {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(host.clone(), (at_hand, due));
        }
    }

    /// How long nothing has to be done, if nothing changed since.
    pub fn remaining(&self, host: &HostKey, seen: &Observed, now: Duration) -> Option<Duration> {
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at_hand, due) = hosts.get(host)?;
        let left = due.checked_sub(now).filter(|left| !left.is_zero())?;
        (*at_hand == AtHand::before(seen)).then_some(left)
    }

    /// The next reconciliation has to look, whatever it sees.
    pub fn forget(&self, host: &HostKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(host);
    }
}
