//! Beginning again from what the server has.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use metal3_api::ipam::IPPool;

use super::Book;
use crate::pool::effect::Adopted;
use crate::pool::promise::Promises;
use crate::pool::seen::{Address, AddressId, Family, address_name, version};
use crate::pool::text::plan_of;

impl Book {
    /// Takes in the pool and all addresses, as they were read from the server in this order.
    pub(in crate::pool) fn adopt(&mut self, adopted: &Adopted) {
        // That it is gone, the watch will tell; by now there may be another one.
        let Some(pool) = adopted.pool.clone() else { return };
        self.trusted = None;
        self.see_pool(pool.clone(), None);
        let known: HashSet<&AddressId> = adopted.addresses.iter().map(|address| &address.id).collect();
        let as_of = |family| match family {
            Family::Metal3 => adopted.as_of[0],
            Family::ClusterApi => adopted.as_of[1],
        };
        self.addresses
            .retain(|id, address| known.contains(id) || address.meta.version > as_of(id.family));
        let pool_name = self.name.clone();
        for address in adopted.addresses.iter().filter(|address| address.pool == pool_name) {
            let before = self.addresses.get(&address.id);
            let is_news = before.is_none_or(|before| before.meta.version < address.meta.version);
            if is_news && !self.gone.contains(&address.meta.uid) {
                self.addresses.insert(address.id.clone(), address.clone());
                self.news_of_object(&address.claim, &address.id);
            }
        }
        self.objects.clear();
        for address in self.addresses.values() {
            let ids = self.objects.entry(address.claim.clone()).or_default();
            ids.insert(address.id.clone());
        }
        // What was read may be older than what the watch has shown meanwhile.
        let newest = self.pool.clone().unwrap_or_else(|| pool.clone());
        self.allocator.set_plan(plan_of(&newest.spec));
        self.published = pool
            .status
            .as_ref()
            .map(|status| status.allocations.clone())
            .unwrap_or_default();
        self.set_promises(Promises::of(&pool));
        self.foreign = self.foreign_names(&newest, adopted);
        self.is_displaced = false;
        self.place_all();
        self.unpublished = self.published.keys().cloned().collect();
        self.unpublished
            .extend(self.allocator.holders().map(|(key, _)| key.name.clone()));
        let read = Some(version(&pool.metadata));
        self.trusted =
            read.filter(|_| newest.metadata.uid == pool.metadata.uid && read == Some(version(&newest.metadata)));
        self.dirty.extend(self.claims.keys().cloned());
        self.dirty.extend(self.objects.keys().cloned());
        self.dirty
            .extend(self.promises.iter().map(|promise| promise.claim.clone()));
    }

    /// Addresses whose names are taken by objects that are none of this pool's: by those of another pool with the same prefix,
    /// and by those that were found when a name was tried (also one of this pool's that is for another address).
    fn foreign_names(&self, pool: &IPPool, adopted: &Adopted) -> HashMap<IpAddr, AddressId> {
        let others = adopted.addresses.iter().filter(|address| address.pool != self.name);
        let others: HashMap<&AddressId, &Arc<Address>> = others.map(|address| (&address.id, address)).collect();
        let has_our_name = |address: &Address| {
            let ip = address
                .address
                .filter(|ip| address_name(&pool.spec.name_prefix, *ip) == address.id.name);
            ip.filter(|ip| self.allocator.plan().contains(*ip))
        };
        let taken = others
            .values()
            .filter_map(|other| Some((has_our_name(other)?, other.id.clone())));
        let present: HashMap<&AddressId, &Arc<Address>> = adopted.addresses.iter().map(|a| (&a.id, a)).collect();
        let is_other = |ip: IpAddr, there: &Address| there.pool != self.name || there.address != Some(ip);
        let found = self
            .foreign
            .iter()
            .filter(|(ip, id)| present.get(id).is_some_and(|there| is_other(**ip, there)));
        let found = found.map(|(ip, id)| (*ip, id.clone()));
        found.chain(taken).collect()
    }
}
