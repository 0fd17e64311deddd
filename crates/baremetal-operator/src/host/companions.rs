//! The companion objects of hosts, as far as a decision needs them at any time.
//!
//! Little is kept of them: a host's BIOS alone has hundreds of settings. What decisions compare is kept, and a change
//! of that wakes the host.

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use metal3_api::metal3::{
    BareMetalHost, DataImage, FirmwareSchema, HardwareData, HostFirmwareComponents, HostFirmwareSettings,
    HostUpdatePolicy, PreprovisioningImage,
};
use metal3_runtime::error::chain;
use metal3_runtime::store::{Awaited, Change, Follow, ObjectKey, Sink, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::firmware::{AtHand, Edit, Kinds, Seen, Trouble, Wish, settings_wish, updates_wish};
use super::going::Going;
use super::observed::DataImageAtHand;
use super::ownership::{Ownership, ownership};
use super::{mark, record};

/// The field manager for HardwareData that we write.
pub(super) const HARDWARE_DATA_MANAGER: &str = "baremetal-operator-hardware-data";

/// The known companion objects of all hosts. Cheap to clone.
#[derive(Clone)]
pub struct Companions {
    /// BIOS settings, their maps [reduced](digested), by schema.
    pub settings: Store<HostFirmwareSettings, ObjectKey>,
    /// Firmware versions.
    pub updates: Store<HostFirmwareComponents>,
    /// What may be changed on a host in use.
    pub policies: Store<HostUpdatePolicy>,
    /// What the settings may be.
    pub schemas: Store<PartialObjectMeta<FirmwareSchema>>,
    /// The DataImages themselves, for their own controller.
    pub data_images: Store<DataImage>,
    /// HardwareData in deletion.
    pub(crate) going_hardware: Going<HardwareData>,
    /// PreprovisioningImages in deletion. The watch that wakes hosts fills it.
    pub(crate) going_ramdisks: Going<PreprovisioningImage>,
    state: Arc<Mutex<State>>,
    /// How the last pass of a controller of firmware objects over a host failed.
    trouble: Arc<Mutex<HashMap<ObjectKey, Trouble>>>,
    on_trouble: Arc<RwLock<Vec<OfHost>>>,
    on_list: Arc<RwLock<Vec<Listener>>>,
}

/// Called when a list is complete.
type Listener = Box<dyn Fn() + Send + Sync>;

/// Called for one host.
type OfHost = Box<dyn Fn(ObjectKey) + Send + Sync>;

impl Default for Companions {
    fn default() -> Self {
        Self {
            settings: Store::reduced(|object| schema_of(object).into_iter().collect(), reduce),
            updates: Store::new(|_| Vec::new()),
            policies: Store::new(|_| Vec::new()),
            schemas: Store::new(|_| Vec::new()),
            data_images: Store::new(|_| Vec::new()),
            going_hardware: Going::default(),
            going_ramdisks: Going::default(),
            state: Arc::default(),
            trouble: Arc::default(),
            on_trouble: Arc::default(),
            on_list: Arc::default(),
        }
    }
}

impl Debug for Companions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Companions").finish_non_exhaustive()
    }
}

/// The schema that a host's settings refer to.
pub fn schema_of(object: &HostFirmwareSettings) -> Option<ObjectKey> {
    let schema = object.status.as_ref()?.schema.as_ref()?;
    Some(ObjectKey::new(&schema.namespace, &schema.name))
}

/// Settings as they are kept: one entry with the digest of all; nothing if there are none.
pub fn digested<V: Serialize + for<'a> From<&'a str>>(settings: &BTreeMap<String, V>) -> BTreeMap<String, V> {
    let digest = (!settings.is_empty()).then(|| (String::new(), mark::name(settings).as_str().into()));
    digest.into_iter().collect()
}

fn reduce(object: &mut HostFirmwareSettings) {
    object.spec.settings = digested(&object.spec.settings);
    if let Some(status) = &mut object.status {
        status.settings = digested(&status.settings);
    }
}

#[derive(Debug, Default)]
struct State {
    settings: Listed,
    updates: Listed,
    policies: Listed,
    schemas: Listed,
    /// The generation of each HardwareData written by another client.
    hardware_data: Column<i64>,
    data_images: Listed,
}

/// The namespaces in which a kind was listed completely; `None` stands for the whole cluster.
#[derive(Debug, Default)]
struct Listed(HashSet<Option<String>>);

impl Listed {
    /// Whether an object of this namespace that is not known does not exist.
    fn has_all_of(&self, namespace: &str) -> bool {
        let mut listed = self.0.iter().map(Option::as_ref);
        listed.any(|name| name.is_none_or(|name| name == namespace))
    }
}

/// One kind.
#[derive(Debug)]
struct Column<T> {
    /// An object that is missing here requests nothing.
    rows: HashMap<ObjectKey, T>,
    listed: Listed,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            listed: Listed::default(),
        }
    }
}

impl<T: PartialEq> Column<T> {
    /// Returns whether this is a change.
    fn set(&mut self, key: ObjectKey, row: Option<T>) -> bool {
        match row {
            Some(row) if self.rows.get(&key) == Some(&row) => false,
            Some(row) => {
                self.rows.insert(key, row);
                true
            }
            None => self.rows.remove(&key).is_some(),
        }
    }
}

impl Companions {
    /// What the firmware objects of a host request.
    pub fn of(&self, host: &BareMetalHost) -> AtHand {
        let key = ObjectKey::of(host);
        let seen = |object: Option<(&ObjectMeta, Wish)>, listed: &Listed| match object {
            // Its controller replaces it.
            Some((meta, _)) if ownership(meta, host) == Ownership::Former => Seen {
                wish: Wish::Unobserved,
                edit: Edit::of(meta),
            },
            // Its generation counts even if it requests nothing: a change that was made is not an edit.
            Some((meta, wish)) => Seen {
                wish,
                edit: Edit::of(meta),
            },
            None if !listed.has_all_of(&key.namespace) => Seen::default(),
            None => Seen {
                wish: Wish::Nothing,
                edit: None,
            },
        };
        let (settings, updates) = (self.settings.get(&key), self.updates.get(&key));
        let policy = self.policies.get(&key);
        let policy = policy.filter(|policy| ownership(&policy.metadata, host) != Ownership::Former);
        let state = self.state();
        AtHand {
            settings: seen(
                settings.as_deref().map(|o| (&o.metadata, settings_wish(o))),
                &state.settings,
            ),
            updates: seen(
                updates.as_deref().map(|o| (&o.metadata, updates_wish(o))),
                &state.updates,
            ),
            on_reboot: match policy.as_deref() {
                Some(policy) => Some(Kinds::on_reboot(policy)),
                None => state.policies.has_all_of(&key.namespace).then(Kinds::default),
            },
        }
    }

    /// Why the controllers of a host's firmware objects have not compared them.
    pub fn trouble(&self, host: &ObjectKey) -> Trouble {
        let known = self.trouble.lock().get(host).cloned();
        Trouble {
            is_unlisted: !self.are_listed(&host.namespace),
            ..known.unwrap_or_default()
        }
    }

    /// Records how a pass of a controller of firmware objects over a host has ended. A change wakes the host.
    pub fn passed(
        &self,
        host: &ObjectKey,
        of_kind: fn(&mut Trouble) -> &mut Option<Arc<str>>,
        failure: Option<&Arc<str>>,
    ) {
        let mut all = self.trouble.lock();
        let mut trouble = all.get(host).cloned().unwrap_or_default();
        if std::mem::replace(of_kind(&mut trouble), failure.cloned()).as_ref() == failure {
            return;
        }
        if trouble == Trouble::default() {
            all.remove(host);
        } else {
            all.insert(host.clone(), trouble);
        }
        drop(all);
        for listener in &*self.on_trouble.read() {
            listener(host.clone());
        }
    }

    /// Whether a firmware object of this namespace that is not known does not exist.
    pub fn are_listed(&self, namespace: &str) -> bool {
        let state = self.state();
        let kinds = [&state.settings, &state.updates, &state.policies, &state.schemas];
        kinds.iter().all(|listed| listed.has_all_of(namespace))
    }

    /// Reports the hosts whose firmware objects or DataImages request something else than before.
    pub fn listen(&self, wake: impl Fn(ObjectKey) + Clone + Send + Sync + 'static) {
        fn on<K, By>(
            store: &Store<K, By>,
            wake: impl Fn(ObjectKey) + Send + Sync + 'static,
            wish: fn(&K) -> Option<Seen>,
        ) where
            K: Resource<DynamicType = ()> + 'static,
            By: Eq + std::hash::Hash + Clone,
        {
            store.listen(move |change: &Change<K>| {
                if change.before.as_deref().and_then(wish) != change.after.as_deref().and_then(wish) {
                    wake(change.key.clone());
                }
            });
        }
        on(&self.settings, wake.clone(), |o| {
            requests(settings_wish(o), &o.metadata)
        });
        on(&self.updates, wake.clone(), |o| requests(updates_wish(o), &o.metadata));
        self.on_trouble.write().push(Box::new(wake.clone()));
        let of_disc = wake.clone();
        self.policies.listen(move |change| {
            if change.affects(Kinds::on_reboot) {
                wake(change.key.clone());
            }
        });
        self.data_images.listen(move |change| {
            if change.affects(disc_of) {
                of_disc(change.key.clone());
            }
        });
    }

    /// Calls `listener` whenever a list of one of the firmware kinds is complete.
    pub fn on_list(&self, listener: impl Fn() + Send + Sync + 'static) {
        self.on_list.write().push(Box::new(listener));
    }

    /// The generation of a host's HardwareData, if another client wrote it.
    pub fn hardware_data(&self, host: &ObjectKey) -> Option<i64> {
        self.state().hardware_data.rows.get(host).copied()
    }

    /// Whether the host has a DataImage. One of an earlier host of the name is none.
    pub fn data_image(&self, host: &BareMetalHost) -> DataImageAtHand {
        let key = ObjectKey::of(host);
        let image = self.data_images.get(&key);
        let own = image.filter(|image| ownership(&image.metadata, host) != Ownership::Former);
        match own.as_deref().map(disc_of) {
            Some((generation, holds_disc)) => DataImageAtHand::Present { generation, holds_disc },
            None if !self.state().data_images.has_all_of(&key.namespace) => DataImageAtHand::Unknown,
            None => DataImageAtHand::Absent,
        }
    }

    /// Watches the kinds in a namespace, or in the cluster, until `stop`, and reports which hosts to wake.
    pub async fn watch(&self, client: &Client, namespace: Option<&str>, stop: &CancellationToken, wake: &Wake) {
        let watch = Watch {
            companions: self,
            client,
            namespace,
            stop,
            wake,
        };
        tokio::join!(
            watch.fill(self.settings.clone(), |state| &mut state.settings),
            watch.fill(self.updates.clone(), |state| &mut state.updates),
            watch.fill(self.policies.clone(), |state| &mut state.policies),
            watch.fill(self.schemas.clone(), |state| &mut state.schemas),
            // The content does not matter until a decision requests it.
            watch.run(
                self.going_hardware.clone(),
                |state| &mut state.hardware_data,
                |object: &PartialObjectMeta<HardwareData>| {
                    object.metadata.generation.filter(|_| is_of_others(&object.metadata))
                },
            ),
            watch.fill(self.data_images.clone(), |state| &mut state.data_images),
        );
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Whether another client wrote the specification.
fn is_of_others(metadata: &ObjectMeta) -> bool {
    metadata.managed_fields.iter().flatten().any(|entry| {
        let fields = entry.fields_v1.as_ref();
        entry.manager.as_deref() != Some(HARDWARE_DATA_MANAGER)
            && fields.is_some_and(|fields| fields.0.get("f:spec").is_some())
    })
}

/// What a host has to know of its DataImage: its generation, and whether a disc may be in the drive.
fn disc_of(image: &DataImage) -> (Option<i64>, bool) {
    let holds_disc = record::status_of(image).is_some_and(|status| !status.attached_image.url.is_empty());
    (image.metadata.generation, holds_disc)
}

/// What an object requests; `None` if nothing.
fn requests(wish: Wish, object: &ObjectMeta) -> Option<Seen> {
    let edit = Edit::of(object);
    (wish != Wish::Nothing).then_some(Seen { wish, edit })
}

/// Enqueues a host.
pub type Wake = Arc<dyn Fn(ObjectKey) + Send + Sync>;

/// What the watches of one namespace have in common.
struct Watch<'a> {
    companions: &'a Companions,
    client: &'a Client,
    namespace: Option<&'a str>,
    stop: &'a CancellationToken,
    wake: &'a Wake,
}

impl Watch<'_> {
    /// Fills a column with what `row` keeps of each object, and before that another sink.
    async fn run<K, T>(&self, first: impl Sink<K>, column: fn(&mut State) -> &mut Column<T>, row: fn(&K) -> Option<T>)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + 'static,
        T: PartialEq + Send + 'static,
    {
        let filled = Filled {
            companions: self.companions.clone(),
            wake: self.wake.clone(),
            column,
            row,
        };
        self.follow(Both(first, filled), move |state| &mut column(state).listed)
            .await;
    }

    /// Fills a store.
    async fn fill<K, By>(&self, store: Store<K, By>, listed: fn(&mut State) -> &mut Listed)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + 'static,
        By: Eq + std::hash::Hash + Clone + Send + Sync,
    {
        self.follow(store, listed).await;
    }

    async fn follow<K, S>(&self, store: S, listed: impl Fn(&mut State) -> &mut Listed)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + 'static,
        S: Sink<K>,
    {
        let api: Api<K> = match self.namespace {
            None => Api::all(self.client.clone()),
            Some(name) => Api::namespaced(self.client.clone(), name),
        };
        let follow = Follow {
            api,
            store,
            config: watcher::Config::default(),
            is_optional: true,
        };
        let (companions, namespace) = (self.companions.clone(), self.namespace.map(str::to_owned));
        let heard = move |heard: Result<(), &watcher::Error>| match heard {
            Ok(()) => {
                listed(&mut companions.state()).0.insert(namespace.clone());
                for listener in &*companions.on_list.read() {
                    listener();
                }
            }
            Err(error) => tracing::debug!(kind = %K::kind(&()), error = %chain(error), "the watch was interrupted"),
        };
        let awaited = Awaited::default();
        awaited.expect();
        follow.run_heard(awaited, self.stop.clone(), heard).await;
    }
}

/// Two sinks of one watch. The first is filled first.
pub(crate) struct Both<A, B>(pub(crate) A, pub(crate) B);

impl<K: Clone, A: Sink<K>, B: Sink<K>> Sink<K> for Both<A, B> {
    fn put(&self, object: K) {
        self.0.put(object.clone());
        self.1.put(object);
    }

    fn remove(&self, key: &ObjectKey, uid: &str) {
        self.0.remove(key, uid);
        self.1.remove(key, uid);
    }
}

/// A column that a watch fills.
struct Filled<K, T> {
    companions: Companions,
    wake: Wake,
    column: fn(&mut State) -> &mut Column<T>,
    row: fn(&K) -> Option<T>,
}

impl<K, T: PartialEq> Filled<K, T> {
    fn set(&self, key: ObjectKey, row: Option<T>) {
        let is_news = (self.column)(&mut self.companions.state()).set(key.clone(), row);
        if is_news {
            (self.wake)(key);
        }
    }
}

impl<K: Resource<DynamicType = ()>, T: PartialEq> Sink<K> for Filled<K, T> {
    fn put(&self, object: K) {
        self.set(ObjectKey::of(&object), (self.row)(&object));
    }

    fn remove(&self, key: &ObjectKey, _: &str) {
        self.set(key.clone(), None);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_of_one_namespace_says_nothing_of_another() {
        // OWN 13b: a host in the other namespace was assumed to have no settings and no disc.
        // OWN 30fe: and no policy, so that a servicing was aborted.
        let companions = Companions::default();
        let [a, b] = ["a", "b"].map(|namespace| ObjectKey::new(namespace, "h"));
        let host = |key: &ObjectKey| {
            let mut host = BareMetalHost::default();
            host.metadata.name = Some(key.name.clone());
            host.metadata.namespace = Some(key.namespace.clone());
            host
        };
        {
            let mut state = companions.state();
            state.settings.0.insert(Some("a".into()));
            state.policies.0.insert(Some("a".into()));
            state.data_images.0.insert(Some("a".into()));
        }
        let nothing = Seen {
            wish: Wish::Nothing,
            edit: None,
        };
        assert_eq!(
            (companions.of(&host(&a)).settings, companions.of(&host(&b)).settings),
            (nothing, Seen::default())
        );
        assert_eq!(companions.of(&host(&a)).on_reboot, Some(Kinds::default()));
        assert_eq!(companions.of(&host(&b)).on_reboot, None);
        assert_eq!(companions.data_image(&host(&a)), DataImageAtHand::Absent);
        assert_eq!(companions.data_image(&host(&b)), DataImageAtHand::Unknown);
        companions.state().settings.0.insert(None);
        assert_eq!(companions.of(&host(&b)).settings, nothing, "the whole cluster");
    }

    // OWN 31gb: settings that were applied before the firmware failed counted as edited, and the back-off was skipped.
    #[test]
    fn a_change_that_was_made_is_not_an_edit() {
        let companions = Companions::default();
        let mut host = BareMetalHost::default();
        host.metadata.name = Some("h".into());
        host.metadata.namespace = Some("n".into());
        let seen = |uid: &str, generation: i64, version: &str, is_changed: &str| {
            let condition = |kind: &str, status: &str| {
                json!({"type": kind, "status": status, "reason": "Success", "message": "", "observedGeneration": generation,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareSettings",
                "metadata": {"name": "h", "namespace": "n", "uid": uid, "generation": generation, "resourceVersion": version},
                "spec": {"settings": {"A": "On"}}, "status": {"settings": {"A": "Off"},
                    "conditions": [condition("ChangeDetected", is_changed), condition("Valid", "True")]}});
            companions.settings.put(serde_json::from_value(object).unwrap());
            let at_hand = companions.of(&host);
            (at_hand.settings.wish, at_hand.edits()[0].unwrap())
        };
        let (wish, first) = seen("u", 2, "7", "True");
        assert_eq!((wish, first.generation), (Wish::Changes, 2));
        assert_eq!(seen("u", 2, "8", "False"), (Wish::Nothing, first));
        let (wish, edited) = seen("u", 3, "9", "False");
        assert_eq!((wish, edited.generation), (Wish::Nothing, 3));
        let (_, anew) = seen("v", 2, "10", "True");
        assert!(anew.generation == first.generation && anew != first, "another object");
    }
}
