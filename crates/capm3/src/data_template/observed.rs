//! The observed state from which decisions about an index space are made.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate};
use metal3_runtime::store::ObjectKey;

use super::effect::Subject;
use crate::stores::Stores;
pub use crate::stores::data::machine_of;
use crate::stores::data::{DataBy, DataTemplateBy, answers};
use crate::stores::hold::{Hold, has_pause, hold_of};
use crate::stores::space::{name_of, slot_of, space_of};

/// A template, the claims on it, and the Metal3Datas.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The space; a template of this name may not exist.
    pub space: ObjectKey,
    /// The templates by name, without those that we do not manage.
    pub templates: BTreeMap<String, Arc<Metal3DataTemplate>>,
    /// The claims, oldest first.
    pub claims: Vec<Claim>,
    /// The Metal3Datas whose claim does not exist.
    pub orphans: Vec<Arc<Metal3Data>>,
    /// Free indexes, lowest first, one for each claim that may need one.
    pub free: Vec<i32>,
    /// Previously assigned indexes that are free now.
    pub free_again: BTreeSet<i32>,
    /// The templates, each with its Metal3Datas.
    pub listed: Vec<Listed>,
    /// Objects left for a later pass: the watch has yet to show the result of a write.
    pub put_off: HashSet<Subject>,
}

/// A template and its Metal3Datas.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The template.
    pub template: Arc<Metal3DataTemplate>,
    /// In index order.
    pub datas: Vec<Arc<Metal3Data>>,
    /// Whether there are claims on it.
    pub is_claimed: bool,
}

/// A claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The object.
    pub object: Arc<Metal3DataClaim>,
    /// The Metal3Datas created for it, in index order: one, unless two managers created one each.
    pub datas: Vec<Arc<Metal3Data>>,
    /// Why reconciliation is paused, if it is.
    pub hold: Option<Hold>,
    /// Whether `datas` is complete: this process has created the claim with the finalizer or added it, or has listed Metal3Datas
    /// since. The store alone may lag.
    pub is_known: bool,
}

/// Gathers a space.
pub fn observe(stores: &Stores, space: &ObjectKey) -> Observed {
    let templates: BTreeMap<String, _> = templates(stores, space)
        .into_iter()
        .map(|template| (template.name_any(), template))
        .collect();
    // Claims on a missing template report that.
    let mut named: BTreeSet<String> = templates.keys().cloned().collect();
    if stores.data_templates.get(space).is_none() {
        named.insert(space.name.clone());
    }
    let here = |name: &String| ObjectKey::new(&space.namespace, name);
    let of_template = |name| stores.data_claims.find(&DataBy::Template(here(name)));
    let objects = named.iter().flat_map(of_template);
    let mut claims = Vec::new();
    for object in objects {
        let template = templates.get(&object.spec.template.name);
        if template.is_some() || stores.is_ours(&*object) {
            claims.push(claim(stores, object, template));
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
    let taken = taken_by_spec(stores, space);
    let is_free = |index: &i32| !taken.contains(index) && is_unnamed(stores, space, *index);
    let had = unanswered
        .clone()
        .filter_map(|claim| index_before(&claim.object, space));
    Observed {
        orphans: orphans(stores, space, &named),
        free_again: had.filter(is_free).collect(),
        free: (0..i32::MAX).filter(is_free).take(unanswered.count()).collect(),
        listed: list(stores, space),
        put_off: HashSet::new(),
        space: space.clone(),
        templates,
        claims,
    }
}

/// The templates of a space that we manage.
fn templates(stores: &Stores, space: &ObjectKey) -> Vec<Arc<Metal3DataTemplate>> {
    let mut found = stores.data_templates.find(&DataTemplateBy::Space(space.clone()));
    found.retain(|template| stores.is_ours(&**template));
    found
}

/// The indexes of the template's Metal3Datas, whatever they are called: those of upstream's releases up to 1.10 may be called by
/// another template.
fn taken_by_spec(stores: &Stores, space: &ObjectKey) -> HashSet<i32> {
    let datas = stores.datas.find(&DataBy::Template(space.clone()));
    datas.iter().filter_map(|data| data.spec.index).collect()
}

/// Whether no Metal3Data has the name for this index.
fn is_unnamed(stores: &Stores, space: &ObjectKey, index: i32) -> bool {
    let name = ObjectKey::new(&space.namespace, name_of(space, index));
    stores.datas.get(&name).is_none()
}

/// Gathers the Metal3Datas of a space's templates.
fn list(stores: &Stores, space: &ObjectKey) -> Vec<Listed> {
    let listed = templates(stores, space).into_iter().map(|template| {
        let by = DataBy::Template(ObjectKey::of(&*template));
        let mut datas = stores.datas.find(&by);
        datas.sort_by_key(|data| data.spec.index);
        Listed {
            is_claimed: stores.data_claims.has(&by),
            template,
            datas,
        }
    });
    listed.collect()
}

/// The index of an earlier answer.
pub fn index_before(claim: &Metal3DataClaim, space: &ObjectKey) -> Option<i32> {
    let answer = &claim.status.as_ref()?.rendered_data.name;
    index_of(answer, space)
}

/// The index in the name of a Metal3Data of this space.
fn index_of(name: &str, space: &ObjectKey) -> Option<i32> {
    let (_, index) = name.rsplit_once('-')?;
    let index: i32 = index.parse().ok()?;
    (name_of(space, index) == name && index >= 0).then_some(index)
}

fn claim(stores: &Stores, object: Arc<Metal3DataClaim>, template: Option<&Arc<Metal3DataTemplate>>) -> Claim {
    let of_name = stores.datas.find(&DataBy::Claim(ObjectKey::of(&*object)));
    let mut datas: Vec<_> = of_name.into_iter().filter(|data| answers(data, &object)).collect();
    datas.sort_by_key(|data| data.spec.index);
    let hold = if template.is_some_and(|template| has_pause(&**template)) {
        Some(Hold::Paused)
    } else {
        hold_of(stores, &*object)
    };
    let is_known = stores.known_claims.has(&object.metadata);
    Claim {
        object,
        datas,
        hold,
        is_known,
    }
}

/// Metal3Datas of these templates, or in the space, whose claim does not exist.
fn orphans(stores: &Stores, space: &ObjectKey, named: &BTreeSet<String>) -> Vec<Arc<Metal3Data>> {
    let of_templates = named
        .iter()
        .map(|name| DataBy::Template(ObjectKey::new(&space.namespace, name)));
    let by = of_templates.chain([DataBy::Space(space.clone())]);
    let found: BTreeMap<String, Arc<Metal3Data>> = by
        .flat_map(|by| stores.datas.find(&by))
        .map(|data| (data.name_any(), data))
        .collect();
    let is_orphan = |data: &Arc<Metal3Data>| {
        let claim = ObjectKey::new(&space.namespace, &data.spec.claim.name);
        let claim = stores.data_claims.get(&claim);
        let is_ours = named.contains(&data.spec.template.name);
        // Keeping it when the Cluster is gone as well makes no difference: the claim is read again before it is discarded.
        let is_paused = hold_of(stores, &**data) == Some(Hold::Paused);
        is_ours && !is_paused && !claim.is_some_and(|claim| answers(data, &claim))
    };
    found.into_values().filter(is_orphan).collect()
}

/// The index spaces of a claim or of its Metal3Data: that of the template, and the one that the Metal3Data's name belongs to.
pub fn spaces(stores: &Stores, template: Option<ObjectKey>, data: Option<&Metal3Data>) -> BTreeSet<ObjectKey> {
    let of_template = template.map(|key| {
        stores
            .data_templates
            .get(&key)
            .map_or(key, |template| space_of(&template))
    });
    let of_name = data.and_then(slot_of).map(|(space, _)| space);
    of_template.into_iter().chain(of_name).collect()
}
