//! The observed state from which a Metal3Machine decision is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::capi::names::{annotation, group};
use metal3_api::capi::{Cluster, Machine};
use metal3_api::infra::names::{finalizer, label};
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3Data, Metal3DataClaim, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::annotation::PAUSED;
use metal3_runtime::store::ObjectKey;

use super::node::NodeView;
use super::preview::Preview;
use super::reuse;
use crate::data_template::{answers, machine_of};
use crate::select::{self, Choice, Claimed, Consumer};
use crate::stores::{HostBy, Stores, cluster_of, host_of, infrastructure, owner};

/// What is observed under one key.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A machine that we manage.
    Machine(Box<Observed>),
    /// No machine, only leftovers of an earlier one of this name.
    Gone(Leftovers),
}

/// Objects that refer to a machine that is gone or does not refer back to them. None of them is in use.
#[derive(Clone, Debug, Default)]
pub struct Leftovers {
    /// The name.
    pub key: ObjectKey,
    /// Hosts with a late claim that were never given an image.
    pub hosts: Vec<Arc<BareMetalHost>>,
    /// A data claim being deleted that only its machine would release.
    pub claim: Option<Arc<Metal3DataClaim>>,
    /// Whether the machine that left them is gone, if that was read.
    pub is_gone: Option<bool>,
}

/// A Metal3Machine and the objects related to it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object itself.
    pub machine: Arc<Metal3Machine>,
    /// The owning Machine.
    pub owner: Related<Machine>,
    /// The Cluster of that Machine.
    pub cluster: Related<Cluster>,
    /// The Metal3Cluster.
    pub metal3_cluster: Related<Metal3Cluster>,
    /// The host.
    pub host: Host,
    /// The data claim, which has the machine's name. It may belong to an earlier machine of that name.
    pub claim: Option<Arc<Metal3DataClaim>>,
    /// The Metal3Data that answers the claim, if it belongs to this machine.
    pub data: Option<Arc<Metal3Data>>,
    /// The value of the node-reuse label on hosts reserved for this machine's owner.
    pub kept_as: Option<String>,
    /// Whether hosts stay powered on between two machines.
    pub is_fast_track: bool,
    /// The machine's Node.
    pub node: NodeView,
    /// Leftovers of late processes and of earlier machines of this name.
    pub leftovers: Leftovers,
    /// The observed generation. Our own writes create newer ones.
    pub judged: Option<i64>,
    /// What was read because a decision requested it.
    pub reads: Reads,
}

/// Data that is read only if a decision requests it.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// The selected host.
    pub choice: Option<Choice>,
    /// The Secrets that were looked up, by name, and whether they exist.
    pub secrets: Option<BTreeMap<String, bool>>,
    /// Result of checking the boot data.
    pub preview: Option<Preview>,
    /// Whether the host is reserved for the next machine of the same owner.
    pub is_kept: Option<bool>,
    /// Whether the host was read from the API server, rather than from a watch that may lag.
    pub is_host_fresh: bool,
}

/// A referenced object.
#[derive(Clone, Debug, PartialEq)]
pub enum Related<K> {
    /// There is no reference.
    Unset,
    /// The referenced object does not exist.
    Missing(String),
    /// The object.
    Found(Arc<K>),
}

impl<K> Related<K> {
    /// Looks the name up with `get`.
    pub(crate) fn find(name: Option<&str>, get: impl Fn(&str) -> Option<Arc<K>>) -> Self {
        name.map_or(Self::Unset, |name| {
            get(name).map_or_else(|| Self::Missing(name.to_owned()), Self::Found)
        })
    }

    /// The object, if it is there.
    pub fn found(&self) -> Option<&Arc<K>> {
        match self {
            Self::Found(object) => Some(object),
            Self::Unset | Self::Missing(_) => None,
        }
    }
}

/// The host of a machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Host {
    /// The machine references no host, and no host references the machine.
    None,
    /// The referenced host does not exist.
    Missing(String),
    /// The host references the machine.
    Ours(Arc<BareMetalHost>),
    /// The machine references it, but it has no consumer, or only the Cluster that reserves it for such machines.
    Unclaimed(Arc<BareMetalHost>),
    /// The machine references it, but another consumer uses it.
    Foreign(Arc<BareMetalHost>, Consumer),
}

impl Host {
    /// The host that the machine references if it is not claimed.
    pub fn unclaimed(&self) -> Option<&Arc<BareMetalHost>> {
        match self {
            Self::Unclaimed(host) => Some(host),
            Self::None | Self::Missing(_) | Self::Ours(_) | Self::Foreign(..) => None,
        }
    }

    /// The same, but a host reserved by the machine's own Cluster does not count as foreign. Otherwise, while the claim is
    /// rejected, the machine would drop the host and choose it again.
    fn or_kept_for(self, machine: &Metal3Machine, kept_as: Option<&String>) -> Self {
        match self {
            Self::Foreign(host, consumer)
                if consumer.kind == "Cluster"
                    && kept_as.is_some()
                    && host.labels().get(label::NODE_REUSE) == kept_as
                    && !was_associated(machine) =>
            {
                Self::Unclaimed(host)
            }
            other => other,
        }
    }
}

/// Gathers the observed state. `None` if there is nothing to manage.
pub fn observe(stores: &Stores, key: &ObjectKey, is_fast_track: bool) -> Option<Subject> {
    match stores.metal3_machines.get(key) {
        Some(machine) if stores.is_ours(&*machine) => {
            let seen = observe_machine(stores, key, machine, is_fast_track);
            Some(Subject::Machine(Box::new(seen)))
        }
        Some(_) => None,
        None => {
            let leftovers = Leftovers::of(stores, key, None);
            (!leftovers.is_empty()).then_some(Subject::Gone(leftovers))
        }
    }
}

fn observe_machine(stores: &Stores, key: &ObjectKey, machine: Arc<Metal3Machine>, is_fast_track: bool) -> Observed {
    let here = |name: &str| ObjectKey::new(&key.namespace, name);
    let owner = Related::find(owner(&*machine, group::CORE, "Machine"), |name| {
        stores.machines.get(&here(name))
    });
    let label = cluster_of(&*machine).map(|key| key.name);
    let of_owner = owner.found().map(|owner| owner.spec.cluster_name.clone());
    let name = of_owner.filter(|name| !name.is_empty()).or(label);
    let cluster = Related::find(name.as_deref(), |name| stores.clusters.get(&here(name)));
    let ours = cluster.found().and_then(|cluster| infrastructure(cluster));
    let metal3_cluster = Related::find(ours.as_ref().map(|key| key.name.as_str()), |name| {
        stores.metal3_clusters.get(&here(name))
    });
    let claim = stores.data_claims.get(key);
    let data = claim
        .as_deref()
        .filter(|claim| is_of(claim, &machine))
        .and_then(|claim| {
            let name = &claim.status.as_ref()?.rendered_data.name;
            let data = stores.datas.get(&here(name)).filter(|_| !name.is_empty())?;
            answers(&data, claim).then_some(data)
        });
    let kept_as = owner.found().and_then(|machine| reuse::kept_as(stores, machine));
    Observed {
        leftovers: Leftovers::of(stores, key, Some(&machine)),
        judged: machine.metadata.generation,
        host: host_seen(stores, &machine, key).or_kept_for(&machine, kept_as.as_ref()),
        machine,
        owner,
        cluster,
        metal3_cluster,
        claim,
        data,
        kept_as,
        is_fast_track,
        node: NodeView::NotAsked,
        reads: Reads::default(),
    }
}

impl Subject {
    /// The key.
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Machine(seen) => seen.key(),
            Self::Gone(leftovers) => leftovers.key.clone(),
        }
    }
}

impl Leftovers {
    /// Leftovers of earlier machines and late claims, next to the machine of this name, if there is one.
    fn of(stores: &Stores, key: &ObjectKey, machine: Option<&Metal3Machine>) -> Self {
        let hosts = stores.hosts.find(&HostBy::Consumer(key.clone()));
        let claim = stores.data_claims.get(key);
        Self {
            key: key.clone(),
            hosts: hosts.into_iter().filter(|host| is_stray(host, machine)).collect(),
            claim: claim.filter(|claim| stores.is_ours(&**claim) && is_orphan(claim, machine)),
            is_gone: None,
        }
    }

    /// Whether there are no leftovers.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.claim.is_none()
    }

    /// Whether a leftover belongs to the machine with this UID.
    pub fn are_of(&self, uid: Option<&str>) -> bool {
        let of_host = |host: &BareMetalHost| host.consumer().map(|consumer| consumer.uid.clone());
        let of_claim = |claim: &Metal3DataClaim| machine_of(claim).map(|owner| owner.uid.clone());
        let hosts = self.hosts.iter().map(|host| of_host(host));
        let mut uids = hosts.chain(self.claim.iter().map(|claim| of_claim(claim)));
        uids.any(|of| of.as_deref() == uid)
    }
}

/// Whether to release a host that references the machine of this name. We never write a reference without a UID, and during a
/// move to another management cluster a paused host may arrive before its machine.
fn is_stray(host: &BareMetalHost, machine: Option<&Metal3Machine>) -> bool {
    let uid = host.consumer().map_or("", |consumer| &consumer.uid);
    if uid.is_empty() || host.has_image() || host.annotations().contains_key(PAUSED) {
        return false;
    }
    let Some(machine) = machine else { return true };
    let named = host_of(machine).map(|named| named.name);
    let is_its_own = machine.metadata.uid.as_deref() == Some(uid);
    named != host.metadata.name
        && if is_its_own {
            named.is_some()
        } else {
            !was_associated(machine)
        }
}

/// Whether only the owning machine would release a data claim, and that machine is not this one.
fn is_orphan(claim: &Metal3DataClaim, machine: Option<&Metal3Machine>) -> bool {
    claim.metadata.deletion_timestamp.is_some()
        && claim.finalizers().iter().any(|one| one == finalizer::MACHINE)
        && machine_of(claim).is_some()
        && machine.is_none_or(|machine| !is_of(claim, machine))
}

/// The host of the machine of this key, according to the watches.
pub fn host_seen(stores: &Stores, machine: &Metal3Machine, key: &ObjectKey) -> Host {
    let uid = machine.uid().unwrap_or_default();
    let Some(named) = host_of(machine) else {
        let mut claimed = stores.hosts.find(&HostBy::Consumer(key.clone()));
        claimed.sort_by_key(|host| host.metadata.name.clone());
        let is_ours = |host: &&Arc<BareMetalHost>| select::claimed(host, key, &uid) == Claimed::ByUs;
        return match (claimed.iter().find(is_ours), &*claimed) {
            (Some(host), _) => Host::Ours(host.clone()),
            // The machine lost its reference to a host, for example in a move: use the host if it is the only one.
            (None, [only]) if was_associated(machine) => Host::Ours(only.clone()),
            (None, _) => Host::None,
        };
    };
    relation(machine, &named.name, stores.hosts.get(&named))
}

/// Classifies the host that the machine references.
fn relation(machine: &Metal3Machine, name: &str, host: Option<Arc<BareMetalHost>>) -> Host {
    let Some(host) = host else {
        return Host::Missing(name.to_owned());
    };
    match select::claimed(&host, &ObjectKey::of(machine), &machine.uid().unwrap_or_default()) {
        Claimed::ByUs => Host::Ours(host),
        Claimed::ByNobody => Host::Unclaimed(host),
        // UIDs change in a move to another management cluster; the mutual references by name do not.
        Claimed::ByOther(consumer) if consumer.is_predecessor => Host::Ours(host),
        Claimed::ByOther(consumer) => Host::Foreign(host, consumer),
    }
}

/// Whether a claim was created for exactly this machine rather than another of its name. A move to another management cluster
/// fixes up owner UIDs.
fn is_of(claim: &Metal3DataClaim, machine: &Metal3Machine) -> bool {
    machine_of(claim).is_some_and(|owner| Some(&owner.uid) == machine.metadata.uid.as_ref())
}

impl Observed {
    /// The data claim, if it was created for exactly this machine.
    pub fn own_claim(&self) -> Option<&Arc<Metal3DataClaim>> {
        self.claim.as_ref().filter(|claim| is_of(claim, &self.machine))
    }

    /// Records that the referenced host of this name was just read.
    pub fn read_host(&mut self, name: &str, host: Option<Arc<BareMetalHost>>) {
        self.host = relation(&self.machine, name, host).or_kept_for(&self.machine, self.kept_as.as_ref());
        self.reads.is_host_fresh = true;
    }

    /// The name of the machine.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::of(&*self.machine)
    }

    /// Whether a cloud provider sets the provider IDs of the workload cluster's Nodes.
    pub fn has_cloud_provider(&self) -> bool {
        let cluster = self.metal3_cluster.found();
        cluster.is_some_and(|cluster| cluster.spec.cloud_provider_enabled == Some(true))
    }

    /// Why reconciliation is paused, if it is.
    pub fn paused(&self) -> Option<String> {
        if let Related::Found(cluster) = &self.cluster
            && cluster.is_paused()
        {
            return Some(format!("Cluster {} is paused (spec.paused)", cluster.name_any()));
        }
        [annotation::PAUSED, annotation::DELETE_FOR_MOVE]
            .into_iter()
            .find(|key| self.machine.annotations().contains_key(*key))
            .map(|key| format!("the annotation {key} is there"))
    }

    /// Whether the machine, according to its stored state, has had its host before.
    pub fn was_associated(&self) -> bool {
        was_associated(&self.machine)
    }

    /// Whether the host has run what the machine requested.
    pub fn was_provisioned(&self) -> bool {
        let status = self.machine.status.as_ref();
        !self.machine.spec.provider_id.is_empty()
            || status.is_some_and(|status| status.initialization.provisioned == Some(true))
    }

    /// Whether the stored status says that the machine has its host.
    pub fn says_host(&self) -> bool {
        let status = self.machine.status.as_ref();
        status.is_some_and(|status| metal3_runtime::conditions::is_true(&status.conditions, super::names::ASSOCIATED))
    }

    /// Whether the machine has a host now, or had one.
    pub fn has_host(&self) -> bool {
        matches!(self.host, Host::Ours(_)) || self.was_associated()
    }

    /// The Secrets required before provisioning a host, each with what references it.
    pub fn wanted_secrets(&self) -> BTreeSet<(String, &'static str)> {
        let owner = self.owner.found();
        let bootstrap = owner.and_then(|owner| owner.spec.bootstrap.data_secret_name.clone());
        let bootstrap = bootstrap.map(|name| (name, "spec.bootstrap.dataSecretName of the Machine"));
        let spec = &self.machine.spec;
        let own = [
            (&spec.meta_data, "spec.metaData"),
            (&spec.network_data, "spec.networkData"),
        ];
        let own = own.into_iter().filter_map(|(reference, field)| {
            let reference = reference.as_ref().filter(|reference| !reference.name.is_empty())?;
            Some((reference.name.clone(), field))
        });
        bootstrap.into_iter().chain(own).collect()
    }
}

fn was_associated(machine: &Metal3Machine) -> bool {
    let status = machine.status.as_ref();
    !machine.spec.provider_id.is_empty()
        || status.is_some_and(|status| {
            metal3_runtime::conditions::is_true(&status.conditions, super::names::ASSOCIATED)
                || status.initialization.provisioned == Some(true)
        })
}
