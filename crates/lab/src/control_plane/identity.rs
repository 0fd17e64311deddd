//! Identities for the API server: the administrator, users by certificate, service accounts by token.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{ObjectMeta, PostParams};
use kube::config::{
    AuthInfo, Cluster, Context as KubeContext, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::{Api, Client, Config};

use super::ControlPlane;
use crate::private_file;

/// Longer than any lab runs; the API server issues no token for less than ten minutes.
const TOKEN_SECONDS: i64 = 24 * 60 * 60;

impl ControlPlane {
    /// The administrator's kubeconfig file (group `system:masters`).
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.folder().join("admin.kubeconfig")
    }

    /// The administrator's client configuration.
    pub async fn config(&self) -> Result<Config> {
        config(self.admin()?).await
    }

    /// A client of the administrator. It belongs to the tokio runtime that this is called in.
    pub async fn client(&self) -> Result<Client> {
        Client::try_from(self.config().await?).context("cannot make a client")
    }

    /// A client configuration of a user with a certificate, with two groups at most.
    pub async fn user(&self, name: &str, groups: &[&str]) -> Result<Config> {
        config(self.user_credentials(name, groups)?).await
    }

    /// The same as a file, for other programs.
    pub fn user_kubeconfig(&self, name: &str, groups: &[&str]) -> Result<PathBuf> {
        self.write_kubeconfig(name, &self.user_credentials(name, groups)?)
    }

    /// A client configuration with a token of a service account, which is made if it is missing. Its namespace must
    /// exist. The token is good for a day.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<Config> {
        config(self.service_account_credentials(namespace, name).await?).await
    }

    /// The same as a file, for other programs.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let credentials = self.service_account_credentials(namespace, name).await?;
        self.write_kubeconfig(&format!("{namespace}.{name}"), &credentials)
    }

    pub(super) fn admin(&self) -> Result<Kubeconfig> {
        self.user_credentials("admin", &["system:masters"])
    }

    fn user_credentials(&self, name: &str, groups: &[&str]) -> Result<Kubeconfig> {
        let pair = self.authority().client(name, groups)?;
        Ok(self.kubeconfig(AuthInfo {
            client_certificate_data: Some(BASE64.encode(pair.certificate)),
            client_key_data: Some(BASE64.encode(pair.key).into()),
            ..AuthInfo::default()
        }))
    }

    async fn service_account_credentials(&self, namespace: &str, name: &str) -> Result<Kubeconfig> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        match accounts.create(&PostParams::default(), &account).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            made => {
                made.with_context(|| format!("cannot make the service account {namespace}/{name}"))?;
            }
        }
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let token = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("no token for the service account {namespace}/{name}"))?
            .status
            .context("a token request without an answer")?
            .token;
        Ok(self.kubeconfig(AuthInfo {
            token: Some(token.into()),
            ..AuthInfo::default()
        }))
    }

    fn kubeconfig(&self, user: AuthInfo) -> Kubeconfig {
        const NAME: &str = "metal3-lab";
        let cluster = Cluster {
            server: Some(self.url()),
            certificate_authority_data: Some(BASE64.encode(self.authority().certificate())),
            ..Cluster::default()
        };
        let context = KubeContext {
            cluster: NAME.to_owned(),
            user: Some(NAME.to_owned()),
            ..KubeContext::default()
        };
        Kubeconfig {
            api_version: Some("v1".to_owned()),
            kind: Some("Config".to_owned()),
            clusters: vec![NamedCluster {
                name: NAME.to_owned(),
                cluster: Some(cluster),
                ..NamedCluster::default()
            }],
            auth_infos: vec![NamedAuthInfo {
                name: NAME.to_owned(),
                auth_info: Some(user),
                ..NamedAuthInfo::default()
            }],
            contexts: vec![NamedContext {
                name: NAME.to_owned(),
                context: Some(context),
                ..NamedContext::default()
            }],
            current_context: Some(NAME.to_owned()),
            ..Kubeconfig::default()
        }
    }

    fn write_kubeconfig(&self, name: &str, kubeconfig: &Kubeconfig) -> Result<PathBuf> {
        // Names of users hold colons and slashes; a file's name need not.
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
            .collect();
        let path = self.folder().join("kubeconfigs").join(format!("{name}.kubeconfig"));
        write(&path, kubeconfig)?;
        Ok(path)
    }
}

/// Writes a kubeconfig that only the owner can read.
pub(super) fn write(path: &Path, kubeconfig: &Kubeconfig) -> Result<()> {
    let text = serde_saphyr::to_string(kubeconfig).context("cannot write a kubeconfig as YAML")?;
    private_file::write(path, &text)
}

async fn config(kubeconfig: Kubeconfig) -> Result<Config> {
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("a kubeconfig of our own making is not accepted")
}
