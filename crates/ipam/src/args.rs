//! The command line. Flags are upstream's, so that an existing Deployment works unchanged.

use clap::Parser;
use metal3_runtime::args::{
    ClientArgs, LeaderArgs, LogArgs, MetricsArgs, NamespaceArgs, ProbeArgs, ProviderArgs, TlsArgs,
};

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

    /// What providers of Cluster API have in common.
    #[command(flatten)]
    pub provider: ProviderArgs,

    /// Pools that are worked on at once
    #[arg(long, env = "IPPOOL_CONCURRENCY", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub ippool_concurrency: u16,

    /// Seconds for which an address is kept whose claim has vanished without being released
    #[arg(long, env = "ORPHAN_GRACE_SECONDS", default_value_t = 60)]
    pub orphan_grace_seconds: u64,
}

impl Args {
    /// Puts what can be said in two ways into one place.
    #[must_use]
    pub fn unified(mut self) -> Self {
        self.provider.unify(&mut self.leader, &mut self.metrics, &mut self.log);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            "--leader-elect-lease-duration=60s",
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
        assert_eq!(args.leader.timing().unwrap().lease, Duration::from_secs(60));
        assert_eq!(args.metrics.metrics_addr.to_string(), "127.0.0.1:8080");
        assert_eq!(args.provider.sync_period, Duration::from_secs(5400));
        assert_eq!(
            (args.ippool_concurrency, args.provider.watch_filter.as_str()),
            (3, "blue")
        );
    }

    #[test]
    fn defaults_are_upstreams() {
        let args = parse(&[]);
        assert!(!args.leader.enable_leader_election);
        assert_eq!(args.provider.sync_period, Duration::from_secs(600));
        assert_eq!(args.ippool_concurrency, 10);
        assert_eq!(args.metrics.metrics_addr.to_string(), ":8443");
        assert_eq!(args.probes.health_addr.to_string(), ":9440");
    }
}
