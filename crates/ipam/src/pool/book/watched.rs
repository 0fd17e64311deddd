//! What watches and answers show. Views come in any order; older ones than the newest are ignored.

use std::sync::Arc;

use metal3_api::ipam::IPPool;

use super::{Book, ClusterSeen};
use crate::alloc::Plan;
use crate::pool::promise::Promises;
use crate::pool::seen::{Address, AddressId, Claim, ClaimKey, version};
use crate::pool::stuck::Stuck;
use crate::pool::text::plan_of;

impl Book {
    /// A view of the pool.
    ///
    /// `plan` is what its specification means, where that has been read already.
    pub fn see_pool(&mut self, pool: Arc<IPPool>, plan: Option<Plan>) {
        if let Some(uid) = &pool.metadata.uid
            && self.gone.contains(uid)
        {
            return;
        }
        let before = self.pool.as_ref();
        if before.is_some_and(|before| version(&before.metadata) >= version(&pool.metadata)) {
            return;
        }
        let is_same = before.is_some_and(|before| before.metadata.uid == pool.metadata.uid);
        let is_other_spec = before.is_none_or(|before| before.spec != pool.spec);
        if !is_same {
            self.trusted = None;
            self.dirty.extend(self.claims.keys().cloned());
        }
        if self.trusted != Some(version(&pool.metadata)) {
            // Somebody else has written: perhaps another manager, perhaps somebody who emptied the status. That the status
            // looks the same proves nothing, because addresses may have come and gone.
            self.trusted = None;
        }
        self.pool = Some(pool);
        if is_other_spec {
            self.read_spec(plan);
        }
        self.changed = self.now;
    }

    fn read_spec(&mut self, plan: Option<Plan>) {
        let Some(pool) = &self.pool else { return };
        let plan = plan.unwrap_or_else(|| plan_of(&pool.spec));
        self.allocator.set_plan(plan);
        self.is_freed = true;
        // What is only intended was chosen by what the specification said: it is chosen again, by the oldest first.
        let is_open = |key: &&ClaimKey| self.claims.get(key).is_none_or(|claim| claim.address.is_none());
        for key in self.proposed.iter().filter(is_open).cloned().collect::<Vec<_>>() {
            self.vacate(&key);
            self.dirty.insert(key);
        }
        // A request that was out of range may be in range now.
        self.dirty.extend(self.refused.keys().cloned());
    }

    /// The pool is gone.
    pub fn lose_pool(&mut self, uid: &str) {
        let own = self.pool.as_ref().and_then(|pool| pool.metadata.uid.as_deref());
        if own == Some(uid) {
            self.pool = None;
            self.trusted = None;
            self.stuck = Stuck::default();
            self.set_promises(Promises::default());
            self.published.clear();
            self.dirty.extend(self.claims.keys().cloned());
            self.dirty.extend(self.objects.keys().cloned());
        }
    }

    /// What is known of the Clusters of the namespace has changed.
    /// Returns whether it concerns this pool or a claim on it.
    pub fn see_cluster(&mut self, name: &str, cluster: Option<&ClusterSeen>) -> bool {
        let changed = match cluster {
            Some(cluster) => self.clusters.insert(name.to_owned(), cluster.clone()).as_ref() != Some(cluster),
            None => self.clusters.remove(name).is_some(),
        };
        let concerned = self.claims.values().filter(|claim| claim.cluster == name);
        let concerned: Vec<ClaimKey> = concerned.filter(|_| changed).map(|claim| claim.key.clone()).collect();
        let is_ours = self.pool.as_ref().is_some_and(|pool| pool.spec.cluster_name == name);
        let wakes = changed && is_ours || !concerned.is_empty();
        self.dirty.extend(concerned);
        wakes
    }

    /// A view of a claim.
    pub fn see_claim(&mut self, claim: Arc<Claim>) {
        let key = claim.key.clone();
        if self.gone.contains(&claim.meta.uid) {
            return;
        }
        if let Some(before) = self.claims.get(&key).cloned() {
            if before.meta.version >= claim.meta.version {
                return;
            }
            self.queue.remove(&before.order());
            if before.meta.uid != claim.meta.uid {
                self.lose_claim(&key, &before.meta.uid);
            }
        }
        self.news_of_claim(&claim);
        let before = self.claims.get(&key).map(|before| &before.requested);
        let is_other_wish = before.is_some_and(|before| *before != claim.requested);
        if is_other_wish && claim.address.is_none() && self.proposed.contains(&key) {
            // It asks for another address than the one that was intended for it.
            self.vacate(&key);
        }
        if !self.failures.contains_key(&key) {
            self.later.remove(&key);
        }
        // It may ask for something else now.
        self.refused.remove(&key);
        let told = self.told_object(&claim).and_then(|object| object.address);
        if told.is_some() && told != self.allocator.held_by(&key) {
            self.is_displaced = true;
        }
        self.claims.insert(key.clone(), claim);
        self.dirty.insert(key);
    }

    /// A claim is gone, or none of ours any more.
    pub fn lose_claim(&mut self, key: &ClaimKey, uid: &str) {
        let Some(claim) = self.claims.get(key).filter(|claim| claim.meta.uid == uid) else {
            return;
        };
        self.queue.remove(&claim.order());
        self.claims.remove(key);
        self.gone.insert(uid.to_owned());
        self.refused.remove(key);
        self.failures.remove(key);
        self.broken.remove(key);
        self.later.remove(key);
        self.dirty.insert(key.clone());
        self.changed = self.now;
    }

    /// The watch has noticed that an object is gone: it will not show any older view of it. The answer to a request that is
    /// under way may still do.
    pub fn departed(&mut self, uid: &str) {
        self.gone.insert(uid.to_owned());
        self.departed.push(uid.to_owned());
    }

    /// The watch no longer shows an object, which may come back.
    pub fn hidden(&mut self, uid: &str) {
        self.gone.remove(uid);
    }

    /// No request is under way.
    pub(in crate::pool) fn all_answered(&mut self) {
        for uid in std::mem::take(&mut self.departed) {
            self.gone.remove(&uid);
        }
    }

    /// A view of an address.
    pub fn see_address(&mut self, address: Arc<Address>) {
        let id = address.id.clone();
        if self.gone.contains(&address.meta.uid) {
            return;
        }
        if let Some(before) = self.addresses.get(&id).cloned() {
            if before.meta.version >= address.meta.version {
                return;
            }
            if before.meta.uid != address.meta.uid || before.address != address.address || before.claim != address.claim
            {
                self.drop_address(&before);
            }
        }
        let key = address.claim.clone();
        self.news_of_object(&key, &id);
        self.objects.entry(key.clone()).or_default().insert(id.clone());
        let ip = address.address;
        let is_new = self.addresses.insert(id, address).is_none();
        if is_new {
            self.changed = self.now;
            if let Some(ip) = ip {
                self.place(&key, ip);
            }
        }
        self.dirty.insert(key);
    }

    /// An address object is gone.
    pub fn lose_address(&mut self, id: &AddressId, uid: &str) {
        let Some(address) = self
            .addresses
            .get(id)
            .filter(|address| address.meta.uid == uid)
            .cloned()
        else {
            return;
        };
        self.gone.insert(uid.to_owned());
        self.drop_address(&address);
    }

    /// An object that took a name which this pool wanted is gone.
    /// Returns whether that is so.
    pub fn lose_foreign(&mut self, id: &AddressId) -> bool {
        let free: Vec<_> = self
            .foreign
            .iter()
            .filter(|(_, by)| *by == id)
            .map(|(ip, _)| *ip)
            .collect();
        for ip in &free {
            self.foreign.remove(ip);
            self.allocator.unblock(*ip);
            self.is_freed = true;
            // A claim that it was promised to can have it after all.
            self.is_displaced |= self.promises.iter().any(|promise| promise.address == *ip);
        }
        !free.is_empty()
    }

    /// A claim is gone that was on another pool at last. It may have got its address from this one.
    /// Returns whether that may be so.
    pub fn lose_foreign_claim(&mut self, key: &ClaimKey) -> bool {
        let may_be = self.objects.contains_key(key) && !self.claims.contains_key(key);
        if may_be {
            self.later.remove(key);
            self.dirty.insert(key.clone());
        }
        may_be
    }

    /// Looks at everything again, as if all of it had just changed.
    pub fn resync(&mut self) {
        self.dirty.extend(self.claims.keys().cloned());
        self.dirty.extend(self.objects.keys().cloned());
        // Three requests find all taken names; trying them would cost a promise and a refused object for each.
        self.trusted = None;
        self.is_freed = true;
    }
}
