//! One host, its Ironic and its operator, which may live several lives.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use baremetal_operator::fleet::{self, Fleet};
use baremetal_operator::host::context::Context;
use baremetal_operator::host::{self, Hosts, ReconcileError};
use baremetal_operator::metrics::{Catalogue, HostMetrics};
use baremetal_operator::settings::{DeployImages, HostSettings};
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, ProvisioningState};
use metal3_ironic::{Client, ClientConfig, Link, Url};
use metal3_ironic_sim::{ApiServer, Config, Counters, Pace, Sim};
use metal3_runtime::Clock;
use metal3_runtime::controller::{Next, Reconcile as _};
use metal3_runtime::error::chain;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::metrics::{Build, Registry};
use metal3_runtime::store::{ObjectKey, Sink as _};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, NAMESPACE};
use crate::death::Death;

/// The longest that anything may take.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Between reconciliations that nobody asked for, and between lists.
const PAUSE: Duration = Duration::from_millis(50);
/// How much faster time passes for Ironic. Not so fast that the whole seconds of its records were all the same.
const FASTER: f64 = 20.0;
/// More than any test needs.
const SLOTS: usize = 20;
const ISO: &str = "http://images.example/ipa.iso";
pub const IMAGE: &str = "http://images.example/os.img";
pub const NAME: &str = "server-0";

/// What lasts.
pub struct Site {
    pub cluster: Cluster,
    pub sim: Sim,
    api: ApiServer,
}

/// One life of the operator: what it remembers goes with it.
pub struct Life {
    pub ctx: Arc<Context>,
    cluster: Cluster,
    registry: Registry,
    pub death: Arc<Death>,
    woken: Mutex<UnboundedReceiver<ObjectKey>>,
    /// The watch of hosts shows nothing new.
    pub is_late: AtomicBool,
    /// Lists the fleet; it ends with this.
    _poller: JoinSet<()>,
}

/// Nothing that was emitted has anything from a Secret: events, statuses and other objects, errors, metrics, logs.
impl Drop for Site {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let leaks = self.cluster.leaks();
            assert!(leaks.is_empty(), "secrets were emitted: {leaks:#?}");
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.cluster.search("metrics", &self.registry.text().unwrap());
        }
    }
}

impl Site {
    /// A host that asks for this besides the usual.
    pub async fn new(spec: &Value) -> Self {
        metal3_testkit::init();
        let sim = Sim::new(Config {
            servers: 2,
            pace: Pace::Times(FASTER),
            ..Config::default()
        });
        let api = ApiServer::start(&sim, ([127, 0, 0, 1], 0).into(), None).await.unwrap();
        let cluster = Cluster::default();
        let site = Self { cluster, sim, api };
        site.add_host(NAME, 0, spec);
        site.write_credentials("bmc", 0);
        site.cluster.requests();
        site
    }

    /// Another host, of this server.
    pub fn add_host(&self, name: &str, server: u32, spec: &Value) {
        let server = self.sim.server(server);
        let mut host = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name},
            "spec": {
                "online": true, "bootMACAddress": server.boot_mac(),
                "bmc": {"address": server.redfish_address(), "credentialsName": "bmc"},
            },
        });
        json_patch::merge(&mut host["spec"], spec);
        self.cluster.ask("POST", "baremetalhosts", host);
    }

    /// A Secret with the credentials of this server's BMC.
    pub fn write_credentials(&self, name: &str, server: u32) {
        let credentials = &self.sim.server(server).credentials;
        self.write_secret(name, credentials.username.as_bytes(), credentials.password.as_bytes());
    }

    /// A Secret as a user applies it: new, or with other content.
    pub fn write_secret(&self, name: &str, username: &[u8], password: &[u8]) {
        self.write(name, &[("username", username), ("password", password)]);
    }

    /// A Secret with network data for a ramdisk.
    pub fn write_network_data(&self, name: &str) {
        self.write(
            name,
            &[(
                "networkData",
                br#"{"links": [{"id": "secret-of-network-data"}], "networks": [], "services": []}"#,
            )],
        );
    }

    fn write(&self, name: &str, values: &[(&str, &[u8])]) {
        let encoded = |bytes: &[u8]| json!(k8s_openapi::ByteString(bytes.to_vec()));
        let data: Value = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), encoded(value)))
            .collect();
        if self.cluster.get::<Secret>("secrets", name).is_some() {
            self.cluster
                .ask("PATCH", &format!("secrets/{name}"), json!({ "data": data }));
        } else {
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data});
            self.cluster.ask("POST", "secrets", secret);
        }
    }

    /// A new life of the operator, which ends after so many effects.
    pub fn begin(&self, dies_after: Option<usize>) -> Life {
        self.begin_with(dies_after, settings(ISO))
    }

    /// The same with these settings.
    pub fn begin_with(&self, dies_after: Option<usize>, settings: HostSettings) -> Life {
        self.live(dies_after, settings, SLOTS, quick())
    }

    /// A new life with so many slots.
    pub fn begin_limited(&self, slots: usize) -> Life {
        self.live(None, settings(ISO), slots, quick())
    }

    /// A new life that lists the fleet once, unless something asks for another list.
    pub fn begin_listing_once(&self) -> Life {
        let pace = fleet::Pace {
            slow: 60 * LIMIT,
            longest: 60 * LIMIT,
            ..quick()
        };
        self.live(None, settings(ISO), SLOTS, pace)
    }

    fn live(&self, dies_after: Option<usize>, settings: HostSettings, slots: usize, pace: fleet::Pace) -> Life {
        let death = Arc::new(Death::after(dies_after));
        let kube = self.cluster.client(&death);
        let client = Client::new(ClientConfig {
            observer: Some(death.clone()),
            ..ClientConfig::new(Url::parse(&self.api.url()).unwrap())
        });
        let link = Link::to(client.unwrap());
        let clock = Clock::system();
        let registry = Registry::new(Build {
            component: "test",
            version: "1",
        });
        let (fleet, woken) = Fleet::new(slots);
        let mut poller = JoinSet::new();
        let never = CancellationToken::new();
        poller.spawn(fleet::run(fleet.clone(), link.clone(), pace, clock.clone(), never));
        let reporter = Reporter {
            component: "test",
            controller: "test",
        };
        let recorder = Recorder::new(kube.clone(), reporter, clock.clone());
        let metrics = HostMetrics::new(&mut Catalogue::new(&registry), clock.clone(), true);
        let ctx = Context::new(kube, link, fleet, recorder, settings, metrics, clock);
        ctx.hosts_listed(None);
        Life {
            ctx: Arc::new(ctx),
            cluster: self.cluster.clone(),
            registry,
            death,
            woken: Mutex::new(woken),
            is_late: AtomicBool::new(false),
            _poller: poller,
        }
    }

    /// The host as it is stored.
    pub fn host(&self) -> Option<BareMetalHost> {
        self.host_of(NAME)
    }

    /// Any host as it is stored.
    pub fn host_of(&self, name: &str) -> Option<BareMetalHost> {
        self.cluster.get("baremetalhosts", name)
    }

    /// Its status as it is stored.
    pub fn status(&self) -> BareMetalHostStatus {
        self.host().and_then(|host| host.status).unwrap_or_default()
    }

    /// Changes the host as `kubectl patch --type=merge` does.
    pub fn edit(&self, change: &Value) {
        self.edit_of(NAME, change);
    }

    /// The same with any host.
    pub fn edit_of(&self, name: &str, change: &Value) {
        self.cluster
            .ask("PATCH", &format!("baremetalhosts/{name}"), change.clone());
    }

    pub fn delete(&self) {
        self.delete_of(NAME);
    }

    /// Deletes any host.
    pub fn delete_of(&self, name: &str) {
        self.cluster
            .ask("DELETE", &format!("baremetalhosts/{name}"), json!(null));
    }

    /// What the server went through.
    pub fn counters(&self) -> Counters {
        self.sim.counters(0)
    }

    /// Reconciles until this holds of the host, or the operator has died: then false.
    pub async fn until(&self, life: &Life, what: &str, holds: impl Fn(Option<&BareMetalHost>) -> bool) -> bool {
        self.until_of(NAME, life, what, holds).await
    }

    /// The same for any host.
    pub async fn until_of(
        &self,
        name: &str,
        life: &Life,
        what: &str,
        holds: impl Fn(Option<&BareMetalHost>) -> bool,
    ) -> bool {
        let begin = Instant::now();
        loop {
            let host = self.host_of(name);
            if holds(host.as_ref()) {
                return true;
            }
            let shown = host.as_ref().and_then(|host| host.status.clone());
            assert!(
                begin.elapsed() < LIMIT,
                "never {what}: {}, {:?}, {:?}",
                json!(shown),
                self.sim.states(),
                self.counters()
            );
            let Some(host) = host else {
                panic!("{what}: the host is gone");
            };
            // Whatever goes wrong is tried again, as the controller does it.
            if life.reconcile(host).await.is_none() {
                return false;
            }
            pause().await;
        }
    }

    /// The same for a state in which the host waits for nothing.
    pub async fn until_at_rest(&self, life: &Life, state: ProvisioningState) -> bool {
        self.until(life, state.as_str(), |host| {
            host.is_some_and(|host| is_at_rest(host, &state))
        })
        .await
    }
}

impl Life {
    /// One pass over this copy of the host; `None` where the operator has died in it.
    pub async fn reconcile(&self, copy: BareMetalHost) -> Option<Result<Next, ReconcileError>> {
        if self.death.has_come() {
            return None;
        }
        // What the watches show, and whom the fleet wakes.
        while let Ok(host) = self.woken.lock().try_recv() {
            self.ctx.memory.wake(&host);
        }
        for secret in self.cluster.all::<PartialObjectMeta<Secret>>("secrets") {
            self.ctx.secrets.apply(NAMESPACE, &watcher::Event::Apply(secret));
        }
        let key = ObjectKey::of(&copy);
        if !self.is_late.load(Ordering::Relaxed) {
            self.show_others(&key);
        }
        self.ctx.hosts.put(copy);
        let hosts = Hosts(self.ctx.clone());
        tokio::select! {
            biased;
            () = self.death.wait() => {
                self.ctx.ironic.unset("the operator has died");
                None
            }
            answer = Box::pin(hosts.reconcile(&key)) => {
                self.search_error(&answer);
                Some(answer)
            }
        }
    }

    /// An error of a pass, which the controller would log.
    pub fn search_error<T, E: std::error::Error + 'static>(&self, answer: &Result<T, E>) {
        if let Err(error) = answer {
            self.cluster.search("an error", &chain(error).to_string());
        }
    }

    /// What the watch shows of the other hosts.
    fn show_others(&self, key: &ObjectKey) {
        let now = self.cluster.all::<BareMetalHost>("baremetalhosts");
        for before in self.ctx.hosts.objects() {
            let uid = before.metadata.uid.as_deref().unwrap_or_default();
            if !now.iter().any(|host| host.metadata.uid == before.metadata.uid) {
                self.ctx.hosts.remove(&ObjectKey::of(&*before), uid);
            }
        }
        for host in now.into_iter().filter(|host| ObjectKey::of(host) != *key) {
            self.ctx.hosts.put(host);
        }
    }

    /// What it calls Ironic with.
    pub fn ironic(&self) -> Client {
        self.ctx.ironic.client().unwrap()
    }

    /// How many hosts wait for a slot.
    pub fn waiting(&self) -> usize {
        self.ctx.fleet.occupancy()[2]
    }

    /// Waits until the fleet's list knows the host's node.
    pub async fn listed(&self) {
        self.ctx.fleet.first_answer().await;
    }

    /// Forgets how the last reconciliation left the world, as a time that has passed does.
    pub fn forget_rest(&self) {
        self.ctx.memory.wake(&ObjectKey::new(NAMESPACE, NAME));
    }
}

/// The usual settings, with the ramdisk from this ISO image.
pub fn settings(iso: &str) -> HostSettings {
    HostSettings {
        deploy_images: DeployImages {
            iso: Some(iso.to_owned()),
            ..DeployImages::default()
        },
        ..HostSettings::default()
    }
}

/// Lets everything else go on before the next reconciliation.
pub async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// The host is in this state, as it is wanted, and waits for nothing.
pub fn is_at_rest(host: &BareMetalHost, state: &ProvisioningState) -> bool {
    let Some(status) = &host.status else { return false };
    let waits = status
        .conditions
        .iter()
        .any(|c| c.type_ == host::WAITING && c.reason != "NotWaiting");
    status.provisioning.state == *state
        && status.powered_on == host.spec.online
        && !waits
        && !status.conditions.is_empty()
}

fn quick() -> fleet::Pace {
    fleet::Pace {
        fast: PAUSE,
        slow: PAUSE,
        ..fleet::Pace::default()
    }
}
