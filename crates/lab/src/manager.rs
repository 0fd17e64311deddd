//! One of our own programs as a plain process: the common part.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::ports::Port;
use crate::process::{Child, Program};

/// How long a program may take to serve its probes.
const READY: Duration = Duration::from_secs(30);
/// How long it may take to end when asked to: upstream's `terminationGracePeriodSeconds`.
const GRACE: Duration = Duration::from_secs(10);

/// What to start.
#[derive(Debug, Clone)]
pub struct ManagerConfig {
    /// What messages and its log call it.
    pub name: String,
    /// The program.
    pub binary: PathBuf,
    /// Where its log goes, `NAME.log`.
    pub folder: PathBuf,
    /// How it reaches the API server, with its credentials.
    pub kubeconfig: PathBuf,
    /// Flags beyond ours.
    pub args: Vec<String>,
    /// Environment variables beyond ours.
    pub env: Vec<(OsString, OsString)>,
    /// Whether to wait until it is ready.
    pub wait: bool,
}

impl ManagerConfig {
    /// The usual: wait until it is ready.
    pub fn new(
        name: impl Into<String>,
        binary: impl Into<PathBuf>,
        folder: impl Into<PathBuf>,
        kubeconfig: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.into(),
            binary: binary.into(),
            folder: folder.into(),
            kubeconfig: kubeconfig.into(),
            args: Vec::new(),
            env: Vec::new(),
            wait: true,
        }
    }

    /// Where its log is.
    pub fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Manager {
    child: Child,
    metrics: Port,
    webhooks: Port,
    _health: Port,
}

impl Manager {
    /// Starts it and, unless configured otherwise, returns when it is ready.
    pub async fn start(config: &ManagerConfig) -> Result<Self> {
        let (health, metrics, webhooks) = (Port::free()?, Port::free()?, Port::free()?);
        let mut args: Vec<OsString> = vec![
            "--kubeconfig".into(),
            config.kubeconfig.clone().into(),
            format!("--health-addr=127.0.0.1:{}", health.number()).into(),
            format!("--metrics-addr=127.0.0.1:{}", metrics.number()).into(),
            format!("--webhook-port={}", webhooks.number()).into(),
        ];
        args.extend(config.args.iter().map(OsString::from));
        let ours = [("LOG_DEV", "true"), ("METRICS_PLAIN_HTTP", "true")];
        let mut env: Vec<(OsString, OsString)> = ours.map(|(name, value)| (name.into(), value.into())).into();
        env.extend(config.env.iter().cloned());
        let child = Child::spawn(&Program {
            name: config.name.clone(),
            executable: config.binary.clone(),
            args,
            env,
            cwd: None,
            log: config.log(),
        })?;
        if config.wait {
            let probe = format!("http://127.0.0.1:{}/readyz", health.number());
            child.wait_until("ready", READY, || is_ok(&probe)).await?;
        }
        Ok(Self {
            child,
            metrics,
            webhooks,
            _health: health,
        })
    }

    /// The process.
    pub fn process(&self) -> &Child {
        &self.child
    }

    /// Where its metrics are, in plain HTTP.
    pub fn metrics_url(&self) -> String {
        format!("http://127.0.0.1:{}/metrics", self.metrics.number())
    }

    /// Where its webhooks are, in HTTPS.
    pub fn webhooks_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.webhooks.number())
    }

    /// Asks it to end. Returns whether it has, in the time that Kubernetes would give it.
    pub async fn stop(self) -> bool {
        self.child.stop(GRACE).await
    }
}

/// Whether a GET is answered with success.
pub(crate) async fn is_ok(url: &str) -> Result<()> {
    reqwest::get(url).await?.error_for_status()?;
    Ok(())
}
