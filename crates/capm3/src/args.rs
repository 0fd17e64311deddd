//! The command line. Flags and variables are upstream's, so that an existing Deployment works unchanged.

use clap::{Parser, ValueEnum};
use metal3_runtime::args::{
    ClientArgs, LeaderArgs, LogArgs, MetricsArgs, NamespaceArgs, ProbeArgs, ProviderArgs, TlsArgs, go_bool,
};
use metal3_runtime::backoff::random_seed;
use metal3_runtime::denied::DeniedRanges;
use metal3_runtime::migration::Phase;

use crate::select::stable_seed;
use crate::workload::Access;

/// Runs Cluster API's machines on bare-metal hosts.
#[derive(Clone, Debug, Parser)]
#[command(name = "cluster-api-provider-metal3", version)]
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
    /// TLS of what is served.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// Logging.
    #[command(flatten)]
    pub log: LogArgs,
    /// How many objects of each kind are worked on at once.
    #[command(flatten)]
    pub workers: Workers,

    /// What providers of Cluster API have in common.
    #[command(flatten)]
    pub provider: ProviderArgs,

    /// Name address claims after hosts instead of after data, so that a pool can reserve an address for a host
    // Upstream's manifests up to 1.12 have the alias.
    #[arg(long, alias = "enableBMHNameBasedPreallocation", env = "ENABLE_BMH_NAME_BASED_PREALLOCATION", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub enable_bmh_name_based_preallocation: bool,

    /// Leave hosts powered on between two machines, as Ironic's fast track wants it; only the text true does, bare or in quotes
    #[arg(long, env = "CAPM3_FAST_TRACK", default_value = "")]
    pub fast_track: String,

    /// Which of several hosts that suit a machine it gets: stable, always the same one, or random, as upstream chooses
    #[arg(long, env = "HOST_CHOICE", value_enum, default_value_t = HostChoice::Stable)]
    pub host_choice: HostChoice,

    /// How workload clusters are asked.
    #[command(flatten)]
    pub workloads: WorkloadArgs,

    /// Phases of the migration of stored versions to leave out, separated by commas
    #[arg(long, env = "SKIP_CRD_MIGRATION_PHASES", value_enum, value_delimiter = ',')]
    pub skip_crd_migration_phases: Vec<Phase>,
}

/// Which of several hosts a machine gets that suit it equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HostChoice {
    /// Always the same one for the same machine.
    Stable,
    /// Any.
    Random,
}

impl HostChoice {
    /// What the choice for the machine of this UID is made with.
    pub fn seed(self, uid: &str) -> u64 {
        match self {
            Self::Stable => stable_seed(uid),
            Self::Random => random_seed(),
        }
    }
}

/// How often each workload cluster may be asked.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Workload clusters")]
pub struct WorkloadArgs {
    /// Requests per second to each workload cluster on average; negative means no limit
    #[arg(
        long,
        env = "CLUSTERCACHE_CLIENT_QPS",
        default_value_t = 20.0,
        allow_negative_numbers = true
    )]
    pub clustercache_client_qps: f32,

    /// Requests to each workload cluster that may be sent at once before --clustercache-client-qps holds them back
    #[arg(long, env = "CLUSTERCACHE_CLIENT_BURST", default_value_t = 30)]
    pub clustercache_client_burst: u32,

    /// Addresses that the API server of a workload cluster may not have, as ranges separated by commas; given empty, there are none.
    /// What its name resolves to is checked when it is connected to
    #[arg(long, env = "DENIED_URL_RANGES", default_value = DeniedRanges::DEFAULT)]
    pub denied_url_ranges: DeniedRanges,
}

impl WorkloadArgs {
    /// How workload clusters may be accessed.
    pub fn access(&self) -> Access {
        Access {
            limits: self.limits(),
            denied: self.denied_url_ranges.clone(),
        }
    }

    /// The same, for a client whose configuration comes from elsewhere.
    pub fn limits(&self) -> ClientArgs {
        ClientArgs {
            kubeconfig: None,
            kube_api_qps: self.clustercache_client_qps,
            kube_api_burst: self.clustercache_client_burst,
        }
    }
}

/// How many objects of each kind are worked on at once.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Controllers")]
pub struct Workers {
    /// Metal3Clusters that are worked on at once
    #[arg(long, env = "METAL3CLUSTER_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub metal3cluster_concurrency: u16,

    /// Metal3Machines that are worked on at once
    #[arg(long, env = "METAL3MACHINE_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub metal3machine_concurrency: u16,

    /// Metal3Remediations that are worked on at once
    #[arg(long, env = "METAL3REMEDIATION_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub metal3remediation_concurrency: u16,

    /// Metal3DataTemplates that are worked on at once
    #[arg(long, env = "METAL3DATATEMPLATE_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub metal3datatemplate_concurrency: u16,

    /// Metal3Datas that are worked on at once
    #[arg(long, env = "METAL3DATA_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub metal3data_concurrency: u16,

    /// Clusters whose Nodes get the labels of their hosts at once
    #[arg(long, env = "METAL3LABELSYNC_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub metal3labelsync_concurrency: u16,

    /// Metal3Machines that are brought in line with their Metal3MachineTemplates at once
    #[arg(long, env = "METAL3MACHINETEMPLATE_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub metal3machinetemplate_concurrency: u16,
}

impl Args {
    /// Puts what can be said in two ways into one place.
    #[must_use]
    pub fn unified(mut self) -> Self {
        self.provider.unify(&mut self.leader, &mut self.metrics, &mut self.log);
        self
    }

    /// Whether hosts stay powered on between two machines. `None` if the setting is neither on nor off, which counts as off, as
    /// upstream has it.
    pub fn fast_track(&self) -> Option<bool> {
        match unquoted(&self.fast_track) {
            "true" => Some(true),
            "false" | "" => Some(false),
            _ => None,
        }
    }
}

/// A text without the one pair of quotes around it. Users of `clusterctl` write `'true'`, quotes included: upstream's manifest needs
/// them, and its YAML takes them away again.
fn unquoted(text: &str) -> &str {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;
    use metal3_runtime::args::parse_from;

    fn parse(argv: &[&str]) -> Args {
        let argv = std::iter::once("cluster-api-provider-metal3").chain(argv.iter().copied());
        parse_from::<Args>(argv.map(Into::into)).unwrap().unified()
    }

    #[test]
    fn upstreams_own_manifest_is_understood() {
        let args = parse(&[
            "--webhook-port=9443",
            "--leader-elect",
            "--leader-elect-lease-duration=1m",
            "-diagnostics-address=127.0.0.1:8080",
            "--insecure-diagnostics=true",
            "--tls-min-version=VersionTLS13",
            "--sync-period=1h30m",
            "--metal3cluster-concurrency=3",
            "--metal3machine-concurrency=4",
            "--metal3labelsync-concurrency=5",
            "--metal3remediation-concurrency=6",
            "--clustercache-client-qps=50",
            "--enable-bmh-name-based-preallocation=false",
            "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
            "--log-flush-frequency=1s",
            "--watch-filter=blue",
            "--logging-format=text",
            "--v=2",
            "--namespace=a",
        ]);
        assert!(args.leader.enable_leader_election && args.metrics.metrics_plain_http && args.log.dev);
        assert_eq!(args.leader.timing().unwrap().lease, Duration::from_secs(60));
        assert_eq!(args.metrics.metrics_addr.to_string(), "127.0.0.1:8080");
        assert_eq!(args.provider.sync_period, Duration::from_secs(5400));
        assert_eq!(args.workers.metal3cluster_concurrency, 3);
        assert_eq!(args.workers.metal3remediation_concurrency, 6);
        assert_eq!(args.provider.watch_filter, "blue");
        assert_eq!(args.skip_crd_migration_phases.len(), 2);
    }

    // OWN 31xt: the provider did not start with the arguments of upstream's Deployment of 1.12.
    #[rstest]
    #[case::on("true", true)]
    #[case::off("false", false)]
    fn the_manifest_of_upstreams_1_12_is_understood(#[case] text: &str, #[case] claims_by_host: bool) {
        let args = parse(&[
            "--webhook-port=9443",
            &format!("--enableBMHNameBasedPreallocation={text}"),
            "--diagnostics-address=:8443",
            "--insecure-diagnostics=false",
            "--tls-min-version=VersionTLS13",
        ]);
        assert_eq!(args.enable_bmh_name_based_preallocation, claims_by_host);
    }

    // OWN 31ya: quotes that upstream's manifest needs around the value switched fast track off.
    #[rstest]
    #[case::on("true", Some(true))]
    #[case::quoted("'true'", Some(true))]
    #[case::in_double_quotes("\"true\"", Some(true))]
    #[case::off("'false'", Some(false))]
    #[case::not_set("", Some(false))]
    #[case::empty("''", Some(false))]
    #[case::another_case("True", None)]
    #[case::half_quoted("'true", None)]
    #[case::quoted_twice("''true''", None)]
    #[case::one_quote("'", None)]
    fn fast_track_may_be_quoted(#[case] text: &str, #[case] expected: Option<bool>) {
        assert_eq!(parse(&["--fast-track", text]).fast_track(), expected);
    }

    #[test]
    fn the_choice_of_hosts_is_stable_unless_it_is_to_be_random() {
        let seeds = |argv: &[&str]| [(); 2].map(|()| parse(argv).host_choice.seed("uid"));
        let [first, second] = seeds(&[]);
        assert_eq!(first, second);
        let [first, second] = seeds(&["--host-choice=random"]);
        assert_ne!(first, second);
    }

    #[test]
    fn defaults_are_upstreams() {
        let args = parse(&[]);
        assert!(!args.leader.enable_leader_election);
        assert_eq!(args.leader.timing().unwrap(), metal3_runtime::leader::Timing::default());
        assert_eq!(args.provider.sync_period, Duration::from_secs(600));
        assert_eq!(args.workers.metal3cluster_concurrency, 10);
        assert_eq!(args.metrics.metrics_addr.to_string(), ":8443");
        assert_eq!(args.probes.health_addr.to_string(), ":9440");
    }
}
