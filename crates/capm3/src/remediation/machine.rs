//! What a remediation writes to the Machine. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use metal3_api::capi::names::condition::OWNER_REMEDIATED;
use metal3_api::capi::names::reason::WAITING_FOR_REMEDIATION;
use metal3_api::capi::{LegacyCondition, Machine};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_runtime::conditions::{self, whole_seconds};
use serde_json::{Value, json};

/// Whether the Machine's owner was asked to replace it, by the condition that Cluster API acts on.
pub fn is_to_be_replaced(machine: &Machine) -> bool {
    let condition = conditions::get(&machine.status.conditions, OWNER_REMEDIATED);
    condition.is_some_and(|condition| condition.status == ConditionStatus::False)
}

/// Whether the Machine has an owner that could replace it.
pub fn has_owner(machine: &Machine) -> bool {
    machine
        .owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true))
}

/// The patch of the Machine's status that asks its owner to replace it, in both styles. Upstream writes only the deprecated one,
/// which the owners in Cluster API 1.14 ignore. Other conditions keep their positions.
pub fn to_be_replaced(machine: &Machine, why: &str, now: Timestamp) -> Value {
    let since = Some(Time(whole_seconds(now)));
    let mut conditions = machine.status.conditions.clone();
    let standard = Condition {
        type_: OWNER_REMEDIATED.to_owned(),
        status: ConditionStatus::False,
        observed_generation: machine.metadata.generation,
        last_transition_time: Time(whole_seconds(now)),
        reason: WAITING_FOR_REMEDIATION.to_owned(),
        message: why.to_owned(),
    };
    put(&mut conditions, standard, |condition| &condition.type_);
    let mut deprecated = machine.status.deprecated.v1beta1.conditions.clone();
    let legacy = LegacyCondition {
        type_: OWNER_REMEDIATED.to_owned(),
        status: ConditionStatus::False,
        severity: "Warning".to_owned(),
        last_transition_time: since,
        reason: WAITING_FOR_REMEDIATION.to_owned(),
        message: why.to_owned(),
    };
    put(&mut deprecated, legacy, |condition| &condition.type_);
    json!({
        "metadata": {"resourceVersion": machine.resource_version()},
        "status": {"conditions": conditions, "deprecated": {"v1beta1": {"conditions": deprecated}}},
    })
}

fn put<C>(list: &mut Vec<C>, new: C, type_of: impl Fn(&C) -> &String) {
    match list.iter_mut().find(|present| type_of(present) == type_of(&new)) {
        Some(present) => *present = new,
        None => list.push(new),
    }
}
