//! What a machine without a host waits for.

use metal3_runtime::controller::Next;
use metal3_runtime::store::ObjectKey;
use rstest::rstest;

use super::*;
use crate::machine::decide::Read;
use crate::machine::host_seen;
use crate::stores::Stores;

const ASSOCIATED: &str = "AssociateBareMetalHost";

type Change = fn(&mut Observed);

#[rstest]
#[case::owner(|seen: &mut Observed| seen.owner = Related::Unset,
    "WaitingForMetal3MachineOwnerRef", "WaitingForM3MachineOwnerRef", "names the Machine")]
#[case::owner_gone(|seen: &mut Observed| seen.owner = Related::Missing("x".into()),
    "WaitingForMetal3MachineOwnerRef", "WaitingForM3MachineOwnerRef", "Machine x, does not exist")]
#[case::no_cluster(|seen: &mut Observed| seen.cluster = Related::Unset,
    "WaitingForClusterInfrastructureReady", "WaitingForClusterInfrastructure", "names no Cluster")]
#[case::cluster_gone(|seen: &mut Observed| seen.cluster = Related::Missing("c".into()),
    "WaitingForClusterInfrastructureReady", "WaitingForClusterInfrastructure", "Cluster c does not exist")]
#[case::infrastructure(|seen: &mut Observed| seen.cluster = cluster(&json!({"status": null})),
    "WaitingForClusterInfrastructureReady", "WaitingForClusterInfrastructure", "infrastructure of Cluster c")]
#[case::metal3_cluster(|seen: &mut Observed| seen.metal3_cluster = Related::Missing("c".into()),
    "WaitingforMetal3Cluster", "WaitingforMetal3Cluster", "Metal3Cluster c does not exist")]
#[case::bootstrap(
    |seen: &mut Observed| seen.owner = owner(&json!({"spec": {"bootstrap": {"dataSecretName": null, "configRef": {"kind": "K", "name": "k"}}}})),
    "WaitingForBootstrapData", "WaitingForBootstrapReady", "the bootstrap data of K k")]
#[case::no_bootstrap(|seen: &mut Observed| seen.owner = owner(&json!({"spec": {"bootstrap": {"dataSecretName": null}}})),
    "WaitingForBootstrapData", "WaitingForBootstrapReady", "set spec.bootstrap.dataSecretName or spec.bootstrap.configRef")]
#[case::deleted(|seen: &mut Observed| seen.owner = owner(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
    "WaitingForBootstrapData", "WaitingForBootstrapReady", "is being deleted")]
#[case::secret(|seen: &mut Observed| seen.reads.secrets = Some([("b".to_owned(), false)].into()),
    "WaitingForBootstrapData", "WaitingForBootstrapReady", "Secret b, named by")]
fn waits_are_said_in_both_styles(
    #[case] change: Change,
    #[case] reason: &str,
    #[case] old_reason: &str,
    #[case] words: &str,
) {
    let mut seen = seen(&json!({}));
    seen.reads.choice = chosen(free(), false);
    change(&mut seen);
    let plan = plan(&seen);
    assert_eq!((plan.effects.len(), plan.report.events.len()), (0, 0));
    let status = status(&plan);
    for type_ in [ASSOCIATED, "Ready"] {
        let (holds, said_reason, message) = said(status, type_);
        assert_eq!((holds, said_reason), (false, reason));
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(legacy(status, "AssociateBMH"), ("False", "Info", old_reason));
    assert_eq!(legacy(status, "Ready").2, old_reason);
    assert_eq!(status.deprecated.v1beta1.failure_reason, "");
}

/// Ironic checks these in another way, or not at all.
#[rstest]
#[case::oci(json!({"url": "oci://registry/image", "checksum": null, "checksumType": null, "diskFormat": null}))]
#[case::live(json!({"checksum": null, "checksumType": null, "diskFormat": "live-iso"}))]
fn an_image_that_needs_no_checksum_has_none(#[case] image: Value) {
    let mut seen = with_host(&json!({}), &json!({}));
    let spec = machine(&json!({"spec": {"image": image}})).spec.clone();
    Arc::make_mut(&mut seen.machine).spec = spec;
    let told = host_patch(&plan(&seen))["spec"]["image"].clone();
    assert!(
        told["url"].is_string() && told["checksum"].as_str().unwrap_or_default().is_empty(),
        "{told}"
    );
}

#[rstest]
#[case(json!({"hostSelector": {"matchExpressions": [{"key": "a", "operator": "near", "values": []}]}}), "matchExpressions[0].operator")]
#[case(json!({"image": null}), "set spec.image or spec.customDeploy")]
#[case(json!({"image": {"checksum": null}}), "spec.image: checksum is missing")]
#[case(json!({"image": {"url": "oci://r/i"}}), "spec.image: checksum must be empty for an oci image")]
#[case(json!({"metaData": {"name": "x", "namespace": "other"}}), "spec.metaData.namespace is other")]
#[case(json!({"dataTemplate": {"name": "x", "namespace": "other"}}), "spec.dataTemplate.namespace is other")]
fn what_cannot_be_done_on_any_host_is_a_failure(#[case] spec: Value, #[case] words: &str) {
    let plan = plan(&seen(&json!({"spec": spec})));
    let status = status(&plan);
    let (holds, reason, message) = said(status, ASSOCIATED);
    assert_eq!((holds, reason), (false, "AssociateBareMetalHostFailed"));
    assert!(message.contains(words), "{message}");
    let old = &status.deprecated.v1beta1;
    assert_eq!(
        (old.failure_reason.as_str(), old.failure_message.as_str()),
        ("InvalidConfiguration", message)
    );
    assert_eq!((plan.effects.len(), plan.report.events.len()), (0, 1));
    // Told once.
    let again = json!({"spec": spec, "status": serde_json::to_value(status).unwrap()});
    let again = super::plan(&seen(&again));
    assert_eq!((again.report.status, again.report.events.len()), (None, 0));
}

#[test]
fn secrets_are_looked_for_before_a_host_is_chosen() {
    let mut seen = seen(&json!({"spec": {"metaData": {"name": "meta"}, "networkData": {"name": "net"}}}));
    seen.reads.secrets = None;
    match decide(&seen, now()) {
        Decision::Fetch(Read::Secrets(names)) => assert_eq!(names, ["b", "meta", "net"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_wish_has_what_the_machine_and_its_owner_ask_for() {
    let strict = json!({"infrastructure.cluster.x-k8s.io/strict-failure-domain": "true"});
    let mut seen = seen(&json!({"metadata": {"annotations": strict}, "spec": {"failureDomain": "old"}}));
    seen.owner = owner(&json!({"spec": {"failureDomain": "a"}}));
    match decide(&seen, now()) {
        Decision::Fetch(Read::Host(request)) => {
            assert_eq!((request.uid.as_str(), request.failure_domain.as_str()), ("u-m", "a"));
            assert_eq!(
                (request.is_domain_strict, request.reuse.as_deref()),
                (true, Some("md-workers"))
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_that_names_no_host_any_more_gets_no_second_one() {
    let mut seen = seen(&json!({"spec": {"providerID": "metal3://ns/h/m"}}));
    seen.reads.choice = chosen(free(), false);
    let plan = plan(&seen);
    assert_eq!((labels(&plan), plan.report.events.len()), (vec![], 1));
    let (holds, reason, message) = said(status(&plan), "Ready");
    assert_eq!((holds, reason), (false, "AssociateBareMetalHostFailed"));
    assert!(message.contains("set it again to NAMESPACE/HOST"), "{message}");
}

#[rstest]
#[case::of_this_machine(json!({}), &["u-m"], Some("h0"))]
#[case::of_before_a_move(json!({"spec": {"providerID": "metal3://ns/h0/m"}}), &["old"], Some("h0"))]
#[case::which_of_them(json!({"spec": {"providerID": "metal3://ns/h0/m"}}), &["old", "old"], None)]
#[case::of_an_earlier_machine(json!({}), &["old"], None)]
fn a_machine_without_its_annotation_finds_the_host_that_names_it(
    #[case] other: Value,
    #[case] uids: &[&str],
    #[case] found: Option<&str>,
) {
    let stores = Stores::new("");
    for (number, uid) in uids.iter().enumerate() {
        let named = json!({"metadata": {"name": format!("h{number}")}, "spec": {"consumerRef": {"uid": uid}}});
        stores.hosts.created((*host(&named)).clone());
    }
    let expected = found.map_or(Host::None, |name| {
        Host::Ours(stores.hosts.get(&ObjectKey::new("ns", name)).unwrap())
    });
    assert_eq!(
        host_seen(&stores, &machine(&other), &ObjectKey::new("ns", "m")),
        expected
    );
}

#[rstest]
#[case::cluster(|seen: &mut Observed| seen.cluster = Related::Missing("c".into()), "Cluster c does not exist")]
#[case::no_cluster(|seen: &mut Observed| seen.cluster = Related::Unset, "names no Cluster")]
#[case::lost(|seen: &mut Observed| (seen.cluster, seen.host) = (Related::Missing("c".into()), Host::None),
    "Cluster c does not exist")]
fn nothing_is_written_while_the_cluster_is_not_seen(#[case] change: Change, #[case] words: &str) {
    let had = json!({"spec": {"providerID": "metal3://ns/h/m", "dataTemplate": {"name": "t"},
        "automatedCleaningMode": "disabled"}});
    let unmarked = json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/block-move": null}}});
    let mut seen = with_host(&had, &unmarked);
    change(&mut seen);
    let plan = plan(&seen);
    assert_eq!(plan.effects, []);
    let (holds, reason, message) = said(status(&plan), "Ready");
    assert_eq!((holds, reason), (false, "WaitingForClusterInfrastructureReady"));
    assert!(message.contains(words), "{message}");
}

#[rstest]
#[case::gone(Host::Missing("h".into()), "does not exist any more")]
#[case::free(Host::Unclaimed(free()), "lost its spec.consumerRef")]
#[case::stolen(
    Host::Foreign(free(), crate::select::Consumer { kind: "Metal3Machine".into(), name: "x".into(), is_predecessor: false }),
    "is used by Metal3Machine x now"
)]
fn a_lost_host_is_reported_and_one_that_was_never_had_is_replaced(#[case] host: Host, #[case] words: &str) {
    let named = json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "ns/h"}}});
    let mut seen = seen(&named);
    seen.host = host.clone();
    assert_eq!(decide(&seen, now()), Decision::Fetch(Read::NamedHost));
    seen.reads.is_host_fresh = true;
    if host.unclaimed().is_some() {
        assert!(
            matches!(decide(&seen, now()), Decision::Fetch(Read::Host(_))),
            "it may try again"
        );
        seen.reads.choice = Some(Choice {
            outcome: Outcome::None,
            considered: 1,
            why: String::new(),
        });
    }
    let again = super::plan(&seen);
    let unnamed = json!({"metadata": {"resourceVersion": "7", "annotations": {"metal3.io/BareMetalHost": null}}});
    assert_eq!(again.effects, [Effect::Machine(unnamed)], "it may choose again");
    assert_eq!(again.next, Next::Now);
    let mut had = named;
    had["spec"]["providerID"] = json!("metal3://ns/h/m");
    let mut seen = super::seen(&had);
    seen.host = host;
    assert!(matches!(decide(&seen, now()), Decision::Fetch(Read::NamedHost)));
    seen.reads.is_host_fresh = true;
    let plan = plan(&seen);
    assert_eq!((plan.effects.len(), plan.report.events.len()), (0, 1));
    let status = status(&plan);
    assert!(said(status, "Ready").2.contains(words), "{:?}", said(status, "Ready"));
    assert_eq!(status.deprecated.v1beta1.failure_reason, "UpdateError");
}

#[rstest]
#[case(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}}), json!({}))]
#[case(json!({"metadata": {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}}), json!({}))]
#[case(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), json!({"spec": {"paused": true}}))]
fn while_paused_only_that_is_said(#[case] other: Value, #[case] of_cluster: Value) {
    let mut seen = seen(&other);
    seen.cluster = cluster(&of_cluster);
    let plan = plan(&seen);
    assert_eq!((plan.effects.len(), status(&plan).conditions.len()), (0, 1));
    assert_eq!(said(status(&plan), "Paused").1, "Paused");
}

#[rstest]
#[case::on_the_way_to_a_host(seen(&json!({})), true)]
#[case::with_its_host(with_host(&json!({}), &json!({})), false)]
#[case::at_its_end(seen(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})), false)]
fn what_the_api_server_refuses_is_told_once(#[case] mut seen: Observed, #[case] lacks_host: bool) {
    let words = "cannot claim the host of Metal3Machine ns/m: admission webhook denied the request: no (403 Forbidden)";
    let told = refused(&seen, Refused::Write, Some(words), now());
    assert_eq!(told.events.len(), 1);
    assert_eq!(
        (told.events[0].reason, told.events[0].message.as_str()),
        ("UpdateError", words)
    );
    assert_eq!(said(stored(&told), "Ready"), (false, "UpdateError", words));
    let associated = conditions::get(&stored(&told).conditions, ASSOCIATED);
    assert_eq!(
        associated.is_some_and(|condition| condition.message == words),
        lacks_host
    );
    Arc::make_mut(&mut seen.machine).status.clone_from(&told.status);
    let is_told = |words: &str| refused(&seen, Refused::Write, Some(words), now()).is_empty();
    assert!(is_told(words), "reported once");
    assert!(!is_told(&words.replace("webhook", "policy")));
}

// OWN 31vq: another host was chosen and installed for a machine whose user had named one that runs already.
#[test]
fn a_host_that_a_user_named_and_that_runs_something_is_not_passed_over_for_another() {
    let named = json!({"metadata": {"finalizers": null, "annotations": {"metal3.io/BareMetalHost": "ns/h"}}});
    let mut seen = seen(&named);
    let running = json!({"spec": {"consumerRef": null, "image": {"url": "http://i"}}});
    seen.host = Host::Unclaimed(host(&running));
    seen.reads.is_host_fresh = true;
    seen.reads.choice = chosen(host(&json!({"metadata": {"name": "other"}})), false);
    let plan = plan(&seen);
    assert_eq!(plan.effects, []);
    let (_, reason, message) = said(status(&plan), "Ready");
    assert!(
        reason == "AssociateBareMetalHostFailed"
            && message.contains("BareMetalHost h")
            && message.contains("remove the annotation"),
        "{reason}: {message}"
    );
    // We named it, and somebody was faster: the machine goes on to another.
    Arc::make_mut(&mut seen.machine).metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    assert_eq!(super::plan(&seen).next, Next::Now);
}
