//! From a deletion to a free host.

use rstest::rstest;

use super::*;
use crate::machine::decide::Read;

fn deleted() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

/// A machine being deleted, whose host is empty and in this state.
fn emptied(state: &str) -> Observed {
    let mut seen = with_host(&deleted(), &json!({"status": {"provisioning": {"state": state}}}));
    seen.reads.is_kept = Some(false);
    seen
}

#[test]
fn the_host_is_emptied_first_whatever_else_is_missing() {
    let of_host = json!({"spec": {"image": {"url": "http://i"}, "userData": {"name": "b"}, "metaData": {"name": "m-metadata"},
        "online": true}, "status": {"provisioning": {"state": "provisioned"}}});
    let mut seen = with_host(&deleted(), &of_host);
    let changes: [fn(&mut Observed); 5] = [
        |_| (),
        |seen| seen.owner = Related::Missing("owner".into()),
        |seen| seen.cluster = Related::Missing("c".into()),
        |seen| seen.metal3_cluster = Related::Unset,
        |seen| seen.reads = Reads::default(),
    ];
    for change in changes {
        change(&mut seen);
        let plan = plan(&seen);
        assert_eq!(labels(&plan), ["deprovision the host"]);
        let gone = json!({"image": null, "userData": null, "metaData": null, "online": false});
        assert_eq!(host_patch(&plan)["spec"], gone);
        let (holds, reason, _) = said(status(&plan), "Ready");
        assert_eq!((holds, reason), (false, "Deleting"));
        assert_eq!(
            legacy(status(&plan), "KubernetesNodeReady"),
            ("False", "Info", "Deleting")
        );
    }
}

// OWN 8a: any network data and metadata of a host were removed with its machine.
#[rstest]
#[case::the_users(json!({}), "site-network", false)]
#[case::rendered(json!({}), "m-networkdata", true)]
#[case::named_by_the_machine(json!({"spec": {"networkData": {"name": "net"}}}), "net", true)]
#[case::rendered_under_another_name(json!({"status": {"networkData": {"name": "other"}}}), "other", true)]
fn only_data_of_the_machine_go_with_it(#[case] machine: Value, #[case] found: &str, #[case] is_cleared: bool) {
    let mut of_machine = deleted();
    merge(&mut of_machine, &machine);
    let of_host = json!({"spec": {"image": {"url": "http://i"}, "networkData": {"name": found},
        "metaData": {"name": "site-metadata"}}, "status": {"provisioning": {"state": "provisioned"}}});
    let plan = plan(&with_host(&of_machine, &of_host));
    let spec = host_patch(&plan)["spec"].as_object().unwrap();
    assert_eq!(
        (spec.contains_key("networkData"), spec.contains_key("metaData")),
        (is_cleared, false)
    );
}

#[rstest]
#[case(false, false, "metadata", false)]
#[case(false, true, "metadata", true)]
#[case(false, true, "disabled", false)]
#[case(true, false, "disabled", true)]
fn power_follows_what_comes_next(
    #[case] disable_power_off: bool,
    #[case] is_fast_track: bool,
    #[case] cleaning: &str,
    #[case] online: bool,
) {
    let spec = json!({"image": {"url": "http://i"}, "disablePowerOff": disable_power_off,
        "automatedCleaningMode": cleaning, "online": !online});
    let mut seen = with_host(&deleted(), &json!({"spec": spec}));
    seen.is_fast_track = is_fast_track;
    assert_eq!(host_patch(&plan(&seen))["spec"]["online"], online);
}

#[rstest]
#[case("", true)]
#[case("unmanaged", true)]
#[case("registering", true)]
#[case("match profile", true)]
#[case("inspecting", true)]
#[case("ready", true)]
#[case("available", true)]
#[case("externally provisioned", true)]
#[case("preparing", false)]
#[case("provisioning", false)]
#[case("provisioned", false)]
#[case("deprovisioning", false)]
#[case("powering off before delete", false)]
#[case("deleting", false)]
#[case("something new", false)]
fn a_host_is_given_back_when_nothing_is_left_on_it(#[case] state: &str, #[case] is_released: bool) {
    let plan = plan(&emptied(state));
    if !is_released {
        assert_eq!(plan.effects, []);
        assert!(said(status(&plan), "Ready").2.contains(state));
        return;
    }
    let steps = [
        "take the label off the Secret of the host's BMC",
        "release the host",
        "remove the finalizer",
    ];
    assert_eq!(labels(&plan), steps);
    let expected = json!({
        "metadata": {"resourceVersion": "5", "labels": {"cluster.x-k8s.io/cluster-name": null},
            "annotations": {"clusterctl.cluster.x-k8s.io/block-move": null}},
        "spec": {"consumerRef": null},
    });
    assert_eq!(host_patch(&plan), &expected);
    assert_eq!(plan.report.status, None);
}

#[rstest]
#[case::on(json!({"status": {"poweredOn": true}}), false)]
#[case::off(json!({"status": {"poweredOn": false}}), true)]
#[case::never_off(json!({"spec": {"disablePowerOff": true, "online": true}, "status": {"poweredOn": true}}), true)]
fn what_was_not_deployed_here_is_only_switched_off(#[case] other: Value, #[case] is_released: bool) {
    let mut of_host = json!({"status": {"provisioning": {"state": "externally provisioned"}}});
    merge(&mut of_host, &other);
    let mut seen = with_host(&deleted(), &of_host);
    seen.reads.is_kept = Some(false);
    assert_eq!(labels(&plan(&seen)).contains(&"release the host"), is_released);
}

#[test]
fn a_kept_host_is_held_by_the_cluster() {
    let mut seen = emptied("available");
    seen.reads.is_kept = None;
    assert!(matches!(decide(&seen, now()), Decision::Fetch(Read::Kept)));
    seen.reads.is_kept = Some(true);
    let kept = plan(&seen);
    let patch = host_patch(&kept);
    assert_eq!(
        patch["metadata"]["labels"]["infrastructure.cluster.x-k8s.io/node-reuse"],
        "md-workers"
    );
    let held = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "namespace": "ns",
        "uid": null});
    assert_eq!(patch["spec"]["consumerRef"], held);
    // Not if the cluster goes, too.
    seen.cluster = cluster(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(host_patch(&plan(&seen))["spec"]["consumerRef"], Value::Null);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let other = crate::select::Consumer {
        kind: "Metal3Machine".into(),
        name: "x".into(),
        is_predecessor: false,
    };
    for host in [
        Host::None,
        Host::Missing("h".into()),
        Host::Unclaimed(free()),
        Host::Foreign(free(), other),
    ] {
        let mut seen = seen(&deleted());
        let is_named = host != Host::None;
        seen.host = host;
        let asks = matches!(decide(&seen, now()), Decision::Fetch(Read::NamedHost));
        assert_eq!(asks, is_named, "a late watch must not lose a host");
        seen.reads.is_host_fresh = true;
        assert_eq!(labels(&plan(&seen)), ["remove the finalizer"]);
    }
    let mut seen = seen(&deleted());
    Arc::make_mut(&mut seen.machine).metadata.finalizers = None;
    assert_eq!(decide(&seen, now()), Decision::idle());
}

// OWN 31vp: the addresses of a host that lost its consumerRef were given to others while its system ran on.
#[rstest]
#[case::provisioned(json!({"spec": {"image": {"url": "http://i"}}, "status": {"provisioning": {"state": "provisioned"}}}), false)]
#[case::as_upstream_leaves_it(told("provisioned"), false)]
#[case::on_its_way_out(json!({"status": {"provisioning": {"state": "deprovisioning"}}}), false)]
#[case::emptied_by_its_user(json!({"status": {"provisioning": {"state": "available"}}}), true)]
#[case::set_up_by_another(json!({"metadata": {"annotations": {"infrastructure.cluster.x-k8s.io/installed": null}},
    "spec": {"image": {"url": "http://i"}}, "status": {"provisioning": {"state": "provisioned"}}}), true)]
fn what_a_host_without_a_consumer_still_runs_keeps_its_addresses(#[case] of_host: Value, #[case] is_free: bool) {
    let mut all = json!({"spec": {"consumerRef": null}});
    if of_host["spec"]["userData"].is_null() {
        all["metadata"] = json!({"annotations": {"infrastructure.cluster.x-k8s.io/installed": "{}"}});
    }
    merge(&mut all, &of_host);
    let mut seen = with_host(&deleted(), &json!({}));
    seen.host = Host::Unclaimed(host(&all));
    seen.claim = Some(claim(&json!({})));
    seen.reads.is_host_fresh = true;
    let plan = plan(&seen);
    if is_free {
        assert_eq!(labels(&plan), ["delete the Metal3DataClaim", "remove the finalizer"]);
    } else {
        assert_eq!(labels(&plan), [""; 0]);
        let message = said(status(&plan), "Ready").2;
        assert!(message.contains("lost its spec.consumerRef"), "{message}");
    }
}

#[test]
fn the_claim_on_data_goes_with_the_machine_if_it_is_its_own() {
    let steps = |other: Value| {
        let mut seen = seen(&deleted());
        seen.claim = Some(claim(&other));
        labels(&plan(&seen))
    };
    assert_eq!(steps(json!({})), ["delete the Metal3DataClaim", "remove the finalizer"]);
    let owned = |name: &str, uid: &str| json!({"metadata": {"ownerReferences": [{"apiVersion": HERE, "kind": "Metal3Machine", "name": name, "uid": uid}]}});
    assert_eq!(steps(owned("other", "u-o")), ["remove the finalizer"]);
    // Belongs to an earlier machine of the name.
    assert_eq!(steps(owned("m", "u-before")), ["remove the finalizer"]);
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": null}});
    assert_eq!(steps(gone), ["remove the finalizer"]);
}

#[rstest]
#[case::running("provisioned", json!({"image": {"url": "http://i"}}), &["deprovision the host"])]
#[case::on_its_way_out("deprovisioning", json!({}), &[])]
#[case::empty("available", json!({}), &["take the label off the Secret of the host's BMC", "release the host",
    "delete the Metal3DataClaim", "remove the finalizer"])]
fn addresses_are_given_back_when_nothing_runs_with_them_any_more(
    #[case] state: &str,
    #[case] spec: Value,
    #[case] steps: &[&str],
) {
    let mut seen = with_host(
        &deleted(),
        &json!({"spec": spec, "status": {"provisioning": {"state": state}}}),
    );
    seen.reads.is_kept = Some(false);
    seen.claim = Some(claim(&json!({})));
    assert_eq!(labels(&plan(&seen)), steps);
}

#[test]
fn a_host_that_moved_away_is_not_touched_at_the_place_that_it_left() {
    let of_host = json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": "metal3.io/capm3"}},
        "spec": {"image": {"url": "http://i"}}});
    let mut seen = with_host(&deleted(), &of_host);
    seen.cluster = Related::Missing("c".into());
    let plan = plan(&seen);
    assert_eq!(plan.effects, []);
    assert!(said(status(&plan), "Ready").2.contains("was paused for a move"));
}
