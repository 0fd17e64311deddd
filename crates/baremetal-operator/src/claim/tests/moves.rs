use metal3_api::capi::names::annotation::{DELETE_FOR_MOVE, PAUSED as CLAIM_PAUSED};
use metal3_api::metal3::names::annotation::{HOST_OF_CLAIM, PAUSED, STATUS};

use super::*;
use crate::claim::moving::{is_moved_with, of_claim};

const BOUND: &str = r#"{"status": {"bareMetalHost": {"namespace": "hosts", "name": "a"}}}"#;

fn bound(change: &Value) -> Arc<HostClaim> {
    claim(&merged(serde_json::from_str(BOUND).unwrap(), change))
}

fn annotated(annotations: &Value) -> Value {
    json!({"metadata": {"annotations": annotations}})
}

/// The claim as it arrives in another cluster, and its host.
fn moved() -> (Value, Value) {
    let of_claim = json!({"metadata": {"uid": "new", "annotations": {HOST_OF_CLAIM: "u/hosts/a"}}});
    let of_host = annotated(&json!({CLAIMED: "old", BLOCK_MOVE: null, PAUSED: "metal3.io/hostclaim", STATUS: "{}"}));
    (of_claim, merged(ours(), &of_host))
}

// OWN 31cb: `clusterctl move` left claims behind, and with them what their hosts run.
#[test]
fn a_paused_claim_makes_its_host_ready_to_move_before_itself() {
    let paused = bound(&annotated(&json!({CLAIM_PAUSED: ""})));
    let host = host("a", "provisioned", &ours());
    let first = plan(&with(paused.clone(), vec![host.clone()]));
    let [Effect::SetHost(0, hold), Effect::Mark(mark)] = &first.effects[..] else {
        panic!("{:?}", first.effects)
    };
    let of_host = &hold["metadata"]["annotations"];
    assert_eq!(
        (&of_host[PAUSED], &of_host[BLOCK_MOVE]),
        (&json!("metal3.io/hostclaim"), &Value::Null)
    );
    let status: Value = serde_json::from_str(of_host[STATUS].as_str().unwrap()).unwrap();
    assert_eq!(status["provisioning"]["state"], "provisioned");
    assert_eq!(hold.as_object().unwrap().len(), 1, "nothing else is changed");
    assert_eq!(*mark, annotated(&json!({HOST_OF_CLAIM: "u/hosts/a", BLOCK_MOVE: null})));
    assert_eq!(told(&first, "Synchronized").0, "HostPaused");

    let (still, marked) = (patched(&*host, hold), patched(&*paused, mark));
    assert_eq!(plan(&with(marked.clone(), vec![still.clone()])).effects, []);
    // The end of the pause.
    let goes_on = patched(&*marked, &annotated(&json!({CLAIM_PAUSED: null})));
    let change = of_claim(&goes_on, Some(&still)).expect("it is marked again");
    let seen = with(patched(&*goes_on, &change), vec![still]);
    let back = annotated(&json!({PAUSED: null, BLOCK_MOVE: ""}));
    assert_eq!(
        plan(&seen).effects,
        [Effect::SetHost(0, merged(back, &json!({"spec": {}})))]
    );
}

#[rstest]
#[case::its_own(json!({}), json!({}), true)]
#[case::other_uid(json!({"metadata": {"annotations": {HOST_OF_CLAIM: "v/hosts/a"}}}), json!({}), false)]
#[case::other_host(json!({"metadata": {"annotations": {HOST_OF_CLAIM: "u/hosts/b"}}}), json!({}), false)]
#[case::other_namespace(json!({"metadata": {"namespace": "other"}}), json!({}), false)]
#[case::other_name(json!({"metadata": {"name": "d"}}), json!({}), false)]
#[case::by_name_alone(json!({"metadata": {"annotations": {HOST_OF_CLAIM: null}}}), json!({}), false)]
#[case::bound(json!({"status": {"bareMetalHost": {"namespace": "hosts", "name": "b"}}}), json!({}), false)]
// The claim was deleted, and another of its name created: the host is about to be released.
#[case::claimed_here(json!({}), json!({"metadata": {"annotations": {CLAIMED: "a"}}}), false)]
#[case::never_claimed(json!({}), json!({"metadata": {"annotations": {CLAIMED: null}}}), false)]
#[case::without_uid(json!({}), json!({"spec": {"consumerRef": {"uid": null}}}), false)]
#[case::of_a_machine(json!({}), json!({"spec": {"consumerRef": {"kind": "Metal3Machine"}}}), false)]
#[tokio::test]
async fn a_moved_host_belongs_to_the_claim_that_was_moved_with_it(
    #[case] of_claim: Value,
    #[case] of_host: Value,
    #[case] is_its_own: bool,
) {
    let (claim_then, host_then) = moved();
    let (claim, host) = (
        claim(&merged(claim_then, &of_claim)),
        host("a", "provisioned", &merged(host_then, &of_host)),
    );
    assert_eq!(is_moved_with(&host, &claim), is_its_own);
    // And only where a policy permits it.
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    let key = ObjectKey::of(&*claim);
    claims.writer.claims.put((*claim).clone());
    ctx.hosts.put((*host).clone());
    let own = async || claims.observe(&key).await.unwrap().unwrap().own.len();
    assert_eq!(own().await, 0);
    claims.policies.put(policy());
    assert_eq!(own().await, usize::from(is_its_own));
}

#[test]
fn a_moved_host_gets_the_uid_of_its_claim_and_nothing_else() {
    let spec = json!({"spec": {"image": {"url": "http://i"}, "userData": {"name": "s"}}});
    let (claim_then, host_then) = moved();
    let runs = json!({"spec": {"image": {"url": "http://i"}, "userData": {"name": "hostclaim-u-userdata"}}});
    let mut seen = with(
        claim(&merged(claim_then, &spec)),
        vec![host("a", "provisioned", &merged(host_then, &runs))],
    );
    seen.read.insert(Data::User, found(Default::default()));
    let adopts = plan(&seen);
    let change = json!({"metadata": {"annotations": {CLAIMED: "a", BLOCK_MOVE: "", PAUSED: null}},
        "spec": {"consumerRef": {"uid": "new"}, "userData": {"name": "hostclaim-new-userdata"}}});
    let effects = [
        Effect::Copy(Data::User),
        Effect::DeleteOld("hostclaim-u-userdata".to_owned()),
        Effect::SetHost(0, change),
    ];
    assert_eq!((&adopts.effects[..], adopts.next), (&effects[..], Next::Decide));
    // Then the claim forgets where it was.
    let there = merged(ours(), &json!({"spec": {"consumerRef": {"uid": "new"}}}));
    let there = host("a", "provisioned", &there);
    let forget = annotated(&json!({HOST_OF_CLAIM: null}));
    assert_eq!(of_claim(&seen.claim, Some(&there)), Some(forget));
}

// OWN 31cn: the copies from before a move stayed for ever if the operator was killed after it had written the host.
#[test]
fn the_copies_from_before_a_move_are_deleted_wherever_the_operator_is_killed() {
    let data = json!({"spec": {"userData": {"name": "s"}, "metaData": {"name": "s"}}});
    let (claim_then, host_then) = moved();
    let names = ["hostclaim-u-userdata", "hostclaim-u-metadata"];
    let has = json!({"spec": {"userData": {"name": names[0]}, "metaData": {"name": names[1]}}});
    let arrived = host("a", "provisioned", &merged(host_then, &has));
    let moved = claim(&merged(claim_then, &data));
    let plan_for = |host: &Arc<BareMetalHost>| {
        let mut seen = with(moved.clone(), vec![host.clone()]);
        for data in [Data::User, Data::Meta] {
            seen.read.insert(data, found(Default::default()));
        }
        plan(&seen).effects
    };
    let effects = plan_for(&arrived);
    for killed_after in 0..=effects.len() {
        let (done, mut next_host) = (&effects[..killed_after], arrived.clone());
        for effect in done {
            if let Effect::SetHost(0, change) = effect {
                next_host = patched(&*next_host, change);
            }
        }
        let next = plan_for(&next_host);
        for name in names {
            let delete = Effect::DeleteOld(name.to_owned());
            assert!(
                done.contains(&delete) || next.contains(&delete),
                "{name} after {done:?}"
            );
        }
    }
}

// OWN 31cm: the host stayed paused for ever if the claim could not give it everything when its pause ended.
#[rstest]
#[case::image_of_a_person(json!({"spec": {"image": {"url": "http://theirs"}, "consumerRef": {"uid": null}}}), json!({}), None, true)]
#[case::secret_is_gone(json!({}), json!({"spec": {"userData": {"name": "s"}}}), Some(Source::Absent), true)]
#[case::secret_is_withheld(json!({}), json!({"spec": {"userData": {"name": "s"}}}), None, false)]
#[case::pull_secret(json!({}), json!({"spec": {"image": {"url": "oci://r/i", "ociAuthSecretName": "s"}}}), None, true)]
fn the_end_of_a_pause_reaches_the_host_whatever_the_claim_lacks(
    #[case] of_host: Value,
    #[case] of_claim: Value,
    #[case] source: Option<Source>,
    #[case] is_trusted: bool,
) {
    let paused = annotated(&json!({BLOCK_MOVE: null, PAUSED: "metal3.io/hostclaim"}));
    let held = host("a", "provisioned", &merged(merged(ours(), &paused), &of_host));
    let mut seen = with(bound(&of_claim), vec![held.clone()]);
    seen.is_trusted = is_trusted;
    seen.read.extend(source.map(|source| (Data::User, source)));
    let first = plan(&seen);
    let [Effect::SetHost(0, change)] = &first.effects[..] else {
        panic!("{:?}", first.effects)
    };
    assert_eq!(
        change["metadata"],
        annotated(&json!({PAUSED: null, BLOCK_MOVE: ""}))["metadata"]
    );
    let goes_on = patched(&*held, change);
    assert_eq!(goes_on.spec, held.spec);
    seen.own = vec![goes_on];
    assert_eq!(plan(&seen).effects, [], "once");
}

#[test]
fn a_moved_host_stays_paused_until_its_secrets_are_there() {
    let (claim_then, host_then) = moved();
    let lacks = json!({"spec": {"userData": {"name": "s"}, "poweredOn": false}});
    let arrived = host("a", "provisioned", &host_then);
    let mut seen = with(claim(&merged(claim_then, &lacks)), vec![arrived]);
    seen.read.insert(Data::User, Source::Absent);
    let waits = plan(&seen);
    assert_eq!(waits.effects, []);
    assert_eq!(told(&waits, "Synchronized").0, "UserDataSecretSyncFailure");
}

#[tokio::test]
async fn a_moved_claim_waits_for_its_host_and_takes_no_other() {
    let (moved, _) = moved();
    let mut seen = seeking(claim(&moved), &[host("b", "available", &json!({}))]);
    seen.request = None;
    let waits = plan(&seen);
    let (reason, message) = told(&waits, "Associated");
    assert!(
        reason == "MissingBareMetalHost" && message.contains("hosts/a"),
        "{message}"
    );
    assert_eq!(waits.effects, []);
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    let seen = claims.look(&ObjectKey::new("tenant", "c"), claim(&moved)).unwrap();
    assert!(seen.request.is_none(), "it is in no line");
}

#[test]
fn what_is_moved_away_keeps_its_host() {
    let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let host = host(
        "a",
        "provisioned",
        &merged(ours(), &json!({"spec": {"image": {"url": "http://i"}}})),
    );
    let leaves = bound(&annotated(&json!({DELETE_FOR_MOVE: ""})));
    let idle = Decision::idle();
    assert_eq!(
        decide(&with(leaves, vec![host.clone()]), jiff::Timestamp::UNIX_EPOCH),
        idle
    );
    let leaves = bound(&merged(gone.clone(), &annotated(&json!({DELETE_FOR_MOVE: ""}))));
    assert_eq!(
        plan(&with(leaves, vec![host.clone()])).effects,
        [Effect::RemoveFinalizer]
    );
    // A claim that is paused and deleted by a person says what it waits for.
    let paused = bound(&merged(gone, &annotated(&json!({CLAIM_PAUSED: ""}))));
    let waits = plan(&with(paused, vec![host]));
    assert_eq!(waits.effects, []);
    assert!(told(&waits, "Associated").1.contains(CLAIM_PAUSED));
}

#[test]
fn the_pause_of_a_claim_does_not_keep_a_host_from_its_deletion() {
    let paused = bound(&annotated(&json!({CLAIM_PAUSED: ""})));
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let host = host("a", "provisioned", &merged(ours(), &deleted));
    let effects = plan(&with(paused, vec![host])).effects;
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::SetHost(..))),
        "{effects:?}"
    );
}

#[test]
fn a_claim_that_is_not_paused_holds_back_a_move() {
    let plain = claim(&annotated(&json!({BLOCK_MOVE: null})));
    let effects = plan(&seeking(plain, &[])).effects;
    assert_eq!(effects, [Effect::Mark(annotated(&json!({BLOCK_MOVE: ""})))]);
    let paused = claim(&annotated(&json!({CLAIM_PAUSED: ""})));
    let waits = plan(&seeking(paused, &[host("a", "available", &json!({}))]));
    assert_eq!(waits.effects, [Effect::Mark(annotated(&json!({BLOCK_MOVE: null})))]);
    assert!(told(&waits, "Associated").1.contains("paused"));
}

#[test]
fn a_release_ends_the_pause_of_the_claim_and_no_other() {
    let deleted = claim(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    for (value, is_ended) in [("metal3.io/hostclaim", true), ("metal3.io/capm3", false), ("", false)] {
        let held = annotated(&json!({PAUSED: value}));
        for image in [json!(null), json!({"url": "http://i"})] {
            let runs = merged(held.clone(), &json!({"spec": {"image": image}}));
            let host = host("a", "deprovisioning", &merged(ours(), &runs));
            let effects = plan(&with(deleted.clone(), vec![host])).effects;
            let ends = |effect: &Effect| match effect {
                Effect::SetHost(0, change) => change["metadata"]["annotations"].get(PAUSED) == Some(&Value::Null),
                _ => false,
            };
            assert_eq!(effects.iter().any(ends), is_ended, "{value}: {effects:?}");
        }
    }
}
