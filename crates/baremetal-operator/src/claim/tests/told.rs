use metal3_runtime::events::Severity;
use metal3_runtime::secrets::Outline;

use super::*;
use crate::live::Live;
use metal3_runtime::secrets::Known;

/// The events of a plan, by reason.
fn events(plan: &Plan<Effect, HostClaimStatus>) -> Vec<(&'static str, Severity)> {
    let events = plan.report.events.iter();
    events.map(|event| (event.reason, event.severity)).collect()
}

fn after(claim: &HostClaim, plan: &Plan<Effect, HostClaimStatus>) -> Arc<HostClaim> {
    let mut claim = claim.clone();
    claim.status.clone_from(&plan.report.status);
    Arc::new(claim)
}

// OWN 31cd: claims published no events.
#[test]
fn a_claim_publishes_what_becomes_of_it_once() {
    use Severity::{Normal, Warning};
    let own = claim(&json!({}));
    let mut seen = seeking(own.clone(), &[]);
    seen.request = Some(Request::of(&own, BTreeSet::new()));
    let waits = plan(&seen);
    assert_eq!(events(&waits), [("NoBareMetalHost", Warning)]);
    assert!(waits.report.events[0].message.contains("no HostDeployPolicy"));
    seen.claim = after(&own, &waits);
    assert_eq!(events(&plan(&seen)), [], "once");
    let no_host = plan(&seeking(seen.claim.clone(), &[]));
    assert_eq!(
        events(&no_host),
        [("NoBareMetalHost", Warning)],
        "the reason is another"
    );

    let host = host("a", "available", &ours());
    let has = plan(&with(after(&own, &no_host), vec![host.clone()]));
    assert_eq!(events(&has), [("BareMetalHostAssociated", Normal)]);
    let bound = after(&own, &has);
    let image = json!({"spec": {"image": {"url": "oci://r/i", "ociAuthSecretName": "s"}}});
    let bad = claim(&merged(
        json!({"status": serde_json::to_value(&bound.status).unwrap()}),
        &image,
    ));
    let rejected = plan(&with(bad.clone(), vec![host.clone()]));
    assert_eq!(events(&rejected), [("BareMetalHostNotSynchronized", Warning)]);
    let mended = plan(&with(after(&own, &rejected), vec![host.clone()]));
    assert_eq!(events(&mended), [("ConfigurationSynced", Normal)]);

    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": serde_json::to_value(&bound.status).unwrap()});
    let deleted = claim(&deleted);
    let state = |state: &str| vec![super::host("a", state, &ours())];
    let leaves = plan(&with(deleted.clone(), state("provisioned")));
    assert_eq!(events(&leaves), [("HostClaimDeleting", Warning)]);
    let next = plan(&with(after(&deleted, &leaves), state("deprovisioning")));
    assert_eq!(events(&next), [], "the states of the host are no news");
    assert_eq!(
        events(&plan(&with(deleted, state("available")))),
        [("HostReleased", Normal)]
    );
}

// OWN 31cc: a copy that somebody deleted or changed stayed so.
#[test]
fn a_copy_that_is_changed_or_deleted_is_made_again() {
    let version = |number: &str| ["s".to_owned(), "u".to_owned(), number.to_owned()];
    let shown = |number: &str| {
        Known::Present(Arc::new(Outline {
            uid: Some("u".to_owned()),
            resource_version: Some(number.to_owned()),
            is_marked: false,
        }))
    };
    for before in [None, Some(Known::Absent), Some(shown("1"))] {
        let mut copied = Copied {
            source: version("7"),
            copy: version("2"),
            before: before.clone(),
            is_damaged: false,
        };
        let mut is_damaged = |known: Known| {
            copied.compare(known);
            copied.is_damaged
        };
        assert!(!is_damaged(Known::Unknown));
        if let Some(before) = before.clone() {
            assert!(!is_damaged(before), "the watch is late");
        }
        assert!(!is_damaged(shown("2")));
        assert!(is_damaged(shown("3")));
        assert!(is_damaged(Known::Absent));
        assert!(before.is_none_or(&mut is_damaged), "that was long ago");
    }
    let spec = json!({"spec": {"userData": {"name": "s"}}});
    let given = json!({"spec": {"userData": {"name": "hostclaim-u-userdata"}}});
    let mut seen = with(claim(&spec), vec![host("a", "available", &merged(ours(), &given))]);
    let copied = |is_damaged| Copied {
        source: version("7"),
        copy: version("2"),
        before: None,
        is_damaged,
    };
    seen.versions.insert(Data::User, version("7"));
    seen.copied.insert(Data::User, copied(false));
    assert_eq!(plan(&seen).effects, []);
    seen.copied.insert(Data::User, copied(true));
    assert_eq!(
        decide(&seen, jiff::Timestamp::UNIX_EPOCH),
        Decision::Fetch(Read::Secret(Data::User))
    );
    seen.read.insert(Data::User, found(version("7")));
    assert_eq!(plan(&seen).effects, [Effect::Copy(Data::User)]);
}

// OWN 31vi: a claim whose host the operator could not read said that the host was gone.
#[rstest]
#[case::of_another(
    Bound::Known,
    "was given to another consumer, or released; delete the claim",
    Next::Change
)]
#[case::gone(
    Bound::NotKnown(Some(Live::Gone)),
    "no longer exists; delete the claim",
    Next::Change
)]
#[case::not_readable(
    Bound::NotKnown(Some(Live::Exists)),
    "exists, and the operator cannot read it",
    Next::After(RELEASE)
)]
#[case::no_answer(
    Bound::NotKnown(Some(Live::Unknown)),
    "it is not known whether host hosts/a",
    Next::After(RELEASE)
)]
fn a_claim_says_why_its_host_is_missing(#[case] bound: Bound, #[case] words: &str, #[case] next: Next) {
    let status = json!({"status": {"bareMetalHost": {"namespace": "hosts", "name": "a"}}});
    let mut seen = with(claim(&status), Vec::new());
    seen.bound = Bound::NotKnown(None);
    let read = decide(&seen, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(read, Decision::Fetch(Read::Host(ObjectKey::new("hosts", "a"))));
    seen.bound = bound;
    let plan = plan(&seen);
    let (reason, message) = told(&plan, "Associated");
    assert!(
        reason == "MissingBareMetalHost" && message.contains(words),
        "{reason}: {message}"
    );
    assert_eq!((plan.effects, plan.next), (Vec::new(), next));
}
