//! What the passes of all controllers share.

use kube::Client;
use metal3_runtime::Clock;
use metal3_runtime::events::Recorder;

use crate::error::PassError;
use crate::refusals::lasting::Failures;
use crate::world::World;

/// What the passes of all controllers share. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What is seen.
    pub world: World,
    /// Events.
    pub recorder: Recorder,
    /// The time.
    pub clock: Clock,
    /// What the API server fails to do for objects that one controller looks after and no other.
    pub failures: Failures,
}

impl Context {
    /// What has to be told of an error of the object with this UID: that the API server will not do it, or has not been able
    /// to for half a minute.
    pub fn refusal(&self, uid: Option<&str>, error: &PassError) -> Option<String> {
        self.failures.hear(uid, error, self.clock.elapsed())
    }

    /// What there was to do for that object is done.
    pub fn succeeded(&self, uid: Option<&str>) {
        self.failures.forget(uid);
    }
}
