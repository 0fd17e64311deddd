//! What is written to the pool itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool, IPPoolStatus};
use metal3_runtime::conditions::whole_seconds;

use super::book::Book;
use super::effect::{Effect, Moment, PoolMeta, Record};
use super::promise::{Promise, Promises};
use super::seen::{Claim, ClaimKey, Family, version};
use super::text::{pool_conditions, problems_of, usage};
use crate::alloc::{Problem, Severity};

impl Book {
    /// The pool's next status and when it may be written; nothing if it is what it should be.
    ///
    /// Addresses to be given out cannot wait, except for a pause that keeps the share of time spent in writing a big
    /// status small. What merely tells of the past waits until nothing else is going on.
    pub(super) fn record(&mut self, now: Moment, settled: bool) -> Option<(Duration, Record)> {
        if self.proposed.is_empty() && !settled {
            return None;
        }
        let pool = self.pool.clone()?;
        let (promises, is_urgent) = self.next_promises();
        if !is_urgent && !settled {
            return None;
        }
        let status = pool.status.clone_without_indexes();
        let indexes = self.next_indexes(&promises);
        let usage = usage(self.allocator.usage(), self.waiting());
        let conditions = pool_conditions(&pool, &self.problems(&pool), usage, &self.rival_names(), now.wall);
        let since = pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let known = status.last_updated.map(|time| time.0);
        let last_updated = if indexes.is_empty() {
            known.or(since).unwrap_or(now.wall)
        } else {
            whole_seconds(now.wall)
        };
        let is_same = indexes.is_empty()
            && promises == self.promises
            && status.usage == Some(usage)
            && status.conditions == conditions
            && known.is_some();
        if is_same {
            self.unpublished.clear();
            return None;
        }
        let at = if is_urgent {
            self.next_record
        } else {
            self.next_record.max(self.changed + self.policy.settle)
        };
        let record = Record {
            version: version(&pool.metadata),
            promises,
            indexes,
            last_updated,
            usage,
            conditions,
        };
        Some((at, record))
    }

    /// What is wrong with the specification, and with what is in use under it.
    fn problems(&self, pool: &IPPool) -> Vec<Problem> {
        let mut problems = problems_of(&pool.spec, self.allocator.plan());
        let mut outside = self.allocator.outside();
        let others = match outside.len().saturating_sub(1) {
            0 => String::new(),
            count => format!(", and {count} more"),
        };
        if let Some(ip) = outside.next()
            && let Some(holder) = self.allocator.holder_of(ip)
        {
            problems.push(Problem {
                field: "spec.pools".to_owned(),
                message: format!("{ip} of {holder} is in use but out of bounds of the pools given{others}"),
                severity: Severity::Warning,
            });
        }
        problems
    }

    /// What the pool should promise next: what it has promised and what is still open, and new promises to the oldest of
    /// those that need one. And whether there are new ones.
    fn next_promises(&self) -> (Promises, bool) {
        let kept: Vec<&Promise> = self.promises.iter().filter(|promise| !self.is_over(promise)).collect();
        let in_flight = kept.iter().filter(|promise| self.is_in_flight(promise)).count();
        let room = self.policy.promises.saturating_sub(in_flight);
        let mut wanting: Vec<&Arc<Claim>> = self.proposed.iter().filter_map(|key| self.claims.get(key)).collect();
        wanting.sort_unstable_by_key(|claim| claim.order());
        let new = wanting.into_iter().filter_map(|claim| {
            Some(Promise {
                claim: claim.key.clone(),
                uid: claim.meta.uid.clone(),
                address: self.allocator.held_by(&claim.key)?,
            })
        });
        let new: Vec<Promise> = new.take(room).collect();
        let is_urgent = !new.is_empty();
        (kept.into_iter().cloned().chain(new).collect(), is_urgent)
    }

    /// Whether a promise is on its way to its claim. The others must not wait for claims that fail for reasons of their own,
    /// or rest, or are being deleted and kept, nor for names that are taken.
    fn is_in_flight(&self, promise: &Promise) -> bool {
        let key = &promise.claim;
        let waits = |claim: &Arc<Claim>| self.is_resting(claim) || claim.meta.is_deleting && claim.is_kept_by_others();
        !self.failures.contains_key(key) && !self.is_superseded(promise) && !self.claims.get(key).is_some_and(waits)
    }

    /// Whether a promise need not be kept in the pool's status any longer. Whoever sees the pool without it reads all objects
    /// after that, so one that a living claim knows of protects itself; and a claim that is gone cannot be told anything.
    fn is_over(&self, promise: &Promise) -> bool {
        let key = &promise.claim;
        match self.claims.get(key).filter(|claim| claim.meta.uid == promise.uid) {
            Some(claim) if claim.is_going() => !self.objects.contains_key(key),
            // It has been told this address, or another one for good.
            Some(claim) => self.told_object(claim).is_some(),
            None => self.is_dead(key, &promise.uid),
        }
    }

    /// Entries of `indexes` that change. What is only intended is not shown.
    fn next_indexes(&self, promises: &Promises) -> BTreeMap<String, Option<String>> {
        let is_given = |key: &ClaimKey| !self.proposed.contains(key) || promises.of_claim(key).next().is_some();
        let mut indexes = BTreeMap::new();
        for name in &self.unpublished {
            let keys = Family::ALL.map(|family| ClaimKey {
                family,
                name: name.clone(),
            });
            // Of two claims of one name, the Metal3 one's.
            let held = |key: &ClaimKey| self.allocator.held_by(key).filter(|_| is_given(key));
            let wanted = keys.iter().find_map(held).map(|ip| ip.to_string());
            if wanted.as_ref() != self.published.get(name) {
                indexes.insert(name.clone(), wanted);
            }
        }
        indexes
    }

    /// The server has our record now: nobody else can give these addresses away.
    pub(super) fn recorded(&mut self, record: &Record) {
        for (name, address) in &record.indexes {
            match address {
                Some(address) => self.published.insert(name.clone(), address.clone()),
                None => self.published.remove(name),
            };
        }
        self.set_promises(record.promises.clone());
        self.dirty
            .extend(record.promises.iter().map(|promise| promise.claim.clone()));
        let still = self.next_indexes(&record.promises);
        let open = |name: &String| still.contains_key(name) || self.is_proposed(name);
        let unpublished: BTreeSet<String> = self.unpublished.iter().filter(|name| open(name)).cloned().collect();
        self.unpublished = unpublished;
    }

    fn is_proposed(&self, name: &str) -> bool {
        let mut keys = Family::ALL.map(|family| ClaimKey {
            family,
            name: name.to_owned(),
        });
        keys.iter_mut().any(|key| self.proposed.contains(key))
    }

    /// The pool's metadata, if anything of ours is missing: labels, the Cluster as an owner, our finalizer.
    pub(super) fn metadata(&self) -> Option<PoolMeta> {
        let pool = self.pool.as_ref()?;
        let mut meta = self.labels()?;
        if let Some(cluster) = self.cluster() {
            meta.owners = owners(pool, &cluster.uid);
        }
        let finalizer = ipam::names::finalizer::POOL;
        let present = pool.metadata.finalizers.as_deref().unwrap_or_default();
        if pool.metadata.deletion_timestamp.is_none() && !present.iter().any(|f| f == finalizer) {
            meta.finalizers = Some(present.iter().cloned().chain([finalizer.to_owned()]).collect());
        }
        is_change(&meta).then_some(meta)
    }

    /// What is to be written of the labels.
    pub(super) fn labels(&self) -> Option<PoolMeta> {
        let pool = self.pool.as_ref()?;
        let mut meta = PoolMeta {
            version: version(&pool.metadata),
            is_trusted: self.trusted == Some(version(&pool.metadata)),
            finalizers: None,
            labels: BTreeMap::new(),
            owners: None,
        };
        let cluster = &pool.spec.cluster_name;
        if !cluster.is_empty() {
            for (label, value) in [
                (capi::names::label::CLUSTER_NAME, cluster.as_str()),
                (capi::names::label::PROVIDER, ipam::names::PROVIDER),
            ] {
                let present = pool.metadata.labels.as_ref().and_then(|labels| labels.get(label));
                if present.map(String::as_str) != Some(value) {
                    meta.labels.insert(label.to_owned(), value.to_owned());
                }
            }
        }
        Some(meta)
    }

    /// The last step of a pool's deletion.
    pub(super) fn let_pool_go(&self) -> Option<Effect> {
        let pool = self.pool.as_ref()?;
        let present = pool.metadata.finalizers.as_deref().unwrap_or_default();
        let others: Vec<String> = present
            .iter()
            .filter(|f| *f != ipam::names::finalizer::POOL)
            .cloned()
            .collect();
        (others.len() != present.len()).then(|| {
            Effect::Pool(PoolMeta {
                version: version(&pool.metadata),
                is_trusted: false,
                finalizers: Some(others),
                labels: BTreeMap::new(),
                owners: None,
            })
        })
    }
}

/// Whether anything of it is to be written.
pub(super) fn is_change(meta: &PoolMeta) -> bool {
    meta.finalizers.is_some() || meta.owners.is_some() || !meta.labels.is_empty()
}

/// All owner references with the Cluster among them, if that is a change. Version and UID are kept up to date: after a
/// move, or when Cluster API drops a version, an old reference would point to nothing.
fn owners(pool: &ipam::IPPool, uid: &str) -> Option<Vec<OwnerReference>> {
    let name = &pool.spec.cluster_name;
    let wanted = OwnerReference {
        api_version: "cluster.x-k8s.io/v1beta2".to_owned(),
        kind: "Cluster".to_owned(),
        name: name.clone(),
        uid: uid.to_owned(),
        controller: Some(false),
        block_owner_deletion: None,
    };
    let mut owners = pool.metadata.owner_references.clone().unwrap_or_default();
    let is_cluster = |owner: &OwnerReference| {
        let group = owner.api_version.split('/').next();
        owner.kind == "Cluster" && owner.name == *name && group == Some(capi::names::group::CORE)
    };
    match owners.iter_mut().find(|owner| is_cluster(owner)) {
        Some(owner) if owner.api_version == wanted.api_version && owner.uid == wanted.uid => return None,
        Some(owner) => {
            owner.api_version = wanted.api_version;
            owner.uid = wanted.uid;
        }
        None => owners.push(wanted),
    }
    Some(owners)
}

/// The small parts of a status, without copying thousands of allocations.
trait Small {
    fn clone_without_indexes(&self) -> IPPoolStatus;
}

impl Small for Option<IPPoolStatus> {
    fn clone_without_indexes(&self) -> IPPoolStatus {
        self.as_ref().map_or_else(IPPoolStatus::default, |status| IPPoolStatus {
            last_updated: status.last_updated.clone(),
            usage: status.usage,
            conditions: status.conditions.clone(),
            ..IPPoolStatus::default()
        })
    }
}
