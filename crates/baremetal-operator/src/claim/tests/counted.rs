use metal3_api::capi::names::annotation::PAUSED as CLAIM_PAUSED;

use super::*;
use crate::claim::state;

/// A condition with its reason, as it is stored.
fn says(type_: &str, status: &str, reason: &str) -> Value {
    json!({"status": {"conditions": [{"type": type_, "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

fn deleted() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

#[rstest]
#[case::new(json!({}), true, "waiting")]
#[case::synchronized(says("Synchronized", "True", "ConfigurationSynced"), true, "ready")]
#[case::secret_missing(says("Synchronized", "False", "UserDataSecretSyncFailure"), true, "failed")]
#[case::host_paused(says("Synchronized", "False", "HostPaused"), true, "waiting")]
#[case::no_host_fits(says("Associated", "False", "NoBareMetalHost"), false, "waiting")]
#[case::host_lost(json!({"status": {"bareMetalHost": {"namespace": "hosts", "name": "gone"}}}), false, "failed")]
#[case::bad_selector(json!({"spec": {"hostSelector": {"matchExpressions": [{"key": "k", "operator": "~", "values": []}]}}}), false, "invalid")]
#[case::paused(json!({"metadata": {"annotations": {CLAIM_PAUSED: ""}}}), false, "waiting")]
#[case::releasing(deleted(), true, "deleting")]
#[case::not_released(merged(deleted(), &says("Associated", "False", "HostClaimDeletionFailed")), true, "failed")]
fn a_claim_is_counted_by_what_it_waits_for(#[case] change: Value, #[case] has_host: bool, #[case] expected: &str) {
    let seen = if has_host {
        with(claim(&change), vec![host("a", "available", &ours())])
    } else {
        seeking(claim(&change), &[])
    };
    assert_eq!(state::of(&seen), expected);
}

#[test]
fn a_claim_that_no_policy_permits_is_refused() {
    let own = claim(&json!({}));
    let mut seen = seeking(own.clone(), &[]);
    seen.request = Some(Request::of(&own, BTreeSet::new()));
    assert_eq!(state::of(&seen), "invalid");
}

#[test]
fn the_age_of_a_claim_is_never_negative() {
    let own = claim(&json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:10Z"}}));
    for (now, seconds) in [("2026-01-01T00:00:17Z", 7), ("2026-01-01T00:00:00Z", 0)] {
        assert_eq!(state::age(&own, now.parse().unwrap()).as_secs(), seconds);
    }
    assert_eq!(state::age(&claim(&json!({})), jiff::Timestamp::UNIX_EPOCH).as_secs(), 0);
}

#[tokio::test]
async fn claims_and_policies_are_counted_until_they_are_gone() {
    let (ctx, registry) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    let key = ObjectKey::new("tenant", "c");
    let own = claim(&json!({}));
    claims.writer.claims.put((*own).clone());
    let count = |kind: &str, state: &str| {
        let line = format!("metal3_companions{{kind=\"{kind}\",state=\"{state}\"}} 1");
        registry.text().unwrap().lines().any(|found| found == line)
    };
    let pass = async || {
        let seen = claims.observe(&key).await.unwrap();
        claims.ended(&key, seen.as_ref(), &Ok(Next::Change));
    };
    pass().await;
    assert!(count("HostClaim", "invalid"));
    claims.policies.put(policy());
    assert!(count("HostDeployPolicy", "ready"));
    pass().await;
    assert!(count("HostClaim", "waiting") && !count("HostClaim", "invalid"));
    let mut bad = policy();
    bad.metadata.name = Some("bad".to_owned());
    bad.spec.host_claim_namespaces = serde_json::from_value(json!({"nameMatches": "("})).unwrap();
    claims.policies.put(bad);
    assert!(count("HostDeployPolicy", "invalid"));
    claims.policies.remove(&ObjectKey::new("hosts", "bad"), "");
    assert!(!count("HostDeployPolicy", "invalid"));
    claims.writer.claims.remove(&key, "u");
    pass().await;
    assert!(!count("HostClaim", "waiting"));
}

#[rstest]
#[case::new(json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}), "2026-01-01T00:00:00Z")]
#[case::without_a_host(
    json!({"status": {"conditions": [{"type": "Associated", "status": "False", "reason": "NoBareMetalHost", "message": "",
        "lastTransitionTime": "2026-01-01T00:01:00Z"}]}}),
    "2026-01-01T00:01:00Z"
)]
#[case::with_a_host(
    json!({"status": {"conditions": [
        {"type": "Associated", "status": "True", "reason": "HostAssociated", "message": "",
            "lastTransitionTime": "2026-01-01T00:01:00Z"},
        {"type": "Synchronized", "status": "False", "reason": "HostPaused", "message": "",
            "lastTransitionTime": "2026-01-01T00:02:00Z"}]}}),
    "2026-01-01T00:02:00Z"
)]
fn since_when_a_claim_waits(#[case] change: Value, #[case] expected: &str) {
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    assert_eq!(state::since(&claim(&change), now).to_string(), expected);
}
