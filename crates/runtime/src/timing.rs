//! Every duration that decides when something happens, in one place: what it is for, why it is as long as it is, and the flag
//! that sets it, if one does.

use std::time::Duration;

/// Of the loop that all controllers share.
pub mod controller {
    use super::Duration;

    /// A write that lost against somebody else's is judged again after this time: the watch has usually shown the other one by
    /// then.
    pub const STALE: Duration = Duration::from_millis(50);
}

/// Of the parts that all programs share.
pub mod process {
    use super::Duration;

    /// The same event for the same object within this time of the last one is counted instead of written anew. No
    /// flag.
    pub const SAME_EVENT: Duration = Duration::from_secs(10 * 60);

    /// An event is worth a request, but not more waiting than this. No flag.
    pub const EVENT_PATIENCE: Duration = Duration::from_secs(10);

    /// Before an event is sent again to a server that is not available. No flag.
    pub const EVENT_AGAIN: Duration = Duration::from_secs(1);

    /// An object whose pass broke down, by a bug, is looked at again after this time: what broke may depend on what others do.
    /// No flag.
    pub const BROKEN: Duration = Duration::from_secs(60);

    /// How long passes that are under way may take when the process is to end. Then they are cut off, which they must survive
    /// anyway. It leaves time to release the lease ([`crate::shutdown::GRACE`]). No flag.
    pub const LAST_WORK: Duration = Duration::from_secs(4);

    /// How long a watch goes on after its namespace is needed no more: an object that comes and goes does not begin a new watch,
    /// with its list, each time. No flag.
    pub const LINGER: Duration = Duration::from_secs(300);

    /// Between looks for kinds that are not served yet. No flag.
    pub const RECHECK_KINDS: Duration = Duration::from_secs(2);
}

/// Of the baremetal-operator.
pub mod operator {}

/// Of the infrastructure provider.
pub mod provider {
    use super::Duration;

    /// A failure of the API server is reported when it has lasted for so long: one that restarts, or loses its leader, is back
    /// before that. No flag.
    pub const FAILURE_LASTS: Duration = Duration::from_secs(30);

    /// A failure that has not happened again for so long is over, though no pass has succeeded: attempts are at most a minute
    /// apart. No flag.
    pub const FAILURE_OVER: Duration = Duration::from_secs(300);

    /// A pool may take so long for an address before that is reported, and what is in the way of an object that is to be made is
    /// looked at so often: pools answer within seconds. No flag.
    pub const POOL_PATIENCE: Duration = Duration::from_secs(10);

    /// Addresses and pools that are not watched are looked at so often while data waits for them. No flag.
    pub const UNWATCHED: Duration = Duration::from_secs(60);

    /// What follows a write is done when a watch, or the answer to the write, has shown what came of it, and at the latest
    /// then. No flag.
    pub const FOLLOW_UP: Duration = Duration::from_millis(200);

    /// What happens to many claims at once is looked at once. No flag.
    pub const GATHER: Duration = Duration::from_millis(100);

    /// The list in the status of a Metal3DataTemplate is written once in so long: it costs by how much is in it. No flag.
    pub const LISTS_APART: Duration = Duration::from_secs(1);

    /// Pods and volumes of workload clusters are not watched: while a remediation waits for some, they are looked at so often.
    /// No flag.
    pub const DRAIN_POLL: Duration = Duration::from_secs(5);
}

/// Of the ip-address-manager.
pub mod addresses {}
