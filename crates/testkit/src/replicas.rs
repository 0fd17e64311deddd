//! Replicas of a program that manage their own certificate.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use metal3_runtime::Clock;
use metal3_runtime::webhook::{SelfManaged, Webhooks};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::webhooks::{endpoint, listen};
use crate::{another_server, fail};

/// How long a replica may take to reread the Secret.
const SERVED_WITHIN: Duration = Duration::from_secs(12);

/// Two replicas of a program, of which the first is the leader, on their own API server, with the rights that they ship.
pub struct Replicas {
    /// The administrator's client.
    pub client: Client,
    urls: Vec<String>,
    webhooks: fn() -> Webhooks,
    of: SelfManaged,
    tasks: JoinSet<std::io::Result<()>>,
    leading: Vec<watch::Sender<bool>>,
}

impl Replicas {
    /// Starts both. The API server calls the first, and trusts none yet.
    pub async fn start(webhooks: fn() -> Webhooks, of: SelfManaged, rights: &[Value], account: &str) -> Self {
        Self::try_start(webhooks, of, rights, account)
            .await
            .unwrap_or_else(|err| fail("no replicas", &err))
    }

    async fn try_start(webhooks: fn() -> Webhooks, of: SelfManaged, rights: &[Value], account: &str) -> Result<Self> {
        let server = another_server().await;
        let client = server.client().await?;
        let rights: Vec<String> = rights.iter().map(ToString::to_string).collect();
        let rights = metal3_lab::apply::parse(&rights.join("\n---\n"))?;
        metal3_lab::apply::apply(&client, &rights, None).await?;
        let listeners = [listen()?, listen()?];
        let mut replicas = Self {
            client,
            urls: Vec::new(),
            webhooks,
            of: of.clone(),
            tasks: JoinSet::new(),
            leading: Vec::new(),
        };
        for listener in &listeners {
            let port = listener.local_addr().context("no address")?.port();
            replicas.urls.push(format!("https://localhost:{port}"));
        }
        // The CA bundle in the CRDs so far is another server's.
        let definitions: Api<CustomResourceDefinition> = Api::all(replicas.client.clone());
        for name in &of.definitions {
            let none = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
            let params = PatchParams::default();
            definitions.patch(name, &params, &Patch::Merge(&none)).await?;
        }
        replicas.try_ask(0).await?;
        for (listener, leads) in listeners.into_iter().zip([true, false]) {
            let (leading, leads) = watch::channel(leads);
            let config = server.service_account(&of.namespace, account).await?;
            let endpoint = endpoint(listener, webhooks(), Path::new("/does/not/exist"))?.self_managed(
                of.clone(),
                Client::try_from(config)?,
                leads,
                Clock::system(),
            );
            replicas.tasks.spawn(endpoint.serve(CancellationToken::new()));
            replicas.leading.push(leading);
        }
        Ok(replicas)
    }

    /// Makes the API server call another replica from now on. The CA bundle stays unchanged.
    pub async fn ask(&self, replica: usize) {
        self.try_ask(replica)
            .await
            .unwrap_or_else(|err| fail("cannot have a replica asked", &err));
    }

    async fn try_ask(&self, replica: usize) -> Result<()> {
        let url = self.urls.get(replica).context("no such replica")?;
        for mut object in self.of.installed.objects(&(self.webhooks)()) {
            for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                let path = webhook["clientConfig"]["service"]["path"].take();
                webhook["clientConfig"] = json!({"url": format!("{url}{}", path.as_str().unwrap_or_default())});
            }
            if object["webhooks"].is_array() {
                let objects = metal3_lab::apply::parse(&object.to_string())?;
                metal3_lab::apply::apply(&self.client, &objects, None).await?;
            }
        }
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let params = PatchParams::apply("metal3-testkit").force();
        for name in &self.of.definitions {
            let conversion = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "spec": {"conversion": {"webhook": {"clientConfig": {"url": format!("{url}/convert")}}}}});
            definitions.patch(name, &params, &Patch::Apply(&conversion)).await?;
        }
        Ok(())
    }

    /// Calls `write` continuously while the certificate is renewed and until both replicas serve the new one. Returns the number
    /// of calls.
    pub async fn renew_during(&self, write: impl AsyncFn()) -> usize {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.of.namespace);
        let name = self.of.installed.secret();
        let held = async || {
            let secret = secrets
                .get(&name)
                .await
                .unwrap_or_else(|err| panic!("no {name}: {err}"));
            secret.data.unwrap_or_default()
        };
        let before = held().await;
        let due = json!({"stringData": {"tls.due": "2026-01-01T00:00:00Z"}});
        let due = secrets.patch(&name, &PatchParams::default(), &Patch::Merge(&due)).await;
        due.unwrap_or_else(|err| panic!("cannot make it due: {err}"));
        let (start, mut written) = (Instant::now(), 0);
        let mut renewed = None;
        while renewed.is_none_or(|at: Instant| at.elapsed() < SERVED_WITHIN) {
            assert!(start.elapsed() < 5 * SERVED_WITHIN, "no new certificate");
            write().await;
            written += 1;
            if renewed.is_none() {
                let now = held().await;
                assert_eq!(now["ca.crt"], before["ca.crt"], "the same authority");
                renewed = (now["tls.crt"] != before["tls.crt"]).then(Instant::now);
            }
        }
        written
    }
}
