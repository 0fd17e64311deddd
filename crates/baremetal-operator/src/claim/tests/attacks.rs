use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use metal3_api::metal3::names::label::TAKES_SECRETS;

use super::*;

/// The requirements of a claim where `evil` and `hosts` permit it, and these Namespaces are known.
fn request_of(change: &Value, namespaces: &[Value]) -> (Vec<String>, bool) {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    for namespace in ["evil", "hosts", "tenant"] {
        let mut policy = policy();
        policy.metadata.namespace = Some(namespace.to_owned());
        claims.policies.put(policy);
    }
    for namespace in namespaces {
        let namespace: PartialObjectMeta<Namespace> = serde_json::from_value(namespace.clone()).unwrap();
        claims.namespaces.put(namespace);
    }
    let seen = claims.look(&ObjectKey::new("tenant", "c"), claim(change)).unwrap();
    let request = seen.request.unwrap().unwrap();
    (request.namespaces.into_iter().collect(), seen.is_withheld)
}

// OWN 31cf: a namespace with a policy and what looks like a host got the Secrets of any claim that fitted.
#[rstest]
#[case::no_secret(json!({}), json!({}), &["evil", "hosts", "tenant"], false)]
#[case::secret(json!({"spec": {"userData": {"name": "s"}}}), json!({}), &["tenant"], true)]
#[case::named(json!({"spec": {"userData": {"name": "s"}, "hostSelector": {"inNamespace": "hosts"}}}), json!({}), &["hosts"], false)]
#[case::labelled(json!({"spec": {"metaData": {"name": "s"}}}), json!({TAKES_SECRETS: ""}), &["hosts", "tenant"], true)]
#[case::labelled_otherwise(json!({"spec": {"networkData": {"name": "s"}}}), json!({"other": ""}), &["tenant"], true)]
#[tokio::test]
async fn the_secrets_of_a_claim_go_only_where_it_or_an_administrator_says(
    #[case] change: Value,
    #[case] labels: Value,
    #[case] expected: &[&str],
    #[case] is_withheld: bool,
) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hosts", "labels": labels}});
    let (namespaces, withheld) = request_of(&change, &[namespace]);
    assert_eq!(
        (&namespaces[..], withheld),
        (
            &expected.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>()[..],
            is_withheld
        )
    );
}

#[test]
fn a_claim_whose_secrets_may_go_nowhere_says_so() {
    let own = claim(&json!({"spec": {"userData": {"name": "s"}}}));
    let mut seen = seeking(own.clone(), &[]);
    seen.request = Some(Request::of(&own, BTreeSet::new()));
    seen.is_withheld = true;
    let (reason, message) = told(&plan(&seen), "Associated");
    assert!(
        reason == "NoBareMetalHost" && message.contains("inNamespace"),
        "{message}"
    );
    // The same for a Secret that is named once the claim has a host.
    let mut seen = with(own, vec![host("a", "available", &ours())]);
    seen.is_trusted = false;
    let refused = plan(&seen);
    assert_eq!(refused.effects, []);
    let (reason, message) = told(&refused, "Synchronized");
    assert!(
        reason == "UserDataSecretSyncFailure" && message.contains("inNamespace"),
        "{message}"
    );
}

// OWN 31cm: claims that an earlier version had bound to hosts of other namespaces lost all control of them at the upgrade.
#[test]
fn a_claim_whose_secrets_are_withheld_still_controls_the_power_of_its_host() {
    let wants = json!({"metadata": {"annotations": {"reboot.metal3.io": "", "reboot.metal3.io/x": ""}},
        "spec": {"poweredOn": false, "image": {"url": "http://new"}, "userData": {"name": "s"}}});
    let runs = json!({"spec": {"image": {"url": "http://old"}, "userData": {"name": "hostclaim-u-userdata"}}});
    let mut seen = with(claim(&wants), vec![host("a", "provisioned", &merged(ours(), &runs))]);
    seen.is_trusted = false;
    let first = plan(&seen);
    // A new image would start with the data of the old one.
    let change = json!({"metadata": {"annotations": {"reboot.metal3.io": "", "reboot.metal3.io/hostclaim-x": ""}},
        "spec": {"online": false}});
    let forget = Effect::Forget("reboot.metal3.io".to_owned());
    assert_eq!(first.effects, [Effect::SetHost(0, change), forget]);
    assert_eq!(told(&first, "Synchronized").0, "UserDataSecretSyncFailure");
}

// OWN 31cf: what names a claim without its UID was its host, wherever a policy permitted the claim.
#[rstest]
#[case::without_uid(json!({"uid": null}), 0)]
#[case::guessed_uid(json!({"uid": "guess"}), 0)]
#[case::taken_by_this_operator(json!({}), 1)]
#[tokio::test]
async fn a_host_that_names_a_claim_by_its_name_alone_is_not_its_host(#[case] reference: Value, #[case] count: usize) {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    claims.policies.put(policy());
    let fake = merged(ours(), &json!({"spec": {"bmc": null, "consumerRef": reference}}));
    ctx.hosts.put((*host("fake", "available", &fake)).clone());
    let seen = claims.look(&ObjectKey::new("tenant", "c"), claim(&json!({}))).unwrap();
    assert_eq!(seen.own.len(), count);
}

#[tokio::test]
async fn the_copies_of_an_earlier_claim_are_not_those_of_its_successor() {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    let key = ObjectKey::new("tenant", "c");
    let version = ["s".to_owned(), "u".to_owned(), "1".to_owned()];
    let copied = |uid: &str| Copied {
        source: version.clone(),
        copy: [Data::User.copy_for(uid), "u".to_owned(), "1".to_owned()],
        before: None,
        is_damaged: false,
    };
    for (uid, count) in [("earlier", 0), ("u", 1)] {
        claims
            .copied
            .lock()
            .insert(key.clone(), [(Data::User, copied(uid))].into());
        assert_eq!(
            claims.look(&key, claim(&json!({}))).unwrap().copied.len(),
            count,
            "{uid}"
        );
    }
}
