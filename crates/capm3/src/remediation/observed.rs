//! The observed state from which a Metal3Remediation decision is made.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use metal3_api::capi::names::{annotation, label};
use metal3_api::capi::{Cluster, Machine};
use metal3_api::infra::names::{GROUP, finalizer};
use metal3_api::infra::v1beta2::{Metal3Machine, Metal3Remediation, RemediationPhase, RemediationType};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::ObjectKey;

use super::node::Drain;
use crate::machine::observed::{Host, Related, host_seen};
use crate::stores::Stores;
use crate::stores::cluster::cluster_of;
use crate::stores::host::HostBy;
use crate::stores::machine::cluster_of_machine;
use crate::stores::remediation::machine_of_remediation;
use crate::workload::Unreachable;

/// A Metal3Remediation and the objects related to it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The object itself.
    pub remediation: Arc<Metal3Remediation>,
    /// The Machine to remediate.
    pub machine: Related<Machine>,
    /// The Metal3Machine of that Machine.
    pub metal3_machine: Related<Metal3Machine>,
    /// The Cluster of the Machine.
    pub cluster: Related<Cluster>,
    /// The host of the Machine.
    pub host: Host,
    /// Hosts that this remediation keeps powered off although they are not, or no longer, the Machine's.
    pub strays: Vec<Arc<BareMetalHost>>,
    /// The Node of the Machine.
    pub node: NodeView,
    /// What was read because a decision requested it.
    pub looks: Looks,
    /// The last reported wait reason.
    pub reported: Option<&'static str>,
}

/// What is known of the Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeView {
    /// The Machine references none: it has never had one.
    #[default]
    Unnamed,
    /// The workload cluster is unreachable.
    Unreachable(Unreachable),
    /// The referenced Node does not exist.
    Gone(String),
    /// The Node.
    Here(Arc<Node>),
}

/// Data that is read only if a decision requests it.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// A fresh read differs from the watches: wait for them.
    pub is_late: bool,
    /// Whether the remediation and the host were read again and match the watches.
    pub is_fresh: bool,
    /// The same for the Node.
    pub is_node_fresh: bool,
    /// What has not left the Node yet, or why that is unknown.
    pub drain: Option<Result<Drain, String>>,
    /// Whether the workload cluster supports the out-of-service taint, or why that is unknown.
    pub knows_taint: Option<Result<bool, String>>,
}

/// Why remediation stops and its changes are reverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The remediation was deleted at this time.
    Deleted(Timestamp),
    /// The Machine is gone or being deleted.
    MachineGone,
    /// It is in a final phase, or its strategy is unknown.
    Ended,
}

/// Number and duration of attempts, with defaults applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of power cycles after the first.
    pub retries: i32,
    /// From the start of one attempt to the start of the next.
    pub timeout: Duration,
}

/// Gathers the observed state, except the Node. `None` if the object is gone or is not ours to manage.
pub fn observe(stores: &Stores, key: &ObjectKey) -> Option<Observed> {
    let remediation = stores.remediations.get(key)?;
    let here = |name: &str| ObjectKey::new(&key.namespace, name);
    let owner = machine_of_remediation(&remediation);
    let machine = Related::find(owner.as_ref().map(|owner| owner.name.as_str()), |name| {
        let found = stores.machines.get(&here(name))?;
        is_owner(&remediation, &found).then_some(found)
    });
    let ours = machine.found().map(|machine| &machine.spec.infrastructure_ref);
    let ours = ours.filter(|reference| reference.is_of(GROUP, "Metal3Machine"));
    let metal3_machine = Related::find(ours.map(|reference| reference.name.as_str()), |name| {
        stores.metal3_machines.get(&here(name))
    });
    // MachineHealthChecks do not set the watch-filter label on their remediations.
    let is_ours = |machine: &Arc<Metal3Machine>| stores.is_ours(&**machine);
    if !stores.is_ours(&*remediation) && metal3_machine.found().is_some_and(|machine| !is_ours(machine)) {
        return None;
    }
    let of_machine = machine.found().and_then(|machine| cluster_of_machine(machine));
    let cluster = of_machine.or_else(|| cluster_of(&*remediation));
    let cluster = Related::find(cluster.as_ref().map(|key| key.name.as_str()), |name| {
        stores.clusters.get(&here(name))
    });
    let host = metal3_machine.found().map_or(Host::None, |machine| {
        host_seen(stores, machine, &ObjectKey::of(&**machine))
    });
    let mut seen = Observed {
        remediation,
        machine,
        metal3_machine,
        cluster,
        host,
        strays: Vec::new(),
        node: NodeView::Unnamed,
        looks: Looks::default(),
        reported: None,
    };
    if seen.is_held() {
        seen.strays = seen.strays(stores);
    }
    Some(seen)
}

/// Whether the owner reference means exactly this Machine, and not an earlier one of its name.
fn is_owner(remediation: &Metal3Remediation, machine: &Machine) -> bool {
    let uid = machine.metadata.uid.as_deref().unwrap_or_default();
    let mut owners = remediation.owner_references().iter();
    owners.any(|owner| owner.kind == "Machine" && (owner.uid == uid || owner.uid.is_empty() || uid.is_empty()))
}

impl Observed {
    /// The name of the remediation.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::of(&*self.remediation)
    }

    /// Whether the remediation has our finalizer: there may be changes to revert.
    pub fn is_held(&self) -> bool {
        let finalizers = self.remediation.finalizers().iter();
        finalizers.into_iter().any(|present| present == finalizer::REMEDIATION)
    }

    /// The host, if it is certainly the Machine's.
    pub fn own_host(&self) -> Option<&Arc<BareMetalHost>> {
        match &self.host {
            Host::Ours(host) => Some(host),
            Host::None | Host::Missing(_) | Host::Unclaimed(_) | Host::Foreign(..) => None,
        }
    }

    /// Whether the Machine belongs to the control plane: its failure may be why the cluster is unreachable.
    pub fn is_control_plane(&self) -> bool {
        let machine = self.machine.found();
        machine.is_some_and(|machine| machine.labels().contains_key(label::CONTROL_PLANE))
    }

    /// Why reconciliation is paused, if it is.
    pub fn paused(&self) -> Option<String> {
        if let Related::Found(cluster) = &self.cluster
            && cluster.is_paused()
        {
            return Some(format!("Cluster {} is paused (spec.paused)", cluster.name_any()));
        }
        let marks = [annotation::PAUSED, annotation::DELETE_FOR_MOVE].into_iter();
        let own = marks.filter(|key| self.remediation.annotations().contains_key(*key));
        let own = own.map(|key| format!("the annotation {key} is there")).next();
        own.or_else(|| {
            let machine = self.machine.found()?;
            let is_paused = machine.annotations().contains_key(annotation::PAUSED);
            is_paused.then(|| {
                format!(
                    "Machine {} has the annotation {}",
                    machine.name_any(),
                    annotation::PAUSED
                )
            })
        })
    }

    /// Whether remediation stops, and why.
    pub fn over(&self) -> Option<Over> {
        if let Some(at) = &self.remediation.metadata.deletion_timestamp {
            return Some(Over::Deleted(at.0));
        }
        let is_leaving = |machine: &Arc<Machine>| machine.metadata.deletion_timestamp.is_some();
        if matches!(self.machine, Related::Missing(_)) || self.machine.found().is_some_and(is_leaving) {
            return Some(Over::MachineGone);
        }
        let phase = self
            .remediation
            .status
            .as_ref()
            .and_then(|status| status.phase.as_ref());
        let is_last = matches!(
            phase,
            Some(RemediationPhase::DeletingMachine | RemediationPhase::Failed)
        );
        (is_last || self.unknown_strategy().is_some()).then_some(Over::Ended)
    }

    /// The strategy, if it is unknown.
    pub fn unknown_strategy(&self) -> Option<&str> {
        let strategy = self.remediation.spec.strategy.as_ref();
        match strategy.and_then(|strategy| strategy.type_.as_ref()) {
            None | Some(RemediationType::Reboot) => None,
            Some(RemediationType::Other(text)) => Some(text),
        }
    }

    /// Number and duration of attempts. A remediation without a strategy gets the defaults.
    pub fn limits(&self) -> Limits {
        let strategy = self.remediation.spec.strategy.clone().unwrap_or_default();
        let timeout = u64::try_from(strategy.timeout_seconds).unwrap_or_default();
        Limits {
            retries: strategy.retry_limit.max(1),
            timeout: Duration::from_secs(if timeout == 0 { DEFAULT_TIMEOUT } else { timeout }),
        }
    }

    /// Whether the Node is deleted with its Machine or its Cluster: then it need not be restored.
    pub fn is_node_leaving(&self) -> bool {
        let machine = self.machine.found();
        let is_there = |deleted: Option<bool>| deleted == Some(false);
        let machine = machine.map(|machine| machine.metadata.deletion_timestamp.is_some());
        let cluster = self.cluster.found();
        let cluster = cluster.map(|cluster| cluster.metadata.deletion_timestamp.is_some());
        !is_there(machine) || !is_there(cluster)
    }

    fn strays(&self, stores: &Stores) -> Vec<Arc<BareMetalHost>> {
        let own = self.own_host().map(|host| host.name_any());
        let namespace = self.remediation.namespace();
        let uid = self.remediation.uid().unwrap_or_default();
        let mut hosts = stores.hosts.find(&HostBy::Remediation(uid));
        hosts.retain(|host| host.namespace() == namespace && Some(host.name_any()) != own);
        hosts
    }
}

/// Default seconds of an attempt.
const DEFAULT_TIMEOUT: u64 = 600;
