//! Which finalizers of objects in deletion nothing else removes. Pure.

use std::convert::Infallible;

use kube::core::ObjectMeta;
use metal3_api::metal3::names::finalizer::{HARDWARE_DATA, PREPROVISIONING_IMAGE, PREPROVISIONING_IMAGE_OF_HOST};
use metal3_runtime::controller::{Decision, Plan};
use serde_json::{Value, json};

use super::{Kind, Observed};
use crate::host::ownership::{Ownership, ownership};

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The kind of the object.
    pub kind: Kind,
    /// Removes finalizers, on the version that was judged.
    pub patch: Value,
}

pub fn decide(seen: &Observed) -> Decision<Infallible, Effect, ()> {
    let effects = seen.left.iter().filter_map(|(kind, object)| {
        let before = object.finalizers.as_deref().unwrap_or_default();
        let kept = kept(seen, *kind, object);
        (kept.len() != before.len()).then(|| Effect {
            kind: *kind,
            patch: json!({ "metadata": { "resourceVersion": object.resource_version, "finalizers": kept } }),
        })
    });
    Plan {
        effects: effects.collect(),
        ..Plan::default()
    }
    .into()
}

/// The finalizers that something else removes.
fn kept<'a>(seen: &Observed, kind: Kind, object: &'a ObjectMeta) -> Vec<&'a str> {
    let of_host = match kind {
        Kind::HardwareData => HARDWARE_DATA,
        Kind::PreprovisioningImage => PREPROVISIONING_IMAGE_OF_HOST,
    };
    // A host that exists removes it itself, when it is deleted.
    let is_left = |host| ownership(object, host) == Ownership::Former;
    let is_left = seen.host.as_deref().is_none_or(is_left);
    let finalizers = object.finalizers.iter().flatten().map(String::as_str);
    let mut kept: Vec<_> = finalizers
        .filter(|finalizer| !is_left || *finalizer != of_host)
        .collect();
    // It is removed after all others, by what builds ramdisks: without the flag, nothing does.
    if kept == [PREPROVISIONING_IMAGE] && kind == Kind::PreprovisioningImage && !seen.builds_ramdisks {
        kept.clear();
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;

    use super::*;

    const OTHER: &str = "example.org/other";

    fn object(finalizers: &[&str]) -> ObjectMeta {
        let owner = json!([{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "h", "uid": "u"}]);
        serde_json::from_value(
            json!({"name": "h", "namespace": "n", "resourceVersion": "7", "ownerReferences": owner,
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}),
        )
        .unwrap()
    }

    /// What stays; none if nothing is written.
    fn stays(kind: Kind, finalizers: &[&str], host: Option<&str>, builds_ramdisks: bool) -> Option<Value> {
        let host = host.map(|uid| {
            serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "metadata": {"name": "h", "namespace": "n", "uid": uid}, "spec": {"online": true}}))
            .unwrap()
        });
        let seen = Observed {
            host: host.map(Arc::new),
            left: vec![(kind, object(finalizers))],
            builds_ramdisks,
        };
        let Decision::Act(plan) = decide(&seen);
        let mut effect = plan.effects.into_iter().next()?;
        assert_eq!(
            (effect.kind, &effect.patch["metadata"]["resourceVersion"]),
            (kind, &json!("7"))
        );
        Some(effect.patch["metadata"]["finalizers"].take())
    }

    // OWN 31md: what was in deletion when its host went without its finalizer kept the host's mark for ever.
    #[rstest]
    #[case::the_host_is_gone(None, &[HARDWARE_DATA], Some(json!([])))]
    #[case::another_host_has_the_name(Some("v"), &[HARDWARE_DATA], Some(json!([])))]
    #[case::others_stay(None, &[OTHER, HARDWARE_DATA], Some(json!([OTHER])))]
    #[case::the_host_exists(Some("u"), &[HARDWARE_DATA], None)]
    #[case::not_held_by_us(None, &[OTHER], None)]
    fn hardware_data(#[case] host: Option<&str>, #[case] finalizers: &[&str], #[case] expected: Option<Value>) {
        for builds_ramdisks in [true, false] {
            assert_eq!(stays(Kind::HardwareData, finalizers, host, builds_ramdisks), expected);
        }
    }

    const BOTH: [&str; 2] = [PREPROVISIONING_IMAGE_OF_HOST, PREPROVISIONING_IMAGE];

    #[rstest]
    #[case::built_here(true, None, &BOTH, Some(json!([PREPROVISIONING_IMAGE])))]
    #[case::built_here_and_released(true, None, &BOTH[1..], None)]
    #[case::built_here_for_a_host(true, Some("u"), &BOTH, None)]
    // OWN 31mc: without the flag no controller removed the finalizer of what builds ramdisks.
    #[case::built_by_nothing(false, None, &BOTH, Some(json!([])))]
    #[case::built_by_nothing_and_released(false, Some("u"), &BOTH[1..], Some(json!([])))]
    #[case::built_by_nothing_for_a_host(false, Some("u"), &BOTH, None)]
    #[case::used_by_another(false, None, &[OTHER, BOTH[0], BOTH[1]], Some(json!([OTHER, BOTH[1]])))]
    fn preprovisioning_image(
        #[case] builds_ramdisks: bool,
        #[case] host: Option<&str>,
        #[case] finalizers: &[&str],
        #[case] expected: Option<Value>,
    ) {
        assert_eq!(
            stays(Kind::PreprovisioningImage, finalizers, host, builds_ramdisks),
            expected
        );
    }
}
