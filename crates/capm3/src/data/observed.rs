//! The observed state from which a Metal3Data decision is made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use metal3_api::capi::{self, Machine};
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3Machine};
use metal3_api::ipam::IPClaim;
use metal3_api::metal3::BareMetalHost;
use metal3_render::PoolAddress;
use metal3_runtime::store::ObjectKey;

use super::address::{AddressClaim, Family};
use crate::stores::data::{OfDataBy, template_of};
use crate::stores::machine::host_of;
use crate::stores::owner;
use crate::stores::{Hold, Stores, hold_of, machine_of};

/// The observed state for one Metal3Data name.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The name.
    pub key: ObjectKey,
    /// IP claims owned by another Metal3Data of this name than the one in the store: a process that died did not release them.
    pub left: Vec<AddressClaim>,
    /// The Metal3Data, if it exists and is ours to manage.
    pub view: Option<View>,
    /// What was read and written in this pass.
    pub answers: Answers,
}

/// A Metal3Data and the objects related to it, according to the stores.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The object.
    pub data: Arc<Metal3Data>,
    /// Why reconciliation is paused, if it is.
    pub hold: Option<Hold>,
    /// The data claim that it answers.
    pub claim: Option<Arc<Metal3DataClaim>>,
    /// The template.
    pub template: Option<Arc<Metal3DataTemplate>>,
    /// The Metal3Machine.
    pub metal3_machine: Option<Arc<Metal3Machine>>,
    /// The owning Machine.
    pub machine: Option<Arc<Machine>>,
    /// The host's summary.
    pub host: Option<Arc<BareMetalHost>>,
    /// IP claims created by any Metal3Data of this name, and those with the names it would use.
    pub address_claims: Vec<AddressClaim>,
    /// Secrets created by any Metal3Data of this name.
    pub secrets: Vec<ObjectMeta>,
    /// Whether IP claims are named after hosts.
    pub by_host: bool,
}

/// The host as read from the API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Host {
    /// Not read yet.
    #[default]
    Unread,
    /// It does not exist.
    Gone,
    /// The host.
    Here(Box<BareMetalHost>),
}

/// What was read in this pass because the stores lack it or may lag, and the results of the pass's writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// UID of the Metal3Data of this name; empty if there is none.
    pub uid: Option<String>,
    /// The whole host.
    pub host: Host,
    /// Addresses, by provider and claim name.
    pub addresses: BTreeMap<(Family, String), Option<PoolAddress>>,
    /// Whether the pool of this name exists.
    pub pools: BTreeMap<String, bool>,
    /// Secrets that already existed when they were looked for, or were to be created.
    pub secrets: BTreeMap<String, ObjectMeta>,
    /// Names of Secrets that were looked for, and do not exist.
    pub absent: BTreeSet<String>,
    /// Names of Secrets that are nobody's, and something else than would be created.
    pub different: BTreeSet<String>,
    /// IP claims that already existed when they were to be created, or were created in this pass.
    pub named: BTreeMap<(Family, String), AddressClaim>,
    /// UIDs of objects deleted or released in this pass, whether or not a store shows it.
    pub gone: BTreeSet<String>,
}

/// Gathers the observed state. `by_host`: whether IP claims are named after hosts.
pub fn observe(stores: &Stores, key: &ObjectKey, by_host: bool) -> Observed {
    let claims = address_claims(stores, key);
    let uid = stores.datas.get(key).and_then(|data| data.uid());
    let is_left = |claim: &&AddressClaim| {
        let is_of_other = claim.owner().is_some_and(|(_, of)| Some(of) != uid.as_deref());
        is_of_other && claim.is_held() && !is_paused(stores, claim)
    };
    Observed {
        left: claims.iter().filter(is_left).cloned().collect(),
        view: view(stores, key, claims, by_host),
        key: key.clone(),
        answers: Answers::default(),
    }
}

fn is_paused(stores: &Stores, claim: &AddressClaim) -> bool {
    let object = PartialObjectMeta::<IPClaim> {
        metadata: claim.meta.clone(),
        ..PartialObjectMeta::default()
    };
    hold_of(stores, &object) == Some(Hold::Paused)
}

fn view(stores: &Stores, key: &ObjectKey, address_claims: Vec<AddressClaim>, by_host: bool) -> Option<View> {
    let data = stores.datas.get(key).filter(|data| stores.is_ours(&**data))?;
    let namespace = key.namespace.as_str();
    let claim = stores
        .data_claims
        .get(&ObjectKey::new(namespace, &data.spec.claim.name));
    let metal3_machine = claim.as_deref().and_then(machine_of).and_then(|owner| {
        let found = stores.metal3_machines.get(&ObjectKey::new(namespace, &owner.name));
        found.filter(|found| found.metadata.uid.as_deref() == Some(owner.uid.as_str()))
    });
    let machine = metal3_machine.as_deref().and_then(|machine| {
        let name = owner(machine, capi::names::group::CORE, "Machine")?;
        stores.machines.get(&ObjectKey::new(namespace, name))
    });
    let host = metal3_machine
        .as_deref()
        .and_then(host_of)
        .and_then(|key| stores.hosts.get(&key));
    let template = template_of(&*data, &data.spec.template).and_then(|key| stores.data_templates.get(&key));
    let secrets = stores.secrets.find(&OfDataBy::Owner(key.clone()));
    Some(View {
        hold: hold_of(stores, &*data),
        address_claims,
        secrets: secrets.iter().map(|secret| secret.metadata.clone()).collect(),
        claim,
        template,
        metal3_machine,
        machine,
        host,
        data,
        by_host,
    })
}

/// The IP claims created by any Metal3Data of this name.
fn address_claims(stores: &Stores, key: &ObjectKey) -> Vec<AddressClaim> {
    let by = OfDataBy::Owner(key.clone());
    let metal3 = stores.ip_claims.find(&by);
    let cluster_api = stores.ip_address_claims.find(&by);
    let metal3 = metal3.iter().map(|claim| AddressClaim::from(&**claim));
    let cluster_api = cluster_api.iter().map(|claim| AddressClaim::from(&**claim));
    let mut claims: Vec<_> = metal3.chain(cluster_api).collect();
    claims.sort_by(|a, b| (a.family, a.name()).cmp(&(b.family, b.name())));
    claims
}

impl View {
    /// UID of the Metal3Data.
    pub fn uid(&self) -> &str {
        self.data.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether an object was created for exactly this Metal3Data.
    pub fn owns(&self, meta: &ObjectMeta) -> bool {
        let mut owners = meta.owner_references.iter().flatten();
        owners.any(|owner| owner.uid == self.uid() && !owner.uid.is_empty())
    }

    /// The namespace of all these objects.
    pub fn namespace(&self) -> String {
        self.data.namespace().unwrap_or_default()
    }
}
