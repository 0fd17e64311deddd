//! Hosts in an order that does not depend on when they came, by namespace and by label: a claim looks at the few that come first
//! for it, and not at all of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::backoff::{hash, mixed};
use metal3_runtime::store::ObjectKey;

/// A label with its value.
pub type Label = (String, String);

/// Which hosts: of a namespace, and with this label if one is given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ring {
    pub namespace: String,
    pub label: Option<Label>,
}

/// Where a host stands in its rings.
type Spot = (u64, Arc<ObjectKey>);

/// A host, with the number of the change that put it there.
pub type Placed = (u64, Arc<BareMetalHost>);

/// The rings of many hosts.
#[derive(Default)]
pub struct Rings {
    hosts: HashMap<Arc<Ring>, BTreeMap<Spot, Placed>>,
    of_host: HashMap<Arc<ObjectKey>, Vec<Arc<Ring>>>,
    changes: u64,
}

impl Rings {
    /// Puts a host into its rings, or removes it from all.
    pub fn set(&mut self, key: &ObjectKey, host: Option<&Arc<BareMetalHost>>) {
        if let Some((key, rings)) = self.of_host.remove_entry(key) {
            let spot = (spot(&key), key);
            for ring in rings {
                if let Some(hosts) = self.hosts.get_mut(&ring) {
                    hosts.remove(&spot);
                    if hosts.is_empty() {
                        self.hosts.remove(&ring);
                    }
                }
            }
        }
        let Some(host) = host else { return };
        self.changes += 1;
        let key = Arc::new(key.clone());
        let labels = host
            .labels()
            .iter()
            .map(|(key, value)| Some((key.clone(), value.clone())));
        let rings = std::iter::once(None).chain(labels).map(|label| {
            let ring = Ring {
                namespace: key.namespace.clone(),
                label,
            };
            let known = self.hosts.get_key_value(&ring).map(|(known, _)| known.clone());
            let ring = known.unwrap_or_else(|| Arc::new(ring));
            let hosts = self.hosts.entry(ring.clone()).or_default();
            hosts.insert((spot(&key), key.clone()), (self.changes, host.clone()));
            ring
        });
        let rings = rings.collect();
        self.of_host.insert(key, rings);
    }

    /// The number of changes so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The hosts of a ring, each once, from this place onwards.
    pub fn walk(&self, ring: &Ring, start: u64) -> impl Iterator<Item = &Placed> {
        let start = (start, Arc::new(ObjectKey::new("", "")));
        let hosts = self.hosts.get(ring);
        let behind = hosts.into_iter().flat_map({
            let start = start.clone();
            move |hosts| hosts.range(start.clone()..)
        });
        let before = hosts.into_iter().flat_map(move |hosts| hosts.range(..start.clone()));
        behind.chain(before).map(|(_, placed)| placed)
    }
}

/// The place of a host.
pub fn spot(host: &ObjectKey) -> u64 {
    mixed(hash(&host.name))
}
