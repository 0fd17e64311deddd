//! `--enable-bmh-name-based-preallocation`: a pool reserves an address for a host.

use kube::ResourceExt;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim};
use metal3_api::ipam::IPClaim;
use metal3_testkit::namespace;
use serde_json::json;

use crate::data::{address_manager, cluster, machine, template, text};
use crate::support::Site;

/// What the host `h` has reserved; the pool would begin with another address.
const RESERVED: &str = "192.0.2.15";

#[tokio::test]
async fn a_host_has_the_address_that_its_pool_reserves_for_it_whatever_machine_it_runs() {
    let site = Site::new(namespace!().await).await;
    cluster(&site).await;
    site.apply(
        json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "p"},
        "spec": {"namePrefix": "p", "pools": [{"start": "192.0.2.10", "end": "192.0.2.20"}],
            "preAllocations": {"h-p": RESERVED}}}),
    )
    .await;
    // OWN 16d: the claim on a pool of such a name was refused, because a label of it was too long.
    let long = "p".repeat(70);
    site.apply(
        json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": {"name": long},
        "spec": {"namePrefix": "long", "pools": [{"start": "192.0.3.10", "end": "192.0.3.20"}]}}),
    )
    .await;
    let metadata =
        json!({"metaData": {"ipAddressesFromPool": [{"key": "ip", "name": "p"}, {"key": "long", "name": long}]}});
    site.apply(template("t", &metadata)).await;
    let (stop, mut manager) = address_manager(&site);
    let provider = site.provider_with(&["--enable-bmh-name-based-preallocation"]).await;

    for name in ["first", "next"] {
        machine(&site, name, "h", "t").await;
        let is_ready = |data: &Metal3Data| {
            let is_its = data.spec.claim.name == name;
            is_its && data.status.as_ref().is_some_and(|status| status.ready == Some(true))
        };
        let data = site.namespace.expect("t-0", "is ready", is_ready).await;
        let text = text(&site, &format!("{name}-metadata"), "metaData").await;
        assert!(text.contains(&format!("ip: \"{RESERVED}\"")), "{text}");
        let claimed: IPClaim = site.namespace.api().get("h-p").await.unwrap();
        let label = |key: &str| claimed.labels()[&format!("infrastructure.cluster.x-k8s.io/{key}")].clone();
        assert_eq!(
            (label("data-name"), label("pool-name")),
            ("t-0".to_owned(), "p".to_owned())
        );
        let of_long: IPClaim = site.namespace.api().get(&format!("h-{long}")).await.unwrap();
        let value = &of_long.labels()["infrastructure.cluster.x-k8s.io/pool-name"];
        assert!(value.len() <= 63 && value.starts_with("ppp"), "{value}");
        let is_marked = data.labels().keys().any(|key| key.ends_with("/pool-name"));
        assert!(
            !is_marked,
            "labels of one claim are not those of the data, which may have several"
        );

        site.delete::<Metal3DataClaim>(name).await;
        site.namespace.expect_gone::<Metal3DataClaim>(name).await;
        site.namespace.expect_gone::<Metal3Data>("t-0").await;
        site.namespace.expect_gone::<IPClaim>("h-p").await;
    }
    stop.cancel();
    while manager.join_next().await.is_some() {}
    provider.stop().await;
}
