use super::*;

/// What upstream's operator writes into a host before it stores the status of the claim.
fn by_name() -> Value {
    merged(
        ours(),
        &json!({"metadata": {"annotations": null}, "spec": {"consumerRef": {"uid": null}}}),
    )
}

/// What is seen of a claim when these hosts exist, where a policy permits it.
fn look(of_claim: &Value, hosts: &[Arc<BareMetalHost>]) -> Observed {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    claims.policies.put(policy());
    for host in hosts {
        ctx.hosts.put((**host).clone());
    }
    claims.look(&ObjectKey::new("tenant", "c"), claim(of_claim)).unwrap()
}

// OWN 31vl: the host that upstream's operator had bound stayed in use for nobody if the claim's status was not stored any more.
#[rstest]
#[case::by_upstream(json!({}), json!({}), "named")]
#[case::empty_uid(json!({}), json!({"spec": {"consumerRef": {"uid": ""}}}), "named")]
#[case::other_uid(json!({}), json!({"spec": {"consumerRef": {"uid": "former"}}}), "free")]
#[case::other_name(json!({}), json!({"spec": {"consumerRef": {"name": "d"}}}), "free")]
#[case::other_namespace(json!({}), json!({"spec": {"consumerRef": {"namespace": "other"}}}), "free")]
#[case::other_kind(json!({}), json!({"spec": {"consumerRef": {"kind": "Metal3Machine"}}}), "free")]
#[case::other_group(json!({}), json!({"spec": {"consumerRef": {"apiVersion": "x/v1alpha1"}}}), "free")]
#[case::no_policy(json!({}), json!({"metadata": {"namespace": "other"}}), "free")]
// What an earlier claim of this name leaves is not inherited before it is clean.
#[case::deprovisioning(json!({}), json!({"status": {"provisioning": {"state": "deprovisioning"}}}), "free")]
#[case::provisioned(json!({}), json!({"status": {"provisioning": {"state": "provisioned"}}}), "free")]
#[case::has_an_image(json!({}), json!({"spec": {"image": {"url": "http://i"}}}), "free")]
#[case::paused(json!({}), json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}), "free")]
#[case::deleted(json!({}), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "free")]
#[case::failed(json!({}), json!({"status": {"errorMessage": "x"}}), "free")]
#[case::label(json!({"spec": {"hostSelector": {"matchLabels": {"rack": "a"}}}}), json!({"metadata": {"labels": {"rack": "b"}}}), "free")]
#[case::secret_for_nobody(json!({"spec": {"userData": {"name": "s"}}}), json!({}), "none")]
#[tokio::test]
async fn a_host_that_names_the_claim_as_upstream_does_is_taken_first(
    #[case] of_claim: Value,
    #[case] of_host: Value,
    #[case] expected: &str,
) {
    let named = host("named", "available", &by_name());
    let named = patched(&*named, &of_host);
    // Whatever the order of the claim is.
    for number in 0..8 {
        let free = json!({"metadata": {"name": format!("free-{number}"), "labels": {"rack": "a"}}});
        let free = host("free", "available", &free);
        let uid = json!({"metadata": {"uid": format!("u{number}")}});
        let seen = look(&merged(uid, &of_claim), &[named.clone(), free]);
        assert!(seen.own.is_empty(), "it is not the claim's until it is taken");
        let taken = taken(&seen).unwrap_or_else(|| "none".to_owned());
        assert_eq!(taken.split('-').next(), Some(expected), "{number}");
    }
}

/// The hosts that are let go.
fn let_go(effects: &[Effect]) -> Vec<&str> {
    let freed = effects.iter().filter_map(|effect| match effect {
        Effect::Free(host) => host.metadata.name.as_deref(),
        _ => None,
    });
    freed.collect()
}

#[tokio::test]
async fn of_several_hosts_that_name_the_claim_one_is_taken_and_the_others_are_free_again() {
    let names = |name: &str| host(name, "available", &by_name());
    let runs = json!({"spec": {"image": {"url": "http://theirs"}}});
    let runs = host("d", "provisioned", &merged(by_name(), &runs));
    let elsewhere = patched(&*names("e"), &json!({"metadata": {"namespace": "other"}}));
    let mut hosts = vec![names("c"), names("a"), names("b"), runs, elsewhere];
    let first = plan(&look(&json!({}), &hosts));
    assert!(
        matches!(&first.effects[..], [Effect::Take(host)] if host.metadata.name.as_deref() == Some("a")),
        "{first:?}"
    );
    assert!(
        first.afterwards.is_empty(),
        "nothing is let go before the claim has one"
    );
    hosts[1] = host("a", "available", &ours());
    let second = plan(&look(&json!({}), &hosts));
    // What runs something, and what is where no policy permits the claim, stays as it is.
    assert_eq!(let_go(&second.afterwards), ["b", "c"]);
    assert!(second.report.status.is_some(), "the report does not wait for that");
    // Nor is anything let go for a claim that has lost its host.
    let lost = json!({"status": {"bareMetalHost": {"namespace": "hosts", "name": "gone"}}});
    let mut seen = look(&lost, &[names("b")]);
    seen.bound = Bound::Known;
    let lost = plan(&seen);
    assert!(lost.effects.is_empty() && lost.afterwards.is_empty(), "{lost:?}");
}

#[tokio::test]
async fn a_host_that_upstream_bound_and_stored_is_not_let_go() {
    let bound = json!({"status": {"bareMetalHost": {"namespace": "hosts", "name": "b"}}});
    let seen = look(&bound, &["a", "b"].map(|name| host(name, "available", &by_name())));
    let kept = plan(&seen);
    assert_eq!(seen.own.len(), 1);
    assert_eq!(let_go(&kept.afterwards), ["a"]);
    assert!(matches!(kept.effects[..], [Effect::SetHost(0, _)]), "{kept:?}");
}

#[tokio::test]
async fn a_deleted_claim_lets_go_of_what_only_names_it() {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let runs = json!({"spec": {"image": {"url": "http://theirs"}}});
    let hosts = [
        host("a", "available", &by_name()),
        host("b", "provisioned", &merged(by_name(), &runs)),
    ];
    let ends = plan(&look(&deleted, &hosts)).effects;
    assert_eq!(let_go(&ends), ["a"]);
    assert_eq!(ends.last(), Some(&Effect::RemoveFinalizer));
}

#[tokio::test]
async fn a_host_that_refuses_the_claim_whose_name_it_has_is_not_tried_for_ever() {
    let hosts = [
        host("named", "available", &by_name()),
        host("free", "available", &json!({})),
    ];
    let mut seen = look(&json!({}), &hosts);
    let effects = plan(&seen).effects;
    let error = kube::Error::Api(Box::new(kube::core::Status::failure("no", "Forbidden").with_code(403)));
    count_refusal(&mut seen, &effects[0], &error);
    assert_eq!(taken(&seen).as_deref(), Some("free"));
}
