use kube::core::Status;
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::metal3::names::annotation::{HOST_OF_CLAIM, PAUSED};

use super::*;
use crate::claim::orphans::{self, Orphans};
use crate::live::{Live, judged};

fn seen(host: Arc<BareMetalHost>, read: Option<Live>) -> orphans::Observed {
    orphans::Observed {
        host,
        claim: Some(ObjectKey::new("tenant", "c")),
        is_moved: false,
        read,
    }
}

fn orphan_plan(host: Arc<BareMetalHost>) -> Plan<orphans::Effect, ()> {
    match orphans::decide(&seen(host, Some(Live::Gone))) {
        Decision::Act(plan) => *plan,
        Decision::Fetch(read) => panic!("wants {read:?}"),
    }
}

// OWN 31ca: a host stayed in use for ever once its claim was gone without its finalizer.
#[test]
fn the_host_of_a_claim_that_is_gone_is_deprovisioned_and_released() {
    let image = json!({"spec": {"image": {"url": "http://i"}, "userData": {"name": "hostclaim-u-userdata"}}});
    let runs = host("a", "provisioned", &merged(ours(), &image));
    let first = orphan_plan(runs);
    let cleared = json!({"metadata": {"annotations": {}}, "spec": {"image": null, "userData": null}});
    assert_eq!(first.effects, [orphans::Effect::Set(cleared)]);
    assert_eq!(first.report.events[0].reason, "HostClaimGone");
    for state in ["provisioned", "deprovisioning"] {
        assert_eq!(orphan_plan(host("a", state, &ours())).effects, [], "{state}");
    }
    let copies = ["userdata", "networkdata", "metadata"];
    let copies = copies.map(|data| orphans::Effect::Delete(format!("hostclaim-u-{data}")));
    let expected: Vec<_> = copies.into_iter().chain([orphans::Effect::Set(free())]).collect();
    assert_eq!(orphan_plan(host("a", "available", &ours())).effects, expected);
}

#[rstest]
#[case::gone(json!({}), None, true)]
#[case::there(json!({}), Some("u"), false)]
#[case::another_of_its_name(json!({}), Some("v"), true)]
#[case::paused(json!({"metadata": {"annotations": {PAUSED: ""}}}), None, true)]
#[case::copied_to_another_cluster(json!({"metadata": {"annotations": {DELETE_FOR_MOVE: "", PAUSED: "metal3.io/hostclaim"}}}), None, false)]
#[case::not_marked(json!({"metadata": {"annotations": {CLAIMED: null}}}), None, false)]
#[case::bound_by_upstream(json!({"spec": {"consumerRef": {"uid": null}}}), None, false)]
#[case::of_a_machine(json!({"spec": {"consumerRef": {"kind": "Metal3Machine"}}}), None, false)]
#[tokio::test]
async fn only_a_host_that_was_claimed_here_is_missed_by_its_claim(
    #[case] change: Value,
    #[case] uid: Option<&str>,
    #[case] is_looked_for: bool,
) {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    let orphans = Orphans {
        clock: ctx.clock.clone(),
        writer: claims.writer.clone(),
        hosts: claims.hosts.clone(),
    };
    if let Some(uid) = uid {
        claims
            .writer
            .claims
            .put((*claim(&json!({"metadata": {"uid": uid}}))).clone());
    }
    ctx.hosts
        .put((*host("a", "provisioned", &merged(ours(), &change))).clone());
    let seen = orphans.observe(&ObjectKey::new("hosts", "a")).await.unwrap();
    assert_eq!(seen.is_some(), is_looked_for);
    // The cache alone releases nothing.
    if let Some(seen) = seen {
        assert_eq!(orphans::decide(&seen), Decision::Fetch(orphans::ReadClaim));
    }
}

// OWN 31cl: a tenant that paused a claim and then deleted it as if it were moved kept the host, and nothing said so.
#[rstest]
#[case::for_the_claim("metal3.io/hostclaim")]
#[case::for_another_reason("")]
fn a_paused_host_reports_that_its_claim_is_gone_and_is_released_when_the_pause_ends(#[case] pause: &str) {
    let image =
        json!({"spec": {"image": {"url": "http://i"}}, "metadata": {"annotations": {PAUSED: pause, BLOCK_MOVE: null}}});
    for state in ["provisioned", "available"] {
        let held = host("a", state, &merged(ours(), &image));
        let waits = orphan_plan(held.clone());
        assert_eq!(waits.effects, [], "its claim may have been moved ahead of it");
        let event = &waits.report.events[0];
        assert!(
            event.reason == "HostClaimGone" && event.message.contains(PAUSED) && event.message.contains("tenant/c"),
            "{}",
            event.message
        );
        let goes_on = patched(&*held, &json!({"metadata": {"annotations": {PAUSED: null}}}));
        let cleared = json!({"metadata": {"annotations": {}}, "spec": {"image": null}});
        assert_eq!(orphan_plan(goes_on).effects, [orphans::Effect::Set(cleared)]);
    }
}

// OWN 31co: a host whose consumerRef somebody had removed kept the pause of its claim, and block-move, for ever.
#[rstest]
#[case::no_consumer(json!(null), json!(null))]
#[case::machine(json!({"kind": "Metal3Machine", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}), json!(""))]
#[case::other(json!({"kind": "Other"}), json!(null))]
#[tokio::test]
async fn a_host_without_its_claim_loses_what_it_carries_for_one(#[case] consumer: Value, #[case] block_move: Value) {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    let orphans = Orphans {
        clock: ctx.clock.clone(),
        writer: claims.writer.clone(),
        hosts: claims.hosts.clone(),
    };
    let held = json!({"metadata": {"annotations": {PAUSED: "metal3.io/hostclaim", "reboot.metal3.io/hostclaim-x": "", "theirs": ""}}});
    let left = merged(merged(ours(), &held), &json!({"spec": {"consumerRef": consumer}}));
    let left = patched(&*host("a", "provisioned", &ours()), &left);
    ctx.hosts.put((*left).clone());
    let key = ObjectKey::new("hosts", "a");
    assert_eq!(orphans.all(), std::slice::from_ref(&key));
    let seen = orphans.observe(&key).await.unwrap().unwrap();
    let Decision::Act(plan) = orphans::decide(&seen) else {
        panic!("nothing is read")
    };
    let [orphans::Effect::Set(change)] = &plan.effects[..] else {
        panic!("{:?}", plan.effects)
    };
    let after = patched(
        &*left,
        &merged(change.clone(), &json!({"metadata": {"resourceVersion": "2"}})),
    );
    let expected = match block_move {
        Value::Null => json!({"theirs": ""}),
        value => json!({"theirs": "", BLOCK_MOVE: value}),
    };
    assert_eq!(json!(after.metadata.annotations), expected);
    assert_eq!(after.spec, left.spec);
    ctx.hosts.put((*after).clone());
    assert!(orphans.observe(&key).await.unwrap().is_none(), "once");
    assert_eq!(orphans.all(), []);
}

#[tokio::test]
async fn a_moved_host_waits_for_its_claim_and_says_so() {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    let orphans = Orphans {
        clock: ctx.clock.clone(),
        writer: claims.writer.clone(),
        hosts: claims.hosts.clone(),
    };
    let moved = merged(
        ours(),
        &json!({"metadata": {"annotations": {CLAIMED: "old", PAUSED: "metal3.io/hostclaim"}}}),
    );
    ctx.hosts.put((*host("a", "provisioned", &moved)).clone());
    let key = ObjectKey::new("hosts", "a");
    let seen = orphans.observe(&key).await.unwrap().unwrap();
    let Decision::Act(plan) = orphans::decide(&seen) else {
        panic!("nothing is read")
    };
    assert_eq!(
        (&plan.effects[..], plan.report.events[0].reason),
        (&[][..], "HostClaimAwaited")
    );
    let its = json!({"metadata": {"uid": "new", "annotations": {HOST_OF_CLAIM: "u/hosts/a"}}});
    claims.writer.claims.put((*claim(&its)).clone());
    assert!(orphans.observe(&key).await.unwrap().is_none());
}

#[test]
fn only_an_answer_about_the_claim_says_that_it_is_gone() {
    let failed = |code: u16, reason: &str, name: Option<&str>| {
        let mut status = Status::failure("no", reason).with_code(code);
        status.details = name.map(|name| serde_json::from_value(json!({"name": name})).unwrap());
        Err(kube::Error::Api(Box::new(status)))
    };
    let key = ObjectKey::new("tenant", "c");
    for (answer, live) in [
        (Ok(true), Live::Exists),
        (Ok(false), Live::Gone),
        (failed(404, "NotFound", Some("c")), Live::Gone),
        (failed(404, "NotFound", Some("tenant")), Live::Unknown),
        (failed(404, "NotFound", None), Live::Unknown),
        (failed(403, "Forbidden", Some("c")), Live::Unknown),
        (failed(503, "ServiceUnavailable", None), Live::Unknown),
        (Err(kube::Error::LinesCodecMaxLineLengthExceeded), Live::Unknown),
    ] {
        let words = format!("{answer:?}");
        assert_eq!(judged(answer, &key), live, "{words}");
    }
    for live in [Live::Exists, Live::Unknown] {
        let host = host(
            "a",
            "provisioned",
            &merged(ours(), &json!({"spec": {"image": {"url": "http://i"}}})),
        );
        let Decision::Act(plan) = orphans::decide(&seen(host, Some(live))) else {
            panic!("it was read")
        };
        assert_eq!(plan.effects, []);
    }
}
