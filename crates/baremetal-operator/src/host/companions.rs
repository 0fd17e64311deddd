//! The companion objects of hosts, as far as a decision needs them at any time.
//!
//! The objects are watched but not kept: a host's BIOS alone has hundreds of settings. Only whether they request
//! something is kept, and a change of that wakes the host.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use kube::core::{ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use metal3_api::metal3::{DataImage, HardwareData, HostFirmwareComponents, HostFirmwareSettings, HostUpdatePolicy};
use metal3_runtime::error::chain;
use metal3_runtime::store::{Awaited, Follow, ObjectKey, Sink, Store};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::firmware::{AtHand, Kinds, Seen, Wish, settings_wish, updates_wish};
use super::observed::DataImageAtHand;

/// The field manager for HardwareData that we write.
pub(super) const HARDWARE_DATA_MANAGER: &str = "baremetal-operator-hardware-data";

/// The known companion objects of all hosts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Companions {
    state: Arc<Mutex<State>>,
    /// The DataImages themselves, for their own controller.
    pub data_images: Store<DataImage>,
}

impl Default for Companions {
    fn default() -> Self {
        Self {
            state: Arc::default(),
            data_images: Store::new(|_| Vec::new()),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    settings: Column<Seen>,
    updates: Column<Seen>,
    policies: Column<Kinds>,
    /// The generation of each HardwareData written by another client.
    hardware_data: Column<i64>,
    /// The DataImages: their generation, and whether a disc may be in the drive.
    data_images: Column<(Option<i64>, bool)>,
}

/// One kind.
#[derive(Debug)]
struct Column<T> {
    /// An object that is missing here requests nothing.
    rows: HashMap<ObjectKey, T>,
    /// The namespaces that were listed completely; `None` stands for the whole cluster.
    listed: HashSet<Option<String>>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            listed: HashSet::new(),
        }
    }
}

impl<T> Column<T> {
    /// Whether a missing entry certainly means that nothing is requested.
    fn has_all_of(&self, host: &ObjectKey) -> bool {
        let mut listed = self.listed.iter().map(Option::as_ref);
        listed.any(|namespace| namespace.is_none_or(|namespace| *namespace == host.namespace))
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
    /// What is known for one host.
    pub fn of(&self, host: &ObjectKey) -> AtHand {
        let state = self.lock();
        let seen = |column: &Column<Seen>| match column.rows.get(host) {
            Some(seen) => *seen,
            None if !column.has_all_of(host) => Seen::default(),
            None => Seen {
                wish: Wish::Nothing,
                generation: None,
            },
        };
        AtHand {
            settings: seen(&state.settings),
            updates: seen(&state.updates),
            on_reboot: state.policies.rows.get(host).copied().unwrap_or_default(),
        }
    }

    /// The generation of a host's HardwareData, if another client wrote it.
    pub fn hardware_data(&self, host: &ObjectKey) -> Option<i64> {
        self.lock().hardware_data.rows.get(host).copied()
    }

    /// Whether the host has a DataImage.
    pub fn data_image(&self, host: &ObjectKey) -> DataImageAtHand {
        let state = self.lock();
        match state.data_images.rows.get(host) {
            Some((generation, holds_disc)) => DataImageAtHand::Present {
                generation: *generation,
                holds_disc: *holds_disc,
            },
            None if !state.data_images.has_all_of(host) => DataImageAtHand::Unknown,
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
            watch.run(
                |state| &mut state.settings,
                |object: &HostFirmwareSettings| seen(settings_wish(object), object.metadata.generation),
            ),
            watch.run(
                |state| &mut state.updates,
                |object: &HostFirmwareComponents| seen(updates_wish(object), object.metadata.generation),
            ),
            watch.run(
                |state| &mut state.policies,
                |object: &HostUpdatePolicy| Some(Kinds::on_reboot(object)).filter(|kinds| *kinds != Kinds::default()),
            ),
            // The content does not matter until a decision requests it.
            watch.run(
                |state| &mut state.hardware_data,
                |object: &PartialObjectMeta<HardwareData>| {
                    object.metadata.generation.filter(|_| is_of_others(&object.metadata))
                },
            ),
            watch.follow(
                |state| &mut state.data_images,
                Both(
                    self.data_images.clone(),
                    watch.filled(|state| &mut state.data_images, disc_row),
                ),
            ),
        );
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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

/// What a host has to know of its DataImage.
#[expect(clippy::unnecessary_wraps, reason = "the rows of other kinds may be none")]
fn disc_row(image: &DataImage) -> Option<(Option<i64>, bool)> {
    let attached = image.status.as_ref().map(|status| &status.attached_image.url);
    Some((image.metadata.generation, attached.is_some_and(|url| !url.is_empty())))
}

/// An object that requests nothing need not be kept.
fn seen(wish: Wish, generation: Option<i64>) -> Option<Seen> {
    (wish != Wish::Nothing).then_some(Seen { wish, generation })
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
    /// Fills a column with what `row` keeps of each object.
    async fn run<K, T>(&self, column: fn(&mut State) -> &mut Column<T>, row: fn(&K) -> Option<T>)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + 'static,
        T: PartialEq + Send + 'static,
    {
        self.follow(column, self.filled(column, row)).await;
    }

    fn filled<K, T>(&self, column: fn(&mut State) -> &mut Column<T>, row: fn(&K) -> Option<T>) -> Filled<K, T> {
        Filled {
            companions: self.companions.clone(),
            wake: self.wake.clone(),
            column,
            row,
        }
    }

    /// Passes what it sees to a sink, and notes in the column which namespaces were listed.
    async fn follow<K, T, S>(&self, column: fn(&mut State) -> &mut Column<T>, store: S)
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
                column(&mut companions.lock()).listed.insert(namespace.clone());
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
        let is_news = (self.column)(&mut self.companions.lock()).set(key.clone(), row);
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
    use super::*;

    #[test]
    fn the_list_of_one_namespace_says_nothing_of_another() {
        // OWN 13b: a host in the other namespace was assumed to have no settings and no disc.
        let companions = Companions::default();
        let [a, b] = ["a", "b"].map(|namespace| ObjectKey::new(namespace, "h"));
        {
            let mut state = companions.lock();
            state.settings.listed.insert(Some("a".into()));
            state.data_images.listed.insert(Some("a".into()));
        }
        let nothing = Seen {
            wish: Wish::Nothing,
            generation: None,
        };
        assert_eq!(
            (companions.of(&a).settings, companions.of(&b).settings),
            (nothing, Seen::default())
        );
        assert_eq!(companions.data_image(&a), DataImageAtHand::Absent);
        assert_eq!(companions.data_image(&b), DataImageAtHand::Unknown);
        companions.lock().settings.listed.insert(None);
        assert_eq!(companions.of(&b).settings, nothing, "the whole cluster");
    }
}
