use rstest::rstest;
use serde_json::json;

use metal3_runtime::controller::Controller as _;
use metal3_runtime::store::Sink as _;

use super::*;
use crate::firmware_components::FirmwareComponents;
use crate::firmware_settings::FirmwareSettings;
use crate::host::context::out_of_reach;

fn around(state: &str, operational: &str, node: &str, since: &str) -> Surroundings {
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "namespace": "n", "uid": "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01"}, "spec": {"online": true},
        "status": {"provisioning": {"state": state, "ID": "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01"}, "operationalStatus": operational}});
    let node = json!({"uuid": "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01", "name": "n~h", "provision_state": node,
        "provision_updated_at": since});
    let mut around = Surroundings {
        host: Arc::new(serde_json::from_value(host).unwrap()),
        node: NodeView::Listed(Arc::new(serde_json::from_value(node).unwrap())),
        last_look: None,
        is_unproven: false,
    };
    let question = Question {
        is_open: true,
        is_early: true,
    };
    // As if it had been looked at when its state changed the first time.
    around.last_look = around.due(question).map(|(_, look)| look.replace(since, "1"));
    around
}

/// Looked at at 1: when is Ironic asked again?
#[rstest]
#[case::nothing_happened("available", "OK", "manageable", "1", false)]
#[case::another_state("available", "OK", "manageable", "2", true)]
#[case::an_operation_runs("available", "OK", "clean wait", "2", false)]
#[case::deployed("provisioned", "OK", "active", "2", true)]
#[case::the_host_is_prepared("preparing", "OK", "manageable", "2", false)]
#[case::the_host_is_serviced("provisioned", "servicing", "active", "2", false)]
#[case::before_inspection("inspecting", "OK", "manageable", "2", false)]
fn ironic_is_asked_when_the_state_of_the_node_has_changed(
    #[case] state: &str,
    #[case] operational: &str,
    #[case] node: &str,
    #[case] since: &str,
    #[case] is_due: bool,
) {
    let question = Question {
        is_open: false,
        is_early: false,
    };
    assert_eq!(around(state, operational, node, since).due(question).is_some(), is_due);
}

/// An edit is compared at once, also while the node is busy: a user may take back what fails.
#[rstest]
#[case::at_rest("available", "OK", "manageable", true)]
#[case::prepared("preparing", "OK", "manageable", true)]
#[case::service_fails("provisioned", "servicing", "service failed", true)]
#[case::service_waits("provisioned", "servicing", "service wait", true)]
#[case::unverified("registering", "OK", "verifying", false)]
#[case::before_inspection("inspecting", "OK", "manageable", false)]
fn an_edit_is_compared_at_once(
    #[case] state: &str,
    #[case] operational: &str,
    #[case] node: &str,
    #[case] is_due: bool,
) {
    let question = Question {
        is_open: true,
        is_early: false,
    };
    assert_eq!(around(state, operational, node, "1").due(question).is_some(), is_due);
}

#[test]
fn a_node_of_another_is_not_looked_at() {
    let mut around = around("available", "OK", "manageable", "2");
    let other = json!({"uuid": "another", "name": "n~other", "provision_state": "manageable"});
    around.node = NodeView::Listed(Arc::new(serde_json::from_value(other).unwrap()));
    let question = Question {
        is_open: true,
        is_early: true,
    };
    assert!(around.due(question).is_none());
}

#[rstest]
#[case::new("", json!({}), false)]
#[case::unmanaged("unmanaged", json!({}), false)]
#[case::registering("registering", json!({}), true)]
#[case::available("available", json!({}), true)]
#[case::paused("available", json!({"annotations": {"baremetalhost.metal3.io/paused": ""}}), false)]
#[case::detached("available", json!({"annotations": {"baremetalhost.metal3.io/detached": ""}}), false)]
#[case::deleted("available", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), false)]
fn managed_hosts_have_companions(#[case] state: &str, #[case] metadata: serde_json::Value, #[case] expected: bool) {
    let mut around = around("available", "OK", "manageable", "1");
    let mut host = serde_json::to_value(&*around.host).unwrap();
    json_patch::merge(&mut host["metadata"], &metadata);
    host["status"]["provisioning"]["state"] = json!(state);
    around.host = Arc::new(serde_json::from_value(host).unwrap());
    assert_eq!(around.has_companions(), expected);
}

#[test]
fn a_host_that_is_created_anew_is_looked_at_again() {
    let looks = Looks::default();
    let mut host = (*around("available", "OK", "manageable", "1").host).clone();
    looks.done(&host, "look".to_owned());
    let key = ObjectKey::of(&host);
    assert_eq!(looks.last(&key, &host).as_deref(), Some("look"));
    host.metadata.uid = Some("another".to_owned());
    assert_eq!(looks.last(&key, &host), None);
}

/// A schema is not collected between the look at a host and the write of its status.
#[test]
fn an_expected_schema_is_expected_until_it_is_stored() {
    let looks = Looks::default();
    let host = around("available", "OK", "manageable", "1").host;
    let (key, schema) = (ObjectKey::of(&*host), ObjectKey::new("n", "schema-0123abcd"));
    looks.expect_schema(&key, schema.clone());
    assert_eq!(looks.expecting(&schema), [key]);
    looks.done(&host, "look".to_owned());
    assert_eq!(looks.expecting(&schema), []);
}

// OWN 31vk: the host waited with the words that its settings had not been compared yet, whatever kept that.
#[tokio::test]
async fn a_failed_look_is_told_to_the_host_until_one_succeeds() {
    let (ctx, _registry) = out_of_reach(1);
    let key = ObjectKey::new("n", "h");
    let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h", "namespace": "n", "uid": "u"},
        "spec": {"online": true}});
    ctx.hosts.put(serde_json::from_value(host).unwrap());
    let woken = Arc::new(Mutex::new(0));
    let count = woken.clone();
    ctx.companions.listen(move |_| *count.lock() += 1);
    let failed = |code: u16, reason: &str| {
        let status = kube::core::Status::failure("the words", reason).with_code(code);
        Err(ReconcileError::Report(kube::Error::Api(Box::new(status))))
    };
    let ended = |done| {
        super::ended(&ctx, &key, |trouble| &mut trouble.settings, &done);
        let told = ctx.companions.trouble(&key).settings;
        (told.is_some_and(|words| words.contains("the words")), *woken.lock())
    };
    assert_eq!(ended(failed(409, "Conflict")), (false, 0), "tried again at once");
    assert_eq!(ended(failed(403, "Forbidden")), (true, 1));
    assert_eq!(ended(failed(403, "Forbidden")), (true, 1), "told once");
    assert_eq!(ended(Ok(Next::Change)), (false, 2));
}

// OWN 31ue: a HostFirmwareSettings whose status somebody had emptied, such as by a restore, was not looked at again until its node
// changed, and its host was not provisioned.
#[rstest]
#[case::emptied(json!(null), 1)]
#[case::of_another_generation(json!({"conditions": [{"type": "ChangeDetected", "status": "False", "observedGeneration": 1}]}), 1)]
#[case::as_written(json!({"conditions": [{"type": "ChangeDetected", "status": "False", "observedGeneration": 2}]}), 0)]
#[tokio::test]
async fn firmware_objects_of_which_nothing_is_said_are_looked_at(
    #[case] status: serde_json::Value,
    #[case] woken: usize,
) {
    let (ctx, _registry) = out_of_reach(1);
    let ctx = Arc::new(ctx);
    let (settings, components) = (Queue::new(), Queue::new());
    FirmwareSettings::new(ctx.clone(), Looks::default()).listen(&settings);
    FirmwareComponents::new(ctx.clone()).listen(&components);
    let object = |version: &str, kind: &str, wish: &str, status: &serde_json::Value| {
        let mut status = status.clone();
        let conditions = status.get_mut("conditions").and_then(|found| found.as_array_mut());
        for condition in conditions.into_iter().flatten() {
            json_patch::merge(
                condition,
                &json!({"reason": "Success", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
            );
        }
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": "h", "namespace": "n", "uid": "u", "generation": 2,
                "resourceVersion": version},
            "spec": {wish: if wish == "settings" { json!({"A": "1"}) } else { json!([{"component": "bios", "url": "http://f/1"}]) }},
            "status": status})
    };
    let before = json!({"conditions": [{"type": "ChangeDetected", "status": "False", "observedGeneration": 2}]});
    let put = |version: &str, status: &serde_json::Value| {
        let one = object(version, "HostFirmwareSettings", "settings", status);
        ctx.companions.settings.put(serde_json::from_value(one).unwrap());
        let other = object(version, "HostFirmwareComponents", "updates", status);
        ctx.companions.updates.put(serde_json::from_value(other).unwrap());
    };
    put("1", &before);
    for queue in [&settings, &components] {
        let stop = tokio_util::sync::CancellationToken::new();
        let ended = stop.clone();
        queue.push(ObjectKey::new("n", "h"));
        let work = move |_| {
            ended.cancel();
            std::future::ready(None)
        };
        queue.run(1, stop, work).await;
    }
    put("2", &status);
    assert_eq!([settings.len(), components.len()], [woken; 2]);
}
