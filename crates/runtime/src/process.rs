//! What every manager's process begins with: probes, metrics, the client and leader election.

use axum::http::{HeaderName, HeaderValue, header::USER_AGENT};
use tokio::sync::watch;

use crate::args::{
    ClientArgs, ClientError, LeaderArgs, MetricsArgs, NamespaceArgs, ProbeArgs, TimingError, TlsArgs, WebhookArgs,
};
use crate::leader::{self, Candidate, KubeLease};
use crate::listen::BindError;
use crate::metrics::{Build, ControllerMetrics, Endpoint, EndpointError, KubeAccess, Registry, Requests};
use crate::probes::{self, Check, Probes};
use crate::shutdown::{Ended, Tasks};
use crate::webhook::{self, SelfManaged, WebhookError, Webhooks};
use crate::{Clock, backoff, tls};

/// What distinguishes one manager from another, and its flags.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// What it says of itself.
    pub build: Build,
    /// The name of its Lease. Upstream's, so that the two never work at once while one replaces the other.
    pub lease: &'static str,
    /// The namespace of its pod; empty if it is not known.
    pub pod_namespace: &'a str,
    /// The Kubernetes API.
    pub client: &'a ClientArgs,
    /// Which namespaces.
    pub namespaces: &'a NamespaceArgs,
    /// One at a time.
    pub leader: &'a LeaderArgs,
    /// Probes.
    pub probes: &'a ProbeArgs,
    /// Metrics.
    pub metrics: &'a MetricsArgs,
    /// TLS of what is served.
    pub tls: &'a TlsArgs,
}

/// A process that has begun: spawn the controllers, then run `tasks`.
pub struct Process {
    /// The machine's clock.
    pub clock: Clock,
    /// What is counted.
    pub registry: Registry,
    /// What every controller reports.
    pub controllers: ControllerMetrics,
    /// A client within the limits of the flags.
    pub client: kube::Client,
    /// Whether this replica leads.
    pub leads: watch::Receiver<bool>,
    /// The check of `/readyz` that the kinds are served; to be set when they are.
    pub kinds_ready: Check,
    /// Its tasks so far.
    pub tasks: Tasks,
    // Leadership is for ever without election, as long as the sender lives.
    _leading: Option<watch::Sender<bool>>,
}

/// Why a process could not begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The port of the probes.
    #[error("probes")]
    Probes(#[from] BindError),
    /// TLS settings.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// The port of the metrics.
    #[error(transparent)]
    Metrics(#[from] EndpointError),
    /// The port of the webhooks, or their certificate.
    #[error(transparent)]
    Webhooks(#[from] WebhookError),
    /// Times of leader election.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// No namespace for the lease.
    #[error("leader election needs a namespace for its lease: set POD_NAMESPACE")]
    NoLeaseNamespace,
}

impl Process {
    /// Begins: probes and metrics are served, and the election runs. No controller does yet. Logging should be on by now.
    pub async fn begin(settings: &Settings<'_>) -> Result<Self, StartError> {
        let clock = Clock::system();
        let registry = Registry::new(settings.build.clone());
        let controllers = ControllerMetrics::new(&registry);
        let mut config = settings.client.config().await?;
        config.headers.extend(user_agent(&settings.build));
        let election_client = ClientArgs::unlimited(config.clone())?;
        let client = settings.client.counted(config, &Requests::new(&registry))?;

        let mut tasks = Tasks::new();
        let mut probes = Probes::new();
        let kinds_ready = probes.ready("kinds");
        if let Some(listener) = settings.probes.health_addr.bind()? {
            tasks.spawn_final("probes", probes::serve(listener, probes, tasks.drained()));
        }
        let policy = tls::Policy::from_args(settings.tls)?;
        let access = KubeAccess::new(client.clone());
        if let Some(endpoint) = Endpoint::open(settings.metrics, policy, access, registry.clone(), clock.clone())? {
            tasks.spawn_final("metrics", endpoint.serve(tasks.drained()));
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
            kinds_ready,
            tasks,
            _leading: leading,
        })
    }
}

impl Process {
    /// Serves webhooks from now on, whether this replica leads or not, until everything but leader election has ended:
    /// controllers write objects that their own webhooks must admit.
    pub fn serve_webhooks(
        &mut self,
        args: &WebhookArgs,
        tls: &TlsArgs,
        webhooks: Webhooks,
        certificates: SelfManaged,
    ) -> Result<(), StartError> {
        let policy = tls::Policy::from_args(tls)?;
        let Some(endpoint) = webhook::Endpoint::open(args, policy, webhooks, &self.registry)? else {
            tracing::warn!("webhooks are switched off: what the cluster sends to them fails");
            return Ok(());
        };
        let endpoint = endpoint.self_managed(
            certificates,
            self.client.clone(),
            self.leads.clone(),
            self.clock.clone(),
        );
        self.tasks.spawn_final("webhooks", endpoint.serve(self.tasks.drained()));
        Ok(())
    }

    /// Runs until a signal has come and everything has ended, or something went wrong.
    pub async fn run(self) -> Result<(), Ended> {
        // All of `self` lives as long as the tasks do: the sender of `leads` among it.
        let Self { tasks, _leading, .. } = self;
        tasks.run().await
    }
}

/// Who asks: what an audit log shows, and whose managedFields calls what is written without a field manager.
fn user_agent(build: &Build) -> Option<(HeaderName, HeaderValue)> {
    let agent = format!("{}/{}", build.component, build.version);
    HeaderValue::try_from(agent).ok().map(|agent| (USER_AGENT, agent))
}

/// Says that a Deployment's flags ask for webhooks, which are not there.
pub fn warn_of_missing_webhooks(port: u16) {
    if port != 0 {
        tracing::warn!(
            port,
            "no webhooks are served: remove their configuration from the cluster"
        );
    }
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
