//! The command line. Flags and variables are upstream's where one exists, so that an existing Deployment works unchanged.

mod compat;
mod networking;

use std::time::Duration;

use clap::Parser;
use metal3_runtime::args::{
    ClientArgs, ConcurrencyArgs, LeaderArgs, LogArgs, MetricsArgs, NamespaceArgs, ProbeArgs, TlsArgs, WebhookArgs,
    go_bool,
};

pub use self::compat::CompatArgs;
pub(crate) use self::compat::any_case_bool;
pub use self::networking::{NetworkingArgs, SwitchSettings};
use crate::host::budget::Budgets;
use crate::host::named_url::DeniedRanges;
use crate::ironic_config::IronicArgs;

/// Registers, inspects, provisions and powers bare-metal hosts by driving OpenStack Ironic.
#[derive(Clone, Debug, Parser)]
#[command(name = "baremetal-operator", version)]
pub struct Args {
    /// The Kubernetes API.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Which namespaces.
    #[command(flatten)]
    pub namespaces: NamespaceArgs,
    /// One at a time.
    #[command(flatten)]
    pub leader: LeaderArgs,
    /// Probes.
    #[command(flatten)]
    pub probes: ProbeArgs,
    /// Metrics.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Webhooks.
    #[command(flatten)]
    pub webhooks: WebhookArgs,
    /// TLS of what is served.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Logging.
    #[command(flatten)]
    pub log: LogArgs,
    /// Concurrency.
    #[command(flatten)]
    pub concurrency: ConcurrencyArgs,
    /// Ironic.
    #[command(flatten)]
    pub ironic: IronicArgs,
    /// Switches.
    #[command(flatten)]
    pub networking: NetworkingArgs,
    /// What is accepted only.
    #[command(flatten)]
    pub compat: CompatArgs,

    /// The namespace of the pod: the lease lives there, and the certificate of the webhooks where the program makes it itself
    #[arg(long, env = "POD_NAMESPACE", default_value = "")]
    pub pod_namespace: String,

    /// How often the same image is tried on a host; 0 is without limit
    #[arg(long, env = "MAX_PROVISIONING_RETRIES", default_value = "5", value_parser = clap::value_parser!(i32).range(0..))]
    pub max_provisioning_retries: i32,

    /// Use a ramdisk of its own for each host: PreprovisioningImages are created and waited for. They are filled from the
    /// DEPLOY_* settings where those name an ISO, or a kernel and a ramdisk; else by another program
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub build_preprov_image: bool,

    /// Assign hosts to HostClaims of namespaces that a HostDeployPolicy permits; without this, only the deletion of HostClaims is
    /// completed
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub hostclaims: bool,

    /// The unit of the back-off after failures, in seconds: the n-th failure in a row waits up to 2^n of it
    #[arg(long, env = "RETRY_BASE_SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub retry_base_seconds: u64,

    /// How long hosts may stay in a state, be serviced (servicing) or change their disc (changing disc) before they count as
    /// overdue, where that is not the default: such as inspecting=30m,servicing=12h
    #[arg(long, env = "STATE_BUDGETS", default_value = "")]
    pub state_budgets: Budgets,

    /// Addresses that BMCs may not have, and that URLs of images, checksums, DataImages and firmware may not name, as ranges
    /// separated by commas; given empty, there are none. Names are not resolved
    #[arg(long, env = "DENIED_URL_RANGES", default_value = DeniedRanges::DEFAULT)]
    pub denied_url_ranges: DeniedRanges,

    /// Use a Secret for a BMC only if somebody has labelled it environment.metal3.io=baremetal, or made the host its owner. Without
    /// this any Secret of the namespace with a user name and a password is used, as upstream does: whoever may make hosts need not
    /// be one who may read Secrets
    #[arg(long, env = "REQUIRE_CREDENTIALS_LABEL", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub require_credentials_label: bool,

    /// Give a server the key `value` of a Secret only if the Secret is of type cluster.x-k8s.io/secret, as the bootstrap data of Cluster
    /// API are. Without this also if it is of type Opaque; upstream gives it that of any Secret. The keys userData, metaData and
    /// networkData count in all Secrets
    #[arg(long, env = "REQUIRE_BOOTSTRAP_TYPE", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub require_bootstrap_type: bool,

    /// Adopt nodes in Ironic that do not bear the host's own name, `<namespace>~<name>`: nodes that somebody enrolled by hand, and
    /// those of operators before names had a namespace. The address of the BMC, with its system, and the boot MAC address must be the host's. Without
    /// this such a node is left alone, and the host says what it found
    #[arg(long, env = "ADOPT_UNNAMED_NODES", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub adopt_unnamed_nodes: bool,

    /// Give upstream's metrics the labels of single hosts; with many hosts that is a lot
    #[arg(long, env = "PER_HOST_METRICS", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub per_host_metrics: bool,
}

impl Args {
    /// The unit of the failure back-off.
    pub fn retry_base(&self) -> Duration {
        Duration::from_secs(self.retry_base_seconds)
    }
}

/// Concurrent reconciliations when nobody says how many.
///
/// Upstream's default is the number of CPUs, and its workers block while Ironic holds a call back for a lock, so that one
/// slow host delays the others. Ours wait without holding a thread; what must be bounded are calls to Ironic, and the
/// client does that.
pub const DEFAULT_CONCURRENCY: u16 = 64;

impl Args {
    /// Concurrent reconciliations.
    pub fn workers(&self) -> u16 {
        self.concurrency.workers(DEFAULT_CONCURRENCY)
    }
}
