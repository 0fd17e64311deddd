use super::*;

const MANY: usize = 2000;

/// How many hosts were looked at until each of so many claims had its own.
fn looked_at(of_host: impl Fn(usize) -> Value, of_claim: impl Fn(usize) -> Value) -> usize {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    for number in 0..MANY {
        ctx.hosts
            .put((*host(&format!("host-{number}"), "available", &of_host(number))).clone());
    }
    let mut looked_at = 0;
    for number in 0..MANY {
        let own = json!({"metadata": {"name": format!("c{number}"), "uid": format!("uid-{number}")}});
        let claim = claim(&merged(own, &of_claim(number)));
        let request = Request::of(&claim, BTreeSet::from(["hosts".to_owned()])).unwrap();
        let found = claims.hosts.candidates(&request, 1, |_| false);
        looked_at += found.looked_at;
        let hosts: Vec<_> = found.hosts.into_iter().map(|(_, host)| host).collect();
        let chosen = request.choose(&hosts, |_| 0).expect("a host");
        assert!(chosen.consumer().is_none());
        ctx.hosts.put((*patched(&**chosen, &ours())).clone());
    }
    looked_at
}

// OWN 31ce: each claim looked at every free host: 10,000 claims for 10,000 hosts looked 50 million times.
#[rstest]
#[case::any(json!({}), json!({}))]
#[case::label(json!({"metadata": {"labels": {"rack": "N"}}}), json!({"spec": {"hostSelector": {"matchLabels": {"rack": "N"}}}}))]
#[case::one_value(json!({"metadata": {"labels": {"rack": "N"}}}),
    json!({"spec": {"hostSelector": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["N"]}]}}}))]
#[case::domain(json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/failure-domain": "N"}}}), json!({"spec": {"failureDomain": "N"}}))]
#[tokio::test]
async fn the_choice_of_a_host_does_not_depend_on_their_number(#[case] of_host: Value, #[case] of_claim: Value) {
    let in_rack = |value: &Value, number: usize| {
        serde_json::from_str(&value.to_string().replace("\"N\"", &format!("\"{}\"", number % 40))).unwrap()
    };
    let looked_at = looked_at(|number| in_rack(&of_host, number), |number| in_rack(&of_claim, number));
    println!("{MANY} claims looked at {looked_at} of {MANY} hosts");
    assert!(looked_at <= 2 * MANY, "{looked_at}");
}

#[test]
fn hosts_that_become_free_wake_claims_without_a_look_at_all_of_them() {
    let waiting = Waiting::default();
    for number in 0..MANY {
        let claim = claim(&json!({"metadata": {"name": format!("c{number:04}")}}));
        let request = Request::of(&claim, BTreeSet::from(["hosts".to_owned()])).unwrap();
        waiting.add(&claim, request);
    }
    let free = host("h", "available", &json!({}));
    let woken: BTreeSet<_> = (0..MANY).map(|_| waiting.offer(&free, None).unwrap().name).collect();
    assert_eq!(woken.len(), MANY, "each is woken once");
    assert_eq!(waiting.offer(&free, None), None);
    let first = ObjectKey::new("tenant", "c0000");
    assert!(waiting.offered(&first).is_some());
    assert_eq!(waiting.offer(&free, None), Some(first));
}

// The right one of many is found also where the first ones were refused.
#[tokio::test]
async fn refused_hosts_come_last() {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    for number in 0..20 {
        ctx.hosts
            .put((*host(&format!("host-{number}"), "available", &json!({}))).clone());
    }
    let claim = claim(&json!({}));
    let request = Request::of(&claim, BTreeSet::from(["hosts".to_owned()])).unwrap();
    let mut refused = BTreeSet::new();
    for count in 0..20 {
        let found = claims.hosts.candidates(&request, refused.len() + 1, |_| false);
        let hosts: Vec<_> = found.hosts.into_iter().map(|(_, host)| host).collect();
        let chosen = request.choose(&hosts, |host| u32::from(refused.contains(&host.metadata.name)));
        assert!(refused.insert(chosen.unwrap().metadata.name.clone()), "{count}");
    }
}

// OWN 31cp: a claim got a host outside its failure domain because another one had only looked at the host inside.
#[tokio::test]
async fn a_host_that_another_claim_only_looks_at_is_not_reserved() {
    let in_domain =
        |domain: &str| json!({"metadata": {"labels": {"infrastructure.cluster.x-k8s.io/failure-domain": domain}}});
    let of_domain = |name: &str, domain: &str| {
        claim(&json!({"metadata": {"name": name, "uid": name}, "spec": {"failureDomain": domain}}))
    };
    // Where the other claim begins to look depends on its UID.
    for number in 0..32 {
        let (ctx, _) = crate::host::context::out_of_reach(1);
        let claims = controller(&ctx, true, Queue::new());
        claims.policies.put(policy());
        for name in ["x", "y", "z"] {
            ctx.hosts.put((*host(name, "available", &in_domain(name))).clone());
        }
        let look = |name: &str, domain: &str| {
            let key = ObjectKey::new("tenant", name);
            taken(&claims.look(&key, of_domain(name, domain)).unwrap()).unwrap()
        };
        assert_eq!(look(&format!("c{number}"), "x"), "x");
        assert_eq!(look("d", "y"), "y", "after c{number}");
    }
}

// OWN 31ck: passes at the same time chose the same host, and all but one lost it.
#[tokio::test]
async fn claims_that_look_at_the_same_time_choose_different_hosts() {
    let (ctx, _) = crate::host::context::out_of_reach(1);
    let claims = controller(&ctx, true, Queue::new());
    claims.policies.put(policy());
    for name in ["a", "b"] {
        ctx.hosts.put((*host(name, "available", &json!({}))).clone());
    }
    let look = |name: &str| {
        let own = claim(&json!({"metadata": {"name": name}}));
        let seen = claims.look(&ObjectKey::new("tenant", name), own).unwrap();
        taken(&seen).unwrap()
    };
    let both = BTreeSet::from([look("c"), look("d")]);
    assert_eq!(both.len(), 2);
    // With more claims than hosts, the first to write has it.
    assert!(both.contains(&look("e")));
    for name in ["c", "d", "e"] {
        claims.ended(&ObjectKey::new("tenant", name), None, &Ok(Next::Change));
    }
    assert!(claims.reserved.lock().is_empty());
}
