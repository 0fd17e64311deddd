//! What is decided for the subscriptions of a host.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::annotation::SUBSCRIBED_ON;
use metal3_ironic::Subscription;
use metal3_runtime::controller::{Decision, Next};
use metal3_runtime::events::Severity;
use metal3_runtime::store::ObjectKey;
use metal3_testkit::leaks::{self, CANARY};
use rstest::rstest;
use serde_json::{Value, json};

use super::apply::is_of_credentials;
use super::decide::{Effect, Read, decide};
use super::{Doubt, Headers, HostNode, Known, Observed, Subject, server_of};
use crate::host::ObserveError;
use crate::host::named_url::DeniedRanges;
use crate::live::Live;

const FINALIZER: &str = "bmceventsubscription.metal3.io";
const URL: &str = "https://192.0.2.9/events";

fn object(change: &Value) -> Value {
    let host: BareMetalHost = serde_json::from_value(host(&json!({})).unwrap()).unwrap();
    let mut object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BMCEventSubscription",
        "metadata": {"name": "s", "namespace": "n", "resourceVersion": "7", "finalizers": [FINALIZER],
            "annotations": {SUBSCRIBED_ON: server_of(&host)}},
        "spec": {"hostName": "h", "destination": URL, "context": "c"}});
    json_patch::merge(&mut object, change);
    object
}

fn deleted(id: &str) -> Value {
    object(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"subscriptionID": id}}))
}

/// As `clusterctl move` deletes it at the old place.
fn moved(mut object: Value) -> Value {
    object["metadata"]["annotations"][DELETE_FOR_MOVE] = json!("");
    object
}

/// With an identifier, and the annotation that says for which server it was made; `None`: without.
fn made_on(server: Option<&str>, deleted: bool) -> Value {
    let at = deleted.then_some("2026-01-01T00:00:00Z");
    object(
        &json!({"metadata": {"annotations": {SUBSCRIBED_ON: server}, "deletionTimestamp": at}, "status": {"subscriptionID": "1"}}),
    )
}

/// New to the host's server, as `kubectl apply` makes it.
fn applied() -> Value {
    object(&json!({"metadata": {"finalizers": null, "annotations": null}}))
}

fn with_headers(namespace: &str) -> Value {
    object(&json!({"spec": {"httpHeadersRef": {"name": "secret", "namespace": namespace}}}))
}

fn subject(object: Value) -> Subject {
    Subject::new(Arc::new(serde_json::from_value(object).unwrap()))
}

#[expect(clippy::unnecessary_wraps, reason = "a host may be missing")]
fn host(change: &Value) -> Option<Value> {
    let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": "h", "namespace": "n", "uid": "u"},
        "spec": {"online": true, "bmc": {"address": "redfish://b", "credentialsName": "bmc"}},
        "status": {"provisioning": {"ID": "3f1f7a52-6d0e-4c3a-9d4e-2b7a1c5e8f01"}}});
    json_patch::merge(&mut host, change);
    Some(host)
}

fn detached() -> Option<Value> {
    host(&json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": ""}}}))
}

fn found(ids: &[(&str, &str)]) -> Known {
    let one = |(id, destination): &(&str, &str)| Subscription {
        id: (*id).to_owned(),
        destination: (*destination).to_owned(),
        context: "c".to_owned(),
    };
    Known::Found(ids.iter().map(one).collect())
}

fn without_context() -> Known {
    let mut known = found(&[("1", URL)]);
    if let Known::Found(found) = &mut known {
        found[0].context.clear();
    }
    known
}

fn seen(subjects: Vec<Subject>, host: Option<Value>, known: Known) -> Observed {
    let host = host.map(|host| Arc::new(serde_json::from_value(host).unwrap()));
    Observed {
        key: ObjectKey::new("n", "h"),
        node: match HostNode::at_hand(host.as_deref()) {
            HostNode::NotLooked => HostNode::Own("node-1".to_owned()),
            known => known,
        },
        live: host.is_none().then_some(Live::Gone),
        host,
        subjects,
        known,
        headers: BTreeMap::new(),
        denied: DeniedRanges::default(),
        doubt: None,
        failure: None,
        steps: 0,
    }
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// The next thing that is done.
fn next(seen: &Observed) -> String {
    let plan = match decide(seen, now()) {
        Decision::Fetch(Read::Node) => return "look for the node".to_owned(),
        Decision::Fetch(Read::Host) => return "read the host".to_owned(),
        Decision::Fetch(Read::Known) => return "ask the BMC".to_owned(),
        Decision::Fetch(Read::Headers(name)) => return format!("read {name}"),
        Decision::Act(plan) => *plan,
    };
    // Only what goes to the BMC has the headers, and a log does not show them.
    leaks::expect_none_in_plan(&plan);
    for effect in &plan.effects {
        if let Effect::Store { status, .. } = effect {
            leaks::expect_none_in("a status", &json!(status).to_string());
        }
    }
    let (events, effects): (Vec<_>, Vec<_>) = plan
        .effects
        .into_iter()
        .partition(|effect| matches!(effect, Effect::Publish { .. }));
    let told = match &events[..] {
        [] => String::new(),
        [Effect::Publish { event, .. }] => match &effects[..] {
            // An error is told as it stands in the status.
            [Effect::Store { status, .. }] => {
                let words = if status.error.is_empty() {
                    "sends its events: subscription"
                } else {
                    &*status.error
                };
                assert!(event.message.contains(words), "{event:?}");
                assert_eq!(event.severity == Severity::Warning, !status.error.is_empty());
                String::new()
            }
            _ => format!(", {}", event.reason),
        },
        more => panic!("{more:?}"),
    };
    let done = match effects.as_slice() {
        [] if plan.next == Next::Now => "another pass".to_owned(),
        [] if plan.next != Next::Change => format!("{:?}", plan.next),
        [] => String::new(),
        [Effect::Patch { name, patch }] => {
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            let finalizers = patch["metadata"]["finalizers"].as_array().map(Vec::len);
            let is_annotated = patch["metadata"]["annotations"][SUBSCRIBED_ON].is_string();
            let what = match (finalizers, is_annotated) {
                (Some(0), false) => "release",
                (Some(_), true) => "hold and annotate",
                (Some(_), false) => "hold",
                (None, true) => "annotate",
                (None, false) => panic!("{patch}"),
            };
            format!("{what} {name}")
        }
        [Effect::Store { name, status }] => format!("{name}: {:?} {:?}", status.subscription_id, status.error),
        [Effect::Subscribe { name, node, wanted }] => {
            format!("subscribe {name} on {node}: {} headers", wanted.headers.len())
        }
        [Effect::Unsubscribe { name, node, id }] => format!("end {id} of {name} on {node}"),
        [Effect::EndSurplus { node, id, .. }] => format!("end {id} that nobody knows on {node}"),
        [Effect::Settle] => "settle".to_owned(),
        [Effect::Conclude] => "fail".to_owned(),
        more => panic!("{more:?}"),
    };
    done + &told
}

#[rstest]
#[case::new(applied(), host(&json!({})), Known::NotLooked, "hold and annotate s")]
#[case::annotated_and_not_held(object(&json!({"metadata": {"finalizers": null}})), host(&json!({})), Known::NotLooked, "hold s")]
#[case::without_host(applied(), None, Known::NotLooked, "s: \"\" \"BareMetalHost n/h does not exist\"")]
#[case::never_registered(object(&json!({})), host(&json!({"status": null})), Known::NotLooked,
    "s: \"\" \"BareMetalHost n/h has no node in Ironic\"")]
#[case::of_a_detached_host(object(&json!({})), detached(), Known::NotLooked,
    "s: \"\" \"BareMetalHost n/h has no node in Ironic\"")]
#[case::held_before_this_pass(object(&json!({})), host(&json!({})), Known::NotLooked, "ask the BMC")]
#[case::not_made(object(&json!({})), host(&json!({})), found(&[("1", "https://other/")]), "subscribe s on node-1: 0 headers")]
// OWN 30db: an operator that died before it stored the identifier made a second subscription.
#[case::made_and_not_stored(object(&json!({})), host(&json!({})), found(&[("1", URL)]), "s: \"1\" \"\"")]
// OWN 31fk: BMCs add the port and the path to a URL, and some forget the context.
#[case::made_and_rewritten(object(&json!({})), host(&json!({})), found(&[("1", "https://192.0.2.9:443/events")]), "s: \"1\" \"\"")]
#[case::made_and_given_a_path(object(&json!({"spec": {"destination": "http://192.0.2.9"}})), host(&json!({})),
    found(&[("1", "http://192.0.2.9:80/")]), "s: \"1\" \"\"")]
#[case::made_without_context(object(&json!({})), host(&json!({})), without_context(), "s: \"1\" \"\"")]
#[case::of_another_port(object(&json!({})), host(&json!({})), found(&[("1", "https://192.0.2.9:8443/events")]), "subscribe s on node-1: 0 headers")]
#[case::of_another_context(object(&json!({"spec": {"context": "d"}})), host(&json!({})), found(&[("1", URL)]), "subscribe s on node-1: 0 headers")]
#[case::not_listed(object(&json!({})), host(&json!({})), Known::Unknown("the BMC is dead".to_owned()), "s: \"\" \"the BMC is dead\"")]
#[case::not_made_and_without_node(object(&json!({})), host(&json!({})), Known::NoNode, "s: \"\" \"BareMetalHost n/h has no node in Ironic\"")]
// OWN 31fl: after each restart the BMC was asked for what is stored, for ever if it was dead.
#[case::made(object(&json!({"status": {"subscriptionID": "1"}})), host(&json!({})), Known::NotLooked, "")]
#[case::made_after_a_failure(object(&json!({"status": {"subscriptionID": "1", "error": "no"}})), host(&json!({})), Known::NotLooked, "s: \"1\" \"\"")]
#[case::made_by_upstream(made_on(None, false), host(&json!({})), Known::NotLooked, "annotate s")]
// OWN 31fi: the identifier of an earlier host's subscription was taken for one of the new host's, and ended with the object.
#[case::made_on_another_server(made_on(Some("other"), false), host(&json!({})), Known::NotLooked, "s: \"\" \"\"")]
#[case::made_for_an_earlier_host(object(&json!({"status": {"subscriptionID": "1"}})), host(&json!({"metadata": {"uid": "v"}})), Known::NotLooked, "s: \"\" \"\"")]
#[case::made_on_another_bmc(object(&json!({"status": {"subscriptionID": "1"}})), host(&json!({"spec": {"bmc": {"address": "redfish://c"}}})), Known::NotLooked, "s: \"\" \"\"")]
#[case::forgotten_and_to_be_made_here(object(&json!({"metadata": {"annotations": {SUBSCRIBED_ON: "other"}}})), host(&json!({})), Known::NotLooked, "annotate s")]
#[case::deleted_on_another_server(made_on(Some("other"), true), host(&json!({})), Known::NotLooked, "ask the BMC")]
#[case::deleted_and_not_on_this_server(made_on(Some("other"), true), host(&json!({})), found(&[("1", "https://other/")]), "release s, SubscriptionLeftOnBMC")]
#[case::made_and_host_gone(object(&json!({"status": {"subscriptionID": "1"}})), None, Known::NotLooked,
    "s: \"1\" \"BareMetalHost n/h does not exist\"")]
#[case::made_and_host_detached(object(&json!({"status": {"subscriptionID": "1"}})), detached(), Known::NotLooked,
    "s: \"1\" \"BareMetalHost n/h has no node in Ironic\"")]
// OWN 31fg: a name that a user wrote into the status led to the BMC of another host.
#[case::with_the_name_of_a_node(object(&json!({})), host(&json!({"status": {"provisioning": {"ID": "n~other"}}})), Known::NotLooked,
    "s: \"\" \"BareMetalHost n/h has no node in Ironic\"")]
#[case::deleted_with_the_name_of_a_node(deleted("1"), host(&json!({"status": {"provisioning": {"ID": "n~other"}}})), Known::NotLooked, "release s, SubscriptionLeftOnBMC")]
// OWN 30dc: a BMC was told to send events to an address that URLs may not name.
#[case::to_a_denied_address(object(&json!({"spec": {"destination": "http://169.254.169.254/"}})), host(&json!({})), Known::NotLooked,
    "s: \"\" \"spec.destination: address 169.254.169.254 is in a range that URLs may not name (--denied-url-ranges)\"")]
#[case::headers_of_another_namespace(with_headers("m"), host(&json!({})), Known::NotLooked,
    "s: \"\" \"spec.httpHeadersRef.namespace: it must be the object's own namespace\"")]
#[case::headers(with_headers("n"), host(&json!({})), Known::NotLooked, "read secret")]
// The end of one.
#[case::deleted(deleted("1"), host(&json!({})), Known::NotLooked, "end 1 of s on node-1")]
#[case::deleted_for_a_move(moved(deleted("1")), host(&json!({})), Known::NotLooked, "release s, SubscriptionLeftOnBMC")]
#[case::deleted_for_a_move_without_host(
    moved(deleted("1")),
    None,
    Known::NotLooked,
    "release s, SubscriptionLeftOnBMC"
)]
#[case::deleted_and_made_by_upstream(made_on(None, true), host(&json!({})), Known::NotLooked, "end 1 of s on node-1")]
#[case::deleted_unrecorded(deleted(""), host(&json!({})), Known::NotLooked, "ask the BMC")]
#[case::deleted_never_made(deleted(""), host(&json!({})), found(&[]), "release s")]
#[case::deleted_made_and_not_stored(deleted(""), host(&json!({})), found(&[("1", URL)]), "end 1 of s on node-1")]
#[case::deleted_unrecorded_and_not_listed(deleted(""), host(&json!({})), Known::Unknown("the BMC is dead".to_owned()), "s: \"\" \"the BMC is dead\"")]
#[case::deleted_without_node_in_ironic(deleted(""), host(&json!({})), Known::NoNode, "release s")]
// DEFECT 13: a subscription could not be deleted when its host was gone.
#[case::deleted_without_host(deleted("1"), None, Known::NotLooked, "release s, SubscriptionLeftOnBMC")]
// OWN 31vj: nobody was told that a BMC went on sending its events.
#[case::deleted_of_a_detached_host(deleted("1"), detached(), Known::NotLooked, "release s, SubscriptionLeftOnBMC")]
#[case::deleted_and_released(object(&json!({"metadata": {"finalizers": ["other"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})), host(&json!({})), Known::NotLooked, "")]
fn a_subscription(#[case] object: Value, #[case] host: Option<Value>, #[case] known: Known, #[case] expected: &str) {
    assert_eq!(next(&seen(vec![subject(object)], host, known)), expected);
}

/// What a Secret with a header holds.
fn given() -> Headers {
    Headers::Found(vec![("A".into(), format!("{CANARY}secret"))])
}

/// A Secret with the mark under each of its keys.
fn marked(mut secret: Value) -> Secret {
    for (_, value) in secret["data"].as_object_mut().unwrap() {
        *value = json!(ByteString(format!("{CANARY}secret").into_bytes()));
    }
    serde_json::from_value(secret).unwrap()
}

#[rstest]
#[case::in_a_status(Known::Unknown("the BMC repeats secret-of-secret".to_owned()), object(&json!({})))]
#[case::in_an_effect(found(&[]), object(&json!({"spec": {"context": "secret-of-secret"}})))]
#[should_panic(expected = "a secret was emitted")]
fn a_secret_that_is_told_fails_its_test(#[case] known: Known, #[case] object: Value) {
    next(&seen(vec![subject(object)], host(&json!({})), known));
}

#[rstest]
#[case(
    Headers::Missing,
    "s: \"\" \"failed to retrieve HTTP headers secret: Secret n/secret does not exist\""
)]
#[case(
    Headers::Unusable,
    "s: \"\" \"Secret n/secret: its keys and values must be names and values of HTTP headers\""
)]
#[case(
    Headers::Refused,
    "s: \"\" \"Secret n/secret is not sent to a BMC: it has the key password, userData, networkData, metaData or value, or another type than Opaque\""
)]
#[case(given(), "subscribe s on node-1: 1 headers")]
fn headers_come_from_the_secret(#[case] headers: Headers, #[case] expected: &str) {
    let mut seen = seen(vec![subject(with_headers("n"))], host(&json!({})), found(&[]));
    seen.headers.insert("secret".to_owned(), headers);
    assert_eq!(next(&seen), expected);
}

// OWN 31fh: any Secret of the namespace went to a URL of the writer's choice, credentials of BMCs included.
#[rstest]
#[case::headers(json!({"type": "Opaque", "data": {"Authorization": ""}}), false)]
#[case::without_type(json!({"data": {"X-Receiver": ""}}), false)]
#[case::of_a_bmc(json!({"type": "Opaque", "data": {"username": "", "password": ""}}), true)]
// OWN 31fj: upstream sends only Secrets with the label, and they were refused.
#[case::labelled_with_a_header(json!({"metadata": {"labels": {"environment.metal3.io": "baremetal"}}, "data": {"A": ""}}), false)]
#[case::labelled_of_a_bmc(json!({"metadata": {"labels": {"environment.metal3.io": "baremetal"}}, "data": {"username": "", "password": ""}}), true)]
#[case::user_data(json!({"type": "Opaque", "data": {"userData": ""}}), true)]
#[case::of_cluster_api(json!({"type": "cluster.x-k8s.io/secret", "data": {"value": ""}}), true)]
#[case::of_a_service_account(json!({"type": "kubernetes.io/service-account-token", "data": {"token": ""}}), true)]
fn secrets_with_credentials_are_no_headers(#[case] secret: Value, #[case] is_refused: bool) {
    assert_eq!(is_of_credentials(&marked(secret)), is_refused);
}

#[test]
fn a_subscription_of_the_bmc_belongs_to_one_object() {
    let other = object(&json!({"metadata": {"name": "r"}, "status": {"subscriptionID": "1"}}));
    let subjects = || vec![subject(other.clone()), subject(object(&json!({})))];
    let one = seen(subjects(), host(&json!({})), found(&[("1", URL)]));
    assert_eq!(next(&one), "subscribe s on node-1: 0 headers");
    let two = seen(subjects(), host(&json!({})), found(&[("1", URL), ("2", URL)]));
    assert_eq!(next(&two), "s: \"2\" \"\"");
}

#[test]
fn one_that_fails_holds_up_no_other_and_is_told_once() {
    let (mut first, second) = (subject(object(&json!({"metadata": {"name": "a"}}))), subject(applied()));
    first.failure = Some("no".to_owned());
    let mut seen = seen(vec![first, second], host(&json!({})), found(&[]));
    assert_eq!(next(&seen), "a: \"\" \"no\"");
    let told = object(&json!({"metadata": {"name": "a"}, "status": {"error": "no"}}));
    seen.subjects[0].object = Arc::new(serde_json::from_value(told).unwrap());
    assert_eq!(next(&seen), "hold and annotate s");
}

// OWN 31vc: an object that was made again, such as after a move, was taken for a new one, and the BMC sent each event twice.
#[test]
fn the_bmc_is_asked_before_the_first_subscription_of_an_object() {
    let mut seen = seen(vec![subject(applied())], host(&json!({})), Known::NotLooked);
    assert_eq!(next(&seen), "hold and annotate s");
    seen.subjects[0] = subject(object(&json!({})));
    assert_eq!(next(&seen), "ask the BMC");
    seen.known = found(&[("1", URL)]);
    assert_eq!(next(&seen), "s: \"1\" \"\"");
    seen.known = found(&[]);
    assert_eq!(next(&seen), "subscribe s on node-1: 0 headers");
    seen.subjects[0].made = Some("2".to_owned());
    assert_eq!(next(&seen), "s: \"2\" \"\"");
}

// The same as of DataImages: a host that could not be read counted as gone.
#[rstest]
#[case::not_read(None, "read the host")]
#[case::gone(Some(Live::Gone), "release s, SubscriptionLeftOnBMC")]
#[case::there(
    Some(Live::Exists),
    "s: \"1\" \"BareMetalHost n/h cannot be read: correct the types and times in it, or delete it\""
)]
fn a_host_that_the_store_does_not_have_may_exist(#[case] live: Option<Live>, #[case] expected: &str) {
    let mut seen = seen(vec![subject(deleted("1"))], None, Known::NotLooked);
    seen.live = live;
    assert_eq!(next(&seen), expected);
}

// OWN 31vb: while Ironic had lost its nodes, a deleted object was released, and the BMC went on sending, with the headers.
#[rstest]
#[case::stored(deleted("1"), host(&json!({})), "s: \"1\" \"BareMetalHost n/h has no node in Ironic now: subscription 1 is ended on \
    its BMC when the host is registered again; if the host is deleted, this is not waited for\"")]
#[case::nothing_stored(deleted(""), host(&json!({})), "release s")]
#[case::detached(deleted("1"), detached(), "release s, SubscriptionLeftOnBMC")]
#[case::host_gone(deleted("1"), None, "release s, SubscriptionLeftOnBMC")]
fn a_deleted_one_waits_for_a_node_that_ironic_has_lost(
    #[case] object: Value,
    #[case] host: Option<Value>,
    #[case] expected: &str,
) {
    let mut seen = seen(vec![subject(object)], host, Known::NotLooked);
    seen.node = HostNode::None;
    assert_eq!(next(&seen), expected);
}

#[rstest]
#[case::new(object(&json!({})))]
#[case::deleted(deleted("1"))]
#[case::deleted_unrecorded(deleted(""))]
fn the_node_is_looked_for_before_the_bmc_is_asked(#[case] object: Value) {
    let mut seen = seen(vec![subject(object)], host(&json!({})), Known::NotLooked);
    seen.node = HostNode::NotLooked;
    assert_eq!(next(&seen), "look for the node");
}

// OWN 31fm: while the Secret of a migrated host was missing, its node counted as none, and a deletion left the subscription.
#[rstest]
#[case::new(object(&json!({})), "s: \"\" \"Secret n/bmc is missing\"")]
#[case::made(object(&json!({"status": {"subscriptionID": "1"}})), "")]
#[case::deleted(deleted("1"), "s: \"1\" \"Secret n/bmc is missing\"")]
#[case::deleted_unrecorded(deleted(""), "s: \"\" \"Secret n/bmc is missing\"")]
#[case::told(object(&json!({"status": {"error": "Secret n/bmc is missing"}})), "After(600s)")]
fn a_node_that_is_not_proven_is_waited_for(#[case] object: Value, #[case] expected: &str) {
    let mut seen = seen(vec![subject(object)], host(&json!({})), Known::NotLooked);
    seen.node = HostNode::Unproven("Secret n/bmc is missing".to_owned());
    assert_eq!(next(&seen), expected);
    seen.host = None;
    seen.live = Some(Live::Gone);
    seen.node = HostNode::None;
    let is_deleted = seen.subjects[0].object.metadata.deletion_timestamp.is_some();
    assert_eq!(next(&seen).starts_with("release s"), is_deleted, "the host is gone");
}

/// Each in its turn: a patch that renewed the annotation first would make the identifier of the other server count.
#[test]
fn an_identifier_of_another_server_is_forgotten_before_the_annotation_is_renewed() {
    let other = json!({"metadata": {"finalizers": null, "annotations": {SUBSCRIBED_ON: "other"}}, "status": {"subscriptionID": "1"}});
    let seen = seen(vec![subject(object(&other))], host(&json!({})), Known::NotLooked);
    assert_eq!(next(&seen), "s: \"\" \"\"");
}

fn stored(change: &Value) -> Subject {
    let mut made = object(&json!({"status": {"subscriptionID": "1"}}));
    json_patch::merge(&mut made, change);
    subject(made)
}

// OWN 31vs: a BMC that made a subscription after it was asked for it again had two, and sent each event twice, for ever.
#[test]
fn what_a_bmc_makes_late_is_ended() {
    let mut seen = seen(vec![stored(&json!({}))], host(&json!({})), Known::NotLooked);
    assert_eq!(next(&seen), "", "there is no doubt");
    seen.doubt = Some(Doubt::Unanswered);
    assert_eq!(next(&seen), "", "nothing was made since");
    seen.doubt = Some(Doubt::Until(now() + SignedDuration::from_secs(7)));
    assert_eq!(next(&seen), "After(7s)");
    seen.doubt = Some(Doubt::Until(now()));
    seen.node = HostNode::NotLooked;
    assert_eq!(next(&seen), "look for the node");
    seen.node = HostNode::Unproven("the BMC is away".to_owned());
    assert_eq!(next(&seen), "After(600s)", "what it made late is ended when it is back");
    seen.node = HostNode::Own("node-1".to_owned());
    assert_eq!(next(&seen), "ask the BMC");
    seen.known = found(&[("1", URL), ("2", URL), ("3", "https://other/")]);
    assert_eq!(next(&seen), "end 2 that nobody knows on node-1");
    seen.known = found(&[("1", URL), ("3", "https://other/")]);
    assert_eq!(next(&seen), "settle");
    seen.failure = Some(ObserveError::Kube(kube::Error::LinesCodecMaxLineLengthExceeded));
    assert_eq!(next(&seen), "fail", "and tried again");
}

#[rstest]
#[case::without_its_context(without_context(), None)]
#[case::of_another_object(found(&[("2", URL)]), Some(json!({"metadata": {"name": "r"}, "status": {"subscriptionID": "2", "error": "no"}})))]
#[case::that_another_object_may_have_made(found(&[("2", URL)]), Some(json!({"metadata": {"name": "r"}, "status": {"error": "no"}})))]
#[case::not_listed(Known::Unknown("the BMC is dead".to_owned()), None)]
#[case::without_node(Known::NoNode, None)]
fn what_may_be_somebodys_is_left(#[case] mut known: Known, #[case] other: Option<Value>) {
    if let Known::Found(found) = &mut known {
        found[0].id = "2".to_owned();
    }
    let mut subjects = vec![stored(&json!({}))];
    if let Some(change) = other {
        let mut other = subject(object(&change));
        other.failure = Some("no".to_owned());
        subjects.push(other);
    }
    let mut seen = seen(subjects, host(&json!({})), known);
    seen.doubt = Some(Doubt::Until(now()));
    assert_eq!(next(&seen), "settle");
}

#[test]
fn what_a_bmc_may_have_made_late_ends_with_the_object() {
    let mut gone = subject(deleted("1"));
    gone.is_ended = true;
    let mut seen = seen(vec![gone], host(&json!({})), Known::NotLooked);
    assert_eq!(next(&seen), "release s, SubscriptionDeleted", "there is no doubt");
    for doubt in [Doubt::Unanswered, Doubt::Until(now())] {
        seen.doubt = Some(doubt);
        seen.known = Known::NotLooked;
        assert_eq!(next(&seen), "ask the BMC");
        seen.known = found(&[("2", URL)]);
        assert_eq!(next(&seen), "end 2 that nobody knows on node-1");
        seen.known = found(&[]);
        assert_eq!(next(&seen), "release s, SubscriptionDeleted");
    }
}
