//! What the decisions about an index space are made on.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use metal3_api::capi;
use metal3_api::infra;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3Machine};
use metal3_runtime::store::ObjectKey;

use super::effect::Subject;
use super::space::{name_of, slot_of, space_of};
use crate::world::World;
use crate::world::cluster::cluster_of;
use crate::world::data::{DataBy, DataTemplateBy};
use crate::world::owner::group_of;

/// Templates that share their indexes, claims on them, and what answers these.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The space; a template of this name need not exist.
    pub space: ObjectKey,
    /// The templates, by name. Those that are not ours to look after are not among them.
    pub templates: BTreeMap<String, Arc<Metal3DataTemplate>>,
    /// The claims, oldest first.
    pub claims: Vec<Claim>,
    /// The Metal3Datas whose claim is not there.
    pub orphans: Vec<Arc<Metal3Data>>,
    /// Free indexes, lowest first, one for each claim that may need one.
    pub free: Vec<i32>,
    /// Of the indexes that claims had, those that are free.
    pub free_again: BTreeSet<i32>,
    /// The templates with all that is rendered from them.
    pub listed: Vec<Listed>,
    /// Objects that are left for a later pass: the watch is yet to show what came of a write.
    pub put_off: HashSet<Subject>,
}

/// A template and all that is rendered from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The template.
    pub template: Arc<Metal3DataTemplate>,
    /// In order of indexes.
    pub datas: Vec<Arc<Metal3Data>>,
    /// Whether there are claims on it.
    pub is_claimed: bool,
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

/// Gathers a space.
pub fn observe(world: &World, space: &ObjectKey) -> Observed {
    let templates: BTreeMap<String, _> = templates(world, space)
        .into_iter()
        .map(|template| (template.name_any(), template))
        .collect();
    // Claims on a template that is not there are told so.
    let mut named: BTreeSet<String> = templates.keys().cloned().collect();
    if world.data_templates.get(space).is_none() {
        named.insert(space.name.clone());
    }
    let here = |name: &String| ObjectKey::new(&space.namespace, name);
    let of_template = |name| world.data_claims.find(&DataBy::Template(here(name)));
    let objects = named.iter().flat_map(of_template);
    let mut claims = Vec::new();
    for object in objects {
        let template = templates.get(&object.spec.template.name);
        if template.is_some() || world.is_ours(&*object) {
            claims.push(claim(world, object, template));
        }
    }
    claims.sort_by_cached_key(|claim| {
        let meta = &claim.object.metadata;
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        (created, claim.object.name_any())
    });
    let unanswered = claims
        .iter()
        .filter(|claim| claim.datas.is_empty() && claim.object.metadata.deletion_timestamp.is_none());
    let had = unanswered
        .clone()
        .filter_map(|claim| index_before(&claim.object, space));
    Observed {
        orphans: orphans(world, space, &named),
        free_again: had.filter(|index| is_free(world, space, *index)).collect(),
        free: (0..i32::MAX)
            .filter(|index| is_free(world, space, *index))
            .take(unanswered.count())
            .collect(),
        listed: list(world, space),
        put_off: HashSet::new(),
        space: space.clone(),
        templates,
        claims,
    }
}

/// The templates of a space that are ours to look after.
fn templates(world: &World, space: &ObjectKey) -> Vec<Arc<Metal3DataTemplate>> {
    let mut found = world.data_templates.find(&DataTemplateBy::Space(space.clone()));
    found.retain(|template| world.is_ours(&**template));
    found
}

/// Whether no Metal3Data has the name that stands for this index.
fn is_free(world: &World, space: &ObjectKey, index: i32) -> bool {
    let name = ObjectKey::new(&space.namespace, name_of(space, index));
    world.datas.get(&name).is_none()
}

/// Gathers all that is rendered from the templates of a space.
fn list(world: &World, space: &ObjectKey) -> Vec<Listed> {
    let listed = templates(world, space).into_iter().map(|template| {
        let by = DataBy::Template(ObjectKey::of(&*template));
        let mut datas = world.datas.find(&by);
        datas.sort_by_key(|data| data.spec.index);
        Listed {
            is_claimed: world.data_claims.has(&by),
            template,
            datas,
        }
    });
    listed.collect()
}

/// The index of an answer that was given before.
pub fn index_before(claim: &Metal3DataClaim, space: &ObjectKey) -> Option<i32> {
    let answer = &claim.status.as_ref()?.rendered_data.name;
    index_of(answer, space)
}

/// The index that the name of a Metal3Data of this space stands for.
fn index_of(name: &str, space: &ObjectKey) -> Option<i32> {
    let (_, index) = name.rsplit_once('-')?;
    let index: i32 = index.parse().ok()?;
    (name_of(space, index) == name && index >= 0).then_some(index)
}

fn claim(world: &World, object: Arc<Metal3DataClaim>, template: Option<&Arc<Metal3DataTemplate>>) -> Claim {
    let of_name = world.datas.find(&DataBy::Claim(ObjectKey::of(&*object)));
    let mut datas: Vec<_> = of_name.into_iter().filter(|data| answers(data, &object)).collect();
    datas.sort_by_key(|data| data.spec.index);
    let hold = if template.is_some_and(|template| has_pause(&**template)) {
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
    let of_templates = named
        .iter()
        .map(|name| DataBy::Template(ObjectKey::new(&space.namespace, name)));
    let by = of_templates.chain([DataBy::Space(space.clone())]);
    let found: BTreeMap<String, Arc<Metal3Data>> = by
        .flat_map(|by| world.datas.find(&by))
        .map(|data| (data.name_any(), data))
        .collect();
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

pub(super) fn has_pause(object: &impl ResourceExt) -> bool {
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
