//! The baremetal-operator as a plain process against the lab's API server and the lab's Ironic.

use std::ffi::OsString;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::ironic::{Credentials, IronicLab};
use crate::manager::{Manager, ManagerConfig};
use crate::pki::Authority;

/// What to start.
#[derive(Debug, Clone)]
pub struct OperatorConfig {
    /// What it has in common with our other programs. The files that it reads lie in the same folder as its log.
    pub program: ManagerConfig,
    /// Credentials for Ironic instead of the right ones.
    pub ironic_password: Option<String>,
}

impl OperatorConfig {
    /// The usual: wait until it is ready.
    pub fn new(binary: impl Into<PathBuf>, folder: impl Into<PathBuf>, kubeconfig: impl Into<PathBuf>) -> Self {
        Self {
            program: ManagerConfig::new("operator", binary, folder, kubeconfig),
            ironic_password: None,
        }
    }

    /// The folder of the files `username` and `password` with its credentials for Ironic, which are written at its start.
    pub fn credentials(&self) -> PathBuf {
        self.folder.join(AUTH).join("ironic")
    }
}

impl Deref for OperatorConfig {
    type Target = ManagerConfig;

    fn deref(&self) -> &ManagerConfig {
        &self.program
    }
}

impl DerefMut for OperatorConfig {
    fn deref_mut(&mut self) -> &mut ManagerConfig {
        &mut self.program
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
    /// What inspects and deploys hosts.
    pub ramdisk: Ramdisk,
}

/// A ramdisk by its URLs.
#[derive(Debug, Clone)]
pub enum Ramdisk {
    /// An ISO image.
    Iso(String),
    /// A kernel and an initial ramdisk, of which Ironic makes an ISO image.
    Pair([String; 2]),
}

impl Ramdisk {
    /// The operator's variables for it.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        match self {
            Self::Iso(url) => vec![("DEPLOY_ISO_URL".into(), url.into())],
            Self::Pair([kernel, ramdisk]) => vec![
                ("DEPLOY_KERNEL_URL".into(), kernel.into()),
                ("DEPLOY_RAMDISK_URL".into(), ramdisk.into()),
            ],
        }
    }
}

impl From<&IronicLab> for IronicAccess {
    fn from(ironic: &IronicLab) -> Self {
        Self {
            endpoint: ironic.endpoint(),
            credentials: ironic.credentials(),
            ca_file: ironic.ca_file(),
            ramdisk: Ramdisk::Iso(ironic.ramdisk_iso_url()),
        }
    }
}

/// Starts an operator and, unless configured otherwise, returns when it is ready.
pub async fn start(config: &OperatorConfig, ironic: &IronicAccess) -> Result<Manager> {
    let folder = &config.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut program = config.program.clone();
    program.env = vec![
        ("IRONIC_ENDPOINT".into(), format!("{}/v1/", ironic.endpoint).into()),
        ("METAL3_AUTH_ROOT_DIR".into(), credentials(config, ironic)?.into()),
        ("POD_NAMESPACE".into(), "baremetal-operator-system".into()),
        ("WEBHOOK_CERT_DIR".into(), webhook_certificate(config)?.into()),
    ];
    program.env.extend(ironic.ramdisk.variables());
    program
        .env
        .extend(ironic.ca_file.iter().map(|ca| ("IRONIC_CACERT_FILE".into(), ca.into())));
    program.env.extend(config.env.iter().cloned());
    Manager::start(&program).await
}

/// A certificate for the webhooks: without one the operator would keep its own in the cluster. Nothing trusts it.
fn webhook_certificate(config: &OperatorConfig) -> Result<PathBuf> {
    let folder = config.folder.join("webhooks");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let authority = Authority::generate("webhooks of the operator")?;
    authority.server("webhooks", &[])?.write(&folder, "tls")?;
    Ok(folder)
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
