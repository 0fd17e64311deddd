//! Decides what to do about an index space. Pure.
//!
//! One round yields at most one write per object; the next round is decided on the results. This keeps the order within a claim,
//! while claims do not wait for each other:
//!
//! | claim | next |
//! |---|---|
//! | new | finalizer, then a Metal3Data with the lowest free index, then the answer in its status |
//! | answered | nothing |
//! | its Metal3Data is lost | the same index again, if it is free |
//! | two Metal3Datas (two managers at once) | the one named in the status stays |
//! | deleted | its Metal3Data is deleted and released, then the claim |

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::{
    DataIndex, Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3DataTemplateStatus,
};
use metal3_api::reference::Elsewhere;
use metal3_runtime::controller::{Next, Plan};
use metal3_runtime::timing::provider::{FOLLOW_UP, LISTS_APART};

use super::Decision;
use super::effect::{Batch, Effect};
use super::observed::{Claim, Listed, Observed, index_before};
use crate::conditions::cut;
use crate::stores::hold::{Hold, has_pause};
use crate::stores::{answers, machine_of};

/// Maximum number of indexes in a template's status.
pub const LISTED: usize = 512;

/// Maximum characters of an error message.
const MESSAGE: usize = 512;

/// The writes of one round, applied concurrently. Templates are written last, when nothing else is left to do.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let (lists, list_again) = finish(&seen.listed, now);
    let mut effects = writes(seen);
    if effects.is_empty() {
        effects = lists;
    }
    if !effects.is_empty() {
        return Plan {
            next: Next::Decide,
            ..Plan::of(Batch(effects))
        }
        .into();
    }
    let follow_up = (!seen.put_off.is_empty()).then_some(FOLLOW_UP);
    let again = follow_up.into_iter().chain(list_again).min();
    Plan {
        next: again.map_or(Next::Change, Next::After),
        ..Plan::default()
    }
    .into()
}

/// The next writes for claims.
pub fn writes(seen: &Observed) -> Vec<Effect> {
    let mut free = Free::new(seen);
    let mut effects: Vec<Effect> = seen.templates.values().filter_map(hold_template).collect();
    let mut must_list = false;
    for claim in &seen.claims {
        if claim.hold == Some(Hold::Paused) {
            continue;
        }
        let template = seen.templates.get(&claim.object.spec.template.name);
        let step = if claim.object.metadata.deletion_timestamp.is_some() {
            release(claim)
        } else {
            serve(seen, claim, template, &mut free)
        };
        match step {
            Some(Effect::List) => must_list = true,
            Some(effect) => effects.push(effect),
            None => {}
        }
    }
    if must_list {
        effects.push(Effect::List);
    }
    effects.extend(seen.orphans.iter().cloned().map(Effect::Discard));
    effects.retain(|effect| !seen.put_off.contains(&effect.subject()));
    effects
}

fn hold_template(template: &Arc<Metal3DataTemplate>) -> Option<Effect> {
    let is_needed = !is_deleted(template) && !has(&**template, finalizer::DATA_TEMPLATE);
    (is_needed && !has_pause(&**template)).then(|| Effect::HoldTemplate(template.clone()))
}

/// The next step to answer a claim.
fn serve(
    seen: &Observed,
    claim: &Claim,
    template: Option<&Arc<Metal3DataTemplate>>,
    free: &mut Free<'_>,
) -> Option<Effect> {
    let object = &claim.object;
    let answer = object.status.clone().unwrap_or_default().rendered_data.name;
    let announced = claim.datas.iter().find(|data| data.name_any() == answer);
    let alive = || {
        claim
            .datas
            .iter()
            .find(|data| data.metadata.deletion_timestamp.is_none())
    };
    if let Some(data) = announced.or_else(alive) {
        if !has(&**object, finalizer::DATA_CLAIM) {
            return Some(Effect::HoldClaim(object.clone()));
        }
        if announced.is_none() || !error_of(object).is_empty() {
            return Some(Effect::Announce(object.clone(), data.name_any()));
        }
        let other = claim.datas.iter().find(|other| other.name_any() != answer);
        return other.cloned().map(Effect::Discard);
    }
    let template = match reason_to_wait(claim, template) {
        Ok(template) => template,
        Err(why) => return explain(object, why),
    };
    if !has(&**object, finalizer::DATA_CLAIM) {
        return Some(Effect::HoldClaim(object.clone()));
    }
    if !has(&**template, finalizer::DATA_TEMPLATE) {
        return None; // it gets it in this round
    }
    // The store may not show yet what another process created for it.
    if !claim.is_known {
        return Some(Effect::List);
    }
    let index = free.take(index_before(object, &seen.space))?;
    Some(Effect::Create {
        claim: object.clone(),
        template: template.clone(),
        index,
    })
}

/// The template, or why a claim cannot be answered.
fn reason_to_wait<'a>(
    claim: &Claim,
    template: Option<&'a Arc<Metal3DataTemplate>>,
) -> Result<&'a Arc<Metal3DataTemplate>, String> {
    if let Some(Hold::NoCluster(name)) = &claim.hold {
        return Err(format!(
            "waiting for Cluster {name}, which the label cluster.x-k8s.io/cluster-name names: it does not exist"
        ));
    }
    let Some(template) = template else {
        let reference = &claim.object.spec.template;
        let name = &reference.name;
        if name.is_empty() {
            return Err("spec.template.name is empty: name a Metal3DataTemplate of this namespace".to_owned());
        }
        let own = claim.object.metadata.namespace.as_deref().unwrap_or_default();
        if let Err(Elsewhere(namespace)) = reference.local(own) {
            return Err(format!(
                "spec.template names Metal3DataTemplate {namespace}/{name}, and those of other namespaces are not used: create \
                 it in this one, and leave spec.template.namespace out"
            ));
        }
        return Err(format!(
            "waiting for Metal3DataTemplate {name}, which does not exist in this namespace: create it"
        ));
    };
    if is_deleted(template) && !has(&**template, finalizer::DATA_TEMPLATE) {
        return Err(format!(
            "waiting until Metal3DataTemplate {}, which is being deleted, is gone: create it again afterwards",
            template.name_any()
        ));
    }
    if machine_of(&claim.object).is_none() {
        return Err("the claim has no owner of kind Metal3Machine: it cannot be told what to render for".to_owned());
    }
    Ok(template)
}

/// Reports a rejected write on the claim, unless it is already reported. An answer clears it.
pub fn refused(claim: &Arc<Metal3DataClaim>, why: String) -> Option<Effect> {
    explain(claim, why)
}

fn explain(claim: &Arc<Metal3DataClaim>, mut why: String) -> Option<Effect> {
    cut(&mut why, MESSAGE);
    (error_of(claim) != why).then(|| Effect::Explain(claim.clone(), why))
}

/// The next step for a claim being deleted.
fn release(claim: &Claim) -> Option<Effect> {
    for data in &claim.datas {
        if data.metadata.deletion_timestamp.is_none() {
            return Some(Effect::Delete(data.clone()));
        }
        if has(&**data, finalizer::DATA_CLAIM) {
            return Some(Effect::Unlock(data.clone()));
        }
    }
    has(&*claim.object, finalizer::DATA_CLAIM).then(|| Effect::ReleaseClaim(claim.object.clone()))
}

/// The writes to templates: their index lists and finalizers. The cost of a list grows with its length, so that writing it for
/// every machine would be quadratic; it is written at most once a second. Also returns when the next one is due.
pub fn finish(seen: &[Listed], now: Timestamp) -> (Vec<Effect>, Option<Duration>) {
    let (mut effects, mut again) = (Vec::new(), None);
    for listed in seen.iter().filter(|listed| !has_pause(&*listed.template)) {
        let template = &listed.template;
        let is_done = is_deleted(template) && listed.datas.is_empty() && !listed.is_claimed;
        if is_done && has(&**template, finalizer::DATA_TEMPLATE) {
            effects.push(Effect::ReleaseTemplate(template.clone()));
            continue;
        }
        let status = template.status.clone().unwrap_or_default();
        let indexes = indexes(listed);
        if status.indexes == indexes {
            continue;
        }
        match wait_for_list(&status, now) {
            Some(wait) => again = again.into_iter().chain([wait]).min(),
            None => effects.push(Effect::Report(
                template.clone(),
                Metal3DataTemplateStatus { indexes, ..status },
            )),
        }
    }
    (effects, again)
}

fn wait_for_list(status: &Metal3DataTemplateStatus, now: Timestamp) -> Option<Duration> {
    let age: Duration = now.duration_since(status.last_updated.as_ref()?.0).try_into().ok()?;
    LISTS_APART.checked_sub(age).filter(|left| !left.is_zero())
}

/// The sorted indexes in use, up to the maximum.
fn indexes(seen: &Listed) -> Vec<DataIndex> {
    let mut listed = BTreeSet::new();
    let of_data = |data: &Arc<Metal3Data>| {
        let index = data.spec.index?;
        let name = data.spec.claim.name.clone();
        // The schema allows each index only once.
        (!name.is_empty() && listed.insert(index)).then_some(DataIndex { name, index })
    };
    seen.datas.iter().filter_map(of_data).take(LISTED).collect()
}

/// Whether the claim, as just read, shows that this Metal3Data is unused.
pub fn is_unused(data: &Metal3Data, claim: Option<&Metal3DataClaim>) -> bool {
    let Some(claim) = claim.filter(|claim| answers(data, claim)) else {
        return true;
    };
    let answer = claim.status.clone().unwrap_or_default().rendered_data.name;
    !answer.is_empty() && answer != data.name_any()
}

fn error_of(claim: &Metal3DataClaim) -> &str {
    claim.status.as_ref().map_or("", |status| status.error_message.as_str())
}

fn has(object: &impl ResourceExt, finalizer: &str) -> bool {
    object.finalizers().iter().any(|present| present == finalizer)
}

fn is_deleted(template: &Metal3DataTemplate) -> bool {
    template.metadata.deletion_timestamp.is_some()
}

/// Free indexes, lowest first. Allocating all of n costs n steps, not n².
struct Free<'a> {
    seen: &'a Observed,
    given: BTreeSet<i32>,
    next: std::slice::Iter<'a, i32>,
}

impl<'a> Free<'a> {
    fn new(seen: &'a Observed) -> Self {
        Self {
            seen,
            given: BTreeSet::new(),
            next: seen.free.iter(),
        }
    }

    /// The preferred index, or the lowest free one.
    fn take(&mut self, preferred: Option<i32>) -> Option<i32> {
        let preferred = preferred.filter(|index| self.seen.free_again.contains(index) && !self.given.contains(index));
        let index = match preferred {
            Some(index) => index,
            None => *self.next.find(|index| !self.given.contains(index))?,
        };
        self.given.insert(index);
        Some(index)
    }
}
