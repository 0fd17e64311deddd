//! The baremetal-operator as a plain process against the lab's API server and the lab's Ironic.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::ironic::{Credentials, IronicLab};
use crate::manager::{Manager, ManagerConfig};
use crate::process::Child;

/// What to start.
#[derive(Debug, Clone)]
pub struct OperatorConfig {
    /// The program.
    pub binary: PathBuf,
    /// Where its log and the files it reads go; the name of the folder becomes the program's.
    pub folder: PathBuf,
    /// How it reaches the API server, and as whom.
    pub kubeconfig: PathBuf,
    /// Flags beyond ours.
    pub args: Vec<String>,
    /// Environment variables beyond ours.
    pub env: Vec<(String, String)>,
    /// Credentials for Ironic instead of the right ones.
    pub ironic_password: Option<String>,
    /// Whether to wait until it is ready; off where the point is that it is not.
    pub wait: bool,
}

impl OperatorConfig {
    /// The usual: wait until it is ready.
    pub fn new(binary: impl Into<PathBuf>, folder: impl Into<PathBuf>, kubeconfig: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            folder: folder.into(),
            kubeconfig: kubeconfig.into(),
            args: Vec::new(),
            env: Vec::new(),
            ironic_password: None,
            wait: true,
        }
    }

    /// The folder of the files `username` and `password` with its credentials for Ironic, which are written at its start.
    pub fn credentials(&self) -> PathBuf {
        self.folder.join(AUTH).join("ironic")
    }
}

/// Where it looks for its credentials, below its folder.
const AUTH: &str = "auth";

/// The Ironic that an operator is to use.
#[derive(Debug, Clone)]
pub struct IronicAccess {
    /// The API's address, without `/v1`.
    pub endpoint: String,
    /// What the API wants; none if it takes anybody.
    pub credentials: Option<Credentials>,
    /// The certificate to trust; none without TLS.
    pub ca_file: Option<PathBuf>,
    /// A ramdisk as an ISO.
    pub ramdisk_iso_url: String,
}

impl From<&IronicLab> for IronicAccess {
    fn from(ironic: &IronicLab) -> Self {
        Self {
            endpoint: ironic.endpoint(),
            credentials: ironic.credentials(),
            ca_file: ironic.ca_file(),
            ramdisk_iso_url: ironic.ramdisk_iso_url(),
        }
    }
}

/// A running operator. Dropping it kills it.
#[derive(Debug)]
pub struct Operator(Manager);

impl Operator {
    /// Starts the operator and, unless told otherwise, returns when it is ready.
    pub async fn start(config: &OperatorConfig, ironic: &IronicLab) -> Result<Self> {
        Self::start_with(config, &IronicAccess::from(ironic)).await
    }

    /// The same with any Ironic.
    pub async fn start_with(config: &OperatorConfig, ironic: &IronicAccess) -> Result<Self> {
        let folder = &config.folder;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut env: Vec<(OsString, OsString)> = vec![
            ("IRONIC_ENDPOINT".into(), format!("{}/v1/", ironic.endpoint).into()),
            ("DEPLOY_ISO_URL".into(), ironic.ramdisk_iso_url.clone().into()),
            ("METAL3_AUTH_ROOT_DIR".into(), credentials(config, ironic)?.into()),
            ("POD_NAMESPACE".into(), "baremetal-operator-system".into()),
        ];
        if let Some(ca) = &ironic.ca_file {
            env.push(("IRONIC_CACERT_FILE".into(), ca.into()));
        }
        env.extend(config.env.iter().map(|(name, value)| (name.into(), value.into())));
        let manager = ManagerConfig {
            args: config.args.clone(),
            env,
            wait: config.wait,
            ..ManagerConfig::new("operator", &config.binary, folder, &config.kubeconfig)
        };
        Ok(Self(Manager::start(&manager).await?))
    }

    /// The process.
    pub fn process(&self) -> &Child {
        self.0.process()
    }

    /// Where its metrics are, in plain HTTP.
    pub fn metrics_url(&self) -> String {
        self.0.metrics_url()
    }

    /// Asks it to end. Returns whether it has, in the time that Kubernetes would give it.
    pub async fn stop(self) -> bool {
        self.0.stop().await
    }
}

impl From<Operator> for Manager {
    fn from(operator: Operator) -> Self {
        operator.0
    }
}

/// The folder in which the operator looks for its credentials; without authentication, one that does not exist.
fn credentials(config: &OperatorConfig, ironic: &IronicAccess) -> Result<PathBuf> {
    if let Some(user) = &ironic.credentials {
        let ironic = config.credentials();
        fs::create_dir_all(&ironic).with_context(|| format!("cannot make {}", ironic.display()))?;
        fs::write(ironic.join("username"), &user.username)?;
        fs::write(
            ironic.join("password"),
            config.ironic_password.as_ref().unwrap_or(&user.password),
        )?;
    }
    Ok(config.folder.join(AUTH))
}
