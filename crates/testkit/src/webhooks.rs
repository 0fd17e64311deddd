//! Our programs' webhooks in the test's own process, so that kinds with two versions can be read in both.

use std::net::TcpListener;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use metal3_lab::pki::Authority;
use metal3_runtime::args::{TlsArgs, TlsVersion};
use metal3_runtime::metrics::{Build, Registry};
use metal3_runtime::tls::{Certificate, Policy};
use metal3_runtime::webhook::{Endpoint, Webhooks};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Webhooks that the API server can call.
pub struct Served {
    url: String,
    authority: ByteString,
}

impl Served {
    /// Serves until the process ends.
    pub fn start(webhooks: Webhooks, authority: &Authority) -> Result<Self> {
        let listener = listen()?;
        let address = listener.local_addr().context("the webhooks have no address")?;
        let folder = tempfile::tempdir().context("no folder for the webhooks' certificate")?;
        authority.server("webhooks", &[])?.write(folder.path(), "tls")?;
        let endpoint = endpoint(listener, webhooks, folder.path())?;
        // Each test has its own runtime, and this one must outlive them all.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no runtime for the webhooks")?;
        std::thread::Builder::new()
            .name("webhooks".to_owned())
            .spawn(move || {
                if let Err(error) = runtime.block_on(endpoint.serve(CancellationToken::new())) {
                    tracing::error!(%error, "the webhooks have ended");
                }
            })
            .context("no thread for the webhooks")?;
        Ok(Self::at(format!("https://{address}"), authority))
    }

    /// Served at this address with a certificate of this authority.
    pub fn at(url: String, authority: &Authority) -> Self {
        let authority = ByteString(authority.certificate().as_bytes().to_vec());
        Self { url, authority }
    }

    /// The same with a certificate of another authority.
    #[must_use]
    pub fn signed_by(self, authority: &Authority) -> Self {
        Self::at(self.url, authority)
    }

    /// Points a CRD's conversion webhook to this server.
    pub fn convert(&self, definition: &mut DynamicObject) {
        if let Some(config) = definition.data.pointer_mut("/spec/conversion/webhook/clientConfig") {
            *config = self.client_config("/convert");
        }
    }

    /// Points a webhook configuration to this server, for objects of one namespace only.
    pub fn admit(&self, configuration: &mut Value, namespace: &str) {
        let name = &configuration["metadata"]["name"];
        configuration["metadata"]["name"] = json!(format!("{namespace}-{}", name.as_str().unwrap_or_default()));
        for webhook in configuration["webhooks"].as_array_mut().into_iter().flatten() {
            let path = webhook["clientConfig"]["service"]["path"].take();
            webhook["clientConfig"] = self.client_config(path.as_str().unwrap_or_default());
            webhook["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        }
    }

    fn client_config(&self, path: &str) -> Value {
        json!({ "url": format!("{}{path}", self.url), "caBundle": self.authority })
    }
}

/// A free port for webhooks.
pub fn listen() -> Result<TcpListener> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no port for the webhooks")?;
    listener
        .set_nonblocking(true)
        .context("cannot prepare the webhooks' port")?;
    Ok(listener)
}

/// Webhooks with the certificate in this folder, or with an untrusted one.
pub fn endpoint(listener: TcpListener, webhooks: Webhooks, certificates: &Path) -> Result<Endpoint> {
    // The defaults of the flags.
    let policy = Policy::from_args(&TlsArgs {
        tls_min_version: TlsVersion::Tls12,
        tls_max_version: TlsVersion::Tls13,
        tls_cipher_suites: String::new(),
        tls_curve_preferences: String::new(),
    })?;
    let registry = Registry::new(Build {
        component: "tests",
        version: "",
    });
    let certificate = Certificate::load(policy, certificates)?;
    Ok(Endpoint::on(listener, certificate, webhooks, &registry))
}
