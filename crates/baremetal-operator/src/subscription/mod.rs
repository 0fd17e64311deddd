//! BMCEventSubscriptions: the BMC of a host sends its events to a URL.
//!
//! ```text
//!  subscriptions of a host ─┐
//!  host: its node ──────────┼▶ observe ─▶ decide (pure) ─▶ one subscription after the other: finalizer, BMC, status
//!  Secrets with headers ────┘    ▲ reads: Secrets, and what the BMC has
//! ```
//!
//! A pass handles all subscriptions of one host: Ironic locks the node for each call. An annotation, written before the BMC
//! is asked, records for which server an identifier counts. The BMC is asked for its subscriptions only where one may have
//! been made without a record of its identifier, once for all of them.

mod apply;
mod decide;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use metal3_api::metal3::names::annotation::SUBSCRIBED_ON;
use metal3_api::metal3::names::finalizer::EVENT_SUBSCRIPTION;
use metal3_api::metal3::{BMCEventSubscription, BMCEventSubscriptionStatus, BareMetalHost};
use metal3_ironic::Subscription;
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Decision, Next, Report};
use metal3_runtime::patch::finalizer_added;
use metal3_runtime::secrets::{SecretKey, SecretVersions};
use metal3_runtime::store::{Awaited, Follow, ObjectKey, Store};
use metal3_runtime::work::Queue;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

use self::decide::{Effect, Read, secret_of};
use crate::host::ObserveError;
use crate::host::context::Context;
use crate::host::named_url::DeniedRanges;
use crate::host::{annotations, identity, mark};
use crate::live::{self, Live};

/// The controller. Its keys are those of hosts.
#[derive(Clone)]
pub struct Subscriptions {
    ctx: Arc<Context>,
    /// By host. Filled by [`watch`](Self::watch).
    pub objects: Store<BMCEventSubscription, ObjectKey>,
    /// The Secrets that hosts' subscriptions wait for.
    secrets: SecretVersions<ObjectKey>,
    /// The hosts whose BMC may have more subscriptions than are known.
    doubts: Arc<Mutex<HashMap<ObjectKey, Doubt>>>,
    queue: Queue<ObjectKey>,
}

/// What a decision depends on.
#[derive(Debug)]
pub struct Observed {
    /// The host's name, whether it exists or not.
    key: ObjectKey,
    host: Option<Arc<BareMetalHost>>,
    /// Of a host that the store does not have; none until it is read.
    live: Option<Live>,
    node: HostNode,
    /// By name.
    subjects: Vec<Subject>,
    known: Known,
    /// By the name of their Secret.
    headers: BTreeMap<String, Headers>,
    denied: DeniedRanges,
    doubt: Option<Doubt>,
    /// The first failure of this pass.
    failure: Option<ObserveError>,
    /// The effects of this pass.
    steps: usize,
}

/// Why a BMC may have a subscription that nobody knows: it answered a request for one too late, or Ironic ended before it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// The subscription that was asked for is still wanted: the BMC is asked for what it has before the next request.
    Unanswered,
    /// Another one was made since. The BMC is asked at this time for the first one, which may have come late.
    Until(Timestamp),
}

/// One object, and what this pass has done for it.
#[derive(Clone, Debug)]
struct Subject {
    object: Arc<BMCEventSubscription>,
    /// The identifier of the subscription that this pass has made.
    made: Option<String>,
    /// This pass has ended the subscription.
    is_ended: bool,
    /// Why this pass cannot do more for it.
    failure: Option<String>,
}

/// The host's node in Ironic.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HostNode {
    NotLooked,
    /// There is none, or the host is detached.
    None,
    /// Ironic does not say. The text says why.
    Unknown(String),
    /// It is not proven to be the host's. The text says why.
    Unproven(String),
    /// Its UUID.
    Own(String),
}

impl HostNode {
    /// As far as it is known without a read.
    fn at_hand(host: Option<&BareMetalHost>) -> Self {
        let may_have = |host: &&BareMetalHost| {
            annotations::detached(host).is_none() && identity::stored_uuid(host.status.as_ref()).is_some()
        };
        host.filter(may_have).map_or(Self::None, |_| Self::NotLooked)
    }
}

/// The subscriptions that a BMC has.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    NotLooked,
    /// Ironic has no node for the host.
    NoNode,
    /// The text says why they cannot be listed.
    Unknown(String),
    /// Those with destination and context of one of the objects.
    Found(Vec<Subscription>),
}

/// What a Secret with headers holds.
#[derive(Clone, PartialEq, Eq)]
enum Headers {
    Missing,
    /// It holds credentials, or what another program has made.
    Refused,
    Unusable,
    Found(Vec<(String, String)>),
}

impl fmt::Debug for Headers {
    /// Without the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "Missing",
            Self::Refused => "Refused",
            Self::Unusable => "Unusable",
            Self::Found(_) => "Found",
        })
    }
}

impl Subject {
    fn new(object: Arc<BMCEventSubscription>) -> Self {
        Self {
            object,
            made: None,
            is_ended: false,
            failure: None,
        }
    }

    fn name(&self) -> String {
        self.object.name_any()
    }

    fn status(&self) -> BMCEventSubscriptionStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// The merge patch that adds finalizer and annotation for the server of this host; `None` if both are there.
    fn held_for(&self, host: &BareMetalHost) -> Option<Value> {
        let (metadata, server) = (&self.object.metadata, server_of(host));
        let patch = finalizer_added(metadata, EVENT_SUBSCRIPTION);
        if self.object.annotations().get(SUBSCRIBED_ON) == Some(&server) {
            return patch;
        }
        let mut patch = patch.unwrap_or_else(|| json!({"metadata": {"resourceVersion": metadata.resource_version}}));
        patch["metadata"]["annotations"] = json!({ SUBSCRIBED_ON: server });
        Some(patch)
    }

    /// The stored identifier; empty if there is none, or if it was made on another server. Upstream's has no annotation, and
    /// counts.
    fn id_on(&self, host: &BareMetalHost) -> &str {
        let made_on = self.object.annotations().get(SUBSCRIBED_ON);
        let is_anothers = made_on.is_some_and(|made_on| *made_on != server_of(host));
        let status = self.object.status.as_ref().filter(|_| !is_anothers);
        status.map_or("", |status| &status.subscription_id)
    }

    /// Whether a subscription of the BMC is as this object wants it. BMCs add the port and the path to a URL, and some do
    /// not keep the context.
    fn is_for(&self, one: &Subscription) -> bool {
        let spec = &self.object.spec;
        let is_destination = match (Url::parse(&one.destination), Url::parse(&spec.destination)) {
            (Ok(there), Ok(wanted)) => there == wanted,
            (Err(_), _) | (_, Err(_)) => one.destination == spec.destination,
        };
        is_destination && (one.context.is_empty() || one.context == spec.context)
    }

    /// The identifiers of its subscriptions.
    fn ids(&self) -> impl Iterator<Item = &str> {
        let stored = self
            .object
            .status
            .as_ref()
            .map(|status| status.subscription_id.as_str());
        stored
            .into_iter()
            .chain(self.made.as_deref())
            .filter(|id| !id.is_empty())
    }
}

/// Names the server that a host stands for: its UID and the address of its BMC. With another of them, another server may be
/// meant.
fn server_of(host: &BareMetalHost) -> String {
    mark::name(&(&host.metadata.uid, &host.spec.bmc.address))
}

/// The host that a subscription names.
fn host_of(object: &BMCEventSubscription) -> ObjectKey {
    ObjectKey::new(object.namespace().unwrap_or_default(), object.spec.host_name.as_str())
}

impl Subscriptions {
    /// A controller that knows no object yet.
    pub fn new(ctx: Arc<Context>) -> Self {
        Self {
            ctx,
            objects: Store::new(|object| vec![host_of(object)]),
            secrets: SecretVersions::default(),
            doubts: Arc::default(),
            queue: Queue::new(),
        }
    }

    /// Its queue.
    pub fn queue(&self) -> Queue<ObjectKey> {
        self.queue.clone()
    }

    /// Watches the objects of a namespace, or of the cluster, and the Secrets that they wait for.
    pub async fn watch(&self, namespace: Option<&str>, stop: &CancellationToken) {
        let client = &self.ctx.kube;
        let api = match namespace {
            None => Api::all(client.clone()),
            Some(name) => Api::namespaced(client.clone(), name),
        };
        let follow = Follow {
            api,
            store: self.objects.clone(),
            config: watcher::Config::default(),
            is_optional: true,
        };
        let awaited = Awaited::default();
        awaited.expect();
        let queue = self.queue.clone();
        let wake = move |host| queue.push(host);
        tokio::join!(
            follow.run(awaited, stop.clone()),
            self.secrets.follow(client, namespace, stop.clone(), wake),
        );
    }
}

impl Controller for Subscriptions {
    const NAME: &'static str = "bmceventsubscription";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = ();
    type Error = ObserveError;

    fn clock(&self) -> &Clock {
        &self.ctx.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let of_object = queue.clone();
        self.objects.listen(move |change| {
            if change.affects(|object| (object.metadata.clone(), object.status.clone())) {
                for object in change.states() {
                    of_object.push(host_of(object));
                }
            }
        });
        let (objects, of_host) = (self.objects.clone(), queue.clone());
        self.ctx.hosts.listen(move |change| {
            let read = |host: &BareMetalHost| {
                let secret = host.spec.bmc.credentials_name.clone();
                (server_of(host), secret, HostNode::at_hand(Some(host)))
            };
            if change.affects(read) && objects.has(&change.key) {
                of_host.push(change.key.clone());
            }
        });
        // A node that was lost comes back without a change of the host.
        self.ctx.fleet.follow(queue.clone());
        let (controller, at_list) = (self.clone(), queue.clone());
        self.ctx.at_list(move || {
            for key in Controller::all(&controller) {
                at_list.push(key);
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.objects.objects().iter().map(|object| host_of(object)).collect()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, ObserveError> {
        if !self.ctx.is_listed(key) {
            return Ok(None);
        }
        let mut objects = self.objects.find(key);
        objects.sort_by_key(|object| object.name_any());
        let host = self.ctx.hosts.get(key);
        let awaited = objects.iter().filter_map(|object| secret_of(object));
        // The credentials may prove which node is the host's.
        let credentials = host.as_deref().map(|host| host.spec.bmc.credentials_name.as_str());
        let credentials = credentials.filter(|name| !objects.is_empty() && !name.is_empty());
        let awaited = awaited.chain(credentials).map(|name| SecretKey {
            namespace: key.namespace.clone(),
            name: name.to_owned(),
        });
        self.secrets.set_references(key.clone(), awaited);
        if objects.is_empty() {
            self.doubts.lock().remove(key);
            return Ok(None);
        }
        let subjects = objects.into_iter().map(Subject::new).collect();
        Ok(Some(Observed {
            key: key.clone(),
            node: HostNode::at_hand(host.as_deref()),
            host,
            live: None,
            subjects,
            known: Known::NotLooked,
            headers: BTreeMap::new(),
            denied: self.ctx.settings.denied_url_ranges.clone(),
            doubt: self.doubts.lock().get(key).copied(),
            failure: None,
            steps: 0,
        }))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Decision<Read, Effect, ()> {
        decide::decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), ObserveError> {
        match read {
            Read::Host => {
                seen.live = Some(live::host(&self.ctx.kube, &seen.key).await);
                Ok(())
            }
            Read::Node => apply::node(&self.ctx, seen).await,
            Read::Known => apply::known(&self.ctx, seen).await,
            Read::Headers(name) => apply::headers(&self.ctx, seen, &name).await,
        }
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), ObserveError> {
        apply::apply(&self.ctx, &self.objects, seen, effect).await
    }

    async fn report(&self, _: &mut Observed, _: Report<()>) -> Result<(), ObserveError> {
        Ok(())
    }

    fn ended(&self, key: &ObjectKey, seen: Option<&Observed>, _: &Result<Next, ObserveError>) {
        let Some(seen) = seen else { return };
        let mut doubts = self.doubts.lock();
        match seen.doubt {
            Some(doubt) => doubts.insert(key.clone(), doubt),
            None => doubts.remove(key),
        };
    }
}
