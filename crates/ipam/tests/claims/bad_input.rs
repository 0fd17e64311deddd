//! What users get wrong: each is told where and why, nothing crashes, and nothing is given away by accident.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use metal3_api::condition::ConditionStatus;
use metal3_api::{capi, ipam};
use metal3_testkit::{DEADLINE, eventually, namespace};
use serde_json::json;

use crate::support::Site;

#[tokio::test]
async fn wrong_specifications_are_named_by_field() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    let good = json!({"start": "10.1.0.1", "end": "10.1.0.1"});
    let cases = [
        (
            "reversed",
            json!({"start": "10.0.0.9", "end": "10.0.0.1"}),
            "spec.pools[0]",
            true,
        ),
        (
            "families",
            json!({"start": "10.0.0.9", "end": "2001:db8::1"}),
            "spec.pools[0].end",
            true,
        ),
        (
            "elsewhere",
            json!({"start": "10.0.0.9", "subnet": "10.9.0.0/24"}),
            "spec.pools[0].start",
            true,
        ),
        // D18: neither of the two families.
        (
            "mapped",
            json!({"start": "::ffff:a00:1", "end": "::ffff:a00:9"}),
            "spec.pools[0].start",
            true,
        ),
        ("end-only", json!({"end": "10.0.0.9"}), "spec.pools[0].end", true),
        ("nothing", json!({"prefix": 24}), "spec.pools[0]", true),
        (
            "negative",
            json!({"start": "10.0.0.9", "end": "10.0.0.9", "prefix": -1}),
            "spec.pools[0].prefix",
            true,
        ),
        (
            "overlap",
            json!({"start": "10.1.0.1", "end": "10.1.0.1"}),
            "spec.pools[1]",
            false,
        ),
        (
            "gateway",
            json!({"subnet": "10.0.0.0/24", "gateway": "10.7.0.1"}),
            "spec.pools[0].gateway",
            false,
        ),
        (
            "prefix",
            json!({"start": "10.0.0.9", "end": "10.0.0.9", "prefix": 64}),
            "spec.pools[0].prefix",
            false,
        ),
    ];
    for (name, entry, field, is_error) in &cases {
        site.pool(name, json!({"pools": [entry, good], "prefix": 24})).await;
        let field = (*field).to_owned();
        let says = move |pool: &ipam::IPPool| {
            let conditions = pool.status.iter().flat_map(|s| &s.conditions);
            let mut valid = conditions.into_iter().filter(|c| c.type_ == "SpecValid");
            valid.any(|c| c.message.contains(&format!("{field}:")) && (c.status == ConditionStatus::False) == *is_error)
        };
        site.namespace.expect(name, "says what is wrong", says).await;
    }
    site.pool("prefix-of-names", json!({"pools": [good], "namePrefix": "Upper_Case"}))
        .await;
    let says = |pool: &ipam::IPPool| {
        let mut conditions = pool.status.iter().flat_map(|s| &s.conditions);
        conditions.any(|c| c.type_ == "SpecValid" && c.message.starts_with("spec.namePrefix: no object can have"))
    };
    site.namespace
        .expect("prefix-of-names", "says what is wrong", says)
        .await;
    // The rest of such a pool still works.
    site.claim("c", "reversed").await;
    assert_eq!(site.served("c").await.spec.address, "10.1.0.1");
    // What is given stays when the pool is made smaller, which a webhook would refuse (U3), and the pool says so.
    let pools = json!({"spec": {"pools": [{"start": "10.5.0.1", "end": "10.5.0.9"}]}});
    site.patch::<ipam::IPPool>("reversed", pools).await;
    let says = |pool: &ipam::IPPool| {
        let mut conditions = pool.status.iter().flat_map(|s| &s.conditions);
        let message = "spec.pools: 10.1.0.1 of IPClaim c is in use but out of bounds of the pools given";
        conditions.any(|c| c.type_ == "SpecValid" && c.message == message)
    };
    site.namespace.expect("reversed", "says what is outside", says).await;
    assert_eq!(site.served("c").await.spec.address, "10.1.0.1");
    // Cluster API would refuse an address with this prefix.
    site.capi_claim("prefix", "negative").await;
    let said = site.capi_refused("prefix", "AllocationFailed").await;
    assert!(
        said.message
            .contains("Invalid prefix value, it must be between 0 and 128"),
        "{}",
        said.message
    );
    let pool: ipam::IPPool = site.namespace.api().get("negative").await.unwrap();
    assert_eq!(pool.status.unwrap().allocations.len(), 0, "no address is lost to it");
    manager.stop().await;
}

#[tokio::test]
async fn claims_on_what_is_not_there_or_not_ours() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    // D5: another provider's pool of the same name.
    let foreign = json!({"apiGroup": "ipam.example.org", "kind": "IPPool", "name": "p"});
    site.capi_claim_with("foreign", foreign, json!({}), json!({})).await;
    let other_kind = json!({"apiGroup": "ipam.metal3.io", "kind": "GlobalIPPool", "name": "p"});
    site.capi_claim_with("other-kind", other_kind, json!({}), json!({}))
        .await;
    site.claim("early", "p").await;
    site.capi_claim("early", "p").await;
    let waits = |conditions: &[metal3_api::condition::Condition]| {
        let mut conditions = conditions.iter();
        conditions.any(|c| c.reason == "PoolNotReady" && c.message.contains("/p does not exist"))
    };
    let says = move |claim: &ipam::IPClaim| {
        claim
            .status
            .as_ref()
            .is_some_and(|s| waits(&s.conditions) && s.error_message.is_none())
    };
    site.namespace.expect("early", "says what it waits for", says).await;
    let said = site.capi_refused("early", "PoolNotReady").await;
    assert!(said.message.starts_with("spec.poolRef.name: "), "{}", said.message);
    // A claim on nothing can be deleted.
    site.claim("short", "p").await;
    site.delete::<ipam::IPClaim>("short").await;
    site.namespace.expect_gone::<ipam::IPClaim>("short").await;
    site.pool("p", json!({"pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}]}))
        .await;
    site.served("early").await;
    site.capi_served("early").await;
    // The definition requires a name wherever there is a specification.
    site.claim_without_spec("nameless").await;
    let error = "spec.pool.name: cannot be empty; it says which IPPool of this namespace serves the claim";
    let said = site.refused("nameless", error).await;
    assert_eq!(
        (said.reason.as_str(), said.message.as_str()),
        ("AllocationFailed", error)
    );
    // D15: never across namespaces.
    site.claim_with("across", json!({"name": "p", "namespace": "default"}), json!({}))
        .await;
    let error = "spec.pool.namespace: IPPool default/p is in another namespace; a claim is served from its own only";
    site.refused("across", error).await;
    // Nor does one wait for a pool here that would not be the one which it means.
    let no_pool = json!({"name": "nowhere", "namespace": "default"});
    site.claim_with("far", no_pool, json!({})).await;
    site.refused("far", &error.replace("default/p", "default/nowhere"))
        .await;
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    site.pool("paused", json!({"pools": [{"start": "10.0.1.1", "end": "10.0.1.9"}]}))
        .await;
    site.patch::<ipam::IPPool>("paused", paused).await;
    let of_paused = json!({"name": "paused", "namespace": "default"});
    site.claim_with("far-paused", of_paused, json!({})).await;
    site.refused("far-paused", &error.replace("default/p", "default/paused"))
        .await;
    // D13: what cannot be served stops nobody who asks after it, nor does a request that fails.
    deny_address_of(&site, "denied").await;
    site.claim("denied", "p").await;
    let said = site
        .refused("denied", "Failed to create associated IPAddress object")
        .await;
    assert!(said.message.contains("not this one"), "{}", said.message);
    site.claim("after", "p").await;
    site.served("after").await;
    site.delete::<ipam::IPClaim>("denied").await;
    site.namespace.expect_gone::<ipam::IPClaim>("denied").await;
    site.delete::<ipam::IPClaim>("across").await;
    site.namespace.expect_gone::<ipam::IPClaim>("across").await;
    site.settled().await;
    for name in ["foreign", "other-kind"] {
        let claim: capi::IPAddressClaim = site.namespace.api().get(name).await.unwrap();
        assert_eq!(
            (claim.finalizers().len(), claim.status),
            (0, None),
            "{name} is not touched"
        );
    }
    assert_eq!(site.addresses().await.len(), 3);
    manager.stop().await;
}

/// The server refuses the address of a claim of this name.
async fn deny_address_of(site: &Site, claim: &str) {
    let namespace = &site.namespace.name;
    let name = format!("deny-{namespace}");
    let rule = json!({"apiGroups": ["ipam.metal3.io"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["ipaddresses"]});
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
    let expression = format!("object.spec.claim.name != '{claim}'");
    let policy = json!({"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
        "validations": [{"expression": expression, "message": "not this one"}]}});
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).unwrap();
    let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).unwrap();
    let client = &site.namespace.client;
    Api::all(client.clone())
        .create(&PostParams::default(), &policy)
        .await
        .unwrap();
    Api::all(client.clone())
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    // It takes the server a moment to heed it.
    let probe = json!({"metadata": {"name": "probe"},
        "spec": {"address": "10.0.0.8", "pool": {"name": "p"}, "claim": {"name": claim}}});
    let probe: ipam::IPAddress = serde_json::from_value(probe).unwrap();
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    site.until("the policy is heeded", || async {
        match site.namespace.api().create(&dry, &probe).await {
            Ok(_) => Err("the address is accepted".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_pool_whose_status_cannot_be_written_says_so_on_its_claims_and_still_takes_addresses_back() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    site.pool("p", json!({"pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}]}))
        .await;
    site.claim("first", "p").await;
    site.served("first").await;
    site.settled().await;
    site.may_write_status("p", false).await;
    site.claim("c", "p").await;
    site.capi_claim("c", "p").await;
    let said = site.capi_refused("c", "PoolNotReady").await.message;
    let start = format!(
        "IPPool {}/p: its status cannot be written, without which no address is given: ",
        site.namespace.name
    );
    assert!(
        said.starts_with(&start) && said.contains("cannot patch resource"),
        "{said}"
    );
    assert_eq!(site.waits("c").await.message, said);
    site.namespace.expect_event("p", "PoolNotReady").await;
    site.delete::<ipam::IPClaim>("first").await;
    site.namespace.expect_gone::<ipam::IPClaim>("first").await;
    assert_eq!(site.addresses().await, []);
    site.may_write_status("p", true).await;
    site.served("c").await;
    site.capi_served("c").await;
    manager.stop().await;
}

/// Two pools with one prefix and one range: the names of their addresses collide.
#[tokio::test]
async fn pools_with_equal_prefixes_do_not_wait_for_each_other_for_ever() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    for pool in ["one", "two"] {
        let spec = json!({"namePrefix": "same", "pools": [{"start": "10.0.0.1", "end": "10.0.0.2"}]});
        site.pool(pool, spec).await;
    }
    site.claim("a", "one").await;
    assert_eq!(site.served("a").await.spec.address, "10.0.0.1");
    site.claim("b", "two").await;
    assert_eq!(
        site.served("b").await.spec.address,
        "10.0.0.2",
        "the first one's name is taken"
    );
    site.claim("c", "two").await;
    site.refused("c", "Exhausted IP Pools").await;
    site.delete::<ipam::IPClaim>("a").await;
    assert_eq!(site.served("c").await.spec.address, "10.0.0.1");
    manager.stop().await;
}

#[tokio::test]
async fn only_what_carries_the_watch_filters_label_is_touched() {
    let site = Site::new(namespace!().await).await;
    let manager = site
        .manager_with("blue", ip_address_manager::pool::Policy::default())
        .await;
    let blue = json!({"labels": {"cluster.x-k8s.io/watch-filter": "blue"}});
    site.pool("p", json!({"pools": [{"start": "10.0.0.1", "end": "10.0.0.9"}]}))
        .await;
    site.claim_with("mine", json!({"name": "p"}), blue.clone()).await;
    site.claim("others", "p").await;
    site.settled().await;
    assert_eq!(site.addresses().await, []);
    site.patch::<ipam::IPPool>("p", json!({"metadata": blue})).await;
    site.served("mine").await;
    site.settled().await;
    let claim: ipam::IPClaim = site.namespace.api().get("others").await.unwrap();
    assert_eq!((claim.finalizers().len(), claim.status), (0, None));
    manager.stop().await;
}

/// A pool with this many entries.
fn large_pool(name: &str, entries: u32) -> ipam::IPPool {
    let entry = |number: u32| json!({"start": std::net::Ipv4Addr::from_bits(number + 1).to_string()});
    let entries: Vec<_> = (0..entries).map(entry).collect();
    let pool = json!({"metadata": {"name": name}, "spec": {"namePrefix": "p", "pools": entries}});
    serde_json::from_value(pool).unwrap()
}

#[tokio::test]
async fn a_pool_of_too_many_entries_is_refused() {
    let site = Site::new(namespace!().await).await;
    let pools: Api<ipam::IPPool> = site.namespace.api();
    let made = async |pool: ipam::IPPool| pools.create(&PostParams::default(), &pool).await;
    made(large_pool("full", 10_000)).await.unwrap();
    let refused = made(large_pool("too-full", 10_001)).await.unwrap_err();
    assert!(refused.to_string().contains("spec.pools"), "{refused}");
}

/// The API server judges by the definition or, for as long as it may take a pool of any size, does not.
async fn judge_pools(client: &Client, judges: bool) {
    let mut definitions = metal3_testkit::definitions().unwrap();
    definitions.retain(|definition| definition.name_any() == "ippools.ipam.metal3.io");
    let rules = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/pools/x-kubernetes-validations";
    let pools = definitions[0].data.pointer_mut(rules).unwrap();
    if !judges {
        *pools = json!([]);
    }
    metal3_lab::apply::apply(client, &definitions, None).await.unwrap();
    let pools: Api<ipam::IPPool> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let probe = large_pool("probe", 10_001);
    eventually(DEADLINE, "the definition applies", async || {
        let made = pools.create(&dry_run, &probe).await;
        if made.is_err() == judges {
            Ok(())
        } else {
            Err(format!("refused: {}", made.is_err()))
        }
    })
    .await;
}

// OWN 30sa: any change of the entries of such a pool was refused that did not shorten it to 10,000 at once.
#[tokio::test]
async fn a_stored_pool_of_too_many_entries_can_be_changed_but_must_not_grow() {
    let client = metal3_testkit::another_server().await.client().await.unwrap();
    let pools: Api<ipam::IPPool> = Api::namespaced(client.clone(), "default");
    judge_pools(&client, false).await;
    let pool = large_pool("old", 10_003);
    pools.create(&PostParams::default(), &pool).await.unwrap();
    judge_pools(&client, true).await;

    let change = async |change: &dyn Fn(&mut ipam::IPPool)| {
        let mut pool = pools.get("old").await.unwrap();
        change(&mut pool);
        pools.replace("old", &PostParams::default(), &pool).await.map(|_| ())
    };
    change(&|pool| pool.spec.prefix = 24).await.unwrap();
    change(&|pool| pool.labels_mut().extend([("a".to_owned(), "b".to_owned())]))
        .await
        .unwrap();
    change(&|pool| pool.spec.pools[0].prefix = 25).await.unwrap();
    change(&|pool| drop(pool.spec.pools.pop())).await.unwrap();
    let refused = change(&|pool| pool.spec.pools.push(pool.spec.pools[0].clone()))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("there can be 10000 entries at most"),
        "{refused}"
    );
}
