//! Replicas of a program that manage their own certificate.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Event, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use metal3_runtime::Clock;
use metal3_runtime::probes::Check;
use metal3_runtime::timing::webhooks::LAST_CALLS;
use metal3_runtime::webhook::{SelfManaged, Webhooks};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::balancer::Balancer;
use crate::leaks;
use crate::webhooks::{endpoint, listen};
use crate::{DEADLINE, another_server, eventually, fail};

/// The load: up to 200 requests a second, forty at once. That is more than the API server keeps idle connections for. Where one
/// request is the creation of a Metal3Machine in v1beta1, the API server makes five calls of it, by its own count: one for
/// validation and four for conversion.
pub const AT_ONCE: usize = 40;
const APART: Duration = Duration::from_millis(200);
/// It lasts at least as long as this many requests take.
const LEAST: u32 = 400;

/// Two replicas of a program, of which the first is the leader, on their own API server, with the rights that they ship.
pub struct Replicas {
    /// The administrator's client.
    pub client: Client,
    both: Vec<Replica>,
    balancer: Balancer,
    /// The client of the programs' service account.
    program: Client,
    webhooks: fn() -> Webhooks,
    of: SelfManaged,
    tasks: JoinSet<std::io::Result<()>>,
}

struct Replica {
    address: SocketAddr,
    closing: CancellationToken,
    stop: CancellationToken,
    leading: watch::Sender<bool>,
    /// Passes when it may be called.
    ready: Check,
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
        let config = server.service_account(&of.namespace, account).await?;
        let listeners = [listen()?, listen()?];
        let mut replicas = Self {
            client,
            program: Client::try_from(config)?,
            both: Vec::new(),
            balancer: Balancer::start().await?,
            webhooks,
            of: of.clone(),
            tasks: JoinSet::new(),
        };
        // The CA bundle in the CRDs so far is another server's.
        let definitions: Api<CustomResourceDefinition> = Api::all(replicas.client.clone());
        for name in &of.definitions {
            let none = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": null}}}}});
            let params = PatchParams::default();
            definitions.patch(name, &params, &Patch::Merge(&none)).await?;
        }
        let first = listeners[0].local_addr().context("no address")?;
        replicas.call(first).await?;
        for (listener, leads) in listeners.into_iter().zip([true, false]) {
            replicas.spawn(listener, leads, Path::new("/does/not/exist"))?;
        }
        Ok(replicas)
    }

    fn spawn(&mut self, listener: TcpListener, leads: bool, certificates: &Path) -> Result<()> {
        let (leading, leads) = watch::channel(leads);
        let replica = Replica {
            address: listener.local_addr().context("no address")?,
            closing: CancellationToken::new(),
            stop: CancellationToken::new(),
            leading,
            ready: Check::default(),
        };
        let endpoint = endpoint(listener, (self.webhooks)(), certificates)?
            .self_managed(self.of.clone(), self.program.clone(), leads, Clock::system())
            .reporting("tests", Clock::system(), replica.ready.clone())
            .closing(replica.closing.clone());
        self.tasks.spawn(endpoint.serve(replica.stop.clone()));
        self.both.push(replica);
        Ok(())
    }

    /// Repeats `request` under load while the last replica, which leads, is replaced by one with certificates from this folder, or
    /// by one that makes its own if it has none. Both are called for a while, and the new one leads only when the old one has ended.
    /// Any error fails the test.
    pub async fn exchange_under_load<F>(&mut self, certificates: &Path, request: impl Fn() -> F)
    where
        F: Future<Output = Result<(), kube::Error>> + Send + 'static,
    {
        let started = async { self.spawn(listen()?, false, certificates) };
        started.await.unwrap_or_else(|err| fail("no other replica", &err));
        let [.., old, new] = self.both.as_slice() else {
            panic!("two replicas")
        };
        old.leading.send_replace(true);
        let (balancer, tasks) = (&self.balancer, &mut self.tasks);
        under_load(request, async {
            eventually(DEADLINE, "the new replica is ready", async || {
                new.ready.passes().then_some(()).ok_or("it is not ready")
            })
            .await;
            balancer.add(new.address);
            both_are_called(balancer, &[old.address, new.address]).await;
            end(old, balancer, tasks).await;
            new.leading.send_replace(true);
        })
        .await;
    }

    /// Fails the test if a secret, such as a key of a certificate, is in an event or an object of ours, or was logged.
    pub async fn expect_no_secrets(&self) {
        for namespace in ["default", &self.of.namespace] {
            let found = leaks::in_namespace(self.client.clone(), namespace).await;
            assert_eq!(
                found.unwrap_or_else(|err| fail("cannot search", &err)),
                Vec::<String>::new()
            );
        }
        leaks::expect_none_logged();
    }

    /// Makes the API server call another replica from now on. The CA bundle stays unchanged.
    pub async fn ask(&self, replica: usize) {
        self.call(self.both[replica].address)
            .await
            .unwrap_or_else(|err| fail("cannot have a replica asked", &err));
    }

    /// Makes the API server call both replicas in turn, as through a Service.
    pub async fn ask_both(&self) {
        for replica in &self.both {
            self.balancer.add(replica.address);
        }
        self.call(self.balancer.address())
            .await
            .unwrap_or_else(|err| fail("cannot have both replicas asked", &err));
    }

    async fn call(&self, address: SocketAddr) -> Result<()> {
        let url = format!("https://localhost:{}", address.port());
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

    /// Repeats `request` under load while the certificate is renewed and until both replicas serve the new one. Any error
    /// fails the test.
    pub async fn renew_under_load<F>(&self, request: impl Fn() -> F)
    where
        F: Future<Output = Result<(), kube::Error>> + Send + 'static,
    {
        under_load(request, async {
            let before = self.held().await;
            self.change_secret(&json!({"tls.due": "2026-01-01T00:00:00Z"})).await;
            self.serve_another(&before).await;
            assert_eq!(self.held().await["ca.crt"], before["ca.crt"], "the same authority");
        })
        .await;
    }

    /// Repeats `request` under load while the Secret is lost, and until both replicas serve a certificate of the new authority. Any
    /// error fails the test.
    pub async fn lose_secret_under_load<F>(&self, request: impl Fn() -> F)
    where
        F: Future<Output = Result<(), kube::Error>> + Send + 'static,
    {
        under_load(request, async {
            let before = self.held().await;
            self.forget_own_certificate().await;
            eventually(DEADLINE, "the Secret is made again", async || {
                let made = self.secrets().get(&self.of.installed.secret()).await;
                made.map(|_| ()).map_err(|error| error.to_string())
            })
            .await;
            self.serve_another(&before).await;
            assert_ne!(self.held().await["ca.crt"], before["ca.crt"], "another authority");
        })
        .await;
    }

    /// Breaks the Secret and waits until both replicas serve something usable again.
    pub async fn mend_what_is_broken(&self) {
        let before = self.held().await;
        self.change_secret(&json!({"tls.key": "no key", "ca.key": "no key"}))
            .await;
        self.serve_another(&before).await;
    }

    /// Deletes the Secret, as if no replica had ever made a certificate itself.
    pub async fn forget_own_certificate(&self) {
        let name = self.of.installed.secret();
        let deleted = self.secrets().delete(&name, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|err| panic!("cannot delete {name}: {err}"));
    }

    /// Repeats `request` under load while the first replica, which leads, is shut down as Kubernetes does it: it is asked to end and
    /// gets no new connections; it ends a few seconds later. Any error fails the test.
    pub async fn end_one_under_load<F>(&mut self, request: impl Fn() -> F)
    where
        F: Future<Output = Result<(), kube::Error>> + Send + 'static,
    {
        let (balancer, tasks) = (&self.balancer, &mut self.tasks);
        under_load(request, async {
            both_are_called(balancer, &[self.both[0].address, self.both[1].address]).await;
            end(&self.both[0], balancer, tasks).await;
        })
        .await;
    }

    /// Webhook configurations that another version has left behind are reported by events: entries in ours, and one under another
    /// name, which the leader finds when it becomes one.
    pub async fn expect_report_of_what_nobody_answers(&self) {
        let [_, name] = self.of.installed.configurations();
        let entry = |name: &str, config: Value, resource: &str, group: &str| {
            json!({"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": config,
                // No object has it, so that nothing is refused.
                "objectSelector": {"matchLabels": {"example.org/none": "none"}},
                "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}]})
        };
        let service = json!({"service": {"name": "gone", "namespace": "default", "path": "/validate"}});
        let url = format!("https://localhost:{}/validate-old", self.both[0].address.port());
        let configuration = |name: &str, webhooks: Value| {
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": name}, "webhooks": webhooks})
        };
        let nothing = "nothing.example.org";
        let ours = json!([
            entry("gone.example.org", service.clone(), "*", nothing),
            entry("old.example.org", json!({ "url": url }), "*", nothing),
        ]);
        self.configure(&configuration(&name, ours)).await;
        self.expect_event(&[
            "gone.example.org calls Service default/gone, which does not exist",
            "old.example.org calls /validate-old, which this version does not serve",
        ])
        .await;
        self.configure(&configuration(&name, json!([]))).await;

        let mut kinds = self.of.definitions.iter().chain(&self.of.unconverted);
        let (plural, group) = kinds
            .next()
            .and_then(|kind| kind.split_once('.'))
            .unwrap_or_else(|| panic!("no kind"));
        let former = "former-validating-webhook-configuration";
        let stray = json!([entry("former.example.org", service, plural, group)]);
        self.configure(&configuration(former, stray)).await;
        self.both[0].leading.send_replace(true);
        self.expect_event(&["former.example.org calls Service default/gone, which does not exist"])
            .await;
        self.configure(&configuration(former, json!([]))).await;
    }

    async fn configure(&self, configuration: &Value) {
        let api: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        let params = PatchParams::apply("another-version").force();
        if let Err(err) = api.patch(name, &params, &Patch::Apply(configuration)).await {
            panic!("cannot apply {name}: {err}");
        }
    }

    /// Waits for an event with all these words.
    async fn expect_event(&self, words: &[&str]) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        eventually(DEADLINE, "an event tells what nobody answers", async || {
            let events = events.list(&kube::api::ListParams::default()).await;
            let events = events.map_err(|error| error.to_string())?.items;
            let messages: Vec<String> = events.into_iter().filter_map(|event| event.message).collect();
            let is_told = |message: &String| words.iter().all(|words| message.contains(words));
            if messages.iter().any(is_told) {
                Ok(())
            } else {
                Err(format!("{messages:?}"))
            }
        })
        .await;
    }

    async fn held(&self) -> std::collections::BTreeMap<String, k8s_openapi::ByteString> {
        let (secrets, name) = (self.secrets(), self.of.installed.secret());
        let secret = secrets
            .get(&name)
            .await
            .unwrap_or_else(|err| panic!("no {name}: {err}"));
        secret.data.unwrap_or_default()
    }

    async fn change_secret(&self, data: &Value) {
        let change = json!({ "stringData": data });
        let name = self.of.installed.secret();
        let done = self
            .secrets()
            .patch(&name, &PatchParams::default(), &Patch::Merge(&change))
            .await;
        done.unwrap_or_else(|err| panic!("cannot change {name}: {err}"));
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.of.namespace)
    }

    /// Waits until each replica serves a certificate that is in the Secret, is trusted, and is not this one.
    async fn serve_another(&self, before: &std::collections::BTreeMap<String, k8s_openapi::ByteString>) {
        for replica in &self.both {
            eventually(DEADLINE, "a replica serves the new certificate", async || {
                let held = self.held().await;
                if held["tls.crt"] == before["tls.crt"] {
                    return Err("the Secret is not renewed".to_owned());
                }
                let wanted = CertificateDer::from_pem_slice(&held["tls.crt"].0).map_err(|err| err.to_string())?;
                let (address, authority) = (replica.address, held["ca.crt"].0.clone());
                let served = tokio::task::spawn_blocking(move || served(address, &authority)).await;
                let served = served
                    .map_err(|err| err.to_string())?
                    .map_err(|err| format!("{err:#}"))?;
                if served == wanted {
                    Ok(())
                } else {
                    Err("it serves another".to_owned())
                }
            })
            .await;
        }
    }
}

/// Ends a replica as Kubernetes does it. Idle connections of the API server may be left: each bundle that it has trusted has its own.
async fn end(replica: &Replica, balancer: &Balancer, tasks: &mut JoinSet<std::io::Result<()>>) {
    balancer.remove(replica.address);
    replica.closing.cancel();
    tokio::time::sleep(LAST_CALLS).await;
    replica.stop.cancel();
    tasks.join_next().await;
    assert!(TcpStream::connect(replica.address).is_err(), "it has ended");
}

/// The certificate that is served, which must be trusted.
pub fn served(address: SocketAddr, authority: &[u8]) -> Result<CertificateDer<'static>> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate?)?;
    }
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connection = rustls::ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
    let mut stream = TcpStream::connect(address)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    let served = connection.peer_certificates().and_then(|chain| chain.first());
    Ok(served.context("no certificate")?.clone())
}

/// Waits until the API server has connections to both.
pub async fn both_are_called(balancer: &Balancer, both: &[SocketAddr; 2]) {
    eventually(DEADLINE, "both replicas are called", async || {
        let open = both.map(|replica| balancer.open(replica));
        if open.contains(&0) {
            Err(format!("{open:?}"))
        } else {
            Ok(())
        }
    })
    .await;
}

/// Repeats a request until `what` is done; every one must succeed. Where the machine is slower than the load, the next forty
/// wait: otherwise they would pile up until the API server's own time-outs fail them.
pub async fn under_load<F>(request: impl Fn() -> F, what: impl Future<Output = ()>)
where
    F: Future<Output = Result<(), kube::Error>> + Send + 'static,
{
    let (mut running, mut ticks, mut count) = (JoinSet::new(), interval(APART), 0);
    let start = Instant::now();
    let mut what = pin!(what);
    let succeed = |done: Result<Result<(), kube::Error>, tokio::task::JoinError>| match done {
        Ok(Ok(())) => {}
        Ok(Err(error)) => panic!("a request failed: {error}"),
        Err(error) => panic!("a request was cut off: {error}"),
    };
    let mut is_done = false;
    while !is_done || count < LEAST {
        tokio::select! {
            () = &mut what, if !is_done => is_done = true,
            _ = ticks.tick(), if running.len() < AT_ONCE => for _ in 0..AT_ONCE {
                count += 1;
                running.spawn(request());
            },
            Some(done) = running.join_next() => succeed(done),
        }
    }
    while let Some(done) = running.join_next().await {
        succeed(done);
    }
    println!(
        "{count} requests, {:.0} a second",
        f64::from(count) / start.elapsed().as_secs_f64()
    );
}
