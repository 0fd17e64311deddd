//! What the passes of all controllers share.

use kube::Client;
use metal3_runtime::Clock;
use metal3_runtime::events::Recorder;

use crate::error::PassError;
use crate::refusals::{Refusal, Refusals};
use crate::stores::Stores;

/// What the passes of all controllers share. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What is seen.
    pub stores: Stores,
    /// Events.
    pub recorder: Recorder,
    /// The time.
    pub clock: Clock,
    /// What the API server refuses for objects that one controller looks after and no other.
    pub refusals: Refusals,
}

impl Context {
    /// Takes account of a failed pass of the object with this UID.
    pub fn refusal(&self, uid: Option<&str>, error: &PassError) -> Option<Refusal> {
        self.refusals.failed(uid, error, self.clock.elapsed())
    }

    /// A pass of that object has succeeded.
    pub fn succeeded(&self, uid: Option<&str>) {
        self.refusals.succeeded(uid);
    }
}
