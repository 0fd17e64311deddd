//! The decision for one host, step by step.

use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::metal3::{BareMetalHost, HostFirmwareSettings, HostFirmwareSettingsStatus, HostUpdatePolicy};
use metal3_ironic::BiosSetting;
use metal3_runtime::controller::{Next, Plan};
use metal3_runtime::timing::operator::PROOF_AGAIN;
use serde_json::{Value, json};

use super::decide::{Bios, Decision, Effect, Observed, Read, decide};
use crate::companion::Surroundings;
use crate::fleet::NodeView;
use crate::host::companions::digested;
use crate::host::firmware::Made;
use crate::host::firmware::settings::applied;

const UID: &str = "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01";
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn owned(uid: &str) -> Value {
    json!([{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": "h", "uid": uid}])
}

fn object(owners: &Value, wanted: &Value) -> HostFirmwareSettings {
    serde_json::from_value(
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostFirmwareSettings",
        "metadata": {"name": "h", "namespace": "n", "uid": "o", "generation": 1, "ownerReferences": owners},
        "spec": {"settings": wanted}}),
    )
    .unwrap()
}

/// An available host with this object.
fn seen(settings: Option<HostFirmwareSettings>) -> Observed {
    let host: BareMetalHost =
        serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "namespace": "n", "uid": UID}, "spec": {"online": true},
        "status": {"provisioning": {"state": "available", "ID": UID}, "operationalStatus": "OK"}}))
        .unwrap();
    let node = json!({"uuid": UID, "name": "n~h", "provision_state": "manageable", "provision_updated_at": "1"});
    Observed {
        around: Surroundings {
            host: Arc::new(host),
            node: NodeView::Listed(Arc::new(serde_json::from_value(node).unwrap())),
            last_look: None,
            is_unproven: false,
        },
        settings: settings.map(kept),
        policy: None,
        lacks_schema: false,
        bios: None,
        whole: None,
    }
}

/// As a store keeps it.
fn kept(mut object: HostFirmwareSettings) -> Arc<HostFirmwareSettings> {
    object.spec.settings = digested(&object.spec.settings);
    if let Some(status) = &mut object.status {
        status.settings = digested(&status.settings);
    }
    Arc::new(object)
}

fn bios(has_schema: bool) -> Bios {
    let setting = BiosSetting {
        name: "QuietBoot".to_owned(),
        value: "true".to_owned(),
        attribute_type: Some("Boolean".to_owned()),
        ..BiosSetting::default()
    };
    Bios {
        settings: vec![setting],
        has_schema,
    }
}

fn plan(decision: Decision) -> Plan<Effect, super::decide::Status> {
    match decision {
        Decision::Act(plan) => *plan,
        Decision::Fetch(read) => panic!("{read:?}"),
    }
}

/// The schema of a host's settings bears the vendor and model that an inspection finds.
#[test]
fn settings_are_read_before_the_inspection_only_if_there_is_none() {
    for (mode, expected) in [("agent", Decision::idle()), ("disabled", Decision::Fetch(Read::Bios))] {
        let mut seen = seen(Some(object(&owned(UID), &json!({}))));
        let mut host = serde_json::to_value(&*seen.around.host).unwrap();
        host["spec"]["inspectionMode"] = mode.into();
        host["status"]["provisioning"]["state"] = "registering".into();
        seen.around.host = Arc::new(serde_json::from_value(host).unwrap());
        assert_eq!(decide(&seen, NOW), expected, "{mode}");
    }
}

#[test]
fn objects_are_created_taken_up_and_replaced() {
    let first = |seen: &Observed| plan(decide(seen, NOW)).effects;
    assert_eq!(first(&seen(None)), [Effect::Create]);
    assert_eq!(
        first(&seen(Some(object(&json!([]), &json!({"A": "On"}))))),
        [Effect::Adopt]
    );
    assert_eq!(
        first(&seen(Some(object(&owned("gone"), &json!({}))))),
        [Effect::DeleteFormer]
    );
    let mut seen = seen(Some(object(&owned(UID), &json!({}))));
    // OWN 30ff: a role without the right to change policies kept the status from being written.
    let policy =
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostUpdatePolicy", "metadata": {"name": "h"}, "spec": {}});
    let policy: HostUpdatePolicy = serde_json::from_value(policy).unwrap();
    seen.policy = Some(Arc::new(policy));
    assert_eq!(decide(&seen, NOW), Decision::Fetch(Read::Bios));
    seen.bios = Some(Bios {
        settings: Vec::new(),
        has_schema: false,
    });
    let looked = plan(decide(&seen, NOW));
    assert!(looked.report.status.is_some());
    assert!(matches!(
        &looked.afterwards[..],
        [Effect::Remember(_), Effect::AdoptPolicy]
    ));
    seen.around.node = NodeView::Gone;
    assert_eq!(plan(decide(&seen, NOW)).afterwards, [Effect::AdoptPolicy]);
}

#[test]
fn a_status_is_written_once_and_never_without_a_difference() {
    let whole = object(&owned(UID), &json!({"QuietBoot": "false"}));
    let mut seen = seen(Some(whole.clone()));
    assert_eq!(decide(&seen, NOW), Decision::Fetch(Read::Bios));
    seen.bios = Some(bios(false));
    assert_eq!(decide(&seen, NOW), Decision::Fetch(Read::Whole));
    seen.whole = Some(whole.clone());
    assert!(matches!(
        plan(decide(&seen, NOW)).effects[..],
        [Effect::CreateSchema(..)]
    ));
    seen.bios = Some(bios(true));
    let written = plan(decide(&seen, NOW));
    let status = *written.report.status.unwrap();
    assert_eq!(status.settings["QuietBoot"], "true");
    assert!(status.schema.is_some() && status.last_updated.is_some());
    assert!(matches!(&written.afterwards[..], [Effect::Remember(_)]));

    // Another process looks: at the whole object, and at what the store keeps of one that requests nothing.
    let mut whole = HostFirmwareSettings {
        status: Some(status),
        ..whole
    };
    (seen.settings, seen.whole) = (Some(kept(whole.clone())), Some(whole.clone()));
    assert!(plan(decide(&seen, NOW)).report.is_empty());
    whole.spec.settings.clear();
    (seen.settings, seen.whole) = (Some(kept(whole.clone())), None);
    let changed = plan(decide(&seen, NOW)).report.status.unwrap();
    assert_eq!(changed.conditions[0].status.as_str(), "False");
    whole.status = Some(*changed);
    seen.settings = Some(kept(whole));
    assert!(plan(decide(&seen, NOW)).report.is_empty());
}

// OWN 31vd: a password whose name does not say so stood in the status.
#[test]
fn a_setting_of_type_password_is_not_shown() {
    let whole = object(&owned(UID), &json!({"QuietBoot": "false"}));
    let mut seen = seen(Some(whole.clone()));
    let mut bios = bios(true);
    bios.settings.push(BiosSetting {
        name: "AdminPwd".to_owned(),
        value: "hush".to_owned(),
        attribute_type: Some("Password".to_owned()),
        ..BiosSetting::default()
    });
    let known = bios.settings.clone();
    (seen.bios, seen.whole) = (Some(bios), Some(whole.clone()));
    let status = *plan(decide(&seen, NOW)).report.status.unwrap();
    assert_eq!(status.settings.keys().collect::<Vec<_>>(), ["QuietBoot"]);
    let applied = applied(&whole, &known, Made::No(""), NOW).unwrap();
    assert_eq!(applied.settings.keys().collect::<Vec<_>>(), ["QuietBoot"]);
}

/// A change that nothing else is known of is told anew when what it waits for has changed, on the whole object, and once.
#[test]
fn a_pending_change_is_told_anew_without_a_look_at_the_bios() {
    let conditions = json!(
        ["ChangeDetected", "Valid"].map(|type_| json!({"type": type_, "status": "True", "reason": "Success",
        "message": "", "observedGeneration": 1, "lastTransitionTime": "1970-01-01T00:00:00Z"}))
    );
    let mut whole = object(&owned(UID), &json!({"QuietBoot": "false"}));
    whole.status =
        Some(serde_json::from_value(json!({"settings": {"QuietBoot": "true"}, "conditions": conditions})).unwrap());
    let mut seen = seen(Some(whole.clone()));
    seen.around.last_look = Some(format!("{UID} manageable 1"));
    assert_eq!(decide(&seen, NOW), Decision::Fetch(Read::Whole));
    seen.whole = Some(whole.clone());
    let status = *plan(decide(&seen, NOW)).report.status.unwrap();
    assert!(
        status.conditions[0].message.contains("while it is prepared"),
        "{status:?}"
    );
    assert_eq!(status.settings, whole.status.as_ref().unwrap().settings);
    whole.status = Some(status);
    (seen.settings, seen.whole) = (Some(kept(whole)), None);
    assert_eq!(decide(&seen, NOW), Decision::idle());
}

/// Neither a look at the BIOS nor a change of the host takes that back: the settings are not made again by themselves.
#[test]
fn what_a_bmc_did_not_apply_stays_told_until_the_object_is_edited() {
    let mut whole = object(&owned(UID), &json!({"QuietBoot": "false"}));
    whole.status = applied(&whole, &bios(true).settings, Made::NotApplied, NOW);
    let mut seen = seen(Some(whole.clone()));
    seen.around.last_look = Some(format!("{UID} manageable 1"));
    assert_eq!(decide(&seen, NOW), Decision::idle());
    seen.around.last_look = None;
    (seen.bios, seen.whole) = (Some(bios(true)), Some(whole.clone()));
    let status = *plan(decide(&seen, NOW)).report.status.unwrap();
    assert!(status.schema.is_some(), "this is new");
    let told = |status: &HostFirmwareSettingsStatus| {
        let change = &status.conditions[0];
        (change.status.clone(), change.reason.clone(), change.message.clone())
    };
    assert_eq!(told(&status), told(whole.status.as_ref().unwrap()));
    whole.status = Some(status);
    whole.metadata.generation = Some(2);
    (seen.settings, seen.whole) = (Some(kept(whole.clone())), Some(whole));
    let status = *plan(decide(&seen, NOW)).report.status.unwrap();
    let (holds, reason, message) = told(&status);
    assert_eq!((holds.as_str(), reason.as_str()), ("True", "Success"));
    assert!(message.contains("while it is prepared"), "{message}");
}

#[test]
fn a_host_without_bios_settings_has_no_schema() {
    let mut seen = seen(Some(object(&owned(UID), &json!({}))));
    seen.bios = Some(Bios {
        settings: Vec::new(),
        has_schema: false,
    });
    let status = plan(decide(&seen, NOW)).report.status.unwrap();
    assert_eq!(
        (status.schema, status.settings.len(), status.conditions.len()),
        (None, 0, 2)
    );
}

/// The BMC may only have been away, and a Secret that is mended changes nothing of its host.
#[test]
fn a_node_that_is_not_proven_is_looked_at_again_later() {
    let mut seen = seen(Some(object(&owned(UID), &json!({"A": "1"}))));
    seen.around.node = NodeView::Gone;
    assert_eq!(plan(decide(&seen, Timestamp::UNIX_EPOCH)).next, Next::Change);
    seen.around.is_unproven = true;
    let plan = plan(decide(&seen, Timestamp::UNIX_EPOCH));
    assert_eq!(plan.next, Next::After(PROOF_AGAIN));
    assert!(plan.effects.is_empty() && plan.afterwards.is_empty(), "{plan:?}");
}
