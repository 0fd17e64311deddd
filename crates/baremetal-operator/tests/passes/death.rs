//! The operator's death between two of its effects, wherever they go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use metal3_ironic::{Exchange, Observer, Operation};
use tokio::sync::Notify;

/// When one life of the operator ends. Every write to the API server and every change in Ironic counts as one effect.
#[derive(Debug, Default)]
pub struct Death {
    /// It dies after this many effects; never with none.
    after: Option<usize>,
    effects: AtomicUsize,
    has_come: AtomicBool,
    bell: Notify,
}

impl Death {
    pub fn after(after: Option<usize>) -> Self {
        Self {
            after,
            ..Self::default()
        }
    }

    /// An effect has happened, and nobody was told of it yet: true if nobody ever will be.
    pub fn comes_after_this_effect(&self) -> bool {
        let count = self.effects.fetch_add(1, Ordering::SeqCst) + 1;
        let comes = self.after == Some(count);
        if comes {
            self.has_come.store(true, Ordering::SeqCst);
            self.bell.notify_one();
        }
        comes
    }

    pub fn has_come(&self) -> bool {
        self.has_come.load(Ordering::SeqCst)
    }

    pub async fn wait(&self) {
        self.bell.notified().await;
    }

    pub fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }
}

/// Called before the answer is looked at by whoever asked.
impl Observer for Death {
    fn observe(&self, exchange: &Exchange) {
        let changes = match exchange.operation {
            Operation::CreateNode
            | Operation::PatchNode
            | Operation::DeleteNode
            | Operation::Provision
            | Operation::Power
            | Operation::SetRaid
            | Operation::AttachVirtualMedia
            | Operation::DetachVirtualMedia
            | Operation::Subscribe
            | Operation::Unsubscribe
            | Operation::SetMaintenance
            | Operation::ClearMaintenance
            | Operation::CreatePort
            | Operation::PatchPort
            | Operation::DeletePort => true,
            Operation::Discover
            | Operation::ListDrivers
            | Operation::GetNode
            | Operation::ListNodes
            | Operation::GetBios
            | Operation::GetFirmware
            | Operation::GetVirtualMedia
            | Operation::ListSubscriptions
            | Operation::ListPorts
            | Operation::GetInventory
            | Operation::GetBootDevice
            | Operation::Validate => false,
        };
        if changes {
            self.comes_after_this_effect();
        }
    }
}
