//! The BareMetalSwitch controller: writes the switches of a namespace into two Secrets that Ironic's networking service reads.
//!
//! ```text
//!  switches of a namespace ─┐                        ┌─▶ Secret with switch-configs.conf
//!  Secrets that they name ──┼─▶ one pass for all ────┼─▶ Secret with private keys
//!  the two Secrets ─────────┘                        └─▶ condition Valid of each switch
//! ```
//!
//! A pass covers a namespace, so its key is the first of the two Secrets. The Secrets are watched but not kept; a pass reads
//! them only if a switch or the version of one of them has changed since the last pass.

mod apply;
mod decide;
mod observed;
mod render;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use metal3_api::metal3::BareMetalSwitch;
use metal3_runtime::Clock;
use metal3_runtime::args::Namespaces;
use metal3_runtime::controller::{Controller, Controllers, Decision, Next, Report};
use metal3_runtime::error::chain;
use metal3_runtime::events::Recorder;
use metal3_runtime::metrics::ControllerMetrics;
use metal3_runtime::readable::Readable;
use metal3_runtime::secrets::{SecretKey, SecretVersions};
use metal3_runtime::store::{Awaited, Follow, ObjectKey, Store};
use metal3_runtime::timing::operator::{DEBOUNCE, NET};
use metal3_runtime::work::Queue;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use self::apply::{read, store_status, write};
use self::decide::{Effect, ReadSecrets, decide};
use self::observed::{Observed, Seen};
use crate::args::SwitchSettings;
use crate::metrics::CompanionMetrics;

/// Concurrent passes: a namespace with many switches does not hold up the others.
const WORKERS: u16 = 2;

/// The namespace of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InNamespace(String);

fn namespace_of(switch: &BareMetalSwitch) -> Vec<InNamespace> {
    vec![InNamespace(switch.metadata.namespace.clone().unwrap_or_default())]
}

/// The controller. Cheap to clone.
#[derive(Clone)]
struct Switches {
    client: Client,
    clock: Clock,
    recorder: Recorder,
    settings: Arc<SwitchSettings>,
    known: Store<BareMetalSwitch, InNamespace>,
    secrets: SecretVersions<ObjectKey>,
    /// What the last successful pass over each namespace saw.
    done: Arc<Mutex<HashMap<ObjectKey, Seen>>>,
    /// Namespaces whose last switch may have been deleted while no operator ran.
    initial: Arc<[String]>,
}

/// Follows the switches of the watched namespaces, and reconciles them until `stop`.
///
/// `home` is the operator's own namespace: the two Secrets there are brought up to date at the start even without switches.
pub fn run(
    (client, clock, recorder): (Client, Clock, Recorder),
    settings: SwitchSettings,
    (namespaces, home): (&Namespaces, &str),
    (metrics, counted): (ControllerMetrics, &CompanionMetrics),
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let initial = match namespaces {
        Namespaces::All => vec![home.to_owned()],
        Namespaces::Only(names) => names.clone(),
    };
    let controller = Switches {
        client: client.clone(),
        clock: clock.clone(),
        recorder,
        settings: Arc::new(settings),
        known: Store::new(namespace_of),
        secrets: SecretVersions::default(),
        done: Arc::default(),
        initial: initial.into_iter().filter(|name| !name.is_empty()).collect(),
    };
    counted.follow(&controller.known);
    let queue = Queue::new();
    let mut work = Controllers::new(metrics, clock, stop.clone());
    work.add_with(queue.clone(), controller.clone(), WORKERS);
    let listed = Awaited::default();
    let watches: Vec<_> = namespaces
        .apis::<BareMetalSwitch>(&client)
        .into_iter()
        .map(|api| {
            listed.expect();
            let follow = Follow {
                api,
                store: controller.known.clone(),
                config: watcher::Config::default(),
                is_optional: true,
            };
            follow.run(listed.clone(), stop.clone())
        })
        .collect();
    let (stop, is_everywhere) = (stop.clone(), matches!(namespaces, Namespaces::All));
    async move {
        let wake = {
            let queue = queue.clone();
            move |key| queue.push_in(key, DEBOUNCE)
        };
        let secrets = controller.secrets.follow(&client, None, stop, wake);
        let work = async {
            // Before all switches are known, the Secrets would lose those that are not.
            listed.all().await;
            let left = if is_everywhere {
                written(&client, &controller.settings).await
            } else {
                Vec::new()
            };
            for key in controller.all().into_iter().chain(left) {
                queue.push(key);
            }
            work.run(NET).await;
        };
        tokio::select! {
            () = work => {}
            _ = async { tokio::join!(futures::future::join_all(watches), secrets) } => {}
        }
    }
}

/// The namespaces that have a Secret of the configured name: their last switch may have been deleted while no operator ran.
async fn written(client: &Client, settings: &SwitchSettings) -> Vec<ObjectKey> {
    let secrets: Api<Readable<PartialObjectMeta<Secret>>> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={}", settings.configs));
    match secrets.list(&named).await {
        Ok(list) => list.iter().map(ObjectKey::of).collect(),
        // Where Secrets are readable in single namespaces only.
        Err(error) => {
            tracing::info!(error = %chain(&error), "the configurations of switches that were deleted while no operator ran are looked for in the operator's namespace only");
            Vec::new()
        }
    }
}

impl Switches {
    fn key(&self, namespace: &str) -> ObjectKey {
        ObjectKey::new(namespace, &self.settings.configs)
    }

    fn switches_of(&self, namespace: &str) -> Vec<Arc<BareMetalSwitch>> {
        let mut switches = self.known.find(&InNamespace(namespace.to_owned()));
        switches.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        switches
    }

    /// What is known without a request.
    fn at_hand(&self, observed: &Observed) -> Seen {
        let version = |name: &String| {
            let key = SecretKey {
                namespace: observed.namespace.clone(),
                name: name.clone(),
            };
            self.secrets.get(&key)
        };
        let names = observed.referenced();
        Seen {
            switches: observed.versions(),
            secrets: names.iter().map(|name| (name.clone(), version(name))).collect(),
        }
    }
}

impl Controller for Switches {
    const NAME: &'static str = "baremetalswitch";
    type Observed = Observed;
    type Read = ReadSecrets;
    type Effect = Effect;
    type Status = Infallible;
    type Error = kube::Error;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let (queue, configs) = (queue.clone(), self.settings.configs.clone());
        self.known.listen(move |change| {
            let read =
                |switch: &BareMetalSwitch| (switch.metadata.uid.clone(), switch.spec.clone(), switch.status.clone());
            if change.affects(read) {
                queue.push_in(ObjectKey::new(&change.key.namespace, &configs), DEBOUNCE);
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        let with_switches = self.known.all().into_iter().map(|key| key.namespace);
        let namespaces: BTreeSet<String> = with_switches.chain(self.initial.iter().cloned()).collect();
        namespaces.iter().map(|namespace| self.key(namespace)).collect()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, kube::Error> {
        let switches = self.switches_of(&key.namespace);
        let observed = Observed::new(self.settings.clone(), key.namespace.clone(), switches);
        let keys = observed.referenced().into_iter().map(|name| SecretKey {
            namespace: key.namespace.clone(),
            name,
        });
        self.secrets.set_references(key.clone(), keys);
        let is_done = self.done.lock().get(key) == Some(&self.at_hand(&observed));
        Ok((!is_done).then_some(observed))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision<ReadSecrets, Effect, Infallible> {
        decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, ReadSecrets(names): ReadSecrets) -> Result<(), kube::Error> {
        read(&self.client, &self.secrets, seen, names).await
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        match effect {
            Effect::Write { name, data } => write(&self.client, seen, name, data).await,
            Effect::Report(number, status, event) => {
                store_status(&self.client, &self.known, seen, *number, status).await?;
                if let Some((switch, event)) = seen.switches.get(*number).zip(event.as_ref()) {
                    self.recorder.publish(&switch.object_ref(&()), None, event).await;
                }
                Ok(())
            }
        }
    }

    async fn report(&self, _: &mut Observed, report: Report<Infallible>) -> Result<(), kube::Error> {
        match report.status {
            None => Ok(()),
            Some(never) => match never {},
        }
    }

    fn ended(&self, key: &ObjectKey, seen: Option<&Observed>, done: &Result<Next, kube::Error>) {
        let Some(seen) = seen else { return };
        let mut last = self.done.lock();
        match done {
            Ok(Next::Change) => last.insert(key.clone(), seen.seen()),
            _ => last.remove(key),
        };
    }
}
