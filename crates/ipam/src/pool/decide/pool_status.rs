//! The writes to the pool itself.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use metal3_api::capi;
use metal3_api::ipam::{self, IPPool, IPPoolStatus};
use metal3_runtime::conditions::whole_seconds;

use super::Turn;
use super::conditions::{pool_conditions, usage};
use crate::alloc::{Problem, Severity};
use crate::pool::effect::{Effect, Record};
use crate::pool::objects::{AddressId, Family, version};
use crate::pool::reservation::Reservations;
use crate::pool::state::PoolState;

const API_VERSION: &str = "cluster.x-k8s.io/v1beta2";

impl Turn<'_> {
    /// The pool's part of the round. `left`: the backoff while writing it fails. Reservations are urgent, except for the pause
    /// after the last write. Other changes wait until nothing else is in progress.
    pub(super) fn pool(&mut self, left: Option<Duration>) {
        let state = self.state;
        let Some(pool) = &state.pool else { return };
        let numbers = usage(self.holdings.allocator().usage(), self.exhausted);
        self.round.usage = Some(numbers);
        let (is_urgent, is_idle) = (!self.new.is_empty(), self.round.effects.is_empty());
        if let Some(left) = left {
            return self.round.look_again(left);
        }
        if !is_urgent && !is_idle {
            return;
        }
        let kept = state
            .reservations
            .iter()
            .filter(|reservation| !self.holdings.is_over(reservation));
        let reservations: Reservations = kept.chain(&self.new).cloned().collect();
        if pool.metadata.deletion_timestamp.is_some()
            && reservations.is_empty()
            && state.addresses.is_empty()
            && is_idle
        {
            self.round.effects.extend(let_go(pool));
            return;
        }
        let Some(record) = self.record(pool, reservations, numbers) else {
            return;
        };
        let at = if is_urgent {
            state.next_record
        } else {
            state.next_record.max(state.changed + state.policy.settle)
        };
        match at.checked_sub(self.now.elapsed) {
            None | Some(Duration::ZERO) => self.round.effects.push(Effect::Record(record)),
            Some(left) => self.round.look_again(left),
        }
    }

    /// The pool's next status; nothing if it is up to date.
    fn record(&self, pool: &IPPool, reservations: Reservations, usage: ipam::PoolUsage) -> Option<Record> {
        let none = IPPoolStatus::default();
        let status = pool.status.as_ref().unwrap_or(&none);
        let now = self.now.wall;
        let indexes = self.next_indexes(status);
        let conditions = pool_conditions(pool, &self.problems(), usage, &self.rival_names(), now);
        let is_same = indexes.is_empty()
            && reservations == self.state.reservations
            && status.usage == Some(usage)
            && status.conditions == conditions
            && status.last_updated.is_some();
        let last_updated = if indexes.is_empty() {
            last_updated(pool).unwrap_or(now)
        } else {
            whole_seconds(now)
        };
        (!is_same).then(|| Record {
            version: version(&pool.metadata),
            reservations,
            indexes,
            last_updated,
            usage: Some(usage),
            conditions,
        })
    }

    /// Changed entries of `indexes`. If two claims share a name, the Metal3 one's address is shown.
    fn next_indexes(&self, status: &IPPoolStatus) -> BTreeMap<String, Option<String>> {
        let mut held: BTreeMap<&str, (Family, String)> = BTreeMap::new();
        for (key, ip) in self.holdings.allocator().holders() {
            let other = held.get(key.name.as_str()).map(|(family, _)| *family);
            if other.is_none_or(|other| key.family < other) {
                held.insert(&key.name, (key.family, ip.to_string()));
            }
        }
        let shown = &status.allocations;
        let gone = shown.keys().filter(|name| !held.contains_key(name.as_str()));
        let mut indexes: BTreeMap<String, Option<String>> = gone.map(|name| (name.clone(), None)).collect();
        let news = held.into_iter().filter(|(name, (_, ip))| shown.get(*name) != Some(ip));
        indexes.extend(news.map(|(name, (_, ip))| (name.to_owned(), Some(ip))));
        indexes
    }

    /// Problems of the spec, and of the addresses in use under it.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = self.state.plan.problems().to_vec();
        let outside = self.holdings.allocator().outside();
        let others = match outside.len().saturating_sub(1) {
            0 => String::new(),
            count => format!(", and {count} more"),
        };
        if let Some(ip) = outside.first()
            && let Some(holder) = self.holdings.allocator().holder_of(*ip)
        {
            problems.push(Problem {
                field: "spec.pools".to_owned(),
                message: format!("{ip} of {holder} is in use but out of bounds of the pools given{others}"),
                severity: Severity::Warning,
            });
        }
        problems
    }

    /// Names of objects whose address or claim belongs to another object.
    fn rival_names(&self) -> Vec<String> {
        let name = |id: &&AddressId| format!("{} IPAddress {}", id.family.api_version(), id.name);
        let mut names: Vec<String> = self.holdings.rivals.iter().map(name).collect();
        names.sort_unstable();
        names
    }
}

/// When the allocated addresses last changed, otherwise when the pool was created.
pub(super) fn last_updated(pool: &IPPool) -> Option<Timestamp> {
    let known = pool.status.as_ref().and_then(|status| status.last_updated.as_ref());
    let time = known.or(pool.metadata.creation_timestamp.as_ref());
    time.map(|time| time.0)
}

/// The pool's metadata, if anything of ours is missing: labels, the Cluster as an owner, our finalizer.
pub(super) fn metadata(state: &PoolState) -> Option<Effect> {
    let pool = state.pool.as_ref()?;
    let mut present = pool.metadata.finalizers.clone().unwrap_or_default();
    let finalizer = ipam::names::finalizer::POOL.to_owned();
    let is_missing = pool.metadata.deletion_timestamp.is_none() && !present.contains(&finalizer);
    present.push(finalizer);
    let cluster = state.clusters.get(&pool.spec.cluster_name);
    write(ObjectMeta {
        labels: missing_labels(pool),
        owner_references: cluster.and_then(|cluster| owners(pool, &cluster.uid)),
        finalizers: is_missing.then_some(present),
        ..seen(pool)
    })
}

/// The pool's labels, if any is missing.
pub(super) fn labels(pool: &IPPool) -> Option<Effect> {
    write(ObjectMeta {
        labels: missing_labels(pool),
        ..seen(pool)
    })
}

fn seen(pool: &IPPool) -> ObjectMeta {
    ObjectMeta {
        resource_version: pool.metadata.resource_version.clone(),
        ..ObjectMeta::default()
    }
}

/// Whether there is anything to write.
fn write(meta: ObjectMeta) -> Option<Effect> {
    let is_change = meta.finalizers.is_some() || meta.owner_references.is_some() || meta.labels.is_some();
    is_change.then(|| Effect::Pool(Box::new(meta)))
}

fn missing_labels(pool: &IPPool) -> Option<BTreeMap<String, String>> {
    let cluster = &pool.spec.cluster_name;
    let wanted = [
        (capi::names::label::CLUSTER_NAME, cluster.as_str()),
        (capi::names::label::PROVIDER, ipam::names::PROVIDER),
    ];
    let present = |label: &str| pool.metadata.labels.as_ref()?.get(label).map(String::as_str);
    let missing = wanted
        .iter()
        .filter(|(label, value)| !cluster.is_empty() && present(label) != Some(value));
    let missing: BTreeMap<String, String> = missing
        .map(|(label, value)| ((*label).to_owned(), (*value).to_owned()))
        .collect();
    (!missing.is_empty()).then_some(missing)
}

/// The last step of a pool's deletion.
fn let_go(pool: &IPPool) -> Option<Effect> {
    let present = pool.metadata.finalizers.as_deref().unwrap_or_default();
    let is_of_others = |finalizer: &&String| *finalizer != ipam::names::finalizer::POOL;
    let others: Vec<String> = present.iter().filter(is_of_others).cloned().collect();
    let is_ours = others.len() != present.len();
    write(ObjectMeta {
        finalizers: is_ours.then_some(others),
        ..seen(pool)
    })
}

/// All owner references including the Cluster, if that is a change. API version and UID are kept up to date: after a move, or
/// when Cluster API drops a version, an old reference would be dangling.
fn owners(pool: &IPPool, uid: &str) -> Option<Vec<OwnerReference>> {
    let name = &pool.spec.cluster_name;
    let mut owners = pool.metadata.owner_references.clone().unwrap_or_default();
    let is_cluster = |owner: &OwnerReference| {
        let group = owner.api_version.split('/').next();
        owner.kind == "Cluster" && owner.name == *name && group == Some(capi::names::group::CORE)
    };
    match owners.iter_mut().find(|owner| is_cluster(owner)) {
        Some(owner) if owner.api_version == API_VERSION && owner.uid == uid => return None,
        Some(owner) => {
            API_VERSION.clone_into(&mut owner.api_version);
            uid.clone_into(&mut owner.uid);
        }
        None => owners.push(OwnerReference {
            api_version: API_VERSION.to_owned(),
            kind: "Cluster".to_owned(),
            name: name.clone(),
            uid: uid.to_owned(),
            controller: Some(false),
            block_owner_deletion: None,
        }),
    }
    Some(owners)
}
