//! How Ironic is reached and what hosts are started from: environment variables with upstream's names and defaults.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use metal3_ironic::{Auth, ClientConfig, Tls, Url};

use crate::args::any_case_bool;
use crate::duration::go_duration;
use crate::ironic_resource::{Access, Reference};
use crate::settings::{DeployImages, HostSettings};

/// Settings of the Ironic provisioner.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Ironic")]
pub struct IronicArgs {
    /// Base URL of Ironic, such as https://ironic.example:6385/v1/
    #[arg(long, env = "IRONIC_ENDPOINT")]
    pub ironic_endpoint: Option<Url>,

    /// An Ironic resource of the ironic-standalone-operator that tells address, credentials and certificate, instead of
    /// --ironic-endpoint, the folder of credentials and the file of CA certificates
    #[arg(long, env = "IRONIC_NAME", default_value = "")]
    pub ironic_name: String,

    /// The namespace of that resource; empty is that of the pod, or else the only one that is watched
    #[arg(long, env = "IRONIC_NAMESPACE", default_value = "")]
    pub ironic_namespace: String,

    /// Where BMCs with an IPv6 address fetch virtual media from, instead of Ironic's usual address. A name in the address of a
    /// BMC is resolved once, and its first address counts. Taken away, it stays in the nodes that have it until the address or the
    /// credentials of their BMC change
    #[arg(long, env = "IRONIC_EXTERNAL_URL_V6")]
    pub ironic_external_url_v6: Option<Url>,

    /// CA certificates that Ironic's is checked against, instead of the system's; ignored while the file does not exist
    #[arg(long, env = "IRONIC_CACERT_FILE", default_value = "/opt/metal3/certs/ca/tls.crt")]
    pub ironic_cacert_file: PathBuf,

    /// Client certificate; used if it and its key exist
    #[arg(
        long,
        env = "IRONIC_CLIENT_CERT_FILE",
        default_value = "/opt/metal3/certs/client/tls.crt"
    )]
    pub ironic_client_cert_file: PathBuf,

    /// Its key
    #[arg(
        long,
        env = "IRONIC_CLIENT_PRIVATE_KEY_FILE",
        default_value = "/opt/metal3/certs/client/tls.key"
    )]
    pub ironic_client_private_key_file: PathBuf,

    /// Accept any certificate of Ironic
    #[arg(long, env = "IRONIC_INSECURE", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = any_case_bool())]
    pub ironic_insecure: bool,

    /// The longest that one call may take: seconds, or a Go duration such as 30s or 1m30s
    #[arg(long, env = "IRONIC_CLIENT_TIMEOUT", default_value = "30s", value_parser = go_duration)]
    pub ironic_client_timeout: Duration,

    /// Calls to Ironic at once
    #[arg(long, env = "IRONIC_MAX_CONCURRENT_CALLS", default_value = "16", value_parser = clap::value_parser!(u16).range(1..))]
    pub ironic_max_concurrent_calls: u16,

    /// Folder with ironic/username and ironic/password, which may be exchanged at any time; while neither exists no credentials
    /// are sent
    #[arg(long, env = "METAL3_AUTH_ROOT_DIR", default_value = "/opt/metal3/auth")]
    pub metal3_auth_root_dir: PathBuf,

    /// Kernel of the ramdisk; together with the ramdisk, or alone with --build-preprov-image. Taken away, it stays in the nodes
    /// that have it
    #[arg(long, env = "DEPLOY_KERNEL_URL")]
    pub deploy_kernel_url: Option<String>,

    /// The ramdisk that inspects and deploys hosts. Taken away, it stays in the nodes that have it
    #[arg(long, env = "DEPLOY_RAMDISK_URL")]
    pub deploy_ramdisk_url: Option<String>,

    /// The same as an ISO image, for BMCs with virtual media. Taken away, it stays in the nodes that have it, unless kernel and
    /// ramdisk are set
    #[arg(long, env = "DEPLOY_ISO_URL")]
    pub deploy_iso_url: Option<String>,

    /// The kernel by architecture, for ramdisks of single hosts (--build-preprov-image): arch:url,arch:url. It counts before
    /// DEPLOY_KERNEL_URL, and DEPLOY_KERNEL_URL_<ARCH> before both
    #[arg(long, env = "DEPLOY_KERNEL_BY_ARCH", default_value = "")]
    pub deploy_kernel_by_arch: String,

    /// The same for initial ramdisks
    #[arg(long, env = "DEPLOY_RAMDISK_BY_ARCH", default_value = "")]
    pub deploy_ramdisk_by_arch: String,

    /// The same for ISO images
    #[arg(long, env = "DEPLOY_ISO_BY_ARCH", default_value = "")]
    pub deploy_iso_by_arch: String,

    /// How many hosts may be inspected, cleaned, deployed or torn down at once over a provisioning network; those with
    /// virtual media do not count. With 0 or less nothing of that starts
    #[arg(
        long,
        env = "PROVISIONING_LIMIT",
        default_value = "20",
        allow_negative_numbers = true
    )]
    pub provisioning_limit: i64,

    /// Refuse BMC types that boot over a provisioning network
    #[arg(long, env = "PROVISIONING_NETWORK_DISABLED", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = any_case_bool())]
    pub provisioning_network_disabled: bool,

    /// Whether the boot device of deployed hosts is set for good: Default, Always or Never
    #[arg(long, env = "DIRECT_DEPLOY_FORCE_PERSISTENT_BOOT_DEVICE", value_parser = ["Default", "Always", "Never"])]
    pub direct_deploy_force_persistent_boot_device: Option<String>,

    /// The same for hosts that run a live ISO: Default, Always or Never
    #[arg(long, env = "LIVE_ISO_FORCE_PERSISTENT_BOOT_DEVICE", value_parser = ["Default", "Always", "Never"])]
    pub live_iso_force_persistent_boot_device: Option<String>,
}

/// The settings contradict each other or point at something unusable.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// Half a pair.
    #[error(
        "DEPLOY_KERNEL_URL and DEPLOY_RAMDISK_URL must be set together; only {0} is set (with --build-preprov-image the \
         kernel may stand alone)"
    )]
    HalfRamdisk(&'static str),
    /// Nobody says where Ironic is.
    #[error(
        "IRONIC_ENDPOINT is not set: it is the base URL of Ironic, such as https://ironic.example:6385/v1/; or set IRONIC_NAME \
         to follow a resource of the ironic-standalone-operator"
    )]
    NoEndpoint,
    /// A name without a namespace.
    #[error(
        "IRONIC_NAME is set, but the namespace of the resource is not known: set IRONIC_NAMESPACE or POD_NAMESPACE"
    )]
    NoNamespace,
    /// Upstream refuses half a pair as well.
    #[error(
        "a client certificate needs its key: of IRONIC_CLIENT_CERT_FILE and IRONIC_CLIENT_PRIVATE_KEY_FILE only {0} exists"
    )]
    HalfClientCertificate(PathBuf),
}

/// Who says where Ironic is.
#[derive(Clone, Debug)]
pub enum Source {
    /// The settings.
    Settings(Box<ClientConfig>),
    /// A resource.
    Resource(Reference),
}

impl IronicArgs {
    /// Who says where Ironic is. `namespaces` are those that the
    /// resource may be in where nothing is said of it, empty ones are skipped.
    pub fn source(&self, namespaces: &[&str]) -> Result<Source, SettingsError> {
        let named = [self.ironic_namespace.as_str()];
        let namespace = named.iter().chain(namespaces).find(|name| !name.is_empty());
        match (self.ironic_name.as_str(), namespace, &self.ironic_endpoint) {
            ("", _, None) => Err(SettingsError::NoEndpoint),
            ("", _, Some(url)) | (_, None, Some(url)) => Ok(Source::Settings(Box::new(self.client_at(url)?))),
            (_, None, None) => Err(SettingsError::NoNamespace),
            (name, Some(namespace), _) => {
                self.client_certificate()?;
                Ok(Source::Resource(Reference {
                    namespace: (*namespace).to_owned(),
                    name: name.to_owned(),
                }))
            }
        }
    }

    fn client_at(&self, endpoint: &Url) -> Result<ClientConfig, SettingsError> {
        let mut config = self.client(endpoint.clone(), self.auth())?;
        config.tls.ca_file = named(&self.ironic_cacert_file);
        Ok(config)
    }

    /// The configuration of a client that reaches Ironic as its resource says.
    pub fn client_for(&self, access: Access) -> Result<ClientConfig, SettingsError> {
        let mut config = self.client(access.endpoint, access.auth)?;
        config.tls.ca_pem = access.authorities;
        Ok(config)
    }

    fn client_certificate(&self) -> Result<[Option<PathBuf>; 2], SettingsError> {
        let pair = [&self.ironic_client_cert_file, &self.ironic_client_private_key_file].map(|path| existing(path));
        if let [Some(path), None] | [None, Some(path)] = pair {
            return Err(SettingsError::HalfClientCertificate(path));
        }
        Ok(pair)
    }

    fn client(&self, endpoint: Url, auth: Auth) -> Result<ClientConfig, SettingsError> {
        let [client_cert_file, client_key_file] = self.client_certificate()?;
        Ok(ClientConfig {
            auth,
            tls: Tls {
                client_cert_file,
                client_key_file,
                insecure: self.ironic_insecure,
                ..Tls::default()
            },
            timeout: self.ironic_client_timeout,
            max_concurrent: self.ironic_max_concurrent_calls.into(),
            ..ClientConfig::new(endpoint)
        })
    }

    /// How many slots there are for work on the provisioning network.
    pub fn slots(&self) -> usize {
        usize::try_from(self.provisioning_limit).unwrap_or(0)
    }

    fn auth(&self) -> Auth {
        let folder = self.metal3_auth_root_dir.join("ironic");
        Auth::Files {
            username: folder.join("username"),
            password: folder.join("password"),
        }
    }

    /// What decisions about hosts depend on. Where ramdisks are built for each host a kernel alone is for those that come
    /// without one.
    pub fn hosts(
        &self,
        max_provisioning_retries: i32,
        retry_base: Duration,
        builds_ramdisks: bool,
    ) -> Result<HostSettings, SettingsError> {
        let some = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
        let (kernel, ramdisk) = (some(&self.deploy_kernel_url), some(&self.deploy_ramdisk_url));
        match (&kernel, &ramdisk) {
            (Some(_), None) if !builds_ramdisks => return Err(SettingsError::HalfRamdisk("DEPLOY_KERNEL_URL")),
            (None, Some(_)) => return Err(SettingsError::HalfRamdisk("DEPLOY_RAMDISK_URL")),
            _ => {}
        }
        Ok(HostSettings {
            deploy_images: DeployImages {
                kernel,
                ramdisk,
                iso: some(&self.deploy_iso_url),
            },
            provisioning_network_disabled: self.provisioning_network_disabled,
            force_persistent_boot_device: self.direct_deploy_force_persistent_boot_device.clone(),
            live_iso_force_persistent_boot_device: self.live_iso_force_persistent_boot_device.clone(),
            max_provisioning_retries,
            retry_base,
            default_architecture: std::env::consts::ARCH,
            builds_ramdisks,
            can_disable_power_off: true, // until Ironic says what it can do
            external_url_v6: self.ironic_external_url_v6.as_ref().map(ToString::to_string),
            denied_url_ranges: crate::host::named_url::DeniedRanges::default(),
            requires_credentials_label: false,
            requires_bootstrap_type: false,
            adopts_unnamed_nodes: false,
            budgets: crate::host::budget::Budgets::default(),
        })
    }
}

/// The file, if the path names one.
fn named(path: &Path) -> Option<PathBuf> {
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

/// The file, if there is one.
fn existing(path: &Path) -> Option<PathBuf> {
    named(path).filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("30s", Some(30.0))]
    #[case("1m30s", Some(90.0))]
    #[case("1.5h", Some(5400.0))]
    #[case("250ms", Some(0.25))]
    #[case("45", Some(45.0))]
    #[case("0", None)]
    #[case("", None)]
    #[case("5 s", None)]
    #[case("-3s", None)]
    #[case("s", None)]
    #[case("1d", None)]
    fn durations_as_go_writes_them(#[case] text: &str, #[case] seconds: Option<f64>) {
        assert_eq!(go_duration(text).ok().map(|d| d.as_secs_f64()), seconds);
    }
}
