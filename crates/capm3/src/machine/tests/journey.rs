//! From a claim to a machine that is ready.

use std::time::Duration;

use metal3_api::infra::v1beta2::ObjectRef;
use metal3_runtime::controller::Next;
use rstest::rstest;

use super::*;
use crate::machine::decide::Read;

#[test]
fn a_claim_is_one_write_over_the_version_that_was_judged_and_is_reported_at_once() {
    let mut seen = seen(&json!({"metadata": {"finalizers": null}, "spec": {"automatedCleaningMode": "disabled"}}));
    seen.owner = owner(&json!({"spec": {"failureDomain": "a"}}));
    seen.reads.choice = chosen(free(), false);
    let plan = plan(&seen);
    let steps = [
        "store the choice of a host",
        "claim the host",
        "label the Secret of the host's BMC",
    ];
    assert_eq!(labels(&plan), steps);
    let Effect::Machine(choice) = &plan.effects[0] else {
        panic!()
    };
    let expected = json!({
        "metadata": {"resourceVersion": "7", "finalizers": [FINALIZER],
            "annotations": {"metal3.io/BareMetalHost": "ns/h"}},
        "spec": {"failureDomain": "a"},
    });
    assert_eq!(choice, &expected);
    let expected = json!({
        "metadata": {"resourceVersion": "5",
            "labels": {"cluster.x-k8s.io/cluster-name": "c", "infrastructure.cluster.x-k8s.io/node-reuse": null},
            "annotations": {"clusterctl.cluster.x-k8s.io/block-move": ""}},
        "spec": {
            "consumerRef": {"apiVersion": HERE, "kind": "Metal3Machine", "namespace": "ns", "name": "m", "uid": "u-m"},
            "automatedCleaningMode": "disabled",
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
    let messages: Vec<&str> = plan.report.events.iter().map(|event| event.message.as_str()).collect();
    assert_eq!(messages, ["BareMetalHost h was claimed, one of 3 looked at"]);
    assert_eq!(plan.next, Next::Now);
}

/// Until then another process may point it at a different host.
#[test]
fn a_host_is_told_what_to_run_when_the_status_says_whose_it_is() {
    let untold = plan(&with_host(&json!({"status": null}), &json!({})));
    assert_eq!(labels(&untold), ["label the Secret of the host's BMC"]);
    assert!(said(status(&untold), "AssociateBareMetalHost").0);
    assert_eq!(untold.next, Next::Now);

    let told = plan(&with_host(&json!({}), &json!({})));
    let image = json!({"url": "http://i", "checksum": "abc", "checksumType": "sha256", "format": "raw"});
    let installed = json!({"image": image, "given": {"userData": "b"}}).to_string();
    let expected = json!({
        "metadata": {"resourceVersion": "5", "annotations": {"infrastructure.cluster.x-k8s.io/installed": installed}},
        "spec": {"image": image, "customDeploy": null, "online": true, "userData": {"name": "b", "namespace": "ns"}},
    });
    assert_eq!(host_patch(&told), &expected);
    assert_eq!(status(&told).user_data.as_ref().unwrap().name, "b");
}

#[test]
fn a_kept_host_is_said_to_be_one() {
    let mut seen = seen(&json!({}));
    seen.reads.choice = chosen(free(), true);
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
    choosing.reads.choice = chosen(free(), false);
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
        claim.spec.template,
        ObjectRef {
            name: "t".to_owned(),
            namespace: "ns".into()
        }
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
    // Then nothing more.
    let after = json!({"metadata": {"annotations": {}}, "spec": {"providerID": "metal3://ns/h/m"},
        "status": serde_json::to_value(status).unwrap()});
    let after = super::plan(&with_host(&after, &told("provisioned")));
    assert_eq!(
        (after.effects.len(), after.report.status, after.report.events.len()),
        (0, None, 0)
    );
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

// OWN 16c: a machine whose data claim was lost got new data, with other addresses than its host uses.
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
    assert!(
        plan.report
            .events
            .iter()
            .any(|event| event.reason == "Metal3DataClaimMissing")
    );
}

fn asks(plan: &Plan) -> bool {
    let is_claim = |effect: &Effect| matches!(effect, Effect::CreateClaim(_));
    plan.effects.iter().any(is_claim)
}

/// Cluster API may give a machine a template in place. Its host runs without one.
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

/// The machine held it for ever while waiting for its removal.
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
    seen.reads.secrets = None;
    assert!(matches!(decide(&seen, now()), Decision::Fetch(Read::Secrets(_))));
    seen.reads.secrets = Some([("b".to_owned(), false)].into());
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
fn the_steps_to_data_are_reported_if_they_take_long(
    #[case] asked: &str,
    #[case] status: Value,
    #[case] left: Option<u64>,
) {
    let spec = json!({"spec": {"dataTemplate": {"name": "t", "namespace": "ns"}}});
    let is_brief = |plan: &Plan| {
        let (holds, _, message) = said(super::status(plan), "Metal3DataReady");
        assert!(!holds);
        message == "waiting for Metal3DataTemplate t to render the data"
    };
    let mut choosing = seen(&spec);
    choosing.reads.choice = chosen(free(), false);
    assert!(is_brief(&plan(&choosing)));

    let mut waiting = with_host(&spec, &json!({}));
    waiting.claim = Some(claim(
        &json!({"metadata": {"creationTimestamp": asked}, "status": status}),
    ));
    let plan = plan(&waiting);
    let next = left.map_or(Next::Change, |seconds| Next::After(Duration::from_secs(seconds)));
    assert_eq!((plan.next, is_brief(&plan)), (next, left.is_some()));
}
