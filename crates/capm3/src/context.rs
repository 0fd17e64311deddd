//! State shared by the passes of all controllers.

use kube::Client;
use metal3_runtime::Clock;
use metal3_runtime::events::Recorder;

use crate::error::PassError;
use crate::refusals::{Refusal, Refusals};
use crate::stores::Stores;

/// State shared by the passes of all controllers. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// Client of the API server.
    pub client: Client,
    /// The watch stores.
    pub stores: Stores,
    /// The event recorder.
    pub recorder: Recorder,
    /// The clock.
    pub clock: Clock,
    /// Rejections by the API server, for objects that exactly one controller manages.
    pub refusals: Refusals,
}

impl Context {
    /// Records a failed pass of the object with this UID.
    pub fn refusal(&self, uid: Option<&str>, error: &PassError) -> Option<Refusal> {
        self.refusals.failed(uid, error, self.clock.elapsed())
    }

    /// Records a successful pass of that object.
    pub fn succeeded(&self, uid: Option<&str>) {
        self.refusals.succeeded(uid);
    }
}
