//! Every duration that decides when something happens, in one place: what it is for, why it is as long as it is, and the flag
//! that sets it, if one does.

use std::time::Duration;

/// Of the loop that all controllers share.
pub mod controller {
    use super::Duration;

    /// A write that lost against somebody else's is judged again after this time: the watch has usually shown the other one by
    /// then.
    pub const STALE: Duration = Duration::from_millis(50);

    /// A pass that did not come to an end, by a bug, is tried again after this time: what broke may depend on what others do.
    pub const BROKEN: Duration = Duration::from_secs(60);
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
pub mod operator {
    use super::Duration;

    /// Bursts of events of one host become one pass. Short, because every step of a host's life pays for it, and because a pass
    /// that finds nothing changed makes no call.
    pub const DEBOUNCE: Duration = Duration::from_millis(20);

    /// How long passes wait for Ironic's first answer, so that a healthy start reports no outage on every host.
    pub const FIRST_ANSWER: Duration = Duration::from_secs(3);

    /// Every host is looked at again after this time, in case a change was missed. It costs no call where nothing changed.
    pub const NET: Duration = Duration::from_secs(30 * 60);

    /// The same for a wait on a node: the fleet view should end it long before.
    pub const NODE_NET: Duration = Duration::from_secs(60);

    /// How soon a locked node, or a busy Ironic that names no time, is tried again.
    pub const RECHECK: Duration = Duration::from_secs(3);

    /// A lock of a node is shown in the status when it has lasted so long: Ironic locks nodes for moments all the time.
    pub const SHOWN_LOCK: Duration = Duration::from_secs(5);

    /// After so many failed passes in a row the status says that the Kubernetes API fails: some three seconds.
    pub const SHOWN_FAILURES: u32 = 3;

    /// How long a server may take to shut down before Ironic switches it off.
    pub const SOFT_POWER_OFF: Duration = Duration::from_secs(180);

    /// How long after a failed attempt to let go of a Secret the next one follows: what keeps it is mended by people.
    pub const RELEASE: Duration = Duration::from_secs(60);

    /// What Ironic has said of a port is not asked for again for so long: it changes when people change it.
    pub const PORT_ANSWER: Duration = Duration::from_secs(3600);

    /// How often a host looks whether its own ramdisk is built, and what the name in its BMC's address stands for: whatever
    /// changes them wakes nobody for certain.
    pub const SLOW_RECHECK: Duration = Duration::from_secs(300);

    /// The shortest pause before the disc of a DataImage is tried again.
    pub const DISC: Duration = Duration::from_secs(30);

    /// A name server that is down must not hold up a pass for long.
    pub const RESOLVE: Duration = Duration::from_secs(5);

    /// A name that could not be resolved is not asked for again for so long: each time-out costs a pass as long as it lasts, and
    /// the resolver's thread longer.
    pub const UNRESOLVED: Duration = Duration::from_secs(30);

    /// How often a host in the queue is told at most that its place has become better.
    pub const RETELL: Duration = Duration::from_secs(30);

    /// Between attempts to list while Ironic does not answer: hosts should go on within seconds of its return.
    pub const WHILE_DOWN: Duration = Duration::from_secs(1);

    /// Between lists of nodes while a host waits for one. Short: a host's life has some ten of these waits.
    pub const LIST_FAST: Duration = Duration::from_millis(150);

    /// Between lists of nodes while no host waits: how late a change by hand in Ironic is seen.
    pub const LIST_SLOW: Duration = Duration::from_secs(5);

    /// Between lists of all nodes at least, where those that were changed last are listed in between: only the list of all shows
    /// what is gone.
    pub const LIST_FULL: Duration = Duration::from_secs(2);

    /// The longest pause that the answer time of a busy Ironic makes between lists while a host waits.
    pub const LIST_BUSY: Duration = Duration::from_secs(2);

    /// The longest pause between lists of all nodes, whatever a list costs.
    pub const LIST_LONGEST: Duration = Duration::from_secs(60);

    /// Between attempts to find out whether Ironic answers calls without credentials, while it neither answers nor refuses them.
    pub const EXPOSURE: Duration = Duration::from_secs(30);

    /// The same once it is known: how Ironic is set up may change.
    pub const EXPOSURE_KNOWN: Duration = Duration::from_secs(3600);

    /// The unit of the back-off after a failure of a host: upstream's. Flag `--retry-base-seconds`.
    pub const RETRY_BASE: Duration = Duration::from_secs(60);

    /// The time budgets of states: whatever a healthy machine does is over long before. Flag `--state-budgets`.
    pub mod budget {
        use super::Duration;

        const MINUTE: u64 = 60;

        /// Registration: the time-outs of a BMC, several times.
        pub const REGISTERING: Duration = Duration::from_secs(15 * MINUTE);
        /// A boot of the ramdisk on a slow server, and its inventory.
        pub const INSPECTING: Duration = Duration::from_secs(60 * MINUTE);
        /// Firmware updates with restarts.
        pub const PREPARING: Duration = Duration::from_secs(120 * MINUTE);
        /// A cleaning of metadata and a large image.
        pub const PROVISIONING: Duration = Duration::from_secs(120 * MINUTE);
        /// A cleaning of whole disks.
        pub const DEPROVISIONING: Duration = Duration::from_secs(240 * MINUTE);
        /// A power-off with its failures, and a removal.
        pub const REMOVING: Duration = Duration::from_secs(30 * MINUTE);
    }
}

/// Of the infrastructure provider.
pub mod provider {
    use super::Duration;
    use crate::backoff::Backoff;

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

    /// Data that takes longer than this is reported step by step; each step costs a write. Rendering takes about a second. No flag.
    pub const RENDERED: Duration = Duration::from_secs(10);

    /// For so long a host whose claim was rejected is avoided: a policy or a webhook is rarely mended sooner, and the host may
    /// be the only one. No flag.
    pub const AVOIDED: Duration = Duration::from_secs(300);

    /// Why no host will do is found out once for all machines that ask for the same within this time: judging ten thousand
    /// hosts takes milliseconds. No flag.
    pub const SURVEYED: Duration = Duration::from_secs(1);

    /// Changes of many hosts, machines or Nodes are looked at together before labels are handed on. No flag.
    pub const LABELS_GATHER: Duration = Duration::from_millis(100);

    /// Labels of a Node that somebody else has changed are put right after this time: a program that insists on others, such as
    /// Cluster API where both are told to set the same label, costs a write now and then and not a storm. No flag.
    pub const LABELS_DRIFT: Duration = Duration::from_secs(10);

    /// A server that does not take a connection for so long is not there. kube's own limit is four times as long, and users
    /// wait for the report. No flag.
    pub const WORKLOAD_CONNECT: Duration = Duration::from_secs(8);

    /// A workload cluster that does not answer a request for so long is silent: workers wait for it. No flag.
    pub const WORKLOAD_ANSWER: Duration = Duration::from_secs(10);

    /// A request to a workload cluster that has not had its turn after this time is tried later: others of a silent cluster are
    /// in front of it. No flag.
    pub const WORKLOAD_TURN: Duration = Duration::from_millis(500);

    /// So often a workload cluster that was there is asked whether it is back. While it answers it is not asked. No flag.
    pub const WORKLOAD_PROBE: Duration = Duration::from_secs(5);

    /// A workload cluster that has not answered a request is left alone for so long: it may answer the probe and nothing else.
    /// No flag.
    pub const WORKLOAD_QUIET: Duration = Duration::from_secs(20);

    /// The memory that a workload cluster has taken is free so long after it is gone. No flag.
    pub const WORKLOAD_FREED: Duration = Duration::from_secs(1);

    /// The body of an answer of a workload cluster is complete after this time, or cut off. No flag.
    pub const WORKLOAD_BODY: Duration = Duration::from_secs(30);

    /// A watch of a workload cluster is asked to end after 290 s; one that does not is cut off. No flag.
    pub const WORKLOAD_WATCH: Duration = Duration::from_secs(330);

    /// A workload cluster that exceeds a bound, or breaks its watch off again and again, is tried again at these intervals: each
    /// try may cost all that the bound allows. No flag.
    pub const WORKLOAD_EXCEEDED: Backoff = Backoff {
        base: Duration::from_secs(20),
        max: Duration::from_secs(600),
    };

    /// A workload cluster that behaved for so long begins at the shortest of them again. No flag.
    pub const WORKLOAD_GOOD: Duration = Duration::from_secs(900);

    /// Machines that wait for a host report changes of hosts that are not offered to them after this time: such changes only
    /// affect the words of a condition, and come in large numbers. No flag.
    pub const REPORTED_AGAIN: Duration = Duration::from_secs(30);
}

/// Of the ip-address-manager.
pub mod addresses {}
