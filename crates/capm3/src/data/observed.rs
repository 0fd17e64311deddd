//! What the decisions about a Metal3Data are made on.

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

/// What the decisions about a name of Metal3Datas are made on.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The name.
    pub key: ObjectKey,
    /// Claims on addresses that a Metal3Data of this name holds which is another than the store shows: a process that died
    /// could not release them.
    pub left: Vec<AddressClaim>,
    /// The Metal3Data, if it is there and ours to look after.
    pub view: Option<View>,
    /// What was read and answered in this pass.
    pub answers: Answers,
}

/// A Metal3Data and what it has to do with, as the stores show it.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// The object.
    pub data: Arc<Metal3Data>,
    /// Why it is left alone, if so.
    pub hold: Option<Hold>,
    /// The claim of the name that it answers.
    pub claim: Option<Arc<Metal3DataClaim>>,
    /// What it is rendered from.
    pub template: Option<Arc<Metal3DataTemplate>>,
    /// Whom it is rendered for.
    pub metal3_machine: Option<Arc<Metal3Machine>>,
    /// Cluster API's side of that.
    pub machine: Option<Arc<Machine>>,
    /// The host, in outline.
    pub host: Option<Arc<BareMetalHost>>,
    /// Claims on addresses that some Metal3Data of this name has made, and those whose names it would use.
    pub address_claims: Vec<AddressClaim>,
    /// The Secrets that some Metal3Data of this name has made.
    pub secrets: Vec<ObjectMeta>,
    /// Whether claims on addresses are named after hosts.
    pub by_host: bool,
}

/// The host as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Host {
    /// It is yet to be read.
    #[default]
    Unread,
    /// It is gone.
    Gone,
    /// This.
    Here(Box<BareMetalHost>),
}

/// What has been read in this pass, because the stores do not have it or could be late, and what its writes have shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// UID of the Metal3Data of this name; empty if there is none.
    pub uid: Option<String>,
    /// The whole host.
    pub host: Host,
    /// Addresses, by who gives them out and the name of the claim.
    pub addresses: BTreeMap<(Family, String), Option<PoolAddress>>,
    /// Whether the pool of this name is there.
    pub pools: BTreeMap<String, bool>,
    /// Secrets that were there already when they were to be made.
    pub secrets: BTreeMap<String, ObjectMeta>,
    /// Claims on addresses that were there already when they were to be made, or are made now.
    pub named: BTreeMap<(Family, String), AddressClaim>,
    /// UIDs of what was deleted or released in this pass, whether a store shows it or not.
    pub gone: BTreeSet<String>,
}

/// Gathers it. `by_host`: whether claims on addresses are named after hosts.
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

/// The claims on addresses that some Metal3Data of this name has made.
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

    /// Whether something was made for this very Metal3Data.
    pub fn owns(&self, meta: &ObjectMeta) -> bool {
        let mut owners = meta.owner_references.iter().flatten();
        owners.any(|owner| owner.uid == self.uid() && !owner.uid.is_empty())
    }

    /// The namespace of everything.
    pub fn namespace(&self) -> String {
        self.data.namespace().unwrap_or_default()
    }
}
