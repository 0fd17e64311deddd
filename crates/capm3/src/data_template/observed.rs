//! What the decisions about an index space are made on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use metal3_api::capi;
use metal3_api::infra;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3Machine};
use metal3_runtime::store::ObjectKey;

use super::space::{slot_of, space_of};
use crate::world::{DataBy, DataTemplateBy, World, cluster_of, group_of};

/// Templates that share their indexes, the claims on them, and what answers these.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The space; a template of this name need not exist.
    pub space: ObjectKey,
    /// The templates, by name. Those that are not ours to look after are not among them.
    pub templates: BTreeMap<String, Template>,
    /// The claims, oldest first.
    pub claims: Vec<Claim>,
    /// Metal3Datas whose claim is not there.
    pub orphans: Vec<Arc<Metal3Data>>,
    /// Indexes whose names are in use.
    pub taken: BTreeSet<i32>,
}

/// A template.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The object.
    pub object: Arc<Metal3DataTemplate>,
    /// What is rendered from it, in order of indexes.
    pub datas: Vec<Arc<Metal3Data>>,
}

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The object.
    pub object: Arc<Metal3DataClaim>,
    /// What was made for it, in order of indexes: one, if two managers did not make one each.
    pub datas: Vec<Arc<Metal3Data>>,
    /// Why it is left alone, if so.
    pub hold: Option<Hold>,
    /// Whether `datas` lacks nothing that was made before: this process has made the claim with the finalizer or has put it
    /// on, or has asked the API server since. What the store shows alone could be late.
    pub is_known: bool,
}

/// Why a claim is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It, its template or its Cluster is paused.
    Paused,
    /// The Cluster that its label names is not there, or is not seen yet: it could be a paused one.
    NoCluster(String),
}

/// Gathers it.
pub fn observe(world: &World, space: &ObjectKey) -> Observed {
    let mut templates: BTreeMap<String, Template> = BTreeMap::new();
    for object in world.data_templates.find(&DataTemplateBy::Space(space.clone())) {
        if world.is_ours(&*object) {
            let mut datas = world.datas.find(&DataBy::Template(ObjectKey::of(&*object)));
            datas.sort_by_key(|data| data.spec.index);
            templates.insert(object.name_any(), Template { object, datas });
        }
    }
    // Claims on a template that is not there are told so.
    let mut named: BTreeSet<String> = templates.keys().cloned().collect();
    if world.data_templates.get(space).is_none() {
        named.insert(space.name.clone());
    }
    let mut claims = Vec::new();
    for name in &named {
        let by = DataBy::Template(ObjectKey::new(&space.namespace, name));
        for object in world.data_claims.find(&by) {
            if templates.contains_key(name) || world.is_ours(&*object) {
                let template = templates.get(name);
                claims.push(claim(world, object, template));
            }
        }
    }
    claims.sort_by_cached_key(|claim| {
        let meta = &claim.object.metadata;
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        (created, claim.object.name_any())
    });
    Observed {
        orphans: orphans(world, space, &named),
        taken: taken(world, space),
        space: space.clone(),
        templates,
        claims,
    }
}

fn claim(world: &World, object: Arc<Metal3DataClaim>, template: Option<&Template>) -> Claim {
    let of_name = world.datas.find(&DataBy::Claim(ObjectKey::of(&*object)));
    let mut datas: Vec<_> = of_name.into_iter().filter(|data| answers(data, &object)).collect();
    datas.sort_by_key(|data| data.spec.index);
    let hold = if template.is_some_and(|template| has_pause(&*template.object)) {
        Some(Hold::Paused)
    } else {
        hold_of(world, &*object)
    };
    let is_known = world.known_claims.has(&object.metadata);
    Claim {
        object,
        datas,
        hold,
        is_known,
    }
}

/// Metal3Datas of these templates, or in the space, whose claim is not there.
fn orphans(world: &World, space: &ObjectKey, named: &BTreeSet<String>) -> Vec<Arc<Metal3Data>> {
    let mut found: BTreeMap<String, Arc<Metal3Data>> = BTreeMap::new();
    let by_name = named
        .iter()
        .map(|name| DataBy::Template(ObjectKey::new(&space.namespace, name)));
    for by in by_name.chain([DataBy::Space(space.clone())]) {
        for data in world.datas.find(&by) {
            found.insert(data.name_any(), data);
        }
    }
    let is_orphan = |data: &Arc<Metal3Data>| {
        let claim = ObjectKey::new(&space.namespace, &data.spec.claim.name);
        let claim = world.data_claims.get(&claim);
        let is_ours = named.contains(&data.spec.template.name);
        // That the Cluster is gone, too, is no reason to keep it: whoever discards it looks for the claim once more.
        let is_paused = hold_of(world, &**data) == Some(Hold::Paused);
        is_ours && !is_paused && !claim.is_some_and(|claim| answers(data, &claim))
    };
    found.into_values().filter(is_orphan).collect()
}

fn taken(world: &World, space: &ObjectKey) -> BTreeSet<i32> {
    let datas = world.datas.names(&DataBy::Space(space.clone()));
    let index = |key: ObjectKey| key.name.rsplit_once('-').and_then(|(_, index)| index.parse().ok());
    datas.into_iter().filter_map(index).collect()
}

/// The index spaces that have to do with a claim or with what was made for it: that of the template, and the one that a
/// Metal3Data's name lies in.
pub fn spaces(world: &World, template: Option<ObjectKey>, data: Option<&Metal3Data>) -> BTreeSet<ObjectKey> {
    let of_template = template.map(|key| {
        world
            .data_templates
            .get(&key)
            .map_or(key, |template| space_of(&template))
    });
    let of_name = data.and_then(slot_of).map(|(space, _)| space);
    of_template.into_iter().chain(of_name).collect()
}

/// Whether a Metal3Data was made for this very claim, and not for another of its name.
pub fn answers(data: &Metal3Data, claim: &Metal3DataClaim) -> bool {
    let owner = owner_of(&data.metadata, infra::names::GROUP, &Metal3DataClaim::kind(&()));
    let is_named = data.spec.claim.name == claim.name_any();
    is_named && owner.is_none_or(|owner| Some(&owner.uid) == claim.metadata.uid.as_ref())
}

/// The Metal3Machine that a claim belongs to.
pub fn machine_of(claim: &Metal3DataClaim) -> Option<&OwnerReference> {
    owner_of(&claim.metadata, infra::names::GROUP, &Metal3Machine::kind(&()))
}

/// The owner of this group and kind, whatever its version.
pub fn owner_of<'a>(meta: &'a ObjectMeta, group: &str, kind: &str) -> Option<&'a OwnerReference> {
    let mut owners = meta.owner_references.iter().flatten();
    owners.find(|owner| owner.kind == kind && group_of(&owner.api_version) == group)
}

fn has_pause(object: &impl ResourceExt) -> bool {
    object.annotations().contains_key(capi::names::annotation::PAUSED)
}

/// Why an object is left alone, as its annotation and its Cluster say.
pub fn hold_of(world: &World, object: &impl ResourceExt) -> Option<Hold> {
    if has_pause(object) {
        return Some(Hold::Paused);
    }
    let cluster = cluster_of(object)?;
    match world.clusters.get(&cluster) {
        Some(cluster) => cluster.is_paused().then_some(Hold::Paused),
        None => Some(Hold::NoCluster(cluster.name)),
    }
}
