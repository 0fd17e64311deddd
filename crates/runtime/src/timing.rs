//! All durations that control when something happens: the purpose, the reason for the value, and the flag that sets it,
//! if any.

use std::time::Duration;

/// The loop that all controllers share.
pub mod controller {
    use super::Duration;

    /// Delay before retrying a write that lost to another writer. The watch has usually delivered the other write by
    /// then.
    pub const STALE: Duration = Duration::from_millis(50);

    /// Delay before retrying a pass that did not complete because of a bug: what caused it may depend on other
    /// components.
    pub const BROKEN: Duration = Duration::from_secs(60);
}

/// Parts that all programs share.
pub mod process {
    use super::Duration;

    /// A repeated event for the same object within this time increments the count instead of creating a new event. No
    /// flag.
    pub const SAME_EVENT: Duration = Duration::from_secs(10 * 60);

    /// Time limit for publishing an event. No flag.
    pub const EVENT_PATIENCE: Duration = Duration::from_secs(10);

    /// Delay before an event is sent again to an unavailable server. No flag.
    pub const EVENT_AGAIN: Duration = Duration::from_secs(1);

    /// How long passes in progress may run at shutdown. Then they are cancelled, which they must survive anyway. This
    /// leaves time to release the lease ([`crate::shutdown::GRACE`]). No flag.
    pub const LAST_WORK: Duration = Duration::from_secs(4);

    /// Time limit for the body of an answer of the API server that is no watch. The server itself ends such requests after
    /// a minute. No flag.
    pub const WHOLE_ANSWER: Duration = Duration::from_secs(60);

    /// How long a watch is kept after its namespace is no longer needed, so that an object that comes and goes does not
    /// start a new watch with its list each time. No flag.
    pub const LINGER: Duration = Duration::from_secs(300);

    /// Interval of reads of the Secrets that objects name, in a namespace whose Secrets may not be watched. Upstream's operator
    /// looks for a missing Secret as often. With many Secrets it is longer ([`BETWEEN_SECRETS`]). No flag.
    pub const SECRETS_BY_NAME: Duration = Duration::from_secs(10);

    /// Interval at which such a namespace is asked whether its Secrets may be watched by now. No flag.
    pub const RIGHT_TO_WATCH: Duration = Duration::from_secs(60);

    /// The shortest time on average between two such reads of one controller in one namespace, whose tenant cannot slow down those of
    /// others: ten reads a second cost an API server nothing that is felt. No flag.
    pub const BETWEEN_SECRETS: Duration = Duration::from_millis(100);

    /// Interval of checks for kinds that are not served yet. No flag.
    pub const RECHECK_KINDS: Duration = Duration::from_secs(2);
}

/// The webhooks of all programs.
pub mod webhooks {
    use super::Duration;
    use crate::backoff::Backoff;

    /// No API server waits longer for a response. No flag.
    pub const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

    /// How long reviews are still answered after the signal to end: until then the nodes of the API servers may not know
    /// that another replica is to be called. With [`LAST_REVIEWS`] it stays below what all tasks have to end
    /// ([`crate::shutdown`]): upstream's pods have ten seconds. No flag.
    pub const LAST_CALLS: Duration = Duration::from_secs(5);

    /// How long reviews in progress may take to finish at shutdown. Final tasks have at least two seconds. No flag.
    pub const LAST_REVIEWS: Duration = Duration::from_millis(1500);

    /// How long a connection may be idle. The API server closes its own after 90 seconds; a server that is first may
    /// close one just as a review is sent, and that review fails. No flag.
    pub const IDLE: Duration = Duration::from_secs(100);

    /// How long a body may take besides the time that its bytes take at the slowest accepted rate. API servers send a
    /// review in one go. No flag.
    pub const BODY_PATIENCE: Duration = Duration::from_secs(5);

    /// How long sending an answer may take. The API server waits for it no longer than this. No flag.
    pub const SENT_WITHIN: Duration = Duration::from_secs(30);

    /// How often the date of the next renewal of our own certificate is compared with the time of day: a timer does not
    /// count the time that a machine is suspended. It costs no request. No flag.
    pub const RENEWAL: Duration = Duration::from_secs(3600);

    /// Retry delays after a failed read or write of a Secret or a webhook configuration: usually a right is missing. No
    /// flag.
    pub const RETRY: Backoff = Backoff {
        base: Duration::from_secs(2),
        max: Duration::from_secs(60),
    };

    /// Interval of checks while a configuration calls something that does not exist: Services are not watched. No flag.
    pub const RECHECK_CALLS: Duration = Duration::from_secs(60);

    /// How long a replica waits for the API server to trust its certificate before it becomes ready, or serves a new one,
    /// all the same: it may have no right to write what the API server trusts. Then it says so. No flag.
    pub const TRUSTED_WITHIN: Duration = Duration::from_secs(30);

    /// How long each API server may take to learn what another one has stored. No flag.
    pub const SETTLED: Duration = Duration::from_secs(1);

    /// How long an authority of another program, such as cert-manager, stays trusted beside ours after an exchange: another
    /// replica may serve a certificate of it. One that still does so after that time writes its authority again. No flag.
    pub const KEPT: Duration = Duration::from_secs(24 * 3600);

    /// The same for an authority of our own whose Secret was lost or broken: every replica follows the new one at once, and
    /// whoever has deleted the Secret wants to be rid of the old one. No flag.
    pub const OWN_KEPT: Duration = Duration::from_secs(60);

    /// Interval of checks of certificate files. A mounted Secret changes by swapping symbolic links, of which file
    /// notifications give no reliable sign; reading two small files costs no request. No flag.
    pub const RELOAD: Duration = Duration::from_secs(10);
}

/// The migration of stored versions.
pub mod migration {
    use super::Duration;
    use crate::backoff::Backoff;

    /// The pause after each write. At ten writes a second the controllers keep most of their request rate. No flag.
    pub const PACE: Duration = Duration::from_millis(100);

    /// How long a definition must be unchanged before its objects are written: each API server learns of a new version to
    /// store a moment after the other. No flag.
    pub const SETTLE: Duration = Duration::from_secs(3);

    /// Retry delays after an attempt that left objects in an old version: a policy refuses them, or the API server is
    /// busy. No flag.
    pub const RETRY: Backoff = Backoff {
        base: Duration::from_secs(5),
        max: Duration::from_secs(1800),
    };
}

/// The baremetal-operator.
pub mod operator {
    use super::Duration;

    /// Bursts of events of one host become one pass. Short, because every step of a host's life waits for it, and
    /// because a pass that finds no change makes no call.
    pub const DEBOUNCE: Duration = Duration::from_millis(20);

    /// How long passes wait for Ironic's first answer, so that a healthy start does not report an outage on every host.
    pub const FIRST_ANSWER: Duration = Duration::from_secs(3);

    /// Resync interval of every host, in case a change was missed. It costs no call if nothing changed.
    pub const NET: Duration = Duration::from_secs(30 * 60);

    /// Resync interval of a host that waits for a node. The fleet view should end the wait long before.
    pub const NODE_NET: Duration = Duration::from_secs(60);

    /// Retry delay for a locked node, or for a busy Ironic that gives no Retry-After.
    pub const RECHECK: Duration = Duration::from_secs(3);

    /// A node lock is shown in the status after this time: Ironic regularly locks nodes for a moment.
    pub const SHOWN_LOCK: Duration = Duration::from_secs(5);

    /// After this many failed passes in a row, the status says that the Kubernetes API fails: about three seconds.
    pub const SHOWN_FAILURES: u32 = 3;

    /// How long a server may take to shut down before Ironic powers it off.
    pub const SOFT_POWER_OFF: Duration = Duration::from_secs(180);

    /// Retry delay after a failed attempt to release a Secret: usually a person has to fix the cause.
    pub const RELEASE: Duration = Duration::from_secs(60);

    /// How long credentials that a BMC has accepted count as accepted: as long as the host and its companions need them
    /// when a node is adopted.
    pub const ACCEPTED: Duration = Duration::from_secs(60);

    /// How long a host that rests counts on its BMC not accepting its credentials, where its node is not proven to be its own. Then
    /// they are tried again: the BMC may only have been away, and until then nobody looks after the host's power.
    pub const PROOF_AGAIN: Duration = Duration::from_secs(10 * 60);

    /// How long Ironic's answer about a port is cached: ports change only by hand.
    pub const PORT_ANSWER: Duration = Duration::from_secs(3600);

    /// How often a host checks whether its own ramdisk is built, and what the host name in its BMC address resolves to:
    /// no reliable event announces these changes.
    pub const SLOW_RECHECK: Duration = Duration::from_secs(300);

    /// The shortest retry delay for the disc of a DataImage.
    pub const DISC: Duration = Duration::from_secs(30);

    /// How long after a subscription was made a BMC is asked for an earlier one that it had not answered for: by then it has made
    /// that one, or does not any more.
    pub const LATE: Duration = Duration::from_secs(30);

    /// A name server that is down must not delay a pass for long.
    pub const RESOLVE: Duration = Duration::from_secs(5);

    /// How long a failed name resolution is cached: each time-out delays a pass, and blocks the resolver's thread even
    /// longer.
    pub const UNRESOLVED: Duration = Duration::from_secs(30);

    /// The minimum interval between reports to a queued host that its place has improved.
    pub const RETELL: Duration = Duration::from_secs(30);

    /// Interval of list attempts while Ironic does not answer: hosts should continue within seconds of its return.
    pub const WHILE_DOWN: Duration = Duration::from_secs(1);

    /// Interval of node lists while a host waits for one. Short, because a host's life has about ten of these waits.
    pub const LIST_FAST: Duration = Duration::from_millis(150);

    /// Interval of node lists while no host waits: the delay until a manual change in Ironic is seen.
    pub const LIST_SLOW: Duration = Duration::from_secs(5);

    /// Minimum interval of full node lists when incremental lists run in between: only the full list shows which nodes
    /// are gone.
    pub const LIST_FULL: Duration = Duration::from_secs(2);

    /// Upper bound on the list interval while a host waits, when a slow Ironic stretches it.
    pub const LIST_BUSY: Duration = Duration::from_secs(2);

    /// Upper bound on the list interval while a host waits and nothing changes for long, as while a server boots: the
    /// interval grows with the wait, and so delays a host by a fiftieth of what it has waited.
    pub const LIST_PATIENT: Duration = Duration::from_secs(1);

    /// Upper bound on the interval of full node lists, however long a list takes.
    pub const LIST_LONGEST: Duration = Duration::from_secs(60);

    /// Interval of attempts to find out whether Ironic accepts unauthenticated calls, while the result is inconclusive.
    pub const EXPOSURE: Duration = Duration::from_secs(30);

    /// The same interval once the result is known: Ironic's setup may change.
    pub const EXPOSURE_KNOWN: Duration = Duration::from_secs(3600);

    /// The base of the back-off after a host failure, as in upstream. Flag `--retry-base-seconds`.
    pub const RETRY_BASE: Duration = Duration::from_secs(60);

    /// Time budgets of states: a healthy machine finishes long before. Flag `--state-budgets`.
    pub mod budget {
        use super::Duration;

        const MINUTE: u64 = 60;

        /// Registration: several BMC time-outs.
        pub const REGISTERING: Duration = Duration::from_secs(15 * MINUTE);
        /// A ramdisk boot on a slow server, and the inventory.
        pub const INSPECTING: Duration = Duration::from_secs(60 * MINUTE);
        /// Firmware updates with reboots.
        pub const PREPARING: Duration = Duration::from_secs(120 * MINUTE);
        /// A metadata clean and a large image.
        pub const PROVISIONING: Duration = Duration::from_secs(120 * MINUTE);
        /// A clean of whole disks.
        pub const DEPROVISIONING: Duration = Duration::from_secs(240 * MINUTE);
        /// A power-off with retries, and the removal of the node.
        pub const REMOVING: Duration = Duration::from_secs(30 * MINUTE);
        /// Firmware updates with reboots of a host in use, and some attempts: such updates take longer than those of a preparation,
        /// and the server is off.
        pub const SERVICING: Duration = Duration::from_secs(180 * MINUTE);
        /// Some attempts of a BMC that inserts a disc within minutes.
        pub const DISC: Duration = Duration::from_secs(30 * MINUTE);
    }
}

/// The infrastructure provider.
pub mod provider {
    use super::Duration;
    use crate::backoff::Backoff;

    /// An API server failure is reported after this time: a server that restarts or elects a new leader is back sooner.
    /// No flag.
    pub const FAILURE_LASTS: Duration = Duration::from_secs(30);

    /// A failure that has not recurred for this time is over, even if no pass has succeeded: attempts are at most a
    /// minute apart. No flag.
    pub const FAILURE_OVER: Duration = Duration::from_secs(300);

    /// How long a pool may take to allocate before this is reported, and how often a conflict with an object to be
    /// created is checked: pools answer within seconds. No flag.
    pub const POOL_PATIENCE: Duration = Duration::from_secs(10);

    /// How often unwatched addresses and pools are checked while data waits for them. No flag.
    pub const UNWATCHED: Duration = Duration::from_secs(60);

    /// A follow-up to a write runs when a watch or the response of the write shows the result, and after this time at
    /// the latest. No flag.
    pub const FOLLOW_UP: Duration = Duration::from_millis(200);

    /// Changes of many claims within this time are processed together. No flag.
    pub const GATHER: Duration = Duration::from_millis(100);

    /// The minimum interval between writes of the list in the status of a Metal3DataTemplate: the cost grows with its
    /// size. No flag.
    pub const LISTS_APART: Duration = Duration::from_secs(1);

    /// How often pods and volumes of a workload cluster are polled while a remediation waits for them; they are not
    /// watched. No flag.
    pub const DRAIN_POLL: Duration = Duration::from_secs(5);

    /// Rendering that takes longer than this is reported step by step; each step costs a write. Rendering usually takes
    /// about a second. No flag.
    pub const RENDERED: Duration = Duration::from_secs(10);

    /// How long a host is avoided after its claim was rejected: a policy or a webhook is rarely fixed sooner, and the
    /// host may be the only one. No flag.
    pub const AVOIDED: Duration = Duration::from_secs(300);

    /// How long the finding why no host matches is shared by all machines with the same requirements: judging ten
    /// thousand hosts takes milliseconds. No flag.
    pub const SURVEYED: Duration = Duration::from_secs(1);

    /// Changes of many hosts, machines or Nodes within this time are processed together before labels are synchronized.
    /// No flag.
    pub const LABELS_GATHER: Duration = Duration::from_millis(100);

    /// Delay before Node labels changed by another writer are corrected. If a program such as Cluster API insists on a
    /// different value for the same label, this limits the writes to one now and then. No flag.
    pub const LABELS_DRIFT: Duration = Duration::from_secs(10);

    /// Connect time-out. kube's default is four times as long, and users wait for the report. No flag.
    pub const WORKLOAD_CONNECT: Duration = Duration::from_secs(8);

    /// A workload cluster that does not answer a request within this time is unresponsive: workers wait for it. No
    /// flag.
    pub const WORKLOAD_ANSWER: Duration = Duration::from_secs(10);

    /// A request to a workload cluster that is still queued after this time is retried later: other requests to an
    /// unresponsive cluster are ahead of it. No flag.
    pub const WORKLOAD_TURN: Duration = Duration::from_millis(500);

    /// Probe interval for a workload cluster that stopped answering. A cluster that answers is not probed. No flag.
    pub const WORKLOAD_PROBE: Duration = Duration::from_secs(5);

    /// How long a workload cluster is left alone after it did not answer a request: it may answer the probe and nothing
    /// else. No flag.
    pub const WORKLOAD_QUIET: Duration = Duration::from_secs(20);

    /// Delay until the memory used by a workload cluster is released after it is gone. No flag.
    pub const WORKLOAD_FREED: Duration = Duration::from_secs(1);

    /// Time limit for a complete response body from a workload cluster. No flag.
    pub const WORKLOAD_BODY: Duration = Duration::from_secs(30);

    /// A watch of a workload cluster is requested for 290 s; the client ends one that lasts longer. No flag.
    pub const WORKLOAD_WATCH: Duration = Duration::from_secs(330);

    /// How long a workload cluster counts as slowed down after the last pause. No flag.
    pub const WORKLOAD_SLOWED: Duration = Duration::from_secs(60);

    /// Retry intervals for a workload cluster that exceeds a limit or repeatedly breaks its watch: each attempt may
    /// cost all that the limit allows. No flag.
    pub const WORKLOAD_EXCEEDED: Backoff = Backoff {
        base: Duration::from_secs(20),
        max: Duration::from_secs(600),
    };

    /// After behaving for this long, a workload cluster starts again at the shortest interval. No flag.
    pub const WORKLOAD_GOOD: Duration = Duration::from_secs(900);

    /// Machines that wait for a host report changes of hosts that are not offered to them after this time: such changes
    /// are frequent and only affect the message of a condition. No flag.
    pub const REPORTED_AGAIN: Duration = Duration::from_secs(30);
}

/// The ip-address-manager.
pub mod addresses {}
