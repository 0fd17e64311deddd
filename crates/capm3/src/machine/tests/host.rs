//! Host states, and how other controllers' changes are handled.

use rstest::rstest;

use super::*;

#[rstest]
#[case::image(json!({"status": {"conditions": [waiting("InvalidImage", "spec.image.url is no URL")]}}),
    "it is available; spec.image.url is no URL")]
#[case::on_its_way(json!({"status": {"conditions": [waiting("Queued", "third in the queue")]}}), "it is provisioning")]
#[case::paused(json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": "me"}},
    "status": {"conditions": [waiting("InvalidImage", "of then")]}}),
    "it is available; its annotation baremetalhost.metal3.io/paused keeps it from going on")]
#[case::detached(json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": ""}}}),
    "it is available; its annotation baremetalhost.metal3.io/detached keeps it from going on")]
#[case::deleted(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "it is available; it is being deleted")]
#[case::failed(json!({"status": {"errorMessage": "no disk", "conditions": [waiting("BackOff", "again at 12:00")]}}),
    "error: no disk; again at 12:00")]
fn what_the_host_waits_for_is_said_by_the_machine(#[case] of_host: Value, #[case] words: &str) {
    let mut host = told("available");
    merge(&mut host, &of_host);
    let plan = plan(&with_host(&json!({}), &host));
    let (holds, _, message) = said(status(&plan), "Ready");
    assert!(!holds && message.ends_with(words), "{message}");
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"type": "Waiting", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

#[rstest]
#[case::image("provisioned", json!({"image": {"url": "http://other"}}), false,
    "spec.image.url is http://other instead of http://i")]
#[case::checksum("provisioning", json!({"image": {"checksum": "def"}}), false,
    "spec.image.checksum is def instead of abc")]
#[case::deploy("provisioned", json!({"customDeploy": {"method": "x"}}), false,
    "spec.customDeploy.method is x instead of nothing")]
#[case::data_on_its_way("provisioning", json!({"userData": {"name": "x"}}), false, "spec.userData is x instead of b")]
#[case::data_of_what_runs("provisioned", json!({"networkData": null}), true,
    "spec.networkData is nothing instead of net")]
fn a_host_that_is_told_something_else_is_reported_and_left_alone(
    #[case] state: &str,
    #[case] edit: Value,
    #[case] is_ready: bool,
    #[case] words: &str,
) {
    let mut of_host = told(state);
    merge(&mut of_host, &json!({"spec": {"networkData": {"name": "net"}}}));
    merge(&mut of_host, &json!({"spec": edit}));
    let mut of_machine = json!({"spec": {"providerID": "metal3://ns/h/m", "networkData": {"name": "net"}}});
    let plan = plan(&with_host(&of_machine, &of_host));
    assert_eq!(plan.effects, [], "nothing is overwritten");
    let changed: Vec<_> = plan
        .report
        .events
        .iter()
        .filter(|event| event.reason == "BareMetalHostChanged")
        .collect();
    assert!(
        changed.len() == 1 && changed[0].message.contains(words),
        "{:?}",
        plan.report.events
    );
    let (holds, reason, message) = said(status(&plan), "Ready");
    assert_eq!((holds, reason == "BareMetalHostChanged"), (is_ready, !is_ready));
    assert!(
        message.contains(words) && message.contains("delete Machine owner"),
        "{message}"
    );
    assert_eq!(
        status(&plan).user_data,
        None,
        "what is in use is not claimed to be what is wanted"
    );
    // Reported once.
    of_machine["status"] = serde_json::to_value(status(&plan)).unwrap();
    let again = super::plan(&with_host(&of_machine, &of_host));
    assert_eq!((again.report.status, again.report.events.len()), (None, 0));
}

#[test]
fn a_host_as_upstream_has_written_it_is_as_it_is_wanted() {
    let mut of_host = told("provisioned");
    let upstreams =
        json!({"spec": {"image": {"checksumType": "", "format": ""}, "networkData": {"name": "of-before"}}});
    merge(&mut of_host, &upstreams);
    let mut seen = with_host(&json!({}), &of_host);
    seen.machine = machine(
        &json!({"metadata": {"annotations": {"metal3.io/BareMetalHost": "ns/h"}},
        "spec": {"providerID": "metal3://ns/h/m", "image": {"checksumType": null, "diskFormat": null}}}),
    );
    let plan = plan(&seen);
    assert_eq!(
        (plan.report.events.len(), said(status(&plan), "Ready")),
        (1, (true, "Ready", "")),
        "{:?}",
        plan.report.events
    );
}

#[rstest]
#[case::of_before_a_move("old", Some(json!({"consumerRef": {"uid": "u-m"}})))]
#[case::its_own("u-m", None)]
#[case::upstreams("", None)]
fn a_host_names_the_machine_as_it_is_now(#[case] uid: &str, #[case] change: Option<Value>) {
    let mut of_host = told("provisioned");
    of_host["spec"]["consumerRef"] = json!({"uid": uid});
    let plan = plan(&with_host(&json!({}), &of_host));
    let patches = plan.effects.iter().filter_map(|effect| match effect {
        Effect::Host { patch, .. } => Some(patch["spec"].clone()),
        _ => None,
    });
    assert_eq!(patches.collect::<Vec<_>>(), change.into_iter().collect::<Vec<_>>());
}

/// A host that was told to install this image for its machine, and runs it.
fn runs(url: &str) -> Value {
    let image = json!({"url": url, "checksum": "abc", "checksumType": "sha256", "format": "raw"});
    let mut host = told("provisioned");
    merge(
        &mut host,
        &json!({"spec": {"image": image}, "metadata": {"annotations": {
        "infrastructure.cluster.x-k8s.io/installed": json!({"image": image}).to_string()}}}),
    );
    host
}

/// The machine requesting `http://i`, with its ID and the stored results of a plan.
fn asking(status: Option<&Metal3MachineStatus>) -> Value {
    let mut machine = json!({"spec": {"providerID": "metal3://ns/h/m"}});
    if let Some(status) = status {
        machine["status"] = json!(status);
    }
    machine
}

// OWN 11: a machine updated in place by Cluster API was no longer ready.
#[rstest]
#[case::told_by_us(runs("http://before"))]
#[case::told_by_an_earlier_version({
    let mut host = runs("http://before");
    let deployed = host["spec"]["image"].clone();
    merge(&mut host, &json!({"metadata": {"annotations": {"infrastructure.cluster.x-k8s.io/installed": null}},
        "status": {"provisioning": {"image": deployed}}}));
    host
})]
fn a_machine_that_is_changed_later_stays_ready_and_says_so(#[case] host: Value) {
    let plan = plan(&with_host(&asking(None), &host));
    assert_eq!(plan.effects, [], "nothing is installed anew");
    assert!(said(status(&plan), "Ready").0);
    let (holds, reason, message) = said(status(&plan), "HostUpToDate");
    assert_eq!((holds, reason), (false, "MachineSpecChanged"));
    assert!(
        message.contains("spec.image.url is http://i instead of http://before"),
        "{message}"
    );
    let told = |plan: &Plan| {
        plan.report
            .events
            .iter()
            .filter(|event| event.reason == "MachineSpecChanged")
            .count()
    };
    assert_eq!(told(&plan), 1);
    let again = super::plan(&with_host(&asking(Some(status(&plan))), &host));
    assert_eq!((again.report.status, told(&plan)), (None, 1), "told once");

    // Changed back: nothing to report.
    let mut back = runs("http://i");
    back["metadata"]["annotations"]["infrastructure.cluster.x-k8s.io/installed"] =
        json!(json!({"image": back["spec"]["image"]}).to_string());
    let plan = super::plan(&with_host(&asking(Some(status(&plan))), &back));
    assert!(
        status(&plan)
            .conditions
            .iter()
            .all(|condition| condition.type_ != "HostUpToDate")
    );
}

// OWN 11b: the same happened with the data for the installed system, which also stayed on the host after the machine.
#[rstest]
#[case::running("provisioned")]
#[case::on_its_way("provisioning")]
fn data_that_a_machine_is_given_later_are_not_an_edit_of_the_host(#[case] state: &str) {
    let mut host = told(state);
    let image = host["spec"]["image"].clone();
    let given = json!({"userData": "b", "networkData": "before"});
    merge(
        &mut host,
        &json!({"spec": {"networkData": {"name": "before", "namespace": "ns"}}, "metadata": {"annotations": {
        "infrastructure.cluster.x-k8s.io/installed": json!({"image": image, "given": given}).to_string()}}}),
    );
    let now = json!({"spec": {"providerID": "metal3://ns/h/m", "networkData": {"name": "now"}}});
    let seen = with_host(&now, &host);
    let plan = plan(&seen);
    assert_eq!(plan.effects, []);
    assert!(
        plan.report
            .events
            .iter()
            .all(|event| event.reason != "BareMetalHostChanged"),
        "{:?}",
        plan.report.events
    );
    let (_, reason, message) = said(status(&plan), "HostUpToDate");
    let words = "spec.networkData is now instead of before";
    assert!(reason == "MachineSpecChanged" && message.contains(words), "{message}");
    assert_eq!(
        status(&plan).network_data.as_ref().unwrap().name,
        "before",
        "this is what is in use"
    );

    // After a move the status is gone. The next machine must not get the data of this one.
    let mut going = with_host(&now, &host);
    let mut machine = (*going.machine).clone();
    machine.status = None;
    machine.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    going.machine = Arc::new(machine);
    let cleared = super::plan(&going);
    assert_eq!(host_patch(&cleared)["spec"]["networkData"], Value::Null);
    assert!(host_patch(&cleared)["spec"].get("networkData").is_some());
}

#[test]
fn an_edit_of_the_host_counts_also_where_the_machine_was_changed() {
    let mut host = runs("http://before");
    host["spec"]["image"]["url"] = json!("http://i");
    let plan = plan(&with_host(&asking(None), &host));
    let (holds, reason, message) = said(status(&plan), "Ready");
    assert_eq!((holds, reason), (false, "BareMetalHostChanged"));
    assert!(
        message.contains("spec.image.url is http://i instead of http://before"),
        "{message}"
    );
}
