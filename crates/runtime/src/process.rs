//! The start of every manager's process: probes, metrics, the client and leader election.

use std::convert::Infallible;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, header::USER_AGENT};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::args::{
    ClientArgs, ClientError, LeaderArgs, MetricsArgs, NamespaceArgs, ProbeArgs, TimingError, TlsArgs, WebhookArgs,
};
use crate::leader::{self, Candidate, KubeLease};
use crate::listen::BindError;
use crate::metrics::{Build, ControllerMetrics, Endpoint, EndpointError, KindsMissing, KubeAccess, Registry, Requests};
use crate::probes::{self, Check, Probes};
use crate::shutdown::{Ended, Tasks};
use crate::timing::webhooks::LAST_CALLS;
use crate::webhook::{self, SelfManaged, WebhookError, Webhooks};
use crate::{Clock, backoff, tls};

/// What distinguishes one manager from another, and its flags.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// Its build information.
    pub build: Build,
    /// The name of its Lease. The same as upstream's, so that the two never run at the same time while one replaces the
    /// other.
    pub lease: &'static str,
    /// The namespace of its pod; empty if it is not known.
    pub pod_namespace: &'a str,
    /// The Kubernetes API.
    pub client: &'a ClientArgs,
    /// The namespaces to watch.
    pub namespaces: &'a NamespaceArgs,
    /// Leader election.
    pub leader: &'a LeaderArgs,
    /// Probes.
    pub probes: &'a ProbeArgs,
    /// Metrics.
    pub metrics: &'a MetricsArgs,
    /// TLS of the servers.
    pub tls: &'a TlsArgs,
}

/// A started process: spawn the controllers, then run `tasks`.
pub struct Process {
    /// The machine's clock.
    pub clock: Clock,
    /// The metrics registry.
    pub registry: Registry,
    /// The metrics that every controller reports.
    pub controllers: ControllerMetrics,
    /// A client with the rate limits of the flags.
    pub client: kube::Client,
    /// Whether this replica leads.
    pub leads: watch::Receiver<bool>,
    /// The `/readyz` check `kinds`, whose note names the kinds that are awaited.
    pub kinds: Check,
    /// Its tasks so far.
    pub tasks: Tasks,
    component: &'static str,
    webhook_ready: Check,
    /// Cancelled after the last calls of webhooks: probes and metrics are served as long as these.
    last: CancellationToken,
    // Without election this replica always leads, as long as the sender is alive.
    _leading: Option<watch::Sender<bool>>,
}

/// Why a process could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The probe port could not be opened.
    #[error("probes")]
    Probes(#[from] BindError),
    /// Invalid TLS settings.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// The metrics port could not be opened.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// The webhook port or certificate failed.
    #[error(transparent)]
    Webhooks(#[from] WebhookError),
    /// Invalid leader election times.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The lease has no namespace.
    #[error("leader election needs a namespace for its lease: set POD_NAMESPACE")]
    NoLeaseNamespace,
}

impl Process {
    /// Starts probes, metrics and the election, but no controller. Logging should be set up by now.
    pub async fn begin(settings: &Settings<'_>) -> Result<Self, StartError> {
        let clock = Clock::system();
        let registry = Registry::new(settings.build.clone());
        let controllers = ControllerMetrics::new(&registry);
        let mut config = settings.client.config().await?;
        config.headers.extend(user_agent(&settings.build));
        let election_client = ClientArgs::unlimited(config.clone())?;
        let client = settings.client.counted(config, &Requests::new(&registry))?;

        let (mut tasks, last) = (Tasks::new(), CancellationToken::new());
        let mut probes = Probes::new();
        // Never fails: the API server may need this program's own conversion to list a kind, and asks only a replica that is
        // ready.
        let kinds = probes.ready("kinds");
        kinds.set(true);
        registry.collect(KindsMissing(kinds.clone()));
        // Fails until the API server trusts this replica, but not for long: while one program replaces another, a new replica
        // becomes ready before it leads, and it may have no right to write what the API server trusts.
        let webhook_ready = probes.ready("webhook");
        if let Some(listener) = settings.probes.health_addr.bind()? {
            tasks.spawn_final("probes", probes::serve(listener, probes, last.clone()));
        }
        let policy = tls::Policy::from_args(settings.tls)?;
        let access = KubeAccess::new(client.clone());
        if let Some(endpoint) = Endpoint::open(settings.metrics, policy, access, registry.clone(), clock.clone())? {
            tasks.spawn_final("metrics", endpoint.serve(last.clone()));
        }
        let is_elected = settings.leader.enable_leader_election;
        let (leading, leads) = watch::channel(!is_elected);
        let leading = if is_elected {
            let candidate = Candidate::new(leader::identity(), settings.leader.timing()?, backoff::random_seed());
            let lease = KubeLease::new(election_client, lease_namespace(settings)?, settings.lease);
            let signals = leader::Signals {
                stop: tasks.stop(),
                drained: tasks.drained(),
                leading,
            };
            let clock = clock.clone();
            tasks.spawn_final("leader election", async move {
                leader::run(&lease, candidate, clock, signals).await
            });
            None
        } else {
            Some(leading)
        };
        Ok(Self {
            clock,
            registry,
            controllers,
            client,
            leads,
            kinds,
            tasks,
            component: settings.build.component,
            webhook_ready,
            last,
            _leading: leading,
        })
    }
}

impl Process {
    /// Serves webhooks from now on, on the leader and on followers. They end after everything but leader election,
    /// because controllers write objects that their own webhooks must admit, and with probes and metrics some seconds after the
    /// signal. Call it once.
    pub fn serve_webhooks(
        &mut self,
        args: &WebhookArgs,
        tls: &TlsArgs,
        webhooks: Webhooks,
        certificates: SelfManaged,
    ) -> Result<(), StartError> {
        let policy = tls::Policy::from_args(tls)?;
        let endpoint = webhook::Endpoint::open(args, policy, webhooks, &self.registry)?;
        let last_calls = endpoint.as_ref().map_or(Duration::ZERO, |_| LAST_CALLS);
        let (stop, drained, last) = (self.tasks.stop(), self.tasks.drained(), self.last.clone());
        self.tasks.spawn_final("last calls", async move {
            stop.cancelled().await;
            tokio::join!(tokio::time::sleep(last_calls), drained.cancelled());
            last.cancel();
            Ok::<_, Infallible>(())
        });
        let Some(endpoint) = endpoint else {
            tracing::warn!("webhooks are switched off: what the cluster sends to them fails");
            self.webhook_ready.set(true);
            return Ok(());
        };
        let endpoint = endpoint.self_managed(
            certificates,
            self.client.clone(),
            self.leads.clone(),
            self.clock.clone(),
        );
        let endpoint = endpoint
            .reporting(self.component, self.clock.clone(), self.webhook_ready.clone())
            .closing(self.tasks.stop());
        self.tasks.spawn_final("webhooks", endpoint.serve(self.last.clone()));
        Ok(())
    }

    /// Runs until a signal has arrived and everything has ended, or until a failure.
    pub async fn run(self) -> Result<(), Ended> {
        // All fields of `self` live as long as the tasks, including the sender of `leads`.
        let Self { tasks, _leading, .. } = self;
        tasks.run().await
    }
}

/// The user agent. Audit logs show it, and managedFields use it for writes without a field manager.
fn user_agent(build: &Build) -> Option<(HeaderName, HeaderValue)> {
    let agent = format!("{}/{}", build.component, build.version);
    HeaderValue::try_from(agent).ok().map(|agent| (USER_AGENT, agent))
}

fn lease_namespace<'a>(settings: &'a Settings<'_>) -> Result<&'a str, StartError> {
    let candidates = [
        settings.leader.leader_election_namespace.as_str(),
        settings.pod_namespace,
    ];
    candidates
        .into_iter()
        .chain(settings.namespaces.namespace.single())
        .find(|namespace| !namespace.is_empty())
        .ok_or(StartError::NoLeaseNamespace)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use clap::Parser;

    use super::*;
    use crate::served;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        namespaces: NamespaceArgs,
        #[command(flatten)]
        leader: LeaderArgs,
        #[command(flatten)]
        probes: ProbeArgs,
        #[command(flatten)]
        metrics: MetricsArgs,
        #[command(flatten)]
        tls: TlsArgs,
        #[command(flatten)]
        webhooks: WebhookArgs,
    }

    // OWN 31ia: a replica became ready when every kind could be listed. A list of objects that are stored in another version needs
    // this program's conversion, and the API server asks only a replica that is ready.
    #[tokio::test]
    async fn a_replica_is_ready_before_a_kind_can_be_listed() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        // Nobody listens there.
        let cluster = serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        std::fs::write(&kubeconfig, cluster.to_string()).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let flags = Flags::parse_from([
            "program".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--health-addr={address}"),
            "--metrics-addr=0".to_owned(),
            "--webhook-port=0".to_owned(),
        ]);
        let mut process = Process::begin(&Settings {
            build: Build {
                component: "program",
                version: "1",
            },
            lease: "lease",
            pod_namespace: "n",
            client: &flags.client,
            namespaces: &flags.namespaces,
            leader: &flags.leader,
            probes: &flags.probes,
            metrics: &flags.metrics,
            tls: &flags.tls,
        })
        .await
        .unwrap();
        let registry = process.registry.clone();
        let is_missing = |value: u8| {
            registry
                .text()
                .unwrap()
                .contains(&format!("\nmetal3_kinds_missing {value}\n"))
        };
        let probe = async |query: &str| {
            let answer = reqwest::get(format!("http://{address}/readyz{query}")).await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        assert_eq!(probe("").await.0, 500, "webhooks are not served yet");
        let certificates = SelfManaged {
            installed: webhook::Installed {
                namespace: "n",
                prefix: "p-",
                label: ("a", "b"),
                validating: "validation.",
                has_defaults: false,
            },
            namespace: "n".to_owned(),
            definitions: Vec::new(),
            unconverted: Vec::new(),
        };
        process
            .serve_webhooks(&flags.webhooks, &flags.tls, Webhooks::new(), certificates)
            .unwrap();
        let ask = async || {
            let answer = probe("").await;
            assert_eq!(answer, (200, "ok".to_owned()), "a conversion would be answered now");
            vec![if probe("?verbose").await.1.contains("kinds ok: waiting for hosts") {
                // OWN 31zc: a program that waits for Cluster API looked like one that is dead.
                assert!(is_missing(1));
                Ok(())
            } else {
                assert!(is_missing(0));
                Err("hosts".to_owned())
            }]
        };
        served::all(&process.kinds, ask).await;
        assert!(probe("?verbose").await.1.contains("kinds ok\n") && is_missing(0));
    }
}
