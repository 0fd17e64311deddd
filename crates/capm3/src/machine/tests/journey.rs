//! From a claim to a machine that is ready.

use std::time::Duration;

use rstest::rstest;

use super::*;
use crate::machine::decide::Need;
use crate::machine::untold::{Claim, Step};

#[test]
fn a_claim_is_one_write_over_the_version_that_was_judged_with_all_that_it_takes() {
    let mut seen = seen(&json!({"metadata": {"finalizers": null}, "spec": {"automatedCleaningMode": "disabled"}}));
    seen.owner = owner(&json!({"spec": {"failureDomain": "a"}}));
    seen.looks.selection = chosen(free(), false);
    let plan = plan(&seen);
    assert_eq!(labels(&plan), ["store the choice of a host", "claim the host"]);
    let Effect::Machine(choice) = &plan.effects[0] else {
        panic!()
    };
    let expected = json!({
        "metadata": {"resourceVersion": "7", "finalizers": [FINALIZER],
            "annotations": {"metal3.io/BareMetalHost": "ns/h"}},
        "spec": {"failureDomain": "a"},
    });
    assert_eq!(choice, &expected);
    let image = json!({"url": "http://i", "checksum": "abc", "checksumType": "sha256", "format": "raw"});
    let installed = json!({"image": image, "given": {"userData": "b"}}).to_string();
    let expected = json!({
        "metadata": {"resourceVersion": "5",
            "labels": {"cluster.x-k8s.io/cluster-name": "c", "infrastructure.cluster.x-k8s.io/node-reuse": null},
            "annotations": {"clusterctl.cluster.x-k8s.io/block-move": "",
                "infrastructure.cluster.x-k8s.io/installed": installed}},
        "spec": {
            "consumerRef": {"apiVersion": HERE, "kind": "Metal3Machine", "namespace": "ns", "name": "m", "uid": "u-m"},
            "image": image,
            "customDeploy": null, "automatedCleaningMode": "disabled", "online": true,
            "userData": {"name": "b", "namespace": "ns"},
        },
    });
    assert_eq!(host_patch(&plan), &expected);
    let status = status(&plan);
    assert_eq!(
        said(status, "AssociateBareMetalHost").1,
        "AssociateBareMetalHostSuccess"
    );
    assert_eq!(said(status, "Metal3DataReady").1, "SecretsSetExternally");
    assert!(!said(status, "Ready").0);
    assert_eq!(status.user_data.as_ref().unwrap().name, "b");
    assert_eq!(
        (plan.patience, plan.notes.len()),
        (Some(Duration::from_secs(2)), 0),
        "it is told if it lasts"
    );
}

/// A machine whose host was claimed, for node reuse, and told so many seconds ago, which it has not said yet.
fn untold(seconds: u64, of_host: &Value) -> Observed {
    let mut seen = with_host(&json!({"status": null}), of_host);
    let claim = Claim {
        reason: "AssociateBareMetalHostViaNodeReuseSuccess",
        considered: 3,
    };
    let age = Duration::from_secs(seconds);
    seen.untold = Some(Step { claim, age, quiet: age });
    seen
}

#[rstest]
#[case::not_yet(1, "available", Some(1), &[], None)]
#[case::it_lasts(2, "available", None, &["label the Secret of the host's BMC"], Some("BareMetalHost h was claimed, one of 3 looked at"))]
#[case::it_runs_already(1, "provisioned", None, &["store the choice of a host", "label the Secret of the host's BMC"], None)]
fn a_step_is_told_if_it_lasts(
    #[case] seconds: u64,
    #[case] state: &str,
    #[case] patience: Option<u64>,
    #[case] effects: &[&str],
    #[case] event: Option<&str>,
) {
    let plan = plan(&untold(seconds, &told(state)));
    assert_eq!(plan.patience, patience.map(Duration::from_secs));
    assert_eq!(labels(&plan), effects);
    let messages: Vec<&str> = plan.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(messages, event.into_iter().collect::<Vec<_>>());
    let (holds, reason, _) = said(status(&plan), "AssociateBareMetalHost");
    assert_eq!((holds, reason), (true, "AssociateBareMetalHostViaNodeReuseSuccess"));
}

#[test]
fn what_goes_wrong_is_told_at_once() {
    let mut of_host = told("provisioning");
    merge(
        &mut of_host,
        &json!({"status": {"errorType": "provisioning error", "errorMessage": "no disk"}}),
    );
    let plan = plan(&untold(0, &of_host));
    assert_eq!(plan.patience, None);
    let reasons: Vec<&str> = plan.notes.iter().map(|note| note.reason).collect();
    assert_eq!(
        reasons,
        ["BareMetalHostError", "AssociateBareMetalHostViaNodeReuseSuccess"]
    );
}

#[test]
fn a_kept_host_is_said_to_be_one() {
    let mut seen = seen(&json!({}));
    seen.looks.selection = chosen(free(), true);
    let plan = plan(&seen);
    assert_eq!(
        said(status(&plan), "AssociateBareMetalHost").1,
        "AssociateBareMetalHostViaNodeReuseSuccess"
    );
}

#[test]
fn with_a_template_the_host_is_told_what_to_run_when_the_data_is_there() {
    let spec = json!({"spec": {"dataTemplate": {"name": "t"}, "networkData": {"name": "net"}}});
    let mut choosing = seen(&spec);
    choosing.looks.selection = chosen(free(), false);
    let plan = super::plan(&choosing);
    assert_eq!(host_patch(&plan)["spec"]["image"], Value::Null);
    let Some(Effect::CreateClaim(claim)) = plan.effects.last() else {
        panic!("{:?}", plan.effects)
    };
    assert_eq!(claim.metadata.labels, choosing.machine.metadata.labels);
    let of_data = "metal3dataclaim.infrastructure.cluster.x-k8s.io";
    assert_eq!(
        claim.metadata.finalizers,
        Some(vec![FINALIZER.to_owned(), of_data.to_owned()])
    );
    assert_eq!(claim.metadata.owner_references.as_ref().unwrap()[0].uid, "u-m");
    assert_eq!(
        (
            claim.spec.template.name.as_str(),
            claim.spec.template.namespace.as_str()
        ),
        ("t", "ns")
    );

    let mut seen = with_host(&spec, &json!({}));
    let claim = |status: Value| Some(super::claim(&json!({"status": status})));
    seen.claim = claim(json!({"errorMessage": "no such template"}));
    let waiting = super::plan(&seen);
    assert_eq!(
        labels(&waiting),
        ["store the choice of a host"],
        "the template's namespace is filled in"
    );
    let (holds, reason, message) = said(status(&waiting), "Metal3DataReady");
    assert_eq!(
        (holds, reason, message),
        (false, "WaitingForMetal3Data", "Metal3DataClaim m: no such template")
    );
    assert_eq!(said(status(&waiting), "Ready").2, message);

    seen.claim = claim(json!({"renderedData": {"name": "t-0"}}));
    let data = json!({"apiVersion": HERE, "kind": "Metal3Data", "metadata": {"name": "t-0"}, "status": {"ready": true},
        "spec": {"metaData": {"name": "m-metadata"}, "networkData": {"name": "m-networkdata"}}});
    seen.data = Some(with(data, &json!({})));
    let told = super::plan(&seen);
    let spec = &host_patch(&told)["spec"];
    assert_eq!(spec["metaData"], json!({"name": "m-metadata", "namespace": "ns"}));
    assert_eq!(
        spec["networkData"],
        json!({"name": "net", "namespace": "ns"}),
        "what the user names goes first"
    );
    assert_eq!(said(status(&told), "Metal3DataReady").1, "Metal3DataSecretsReady");
    assert_eq!(status(&told).rendered_data.name, "t-0");
}

#[test]
fn the_provider_id_is_there_before_provisioned_is_said() {
    let plan = plan(&with_host(&json!({}), &told("provisioned")));
    let Effect::Machine(change) = &plan.effects[0] else {
        panic!()
    };
    assert_eq!(change["spec"]["providerID"], "metal3://ns/h/m");
    let status = status(&plan);
    assert_eq!(status.initialization.provisioned, Some(true));
    assert_eq!(
        (said(status, "Ready"), legacy(status, "Ready").0),
        ((true, "Ready", ""), "True")
    );
    // And then nothing more.
    let after = json!({"metadata": {"annotations": {}}, "spec": {"providerID": "metal3://ns/h/m"},
        "status": serde_json::to_value(status).unwrap()});
    let after = super::plan(&with_host(&after, &told("provisioned")));
    assert_eq!((after.effects.len(), after.status, after.notes.len()), (0, None, 0));
}

#[rstest]
#[case::coming("provisioning", json!({}), "NotReady", "it is provisioning")]
#[case::failed("provisioning", json!({"errorType": "provisioning error", "errorMessage": "no disk"}),
    "BareMetalHostError", "BareMetalHost h: provisioning error: no disk")]
fn a_machine_is_not_ready_before_its_host_is(
    #[case] state: &str,
    #[case] of_status: Value,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let mut of_host = told(state);
    merge(&mut of_host["status"], &of_status);
    let plan = plan(&with_host(&json!({}), &of_host));
    assert_eq!(plan.effects, []);
    let (holds, said_reason, message) = said(status(&plan), "Ready");
    assert_eq!((holds, said_reason), (false, reason));
    assert!(message.contains(words), "{message}");
    assert_eq!(status(&plan).initialization.provisioned, None);
}

#[rstest]
#[case::before("provisioning", json!({}), true)]
#[case::afterwards("provisioned", json!({"spec": {"providerID": "x"}}), false)]
fn a_host_is_switched_on_until_it_is_provisioned(#[case] state: &str, #[case] other: Value, #[case] is_switched: bool) {
    let mut of_host = told(state);
    of_host["spec"]["online"] = json!(false);
    let plan = plan(&with_host(&other, &of_host));
    let is_host = |effect: &Effect| matches!(effect, Effect::Host { .. });
    assert_eq!(plan.effects.iter().any(is_host), is_switched);
}

#[test]
fn what_ran_once_is_not_installed_again() {
    let plan = plan(&with_host(&json!({"spec": {"providerID": "x"}}), &json!({})));
    assert_eq!(plan.effects, []);
    assert!(said(status(&plan), "Ready").2.contains("has no image any more"));
}

// OWN 16c: a machine whose claim on data had vanished got new data and other addresses than those that its host was told.
#[rstest]
#[case::running("provisioned", true)]
#[case::on_its_way("provisioning", false)]
fn a_host_that_was_told_its_data_gets_no_other(#[case] state: &str, #[case] is_running: bool) {
    let mut spec = json!({"spec": {"dataTemplate": {"name": "t", "namespace": "ns"}},
        "status": {"renderedData": {"name": "t-0", "namespace": "ns"}}});
    if is_running {
        spec["spec"]["providerID"] = json!("metal3://ns/h/m");
    }
    let mut of_host = told(state);
    of_host["spec"]["metaData"] = json!({"name": "m-metadata", "namespace": "ns"});
    let plan = plan(&with_host(&spec, &of_host));
    assert!(!asks(&plan), "{:?}", plan.effects);
    let status = status(&plan);
    let (holds, reason, message) = said(status, "Metal3DataReady");
    assert_eq!((holds, reason), (false, "Metal3DataClaimMissing"));
    assert!(
        message.starts_with("there is no Metal3DataClaim m any more"),
        "{message}"
    );
    assert_eq!(status.rendered_data.name, "t-0", "this is what it runs with");
    assert_eq!(said(status, "Ready").0, is_running, "it is as ready as it was");
    assert!(plan.notes.iter().any(|note| note.reason == "Metal3DataClaimMissing"));
}

fn asks(plan: &Plan) -> bool {
    let is_claim = |effect: &Effect| matches!(effect, Effect::CreateClaim(_));
    plan.effects.iter().any(is_claim)
}

/// Cluster API may give a machine a template in place. Its host runs without.
#[test]
fn a_host_that_runs_without_data_has_lost_none() {
    let spec = json!({"spec": {"providerID": "metal3://ns/h/m", "dataTemplate": {"name": "t", "namespace": "ns"}}});
    let mut of_host = told("provisioned");
    let image = of_host["spec"]["image"].clone();
    let installed = json!({"image": image, "given": {"userData": "b"}}).to_string();
    of_host["metadata"] = json!({"annotations": {"infrastructure.cluster.x-k8s.io/installed": installed}});
    let plan = plan(&with_host(&spec, &of_host));
    assert!(!asks(&plan), "{:?}", plan.effects);
    let status = status(&plan);
    assert_eq!(said(status, "Metal3DataReady").1, "SecretsSetExternally");
    assert!(said(status, "Ready").0);
    let (_, reason, message) = said(status, "HostUpToDate");
    let words = "spec.dataTemplate.name is t instead of nothing";
    assert!(reason == "MachineSpecChanged" && message.contains(words), "{message}");
}

/// It was held by the machine for ever, which waited for it to go.
#[rstest]
#[case::before_the_host_knows_it(json!({}), true)]
#[case::afterwards(told("provisioning"), false)]
fn a_claim_that_somebody_deletes_is_let_go_until_the_host_knows_the_data(#[case] host: Value, #[case] is_let_go: bool) {
    let spec = json!({"spec": {"dataTemplate": {"name": "t", "namespace": "ns"}}});
    let mut seen = with_host(&spec, &host);
    let deleted =
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"renderedData": {"name": "t-0"}}});
    seen.claim = Some(claim(&deleted));
    let data = json!({"apiVersion": HERE, "kind": "Metal3Data", "metadata": {"name": "t-0"}, "status": {"ready": true},
        "spec": {"metaData": {"name": "m-metadata"}}});
    seen.data = Some(with(data, &json!({})));
    let plan = plan(&seen);
    let is_release = |effect: &Effect| matches!(effect, Effect::DeleteClaim(_));
    assert_eq!(plan.effects.iter().any(is_release), is_let_go, "{:?}", plan.effects);
    let (holds, _, message) = said(status(&plan), "Metal3DataReady");
    assert_eq!(holds, !is_let_go);
    assert!(
        !is_let_go || message == "waiting until the earlier Metal3DataClaim m is gone",
        "{message}"
    );
}

#[test]
fn a_claim_whose_name_was_not_stored_is_found_again() {
    let mut seen = seen(&json!({}));
    seen.host = Host::Ours(host(&told("provisioning")));
    let plan = plan(&seen);
    let Effect::Machine(change) = &plan.effects[0] else {
        panic!()
    };
    assert_eq!(change["metadata"]["annotations"]["metal3.io/BareMetalHost"], "ns/h");
    let of_cluster = Effect::LabelSecret {
        secret: "bmc".into(),
        cluster: "c".into(),
    };
    assert_eq!(plan.effects[1..], [of_cluster], "the claim came last before the end");
}

#[test]
fn addresses_are_given_once_and_not_more_than_fit() {
    let mut of_host = told("provisioned");
    let nics: Vec<Value> = (0..80)
        .map(|n| json!({"name": "e", "ip": format!("192.0.2.{}", n / 2)}))
        .collect();
    of_host["status"]["hardware"] = json!({"hostname": "n", "nics": nics});
    let plan = plan(&with_host(&json!({}), &of_host));
    let addresses = &status(&plan).addresses;
    assert_eq!((addresses.len(), addresses[1].address.as_str()), (32, "192.0.2.1"));
    let types: Vec<&str> = addresses[30..].iter().map(|address| address.type_.as_str()).collect();
    assert_eq!(types, ["Hostname", "InternalDNS"]);
}

#[test]
fn a_pause_of_ours_ends_with_that_of_the_cluster_and_nobody_elses() {
    let paused = |by: &str, cluster: &str| {
        let mut of_host = told("provisioning");
        of_host["metadata"] = json!({"labels": {"cluster.x-k8s.io/cluster-name": cluster},
            "annotations": {"baremetalhost.metal3.io/paused": by, "clusterctl.cluster.x-k8s.io/block-move": null}});
        plan(&with_host(&json!({}), &of_host))
    };
    let annotations = json!({"baremetalhost.metal3.io/paused": null, "clusterctl.cluster.x-k8s.io/block-move": ""});
    assert_eq!(
        host_patch(&paused("metal3.io/capm3", "c"))["metadata"]["annotations"],
        annotations
    );
    assert_eq!(paused("me", "c").effects, []);
    assert_eq!(paused("metal3.io/capm3", "other").effects, []);
}

#[test]
fn a_host_moves_with_its_status_whoever_has_paused_it() {
    let held = |annotations: &Value| {
        let mut of_host = told("provisioned");
        of_host["metadata"] = json!({"annotations": annotations});
        let mut seen = with_host(&json!({}), &of_host);
        seen.cluster = cluster(&json!({"spec": {"paused": true}}));
        plan(&seen)
    };
    let key = "baremetalhost.metal3.io/status";
    let mut of_plan = host_patch(&held(&json!({})))["metadata"]["annotations"].clone();
    let status = of_plan[key].take();
    let state: Value = serde_json::from_str(status.as_str().unwrap()).unwrap();
    assert_eq!(state["provisioning"]["state"], "provisioned");
    let moved = json!({"clusterctl.cluster.x-k8s.io/block-move": null, "baremetalhost.metal3.io/paused": "metal3.io/capm3",
        key: null});
    assert_eq!(of_plan, moved);

    let by_a_user = json!({"baremetalhost.metal3.io/paused": "me"});
    let of_user = json!({"clusterctl.cluster.x-k8s.io/block-move": null, key: status});
    assert_eq!(host_patch(&held(&by_a_user))["metadata"]["annotations"], of_user);
    let all =
        json!({"baremetalhost.metal3.io/paused": "me", "clusterctl.cluster.x-k8s.io/block-move": null, key: status});
    assert_eq!(held(&all).effects, [], "once");
}

#[test]
fn a_host_that_is_to_be_told_waits_for_its_secrets() {
    let mut seen = with_host(&json!({}), &json!({}));
    seen.looks.secrets = None;
    assert!(matches!(decide(&seen, now()), Decision::Look(Need::Secrets(_))));
    seen.looks.secrets = Some([("b".to_owned(), false)].into());
    let plan = plan(&seen);
    assert_eq!(plan.effects, []);
    assert!(said(status(&plan), "Ready").2.starts_with("Secret b, named by"));
}

#[rstest]
#[case::asked_now("2026-01-01T00:00:00Z", json!({}), Some(10))]
#[case::asked_a_while_ago("2025-12-31T23:59:56Z", json!({}), Some(6))]
#[case::asked_long_ago("2025-12-31T23:59:50Z", json!({}), None)]
#[case::by_a_clock_that_is_ahead("2026-01-01T00:00:02Z", json!({}), None)]
#[case::refused("2026-01-01T00:00:00Z", json!({"errorMessage": "no such template"}), None)]
fn a_short_wait_for_data_is_not_told(#[case] asked: &str, #[case] status: Value, #[case] patience: Option<u64>) {
    let spec = json!({"spec": {"dataTemplate": {"name": "t", "namespace": "ns"}}});
    let mut choosing = seen(&spec);
    choosing.looks.selection = chosen(free(), false);
    assert_eq!(plan(&choosing).patience, Some(Duration::from_secs(10)));

    let mut waiting = with_host(&spec, &json!({}));
    waiting.claim = Some(claim(
        &json!({"metadata": {"creationTimestamp": asked}, "status": status}),
    ));
    let plan = plan(&waiting);
    assert_eq!(plan.patience, patience.map(Duration::from_secs));
    assert!(!said(super::status(&plan), "Metal3DataReady").0);
}
