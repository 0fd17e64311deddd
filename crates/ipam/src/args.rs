//! The command line. Flags are upstream's, so that an existing Deployment works unchanged.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use metal3_runtime::args::{
    ClientArgs, LeaderArgs, LogArgs, MetricsArgs, NamespaceArgs, ProbeArgs, TlsArgs, go_bool, go_duration,
};
use metal3_runtime::listen::ListenAddr;

/// Gives addresses of IPPools to Metal3's and Cluster API's claims.
#[derive(Clone, Debug, Parser)]
#[command(name = "ip-address-manager", version)]
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

    /// Work only while holding the lease; the same as --enable-leader-election
    #[arg(long, env = "LEADER_ELECT", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub leader_elect: bool,

    /// The namespace of the pod: the lease lives there
    #[arg(long, env = "POD_NAMESPACE", default_value = "")]
    pub pod_namespace: String,

    /// How often everything is looked at again without a reason
    #[arg(long, env = "SYNC_PERIOD", default_value = "10m", value_parser = go_duration())]
    pub sync_period: Duration,

    /// Value that the label cluster.x-k8s.io/watch-filter of pools and claims must have; empty takes all of them
    #[arg(long, env = "WATCH_FILTER", default_value = "")]
    pub watch_filter: String,

    /// Pools that are worked on at once
    #[arg(long, env = "IPPOOL_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub ippool_concurrency: u16,

    /// Address of /metrics; without it --metrics-addr counts
    #[arg(long, env = "DIAGNOSTICS_ADDRESS")]
    pub diagnostics_address: Option<ListenAddr>,

    /// Serve /metrics over plain HTTP; the same as --metrics-plain-http
    #[arg(long, env = "INSECURE_DIAGNOSTICS", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub insecure_diagnostics: bool,

    /// Accepted so that existing Deployments start; this version serves no webhooks
    #[arg(long, env = "WEBHOOK_PORT", default_value = "0")]
    pub webhook_port: u16,

    /// Accepted so that existing Deployments start; this version serves no webhooks
    #[arg(
        long,
        env = "WEBHOOK_CERT_DIR",
        default_value = "/tmp/k8s-webhook-server/serving-certs/"
    )]
    pub webhook_cert_dir: PathBuf,

    /// Seconds for which an address is kept whose claim has vanished without being released
    #[arg(long, env = "ORPHAN_GRACE_SECONDS", default_value_t = 60)]
    pub orphan_grace_seconds: u64,

    /// Accepted so that existing Deployments start; --log-filter says what is logged
    #[arg(long, env = "LOG_VERBOSITY", default_value = "0")]
    pub v: u8,

    /// text or json; --dev is text, too
    #[arg(long, env = "LOGGING_FORMAT", default_value = "json", value_parser = ["json", "text"])]
    pub logging_format: String,
}

impl Args {
    /// Puts what can be said in two ways into one place.
    #[must_use]
    pub fn unified(mut self) -> Self {
        self.leader.enable_leader_election |= self.leader_elect;
        self.metrics.metrics_plain_http |= self.insecure_diagnostics;
        self.log.dev |= self.logging_format == "text";
        if let Some(address) = &self.diagnostics_address {
            self.metrics.metrics_addr = address.clone();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metal3_runtime::args::parse_from;

    fn parse(argv: &[&str]) -> Args {
        let argv = std::iter::once("ip-address-manager").chain(argv.iter().copied());
        parse_from::<Args>(argv.map(Into::into)).unwrap().unified()
    }

    #[test]
    fn upstreams_own_manifest_is_understood() {
        let args = parse(&[
            "--webhook-port=9443",
            "--leader-elect",
            "-diagnostics-address=127.0.0.1:8080",
            "--insecure-diagnostics=true",
            "--tls-min-version=VersionTLS13",
            "--sync-period=1h30m",
            "--ippool-concurrency=3",
            "--watch-filter=blue",
            "--logging-format=text",
            "--v=2",
            "--namespace=a",
        ]);
        assert!(args.leader.enable_leader_election && args.metrics.metrics_plain_http && args.log.dev);
        assert_eq!(args.metrics.metrics_addr.to_string(), "127.0.0.1:8080");
        assert_eq!(args.sync_period, Duration::from_secs(5400));
        assert_eq!((args.ippool_concurrency, args.watch_filter.as_str()), (3, "blue"));
    }

    #[test]
    fn defaults_are_upstreams() {
        let args = parse(&[]);
        assert!(!args.leader.enable_leader_election);
        assert_eq!(args.sync_period, Duration::from_secs(600));
        assert_eq!(args.ippool_concurrency, 10);
        assert_eq!(args.metrics.metrics_addr.to_string(), ":8443");
        assert_eq!(args.probes.health_addr.to_string(), ":9440");
    }
}
