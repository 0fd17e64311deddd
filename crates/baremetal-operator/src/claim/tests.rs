use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::ByteString;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::metal3::names::annotation::CLAIMED;
use metal3_api::metal3::{BareMetalHost, HostClaim, HostClaimStatus, HostDeployPolicy};
use metal3_runtime::conditions::get;
use metal3_runtime::controller::{Controller as _, Decision, Next, Plan};
use metal3_runtime::store::{ObjectKey, Sink as _};
use metal3_runtime::timing::operator::RELEASE;
use metal3_runtime::work::Queue;
use metal3_testkit::leaks::{self, CANARY};
use rstest::rstest;
use serde_json::{Value, json};

use super::choose::{Request, is_free};
use super::decide::{Effect, Read, decide};
use super::observed::{Bound, Copied, Data, Observed, Source};
use super::run::controller;
use super::waiting::Waiting;
use super::{Claims, count_refusal};

mod attacks;
mod choice;
mod counted;
mod moves;
mod named;
mod orphans;
mod told;

fn claim(change: &Value) -> Arc<HostClaim> {
    let mut claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"name": "c", "namespace": "tenant",
        "uid": "u", "resourceVersion": "1", "generation": 2, "finalizers": ["metal3.io/hostclaim"], "annotations": {BLOCK_MOVE: ""}},
        "spec": {"poweredOn": true}});
    json_patch::merge(&mut claim, change);
    Arc::new(serde_json::from_value(claim).unwrap())
}

fn host(name: &str, state: &str, change: &Value) -> Arc<BareMetalHost> {
    let mut host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "namespace": "hosts", "uid": name, "resourceVersion": "1"},
        "spec": {"online": true, "bmc": {"address": "redfish://bmc.secret.example/1", "credentialsName": "bmc-secret"}},
        "status": {"operationalStatus": "OK", "errorMessage": "", "poweredOn": true, "provisioning": {"state": state, "ID": ""},
            "conditions": [{"type": "Provisioned", "status": "False", "reason": "NotProvisioned", "message": "bmc.secret.example",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    if change["spec"]["consumerRef"]["kind"] == "HostClaim" {
        host["metadata"]["annotations"] = json!({CLAIMED: name, BLOCK_MOVE: ""});
    }
    json_patch::merge(&mut host, change);
    Arc::new(serde_json::from_value(host).unwrap())
}

/// A policy that permits every claim.
fn policy() -> HostDeployPolicy {
    let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy", "metadata": {"name": "p", "namespace": "hosts"},
        "spec": {"hostClaimNamespaces": {}}});
    serde_json::from_value(policy).unwrap()
}

fn ours() -> Value {
    json!({"spec": {"consumerRef": {"kind": "HostClaim", "apiVersion": "metal3.io/v1alpha1", "name": "c", "namespace": "tenant", "uid": "u"}}})
}

/// Both together; a null of the second stays one, so that the result removes what the object would have.
fn merged(mut a: Value, b: &Value) -> Value {
    match (a.as_object_mut(), b.as_object()) {
        (Some(fields), Some(others)) => {
            for (field, value) in others {
                let own = fields.remove(field).unwrap_or_default();
                fields.insert(field.clone(), merged(own, value));
            }
            a
        }
        _ => b.clone(),
    }
}

/// An object after a merge patch.
fn patched<K: serde::Serialize + serde::de::DeserializeOwned>(object: &K, patch: &Value) -> Arc<K> {
    let mut object = serde_json::to_value(object).unwrap();
    json_patch::merge(&mut object, patch);
    Arc::new(serde_json::from_value(object).unwrap())
}

/// A claim that may take these hosts.
fn seeking(claim: Arc<HostClaim>, hosts: &[Arc<BareMetalHost>]) -> Observed {
    let request = Request::of(&claim, BTreeSet::from(["hosts".to_owned()]));
    Observed {
        free: hosts.iter().filter(|host| is_free(host)).cloned().collect(),
        survey: Some(hosts.to_vec()),
        request: Some(request),
        ..with(claim, Vec::new())
    }
}

/// A claim with these hosts.
fn with(claim: Arc<HostClaim>, own: Vec<Arc<BareMetalHost>>) -> Observed {
    Observed {
        claim,
        is_enabled: true,
        is_trusted: true,
        is_withheld: false,
        own,
        named: Vec::new(),
        bound: Bound::Known,
        request: None,
        free: Vec::new(),
        changes: 0,
        survey: None,
        refused: BTreeMap::new(),
        versions: BTreeMap::new(),
        read: BTreeMap::new(),
        copied: BTreeMap::new(),
    }
}

/// A plan that has nothing from a Secret: a copy is named in it, and made when it is applied.
fn plan(seen: &Observed) -> Plan<Effect, HostClaimStatus> {
    let plan = match decide(seen, "2026-01-01T00:00:00Z".parse().unwrap()) {
        Decision::Act(plan) => *plan,
        Decision::Fetch(read) => panic!("wants {read:?}"),
    };
    leaks::expect_none_in_plan(&plan);
    plan
}

/// The Secret of a claim, in this version, with the mark.
fn found(version: [String; 3]) -> Source {
    let value = ByteString(format!("{CANARY}claim").into_bytes());
    Source::Found { version, value }
}

#[test]
#[should_panic(expected = "a secret was emitted")]
fn a_secret_that_is_told_fails_its_test() {
    let claim = claim(&json!({"spec": {"userData": {"name": "s"}}}));
    let mut seen = with(claim, vec![host("a", "available", &ours())]);
    let Source::Found { value, .. } = found(Default::default()) else {
        panic!("it is found")
    };
    let text = String::from_utf8(value.0).unwrap();
    seen.read.insert(Data::User, Source::Unusable(text));
    plan(&seen);
}

/// Reason and message of a condition.
fn told(plan: &Plan<Effect, HostClaimStatus>, type_: &str) -> (String, String) {
    let status = plan.report.status.as_ref().expect("a report");
    let condition = get(&status.conditions, type_).expect("the condition");
    assert_eq!(condition.observed_generation, Some(2));
    (condition.reason.clone(), condition.message.clone())
}

fn taken(seen: &Observed) -> Option<String> {
    match &plan(seen).effects[..] {
        [Effect::Take(host)] => host.metadata.name.clone(),
        _ => None,
    }
}

#[test]
fn the_finalizer_comes_before_a_host() {
    let claim = claim(&json!({"metadata": {"finalizers": []}}));
    let plan = plan(&seeking(claim, &[host("a", "available", &json!({}))]));
    let mark = Effect::Mark(json!({"metadata": {"finalizers": ["metal3.io/hostclaim"]}}));
    assert_eq!((plan.effects, plan.next), (vec![mark], Next::Decide));
}

#[rstest]
#[case::available("available", json!({}), true)]
#[case::ready("ready", json!({}), true)]
#[case::inspecting("inspecting", json!({}), false)]
#[case::taken("available", json!({"spec": {"consumerRef": {"kind": "Metal3Machine", "name": "m"}}}), false)]
#[case::empty_reference("available", json!({"spec": {"consumerRef": {}}}), true)]
#[case::deleted("available", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false)]
#[case::paused("available", json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}), false)]
#[case::detached("available", json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": ""}}}), false)]
// OWN 31xd: a claim got a host that remediation had marked as unhealthy.
#[case::unhealthy("available", json!({"metadata": {"annotations": {"capm3.metal3.io/unhealthy": ""}}}), false)]
#[case::unhealthy_by_the_old_name("available", json!({"metadata": {"annotations": {"capi.metal3.io/unhealthy": ""}}}), false)]
// OWN 31xo: a claim got a host that was kept for the next machine of a deployment.
#[case::kept("available", json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/node-reuse": "md-x"}}}), false)]
#[case::failed("available", json!({"status": {"errorMessage": "x"}}), false)]
#[case::has_an_image("available", json!({"spec": {"image": {"url": "http://i"}}}), false)]
#[case::elsewhere("available", json!({"metadata": {"namespace": "other"}}), false)]
#[case::lacks_the_label("available", json!({"metadata": {"labels": {"rack": "b"}}}), false)]
fn a_host_is_taken_only_if_it_is_free_and_fits(#[case] state: &str, #[case] change: Value, #[case] is_taken: bool) {
    let claim = claim(
        &json!({"spec": {"hostSelector": {"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["b"]}]}}}),
    );
    let seen = seeking(claim, &[host("a", state, &change)]);
    assert_eq!(taken(&seen).is_some(), is_taken);
    if !is_taken {
        let (reason, message) = told(&plan(&seen), "Associated");
        assert!(reason == "NoBareMetalHost" && message.contains("some "), "{message}");
    }
}

#[test]
fn the_same_claim_gets_the_same_host_in_any_order_and_prefers_its_domain() {
    let domain =
        |value: &str| json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/failure-domain": value}}});
    let mut hosts: Vec<_> = (0..8)
        .map(|n| host(&format!("h{n}"), "available", &domain("x")))
        .collect();
    hosts.push(host("preferred", "available", &domain("y")));
    let any = claim(&json!({}));
    let first = taken(&seeking(any.clone(), &hosts));
    hosts.reverse();
    assert_eq!(taken(&seeking(any, &hosts)), first);
    for (wanted, is_preferred) in [("y", true), ("z", false)] {
        let taken = taken(&seeking(claim(&json!({"spec": {"failureDomain": wanted}})), &hosts)).unwrap();
        assert!(!is_preferred || taken == "preferred");
    }
}

// OWN 30ch: a message longer than a condition holds was rejected with the whole status, and the claim was never in line.
#[test]
fn a_selector_of_any_length_fits_into_the_status() {
    let values: Vec<String> = (0..2000).map(|n| format!("{n:a>60}")).collect();
    let long = json!([{"key": "k", "operator": "In", "values": values}, {"key": "k", "operator": "Exists"}]);
    let hosts = ["a", "b"].map(|name| host(name, "available", &json!({})));
    let invalid = json!([{"key": "k".repeat(40_000), "operator": "In", "values": values}]);
    for expressions in [long, invalid] {
        let claim = claim(&json!({"spec": {"hostSelector": {"matchExpressions": expressions}}}));
        let plan = plan(&seeking(claim, &hosts));
        for type_ in ["Associated", "Ready"] {
            let length = told(&plan, type_).1.len();
            assert!((1..32_768).contains(&length), "{type_}: {length}");
        }
    }
}

// OWN 30cf: a claim that the API server rejected for one host was tried again at once, without end, and never got another host.
#[tokio::test]
async fn a_claim_that_a_host_refuses_waits_and_then_gets_another_host() {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let queue = Queue::new();
    let claims = controller(&ctx, true, queue.clone());
    let hosts = ["a", "b"].map(|name| host(name, "available", &json!({})));
    for host in &hosts {
        ctx.hosts.put((**host).clone());
    }
    claims.policies.put(policy());
    let (key, own) = (ObjectKey::new("tenant", "c"), claim(&json!({})));
    let mut seen = seeking(own, &hosts);
    seen.changes = claims.hosts.changes();
    let mut take = |code: u16| {
        let effects = plan(&seen).effects;
        let [Effect::Take(host)] = &effects[..] else {
            panic!("{effects:?}")
        };
        let error = kube::Error::Api(Box::new(kube::core::Status::failure("no", "Forbidden").with_code(code)));
        count_refusal(&mut seen, &effects[0], &error);
        host.metadata.name.clone().unwrap()
    };
    let first = take(503);
    assert_eq!(take(403), first, "an API server that is away refuses nothing");
    let second = take(422);
    assert_ne!(second, first);
    assert_eq!([take(403), take(403)], [first.clone(), second], "in turn");
    claims.ended(&key, Some(&seen), &Ok(Next::After(RELEASE)));
    assert!(queue.is_empty(), "nothing has changed");
    assert_eq!(claims.refused.lock()[&key].len(), 2);
    let changed = json!({"metadata": {"resourceVersion": "2"}});
    ctx.hosts.put((*host(&first, "available", &changed)).clone());
    claims.ended(&key, Some(&seen), &Ok(Next::After(RELEASE)));
    assert_eq!(queue.len(), 1, "a new version of a host may do");
    seen.free.clear();
    claims.ended(&key, Some(&seen), &Ok(Next::Change));
    assert!(claims.refused.lock().is_empty());
}

// OWN 30cg: a host that became free was lost on the other claims if the pass of the one that it woke failed.
#[tokio::test]
async fn a_host_is_offered_to_the_next_claim_when_a_pass_fails() {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let queue = Queue::new();
    let claims = controller(&ctx, true, queue.clone());
    let free = host("a", "available", &json!({}));
    ctx.hosts.put((*free).clone());
    let both = ["c", "d"].map(|name| seeking(claim(&json!({"metadata": {"name": name}})), &[]));
    for seen in &both {
        let request = seen.request.as_ref().unwrap().clone().unwrap();
        claims.waiting.add(&seen.claim, request);
    }
    claims.offer(&ObjectKey::new("hosts", "a"), None);
    assert_eq!(queue.len(), 1);
    let failed = Err(kube::Error::LinesCodecMaxLineLengthExceeded);
    claims.ended(&ObjectKey::new("tenant", "c"), Some(&both[0]), &failed);
    assert_eq!(queue.len(), 2);
}

#[rstest]
#[case::no_policy(json!({}), &[], "no HostDeployPolicy permits claims of namespace tenant")]
#[case::no_host(json!({}), &["hosts"], "have no hosts")]
#[case::bad_selector(json!({"spec": {"hostSelector": {"matchExpressions": [{"key": "k", "operator": "~", "values": []}]}}}), &["hosts"], "spec.hostSelector.matchExpressions[0].operator")]
fn a_claim_without_a_host_says_why(#[case] change: Value, #[case] namespaces: &[&str], #[case] words: &str) {
    let claim = claim(&change);
    let mut seen = seeking(claim.clone(), &[]);
    seen.request = Some(Request::of(
        &claim,
        namespaces.iter().map(|name| (*name).to_owned()).collect(),
    ));
    let plan = plan(&seen);
    let (reason, message) = told(&plan, "Associated");
    assert!(reason == "NoBareMetalHost" && message.contains(words), "{message}");
    assert_eq!(told(&plan, "Ready").0, "IssuesReported");
    assert!(plan.effects.is_empty());
}

#[test]
fn nothing_is_stored_when_nothing_changed() {
    let host = host("a", "available", &ours());
    let first = plan(&with(claim(&json!({})), vec![host.clone()]));
    let status = serde_json::to_value(first.report.status.unwrap()).unwrap();
    let again = plan(&with(claim(&json!({"status": status})), vec![host]));
    assert!(again.effects.is_empty() && again.report.is_empty(), "{again:?}");
}

#[test]
fn the_host_gets_what_the_claim_says_and_the_claim_what_the_host_says() {
    let wants = json!({"metadata": {"annotations": {"reboot.metal3.io": "", "reboot.metal3.io/x": "{}", "other": "1"}},
        "spec": {"poweredOn": false, "image": {"url": "http://i", "checksum": "c"}, "customDeploy": {"method": "m"}, "userData": {"name": "s"}}});
    let old = json!({"metadata": {"annotations": {"reboot.metal3.io/hostclaim-old": "", "reboot.metal3.io/theirs": ""}},
        "spec": {"metaData": {"name": "hostclaim-u-metadata"}}, "status": {"errorType": "power management error", "errorMessage": "bmc.secret.example"}});
    let mut seen = with(claim(&wants), vec![host("a", "available", &merged(ours(), &old))]);
    assert_eq!(
        decide(&seen, jiff::Timestamp::UNIX_EPOCH),
        Decision::Fetch(Read::Secret(Data::User))
    );
    let version = ["s".to_owned(), "1".to_owned(), "1".to_owned()];
    seen.read.insert(Data::User, found(version.clone()));
    let first = plan(&seen);
    let expected = json!({"metadata": {"annotations": {"reboot.metal3.io": "", "reboot.metal3.io/hostclaim-x": "{}", "reboot.metal3.io/hostclaim-old": null}},
        "spec": {"online": false, "image": {"url": "http://i", "checksum": "c"}, "customDeploy": {"method": "m"},
            "userData": {"name": "hostclaim-u-userdata"}, "metaData": null}});
    let effects = vec![
        Effect::Copy(Data::User),
        Effect::SetHost(0, expected),
        Effect::DeleteCopy(0, Data::Meta),
        Effect::Forget("reboot.metal3.io".to_owned()),
    ];
    assert_eq!(first.effects, effects);
    let status = first.report.status.as_ref().unwrap();
    assert!(status.powered_on && status.bare_metal_host.as_ref().is_some_and(|host| host.name == "a"));
    assert_eq!(told(&first, "Synchronized").0, "ConfigurationSynced");
    let provisioned = (
        "NotProvisioned".to_owned(),
        "the host reports a power management error".to_owned(),
    );
    assert_eq!(told(&first, "Provisioned"), provisioned);
    // A Secret that is known to be copied is not read again.
    seen.read.clear();
    let copied = Copied {
        source: version.clone(),
        copy: version.clone(),
        before: None,
        is_damaged: false,
    };
    (seen.versions, seen.copied) = ([(Data::User, version)].into(), [(Data::User, copied)].into());
    assert!(!plan(&seen).effects.contains(&Effect::Copy(Data::User)));
}

// OWN 30cc: a merge patch left the checksum and the format of the image before on the host.
#[rstest]
#[case::no_checksum(json!({"image": {"url": "http://j"}}))]
#[case::other_checksum(json!({"image": {"url": "http://i", "checksum": "d"}}))]
#[case::no_image(json!({}))]
#[case::custom_deploy(json!({"customDeploy": {"method": "m"}}))]
#[case::user_data(json!({"image": {"url": "http://i"}, "userData": {"name": "s"}}))]
fn what_the_claim_says_replaces_what_the_host_had(#[case] spec: Value) {
    let old = json!({"spec": {"image": {"url": "http://i", "checksum": "c", "checksumType": "sha256", "format": "raw"},
        "customDeploy": {"method": "old"}, "userData": {"name": "theirs", "namespace": "hosts"}}});
    let host = host("a", "provisioned", &merged(ours(), &old));
    let mut seen = with(claim(&json!({"spec": spec})), vec![host.clone()]);
    seen.read.insert(Data::User, found(Default::default()));
    let effects = plan(&seen).effects;
    let change = effects.iter().find_map(|effect| match effect {
        Effect::SetHost(0, change) => Some(change),
        _ => None,
    });
    seen.own = vec![patched(&*host, change.expect("a change of the host"))];
    let (spec, got) = (&seen.claim.spec, &seen.own[0].spec);
    assert_eq!((&got.image, &got.custom_deploy), (&spec.image, &spec.custom_deploy));
    let again = plan(&seen).effects;
    assert!(
        !again.iter().any(|effect| matches!(effect, Effect::SetHost(..))),
        "{again:?}"
    );
}

// OWN 30ce: what a person had put on a host that upstream had bound was wiped.
#[rstest]
#[case::no_image(json!({"poweredOn": false}), true)]
#[case::other_image(json!({"image": {"url": "http://other"}}), true)]
#[case::other_custom_deploy(json!({"image": {"url": "http://theirs"}, "customDeploy": {"method": "m"}}), true)]
#[case::same_image(json!({"image": {"url": "http://theirs"}}), false)]
fn a_host_that_upstream_bound_keeps_what_a_person_put_on_it(#[case] spec: Value, #[case] is_left: bool) {
    let bound = json!({"spec": {"image": {"url": "http://theirs"}, "consumerRef": {"uid": null}}});
    let theirs = host("a", "provisioned", &merged(ours(), &bound));
    let first = plan(&with(claim(&json!({"spec": spec})), vec![theirs.clone()]));
    let (reason, message) = told(&first, "Synchronized");
    if is_left {
        assert!(first.effects.is_empty(), "{first:?}");
        assert!(
            reason == "BareMetalHostNotSynchronized" && message.contains("removed from the host"),
            "{message}"
        );
        // The claim's own report of it changes nothing.
        let status = serde_json::to_value(first.report.status.unwrap()).unwrap();
        let again = plan(&with(
            claim(&json!({"spec": spec, "status": status})),
            vec![theirs.clone()],
        ));
        assert!(again.effects.is_empty() && again.report.is_empty(), "{again:?}");
    } else {
        let adopted = json!({"metadata": {"annotations": {}}, "spec": {"consumerRef": {"uid": "u"}}});
        assert_eq!(
            (first.effects, &*reason),
            (vec![Effect::SetHost(0, adopted)], "ConfigurationSynced")
        );
    }
    // A host that the claim manages follows every edit, and is deprovisioned at the end.
    let managed = host("a", "provisioned", &merged(bound, &ours()));
    let edited = plan(&with(claim(&json!({"spec": spec})), vec![managed]));
    assert_eq!(!edited.effects.is_empty(), is_left);
    let deleted = claim(&json!({"spec": spec, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let is_freed = plan(&with(deleted, vec![theirs]))
        .effects
        .contains(&Effect::RemoveFinalizer);
    assert_eq!(is_freed, is_left);
}

// OWN 30cb: a pull secret would have been one of the host's namespace, sent to a registry of the claim's choice.
// OWN 30ci: any text was read as the name of a Secret.
#[rstest]
#[case::missing(json!({"userData": {"name": "s"}}), Some(Source::Absent), "UserDataSecretSyncFailure", "Secret s does not exist")]
#[case::without_key(json!({"networkData": {"name": "s"}}), Some(Source::Unusable("has no key networkData".to_owned())), "NetworkDataSecretSyncFailure", "Secret s has no key networkData")]
#[case::forbidden(json!({"metaData": {"name": "s"}}), Some(Source::Forbidden), "MetaDataSecretSyncFailure", "may not read")]
#[case::elsewhere(json!({"userData": {"name": "s", "namespace": "hosts"}}), None, "UserDataSecretSyncFailure", "in the namespace of the claim")]
#[case::other_path(json!({"userData": {"name": "../../hosts/secrets/s"}}), None, "UserDataSecretSyncFailure", "DNS subdomain")]
#[case::pull_secret(json!({"image": {"url": "oci://r/i", "ociAuthSecretName": "theirs"}}), None, "BareMetalHostNotSynchronized", "ociAuthSecretName cannot be used")]
fn a_host_gets_nothing_until_all_of_it_can_be_given(
    #[case] spec: Value,
    #[case] source: Option<Source>,
    #[case] reason: &str,
    #[case] words: &str,
) {
    let mut seen = with(
        claim(&json!({"spec": merged(json!({"image": {"url": "http://i"}}), &spec)})),
        vec![host("a", "available", &ours())],
    );
    if let Some(source) = source {
        for data in Data::ALL {
            if data.of_claim(&seen.claim).is_some() {
                seen.read.insert(data, source);
                break;
            }
        }
    }
    let plan = plan(&seen);
    assert!(plan.effects.is_empty(), "{plan:?}");
    let (said, message) = told(&plan, "Synchronized");
    assert!(said == reason && message.contains(words), "{said}: {message}");
}

#[test]
fn nothing_of_the_hosts_namespace_is_shown_to_the_claim() {
    let failed = json!({"status": {"errorType": "registration error", "errorMessage": "bmc.secret.example: bmc-secret is wrong"}});
    let others = [
        host("name-of-host", "inspecting", &failed),
        host(
            "name-of-host-2",
            "available",
            &json!({"spec": {"consumerRef": {"kind": "K", "name": "name-of-consumer"}}}),
        ),
    ];
    let mut plans = vec![plan(&seeking(claim(&json!({})), &others))];
    plans.push(plan(&with(
        claim(&json!({})),
        vec![host("a", "inspecting", &merged(ours(), &failed))],
    )));
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    plans.push(plan(&with(
        claim(&deleted),
        vec![host("a", "deprovisioning", &merged(ours(), &failed))],
    )));
    for plan in plans {
        let status = serde_json::to_string(&plan.report.status.unwrap()).unwrap();
        for secret in ["secret", "name-of", "redfish"] {
            assert!(!status.contains(secret), "{status}");
        }
    }
}

#[test]
fn a_host_that_is_lost_is_not_replaced() {
    let bound = claim(&json!({"status": {"bareMetalHost": {"namespace": "hosts", "name": "a"}}}));
    let mut seen = seeking(bound, &[host("b", "available", &json!({}))]);
    seen.request = None;
    let plan = plan(&seen);
    assert!(plan.effects.is_empty());
    assert_eq!(told(&plan, "Associated").0, "MissingBareMetalHost");
}

#[test]
fn of_two_hosts_one_is_given_back() {
    let other = merged(ours(), &json!({"spec": {"userData": {"name": "hostclaim-u-userdata"}}}));
    let plan = plan(&with(
        claim(&json!({})),
        vec![host("a", "available", &ours()), host("b", "available", &other)],
    ));
    assert_eq!(plan.effects, [Effect::SetHost(1, free())]);
}

/// The change that gives a host back.
fn free() -> Value {
    json!({"metadata": {"annotations": {CLAIMED: null, BLOCK_MOVE: null}}, "spec": {"consumerRef": null}})
}

/// What is done with the host of a deleted claim.
fn released(is_enabled: bool, of_claim: &Value, state: &str, of_host: &Value) -> Vec<Effect> {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let mut seen = with(
        claim(&merged(deleted, of_claim)),
        vec![host("a", state, &merged(ours(), of_host))],
    );
    seen.is_enabled = is_enabled;
    plan(&seen).effects
}

// OWN 31ch: only copies that the claim or the host still named were deleted.
fn freed() -> Vec<Effect> {
    let copies = Data::ALL.into_iter().map(|data| Effect::DeleteCopy(0, data));
    copies
        .chain([Effect::SetHost(0, free()), Effect::RemoveFinalizer])
        .collect()
}

#[test]
fn a_host_is_deprovisioned_before_it_is_given_back() {
    let spec = json!({"spec": {"image": {"url": "http://i"}, "userData": {"name": "s"}}});
    let given = json!({"spec": {"image": {"url": "http://i"}, "userData": {"name": "hostclaim-u-userdata"}}});
    for is_enabled in [true, false] {
        let clear = json!({"metadata": {"annotations": {}}, "spec": {"image": null, "userData": null}});
        assert_eq!(
            released(is_enabled, &spec, "provisioned", &given),
            [Effect::SetHost(0, clear)]
        );
        for state in ["provisioning", "provisioned", "deprovisioning"] {
            assert_eq!(released(is_enabled, &spec, state, &json!({})), [], "{state}");
        }
        for state in ["available", "ready", "preparing", "inspecting", ""] {
            assert_eq!(released(is_enabled, &spec, state, &json!({})), freed(), "{state}");
        }
        let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(
            released(is_enabled, &spec, "provisioned", &merged(given.clone(), &gone)),
            freed()
        );
    }
}

// OWN 30ca: with the flag off, the deletion of a claim that an operator with it had left never ended.
#[test]
fn without_the_flag_deletions_end_and_nothing_else_is_done() {
    assert_eq!(released(false, &json!({}), "available", &json!({})), freed());
    // Upstream gives a host no image: one that is there is somebody else's, and stays as upstream leaves it.
    let image = json!({"spec": {"image": {"url": "http://somebody"}, "consumerRef": {"uid": null}}});
    assert_eq!(released(false, &json!({}), "provisioned", &image), freed());
    // OWN 31xl: of a claim that was edited without the flag, the host was free with the tenant's image on it.
    let given = json!({"spec": {"image": {"url": "http://before"}, "userData": {"name": "hostclaim-u-userdata"}}});
    let edited = json!({"spec": {"image": {"url": "http://after"}}});
    let clear = json!({"metadata": {"annotations": {}}, "spec": {"image": null, "userData": null}});
    assert_eq!(
        released(false, &edited, "provisioned", &given),
        [Effect::SetHost(0, clear)]
    );
    let mut seen = seeking(claim(&json!({})), &[host("a", "available", &json!({}))]);
    seen.is_enabled = false;
    assert_eq!(decide(&seen, jiff::Timestamp::UNIX_EPOCH), Decision::idle());
}

// OWN 30cj: the deletion of a claim did not say what it waits for, if the host was paused or the API server rejected a step.
#[rstest]
#[case::paused("baremetalhost.metal3.io/paused")]
#[case::detached("baremetalhost.metal3.io/detached")]
fn a_deletion_names_what_it_waits_for(#[case] annotation: &str) {
    let deleted = claim(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let held = json!({"metadata": {"annotations": {annotation: ""}}});
    let seen = with(deleted, vec![host("a", "provisioned", &merged(ours(), &held))]);
    let waits = plan(&seen);
    let (reason, message) = told(&waits, "Associated");
    assert!(
        reason == "HostClaimDeleting" && message.contains(annotation),
        "{message}"
    );
    let steps = [
        (Effect::SetHost(0, json!({})), "given back"),
        (Effect::SetHost(1, json!({})), "given back"),
        (Effect::DeleteCopy(0, Data::Meta), "spec.metaData"),
        (Effect::RemoveFinalizer, "finalizer"),
    ];
    for (step, words) in steps {
        let error = kube::Error::Api(Box::new(
            kube::core::Status::failure("bmc.secret", "Forbidden").with_code(403),
        ));
        let outcome = Claims::outcome(&seen, &waits, &step, &error, jiff::Timestamp::UNIX_EPOCH).expect("an outcome");
        assert_eq!(outcome.next, Next::After(RELEASE));
        let (reason, message) = told(
            &Plan {
                report: outcome.report,
                ..Plan::default()
            },
            "Associated",
        );
        assert!(
            reason == "HostClaimDeletionFailed" && message.contains(words),
            "{message}"
        );
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn a_claim_without_a_host_goes_at_once() {
    let deleted = claim(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"bareMetalHost": {"namespace": "hosts", "name": "gone"}}}));
    assert_eq!(plan(&with(deleted, Vec::new())).effects, [Effect::RemoveFinalizer]);
    let foreign = claim(&json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["other"]}}));
    assert_eq!(
        decide(&with(foreign, Vec::new()), jiff::Timestamp::UNIX_EPOCH),
        Decision::idle()
    );
}

#[test]
fn a_host_that_becomes_free_wakes_the_oldest_claim_that_it_suits() {
    let waiting = Waiting::default();
    let aged = |name: &str, day: u8, rack: &str| {
        claim(
            &json!({"metadata": {"name": name, "creationTimestamp": format!("2026-01-0{day}T00:00:00Z")},
            "spec": {"hostSelector": {"matchLabels": {"rack": rack}}}}),
        )
    };
    let claims = [
        aged("young", 3, "a"),
        aged("old", 1, "a"),
        aged("oldest", 1, "b"),
        aged("middle", 2, "a"),
    ];
    for claim in &claims {
        let request = Request::of(claim, BTreeSet::from(["hosts".to_owned()])).unwrap();
        waiting.add(claim, request);
    }
    let host = host("h", "available", &json!({"metadata": {"labels": {"rack": "a"}}}));
    let name = |key: Option<ObjectKey>| key.map(|key| key.name);
    let old = waiting.offer(&host, None).unwrap();
    assert_eq!(old.name, "old");
    let second = waiting.offer(&host, None).unwrap();
    assert_eq!(second.name, "middle", "the oldest is woken already");
    for claim in [&old, &second] {
        assert_eq!(name(waiting.offered(claim)).as_deref(), Some("h"));
        assert_eq!(waiting.offered(claim), None, "an offer is passed on once");
    }
    assert_eq!(waiting.offer(&host, Some(&claims[1])).as_ref(), Some(&second));
    waiting.offered(&second);
    waiting.remove(&old);
    assert_eq!(name(waiting.offer(&host, None)).as_deref(), Some("middle"));
    assert_eq!(waiting.offer(&host, Some(&claims[0])), None);
}

#[tokio::test]
async fn a_host_that_names_a_claim_counts_only_where_a_policy_permits_it() {
    // Whoever may write hosts anywhere could name a claim of others, and get its Secrets.
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    let (key, own) = (ObjectKey::new("tenant", "c"), claim(&json!({})));
    claims.writer.claims.put((*own).clone());
    ctx.hosts.put((*host("a", "available", &ours())).clone());
    let count = async || claims.observe(&key).await.unwrap().unwrap().own.len();
    assert_eq!(count().await, 0);
    claims.policies.put(policy());
    assert_eq!(count().await, 1);
    // A claim keeps its host when the policy is revoked, and an earlier claim of this name has no part in it.
    claims.policies.remove(&ObjectKey::new("hosts", "p"), "");
    let bound =
        json!({"metadata": {"resourceVersion": "2"}, "status": {"bareMetalHost": {"namespace": "hosts", "name": "a"}}});
    claims.writer.claims.put((*claim(&bound)).clone());
    assert_eq!(count().await, 1);
    let successor =
        json!({"metadata": {"uid": "v", "resourceVersion": "3", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    claims.writer.claims.put((*claim(&successor)).clone());
    assert_eq!(count().await, 0);
}

// OWN 30cd: a host of any namespace that named a bound claim without its UID delayed the claim's deletion, and lost its image.
#[rstest]
#[case::bound(json!({}), &["bound"])]
#[case::bound_and_deleted(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), &["bound"])]
#[case::unbound(json!({"status": null}), &[])]
#[case::unbound_and_deleted(json!({"status": null, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), &[])]
#[tokio::test]
async fn only_the_bound_host_counts_without_the_uid_of_the_claim(#[case] change: Value, #[case] elsewhere: &[&str]) {
    let bound = json!({"status": {"bareMetalHost": {"namespace": "hosts", "name": "bound"}}});
    let claim = claim(&merged(bound, &change));
    let without = merged(ours(), &json!({"spec": {"consumerRef": {"uid": null}}}));
    let key = ObjectKey::new("tenant", "c");
    let permitted = [elsewhere, &["with"]].concat();
    for (is_enabled, is_permitted) in [(true, false), (true, true), (false, false)] {
        let (ctx, _) = crate::host::context::out_of_reach(1);
        let claims = controller(&ctx, is_enabled, Queue::new());
        claims.writer.claims.put((*claim).clone());
        for (name, of) in [("bound", &without), ("without", &without), ("with", &ours())] {
            ctx.hosts.put((*host(name, "provisioned", of)).clone());
        }
        if is_permitted {
            claims.policies.put(policy());
        }
        let Some(seen) = claims.observe(&key).await.unwrap() else {
            assert!(!is_enabled && claim.metadata.deletion_timestamp.is_none());
            continue;
        };
        let names = seen.own.iter().filter_map(|host| host.metadata.name.as_deref());
        let expected = if is_permitted || !is_enabled {
            &permitted
        } else {
            elsewhere
        };
        assert_eq!(
            names.collect::<BTreeSet<_>>(),
            expected.iter().copied().collect(),
            "{is_enabled} {is_permitted}"
        );
    }
}
