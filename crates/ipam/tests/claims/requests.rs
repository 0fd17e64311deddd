//! Addresses that are kept for a claim, and addresses that a claim asks for.

use kube::ResourceExt;
use metal3_api::ipam;
use metal3_testkit::namespace;
use serde_json::json;

use crate::support::Site;

#[tokio::test]
async fn reservations_and_requests_of_both_families() {
    let site = Site::new(namespace!().await).await;
    let manager = site.manager().await;
    let entry = json!({"start": "2001:db8::1", "end": "2001:db8::9"});
    // D4: another spelling of ::2 keeps it all the same.
    let kept = json!({"kept": "2001:DB8:0:0::2", "kept-too": "2001:db8::3", "outside": "2001:db8::ff"});
    site.pool("p", json!({"pools": [entry], "prefix": 64, "preAllocations": kept}))
        .await;
    for name in ["a", "b", "kept"] {
        site.claim(name, "p").await;
    }
    assert_eq!(site.served("a").await.spec.address, "2001:db8::1");
    assert_eq!(site.served("b").await.spec.address, "2001:db8::4");
    let address = site.served("kept").await;
    assert_eq!(
        (address.spec.address.as_str(), address.name_any().as_str()),
        ("2001:db8::2", "p-2001-db8--2")
    );
    site.capi_claim("kept-too", "p").await;
    assert_eq!(site.capi_served("kept-too").await.spec.address, "2001:db8::3");
    // D11: it is another live claim's.
    site.capi_claim("kept", "p").await;
    let said = site.capi_refused("kept", "AllocationFailed").await;
    assert!(
        said.message
            .contains("2001:db8::2 is held by another claim: spec.preAllocations.kept of the pool keeps 2001:db8::2, which IPClaim kept has"),
        "{}",
        said.message
    );
    site.claim("outside", "p").await;
    let said = site.refused("outside", "Pre-allocated IP out of bounds").await;
    let why = "spec.preAllocations.outside of the pool keeps 2001:db8::ff, which is in no range of spec.pools";
    assert!(said.message.ends_with(why), "{}", said.message);

    let asking = |address: &str| json!({"annotations": {"ipAddress": address}});
    let pool = || json!({"name": "p"});
    let reference = || json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": "p"});
    site.claim_with("wish", pool(), asking("2001:db8::8")).await;
    assert_eq!(site.served("wish").await.spec.address, "2001:db8::8");
    site.capi_claim_with("wish-capi", reference(), json!({}), asking("2001:DB8::9"))
        .await;
    assert_eq!(site.capi_served("wish-capi").await.spec.address, "2001:db8::9");
    site.claim_with("taken", pool(), asking("2001:db8:0::8")).await;
    let said = site.refused("taken", "Requested IP not available").await;
    assert!(
        said.message.contains(&format!("IPPool {}/p", site.namespace.name)),
        "{}",
        said.message
    );
    assert_eq!(said.reason, "AllocationFailed");
    let why = "metadata.annotations.ipAddress asks for 2001:db8::8, which IPClaim wish has";
    assert!(said.message.ends_with(why), "{}", said.message);
    site.claim_with("kept-for-another", pool(), asking("2001:db8::3")).await;
    let said = site.refused("kept-for-another", "Requested IP not available").await;
    let why = "asks for 2001:db8::3, which IPAddressClaim kept-too has";
    assert!(said.message.ends_with(why), "{}", said.message);
    site.capi_claim_with("nonsense", reference(), json!({}), asking("2001:db8::8::"))
        .await;
    let said = site.capi_refused("nonsense", "AllocationFailed").await;
    assert!(
        said.message.contains("Invalid ipAddress annotation"),
        "{}",
        said.message
    );
    site.capi_claim_with("mapped", reference(), json!({}), asking("::ffff:102:304"))
        .await;
    site.capi_refused("mapped", "AllocationFailed").await;
    site.capi_claim_with("too-far", reference(), json!({}), asking("2001:db9::1"))
        .await;
    let said = site.capi_refused("too-far", "AllocationFailed").await;
    assert!(
        said.message.contains("Exhausted IP Pools: the requested address"),
        "D10: {}",
        said.message
    );

    // A conflict, and the end of it: the claim asks for what is kept for it.
    site.patch::<ipam::IPPool>("p", json!({"spec": {"preAllocations": {"torn": "2001:db8::5"}}}))
        .await;
    site.claim_with("torn", pool(), asking("2001:db8::6")).await;
    let said = site
        .refused("torn", "PreAllocation and requested ip address are conflicting")
        .await;
    let both = "asks for 2001:db8::6, spec.preAllocations.torn of the pool keeps 2001:db8::5";
    assert!(said.message.contains(both), "{}", said.message);
    site.patch::<ipam::IPClaim>(
        "torn",
        asking("2001:db8::5")
            .as_object()
            .map(|m| json!({"metadata": m}))
            .unwrap(),
    )
    .await;
    assert_eq!(site.served("torn").await.spec.address, "2001:db8::5");
    // And of the other: the older claim goes.
    site.delete::<ipam::IPClaim>("kept").await;
    assert_eq!(site.capi_served("kept").await.spec.address, "2001:db8::2");
    site.delete::<ipam::IPClaim>("wish").await;
    assert_eq!(site.served("taken").await.spec.address, "2001:db8::8");

    // A machine that is provisioned anew claims under the name that it had, and gets what is kept for that name.
    let kept = json!({"spec": {"preAllocations": {"torn": "2001:db8::5", "host": "2001:db8::7"}}});
    site.patch::<ipam::IPPool>("p", kept).await;
    for _ in 0..2 {
        site.claim("host", "p").await;
        assert_eq!(site.served("host").await.spec.address, "2001:db8::7");
        site.delete::<ipam::IPClaim>("host").await;
        site.namespace.expect_gone::<ipam::IPClaim>("host").await;
    }
    site.claim_with("not-the-host", pool(), asking("2001:db8::7")).await;
    let said = site.refused("not-the-host", "Requested IP not available").await;
    let why = "which spec.preAllocations.host of the pool keeps";
    assert!(said.message.ends_with(why), "{}", said.message);
    manager.stop().await;
}
