//! Which finalizers of objects in deletion nothing else removes. Pure.

use kube::core::ObjectMeta;
use metal3_api::metal3::names::finalizer::{HARDWARE_DATA, PREPROVISIONING_IMAGE, PREPROVISIONING_IMAGE_OF_HOST};
use metal3_runtime::controller::{Decision, Next, Plan};
use metal3_runtime::events::Event;
use metal3_runtime::timing::operator::RELEASE;
use serde_json::{Value, json};

use super::{Kind, Observed};
use crate::host::ownership::{Ownership, ownership};
use crate::live::Live;
use crate::run::PROGRAM;

/// A read that a decision may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Which program builds the ramdisk.
    Builder,
    /// Whether the host is gone.
    Host,
}

/// What builds a ramdisk, and so discards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builder {
    NotLooked,
    /// An operator, ours or upstream's, which has nothing to discard.
    Operator,
    /// Another program.
    Other,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The kind of the object.
    pub kind: Kind,
    /// Removes finalizers, on the version that was judged.
    pub patch: Value,
}

/// An event about an object that its host holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The kind of the object.
    pub kind: Kind,
    /// Names the host.
    pub event: Event,
}

/// Published on an object in deletion that its host needs.
const HELD: &str = "HeldByHost";

pub fn decide(seen: &Observed) -> Decision<Read, Effect, Vec<Held>> {
    let mut plan = Plan::default();
    for (kind, object) in &seen.left {
        let before = object.finalizers.as_deref().unwrap_or_default();
        let mut kept = kept(seen, *kind, object);
        // Removed after all others, by the program that builds ramdisks: without the flag, the operator has no such part.
        if kept == [PREPROVISIONING_IMAGE] && *kind == Kind::PreprovisioningImage && !seen.builds_ramdisks {
            match seen.builder {
                Builder::NotLooked => return Decision::Fetch(Read::Builder),
                Builder::Operator => kept.clear(),
                Builder::Other => {}
            }
        }
        if kept.len() != before.len() {
            plan.effects.push(Effect {
                kind: *kind,
                patch: json!({ "metadata": { "resourceVersion": object.resource_version, "finalizers": kept } }),
            });
        }
    }
    let held: Vec<Held> = seen.left.iter().filter_map(|left| held_by_host(seen, left)).collect();
    plan.report.status = (!held.is_empty()).then_some(held);
    if plan.effects.is_empty() || seen.host.is_some() {
        return plan.into();
    }
    match seen.live {
        None => Decision::Fetch(Read::Host),
        Some(Live::Gone) => plan.into(),
        // No change of a host that cannot be read wakes this controller.
        Some(Live::Exists | Live::Unknown) => Plan {
            next: Next::After(RELEASE),
            ..Plan::default()
        }
        .into(),
    }
}

/// What is said, once, of an object that goes when its host does. A host that is going releases it by itself.
fn held_by_host(seen: &Observed, (kind, object): &(Kind, ObjectMeta)) -> Option<Held> {
    let host = seen.host.as_deref()?;
    let is_held = kept(seen, *kind, object).contains(&kind.finalizer());
    let is_told = object.uid.as_ref().is_some_and(|uid| seen.told.contains(uid));
    if !is_held || is_told || host.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let message = format!(
        "it stays until BareMetalHost {} is deleted, which needs it (finalizer {}): delete the host, or let both be",
        seen.key,
        kind.finalizer()
    );
    let event = Event::normal(HELD, message);
    Some(Held { kind: *kind, event })
}

/// The builder of a ramdisk: the program that set the finalizer. Other builders use the same finalizer, and discard what
/// they have built before they remove it.
pub fn builder_of(ramdisk: &ObjectMeta) -> Builder {
    let finalizer = format!("v:{}", json!(PREPROVISIONING_IMAGE));
    let is_set_here = ramdisk.managed_fields.iter().flatten().any(|entry| {
        let fields = entry
            .fields_v1
            .as_ref()
            .map(|fields| &fields.0["f:metadata"]["f:finalizers"]);
        entry.manager.as_deref() == Some(PROGRAM) && fields.is_some_and(|fields| fields.get(&finalizer).is_some())
    });
    if is_set_here { Builder::Operator } else { Builder::Other }
}

impl Kind {
    /// The finalizer that its host removes.
    const fn finalizer(self) -> &'static str {
        match self {
            Self::HardwareData => HARDWARE_DATA,
            Self::PreprovisioningImage => PREPROVISIONING_IMAGE_OF_HOST,
        }
    }
}

/// The finalizers that something else removes.
fn kept<'a>(seen: &Observed, kind: Kind, object: &'a ObjectMeta) -> Vec<&'a str> {
    let of_host = kind.finalizer();
    // A host that exists removes it itself, when it is deleted.
    let is_left = |host| ownership(object, host) == Ownership::Former;
    let is_left = seen.host.as_deref().is_none_or(is_left);
    let finalizers = object.finalizers.iter().flatten().map(String::as_str);
    finalizers
        .filter(|finalizer| !is_left || *finalizer != of_host)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use metal3_runtime::store::ObjectKey;
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

    /// What stays; none if nothing is written. The ramdisk is an operator's.
    fn stays(kind: Kind, finalizers: &[&str], host: Option<&str>, builds_ramdisks: bool) -> Option<Value> {
        stays_of(kind, finalizers, host, builds_ramdisks, Builder::Operator)
    }

    fn stays_of(
        kind: Kind,
        finalizers: &[&str],
        host: Option<&str>,
        builds_ramdisks: bool,
        builder: Builder,
    ) -> Option<Value> {
        let host = host.map(|uid| {
            serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "metadata": {"name": "h", "namespace": "n", "uid": uid}, "spec": {"online": true}}))
            .unwrap()
        });
        let mut seen = Observed {
            key: ObjectKey::new("n", "h"),
            live: host.is_none().then_some(Live::Gone),
            host: host.map(Arc::new),
            left: vec![(kind, object(finalizers))],
            builds_ramdisks,
            builder: Builder::NotLooked,
            told: HashSet::new(),
        };
        let mut decision = decide(&seen);
        if let Decision::Fetch(Read::Builder) = decision {
            seen.builder = builder;
            decision = decide(&seen);
        }
        let Decision::Act(plan) = decision else {
            panic!("it is read once")
        };
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

    // OWN 31xs: a HardwareData or PreprovisioningImage in deletion that its host held did not say so.
    #[rstest]
    #[case::hardware(Kind::HardwareData, &[HARDWARE_DATA], json!({}), true)]
    #[case::ramdisk(Kind::PreprovisioningImage, &BOTH, json!({}), true)]
    #[case::released(Kind::PreprovisioningImage, &BOTH[1..], json!({}), false)]
    #[case::held_by_another(Kind::HardwareData, &[OTHER], json!({}), false)]
    #[case::of_an_earlier_host(Kind::HardwareData, &[HARDWARE_DATA], json!({"uid": "v"}), false)]
    #[case::host_in_deletion(Kind::HardwareData, &[HARDWARE_DATA], json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), false)]
    fn what_a_host_holds_names_it_once(
        #[case] kind: Kind,
        #[case] finalizers: &[&str],
        #[case] change: Value,
        #[case] is_told: bool,
    ) {
        let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "h", "namespace": "n", "uid": "u"}, "spec": {"online": true}});
        json_patch::merge(&mut host["metadata"], &change);
        let mut object = object(finalizers);
        object.uid = Some("o".to_owned());
        let mut seen = Observed {
            key: ObjectKey::new("n", "h"),
            live: None,
            host: Some(Arc::new(serde_json::from_value(host).unwrap())),
            left: vec![(kind, object)],
            builds_ramdisks: true,
            builder: Builder::NotLooked,
            told: HashSet::new(),
        };
        let told = |seen: &Observed| match decide(seen) {
            Decision::Act(plan) => plan.report.status,
            Decision::Fetch(read) => panic!("{read:?}"),
        };
        let held = told(&seen).map(|held| held[0].event.message.clone());
        assert_eq!(held.is_some(), is_told);
        assert!(held.is_none_or(|message| message.contains("BareMetalHost n/h")));
        seen.told.insert("o".to_owned());
        assert_eq!(told(&seen), None);
    }

    // OWN 31gd: another program's finalizer was removed before that program had discarded the ramdisk.
    #[rstest]
    #[case::held_by_the_host(None, &BOTH, Some(json!([PREPROVISIONING_IMAGE])))]
    #[case::released_by_the_host(None, &BOTH[1..], None)]
    #[case::of_another_host_of_the_name(Some("v"), &BOTH[1..], None)]
    fn another_program_discards_its_ramdisk(
        #[case] host: Option<&str>,
        #[case] finalizers: &[&str],
        #[case] expected: Option<Value>,
    ) {
        let kind = Kind::PreprovisioningImage;
        assert_eq!(stays_of(kind, finalizers, host, false, Builder::Other), expected);
    }

    #[rstest]
    #[case::the_operator("baremetal-operator", PREPROVISIONING_IMAGE, Builder::Operator)]
    #[case::another_program("machine-image-customization-controller", PREPROVISIONING_IMAGE, Builder::Other)]
    #[case::only_the_host_is_the_operators("baremetal-operator", PREPROVISIONING_IMAGE_OF_HOST, Builder::Other)]
    fn builders(#[case] manager: &str, #[case] finalizer: &str, #[case] expected: Builder) {
        let set = json!({"f:metadata": {"f:finalizers": {".": {}, format!("v:\"{finalizer}\""): {}}}});
        let fields = json!([{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:spec": {}}},
            {"manager": manager, "operation": "Update", "fieldsV1": set}]);
        let ramdisk = ObjectMeta {
            managed_fields: serde_json::from_value(fields).unwrap(),
            ..object(&BOTH)
        };
        assert_eq!(builder_of(&ramdisk), expected);
        assert_eq!(builder_of(&object(&BOTH)), Builder::Other, "nobody says so");
    }
}
