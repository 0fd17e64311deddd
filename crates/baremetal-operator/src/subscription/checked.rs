//! Which subscriptions the BMC of a host was seen to have. Losing this costs one look at each host.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use metal3_api::metal3::{BMCEventSubscription, BareMetalHost};
use metal3_runtime::store::ObjectKey;
use parking_lot::Mutex;

use super::{Known, Observed, Subject};

/// By host.
#[derive(Clone, Debug, Default)]
pub(super) struct Checked(Arc<Mutex<HashMap<ObjectKey, OfHost>>>);

#[derive(Debug, PartialEq, Eq)]
struct OfHost {
    server: Server,
    /// The UIDs of the objects.
    objects: HashSet<String>,
}

/// The UID of the host and the address of its BMC: with another one, another server may be meant.
pub(super) type Server = (Option<String>, String);

pub(super) fn server_of(host: &BareMetalHost) -> Server {
    (host.metadata.uid.clone(), host.spec.bmc.address.clone())
}

impl Checked {
    /// Whether the BMC of this host was seen to have what is stored for this object.
    pub fn has(&self, host: &BareMetalHost, object: &BMCEventSubscription) -> bool {
        let all = self.0.lock();
        let of_host = all.get(&ObjectKey::of(host)).filter(|of| of.server == server_of(host));
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        of_host.is_some_and(|of| of.objects.contains(uid))
    }

    /// Remembers what a pass has seen or made.
    pub fn learn(&self, seen: &Observed) {
        let Some(host) = &seen.host else { return };
        let is_there = |subject: &&Subject| {
            let id = subject.status().subscription_id;
            let found = match &seen.known {
                Known::Found(found) => found.as_slice(),
                Known::NotLooked | Known::NoNode => &[],
            };
            subject.made.as_ref() == Some(&id) || found.iter().any(|one| one.id == id && subject.is_for(one))
        };
        let uids = seen.subjects.iter().filter(is_there);
        let uids: Vec<_> = uids.filter_map(|subject| subject.object.metadata.uid.clone()).collect();
        if uids.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        let server = server_of(host);
        let of_host = all.entry(seen.key.clone()).or_insert_with(|| OfHost {
            server: server.clone(),
            objects: HashSet::new(),
        });
        if of_host.server != server {
            of_host.objects.clear();
            of_host.server = server;
        }
        of_host.objects.extend(uids);
    }

    /// The host has no subscriptions any more.
    pub fn forget(&self, host: &ObjectKey) {
        self.0.lock().remove(host);
    }
}
