//! Two processes of a program behind one address, as behind a Service.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use kube::api::DynamicObject;
use metal3_lab::ControlPlane;
use metal3_lab::manager::{Manager, ManagerConfig};
use metal3_runtime::webhook::{SelfManaged, Webhooks};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use crate::balancer::Balancer;
use crate::leaks::{self, log_everything};
use crate::replicas::{AT_ONCE, both_are_called, served, under_load};
use crate::webhooks::Served;
use crate::{DEADLINE, another_server, definitions, eventually, fail};

/// The namespace whose objects their webhooks see.
const NAMESPACE: &str = "default";

/// A program that runs twice on its own API server, with the rights that it ships. Its controllers watch a namespace without
/// objects.
pub struct Processes {
    /// The administrator's client.
    pub client: Client,
    both: [Manager; 2],
    balancer: Balancer,
    server: &'static ControlPlane,
    /// Where both have their certificate from.
    certificates: PathBuf,
    /// How to start another one, but for its name.
    start: Box<dyn Fn(&str) -> ManagerConfig + Send + Sync>,
}

/// How long the nodes of API servers still send connections to a pod that has been asked to end.
const BEFORE_THEY_KNOW: Duration = Duration::from_secs(3);

/// `terminationGracePeriodSeconds` of upstream's pods.
const UPSTREAMS_GRACE: Duration = Duration::from_secs(10);

impl Processes {
    /// Starts both and makes the API server call them in turn.
    pub async fn start(binary: &Path, webhooks: &Webhooks, of: &SelfManaged, rights: &[Value], account: &str) -> Self {
        Self::try_start(binary, webhooks, of, rights, account)
            .await
            .unwrap_or_else(|err| fail("no processes", &err))
    }

    async fn try_start(
        binary: &Path,
        webhooks: &Webhooks,
        of: &SelfManaged,
        rights: &[Value],
        account: &str,
    ) -> Result<Self> {
        let server = another_server().await;
        let client = server.client().await?;
        metal3_lab::cluster_api::define(&client).await?;
        apply(&client, rights).await?;
        let certificates = tempfile::tempdir().context("no folder for the certificate")?.keep();
        server
            .authority()
            .server("webhooks", &[])?
            .write(&certificates, "tls")?;
        let kubeconfig = server.service_account_kubeconfig(&of.namespace, account).await?;
        let (binary, namespace) = (binary.to_owned(), of.namespace.clone());
        let serving = certificates.clone();
        let folder = server.folder().join("processes");
        let start = move |name: &str| {
            let mut config = ManagerConfig::new(name, &binary, folder.clone(), &kubeconfig);
            config.args = vec![
                "--leader-elect".to_owned(),
                "--namespace=nothing-is-here".to_owned(),
                format!("--webhook-cert-dir={}", serving.display()),
            ];
            config.env = vec![("POD_NAMESPACE".into(), namespace.clone().into()), log_everything()];
            config
        };
        let processes = Self {
            client,
            both: [
                Manager::start(&start("first")).await?,
                Manager::start(&start("second")).await?,
            ],
            balancer: Balancer::start().await?,
            server,
            certificates,
            start: Box::new(start),
        };
        for process in &processes.both {
            processes.balancer.add(address(process)?);
        }
        let url = format!("https://{}", processes.balancer.address());
        processes
            .call(&Served::at(url, server.authority()), webhooks, of)
            .await?;
        Ok(processes)
    }

    /// Applies manifests; Secrets get a canary.
    pub async fn apply(&self, manifests: &[DynamicObject]) -> Vec<DynamicObject> {
        let mut manifests = manifests.to_vec();
        manifests.iter_mut().for_each(leaks::mark);
        let applied = metal3_lab::apply::apply(&self.client, &manifests, Some(NAMESPACE)).await;
        applied.unwrap_or_else(|err| fail("the manifests do not apply", &err))
    }

    /// Fails the test if a secret is in an event or an object of ours, or in what a process logged.
    pub async fn expect_no_secrets(&self) {
        let found = leaks::in_namespace(self.client.clone(), NAMESPACE).await;
        assert_eq!(
            found.unwrap_or_else(|err| fail("cannot search", &err)),
            Vec::<String>::new()
        );
        for name in ["first", "second", "third"] {
            let log = std::fs::read_to_string((self.start)(name).log());
            leaks::expect_none_in(name, &log.unwrap_or_else(|err| fail("no log", &err.into())));
        }
    }

    async fn call(&self, served: &Served, webhooks: &Webhooks, of: &SelfManaged) -> Result<()> {
        let mut definitions = definitions()?;
        for definition in &mut definitions {
            served.convert(definition);
        }
        metal3_lab::apply::apply(&self.client, &definitions, None).await?;
        let mut configurations = of.installed.objects(webhooks);
        configurations.retain(|object| object["webhooks"].is_array());
        for configuration in &mut configurations {
            served.admit(configuration, NAMESPACE);
        }
        apply(&self.client, &configurations).await
    }

    /// Repeats `request` under load while the files of the certificate are replaced in place, and until both processes serve the new
    /// one. Any error fails the test.
    pub async fn rotate_under_load<F>(&self, request: impl Fn() -> F)
    where
        F: Future<Output = Result<(), kube::Error>> + Send + 'static,
    {
        let authority = self.server.authority();
        let rotate = || {
            let pair = authority.server("webhooks", &[])?;
            pair.write(&self.certificates, "tls")?;
            Ok(CertificateDer::from_pem_slice(pair.certificate.as_bytes())?)
        };
        under_load(request, async {
            let new = rotate().unwrap_or_else(|err| fail("no new certificate", &err));
            for process in &self.both {
                let address = address(process).unwrap_or_else(|err| fail("no port", &err));
                eventually(DEADLINE, "a process serves the new certificate", async || {
                    let trusted = authority.certificate().as_bytes().to_vec();
                    let served = tokio::task::spawn_blocking(move || served(address, &trusted)).await;
                    let served = served.map_err(|err| err.to_string())?;
                    let served = served.map_err(|err| format!("{err:#}"))?;
                    (served == new)
                        .then_some(())
                        .ok_or_else(|| "it serves the old one".to_owned())
                })
                .await;
            }
        })
        .await;
    }

    /// Repeats `request` under load while the first process, which leads, is replaced as Kubernetes does it: another one starts;
    /// then the first is asked to end, and still gets new connections for a while. Any error fails the test.
    pub async fn replace_one_under_load<F>(&mut self, request: impl Fn() -> F)
    where
        F: Future<Output = Result<(), kube::Error>> + Send + 'static,
    {
        let third = Manager::start(&(self.start)("third")).await;
        let third = third.unwrap_or_else(|err| fail("no third process", &err));
        let port = |process: &Manager| address(process).unwrap_or_else(|err| fail("no port", &err));
        let (first, balancer) = (&self.both[0], &self.balancer);
        under_load(request, async {
            balancer.add(port(&third));
            both_are_called(balancer, &[port(first), port(&third)]).await;
            balancer.is_behind(true);
            let later = async {
                tokio::time::sleep(BEFORE_THEY_KNOW).await;
                balancer.remove(port(first));
                balancer.is_behind(false);
            };
            let (is_graceful, ()) = tokio::join!(first.process().stop(UPSTREAMS_GRACE), later);
            assert!(is_graceful, "it had to be killed");
        })
        .await;
        self.both[0] = third;
    }

    /// Repeats `request` under load while the first process, which may lead, is killed. A call on its way to that process fails:
    /// nobody answers it, and the API server does not send it again. So a request may fail that began before the API server had
    /// seen all connections of the process break; it is repeated, as controllers and people do. Any other error fails the test.
    /// Returns how many requests were repeated.
    pub async fn kill_one_under_load<F>(&self, request: impl Fn() -> F + Clone + Send + 'static) -> usize
    where
        F: Future<Output = Result<(), kube::Error>> + Send + 'static,
    {
        let is_over = Arc::new(AtomicBool::new(false));
        let (running, repeated) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let persistent = || {
            let (request, is_over) = (request.clone(), is_over.clone());
            let (running, repeated) = (running.clone(), repeated.clone());
            async move {
                running.fetch_add(1, Ordering::SeqCst);
                loop {
                    let may_fail = !is_over.load(Ordering::SeqCst);
                    match request().await {
                        Err(error) if may_fail && is_cut_off(&error) => repeated.fetch_add(1, Ordering::SeqCst),
                        other => {
                            running.fetch_sub(1, Ordering::SeqCst);
                            return other;
                        }
                    };
                }
            }
        };
        under_load(persistent, async {
            let addresses = self
                .both
                .each_ref()
                .map(|process| address(process).unwrap_or_else(|err| fail("no port", &err)));
            both_are_called(&self.balancer, &addresses).await;
            // In the midst of them.
            while running.load(Ordering::SeqCst) < AT_ONCE / 2 {
                tokio::task::yield_now().await;
            }
            self.both[0].process().kill();
            eventually(DEADLINE, "its connections are closed", async || {
                match self.balancer.open(addresses[0]) {
                    0 => Ok(()),
                    open => Err(open),
                }
            })
            .await;
            // By the time this has gone through all webhooks, the API server has noticed.
            eventually(DEADLINE, "a request succeeds", async || request().await).await;
            is_over.store(true, Ordering::SeqCst);
        })
        .await;
        repeated.load(Ordering::SeqCst)
    }
}

/// Whether nobody answered the API server.
fn is_cut_off(error: &kube::Error) -> bool {
    let words = ["failed calling webhook", "conversion webhook for"];
    matches!(error, kube::Error::Api(status) if words.iter().any(|words| status.message.contains(words)))
}

async fn apply(client: &Client, objects: &[Value]) -> Result<()> {
    let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let objects = metal3_lab::apply::parse(&objects.join("\n---\n"))?;
    metal3_lab::apply::apply(client, &objects, None).await.map(|_| ())
}

fn address(process: &Manager) -> Result<SocketAddr> {
    let url = process.webhooks_url();
    let port = url.rsplit(':').next().unwrap_or_default();
    let port = port.parse().with_context(|| format!("{url} has no port"))?;
    Ok((Ipv4Addr::LOCALHOST, port).into())
}
