//! Metal3DataTemplates, Metal3DataClaims and Metal3Datas. Addresses come from the real address manager.

use std::collections::BTreeSet;
use std::time::Duration;

use ip_address_manager::pool::Policy;
use ip_address_manager::run::{Manager, Setup};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ListParams;
use metal3_api::capi::IPAddressClaim;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3Machine};
use metal3_api::ipam::IPClaim;
use metal3_lab::audit::Request;
use metal3_runtime::Clock;
use metal3_runtime::args::Namespaces;
use metal3_runtime::metrics::{Build, ControllerMetrics, Registry};
use metal3_runtime::probes::Check;
use metal3_testkit::{DEADLINE, eventually, namespace};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::Site;

const INFRA: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// Something that a claim or a machine has as its owner. It need not exist where nobody looks for it.
fn owned(kind: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": INFRA, "kind": kind, "name": name, "uid": uid, "controller": true}])
}

pub fn template(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": INFRA, "kind": "Metal3DataTemplate", "metadata": {"name": name}, "spec": spec})
}

pub fn claim(name: &str, template: &str, machine: &str, uid: &str) -> Value {
    json!({"apiVersion": INFRA, "kind": "Metal3DataClaim",
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "ownerReferences": owned("Metal3Machine", machine, uid)},
        "spec": {"template": {"name": template}}})
}

pub async fn cluster(site: &Site) {
    let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
    site.cluster("c", endpoint).await;
}

fn answer(claim: &Metal3DataClaim) -> String {
    claim.status.clone().unwrap_or_default().rendered_data.name
}

/// Two providers at once, without a leader: every claim gets one index, and no index is left out.
#[tokio::test]
async fn a_hundred_claims_at_once_get_an_index_each_from_two_providers() {
    let site = Site::new(namespace!().await).await;
    cluster(&site).await;
    site.apply(template("t", &json!({}))).await;
    let providers = [site.provider().await, site.provider().await];
    let claims: Vec<String> = (0..100)
        .map(|number| claim(&format!("m{number}"), "t", "m", "no-such-machine").to_string())
        .collect();
    site.namespace.apply(&claims.join("\n---\n")).await;
    let is_complete = |template: &Metal3DataTemplate| template.status.clone().unwrap_or_default().indexes.len() == 100;
    site.namespace.expect("t", "lists a hundred indexes", is_complete).await;
    let settled = site.settled().await;
    let datas = site
        .namespace
        .api::<Metal3Data>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let indexes: BTreeSet<i32> = datas.iter().filter_map(|data| data.spec.index).collect();
    assert_eq!((datas.items.len(), indexes), (100, (0..100).collect()));
    let claims = site
        .namespace
        .api::<Metal3DataClaim>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let answers: BTreeSet<String> = claims.iter().map(answer).collect();
    assert_eq!(answers, datas.iter().map(ResourceExt::name_any).collect());

    // A status that was wiped, as `clusterctl move` does, comes back as it was.
    let before = answer(&claims.items[7]);
    let name = claims.items[7].name_any();
    let api = site.namespace.api::<Metal3DataClaim>();
    let wipe = kube::api::Patch::Merge(json!({"status": {"renderedData": null}}));
    api.patch_status(&name, &kube::api::PatchParams::default(), &wipe)
        .await
        .unwrap();
    let is_back = |claim: &Metal3DataClaim| answer(claim) == before;
    site.namespace.expect(&name, "has its answer again", is_back).await;
    assert!(site.settled().await > settled);

    // Whoever goes leaves the index to the next one.
    let freed = claims.items[20].name_any();
    let index = answer(&claims.items[20]);
    site.delete::<Metal3DataClaim>(&freed).await;
    site.namespace.expect_gone::<Metal3DataClaim>(&freed).await;
    site.namespace.expect_gone::<Metal3Data>(&index).await;
    site.apply(claim("next", "t", "m", "no-such-machine")).await;
    let takes_it = |claim: &Metal3DataClaim| answer(claim) == index;
    site.namespace
        .expect("next", "gets the index that is free", takes_it)
        .await;
    for provider in providers {
        provider.stop().await;
    }
}

/// The address manager of Metal3, in this process.
pub fn address_manager(site: &Site) -> (CancellationToken, JoinSet<()>) {
    let registry = Registry::new(Build {
        component: "test",
        version: "0",
    });
    let metrics = ControllerMetrics::new(&registry);
    let setup = Setup {
        namespaces: Namespaces::Only(vec![site.namespace.name.clone()]),
        watch_filter: String::new(),
        concurrency: 2,
        sync_period: Duration::from_secs(600),
        policy: Policy::default(),
    };
    let (stop, mut task) = (CancellationToken::new(), JoinSet::new());
    let client = site.namespace.client.clone();
    let manager = Manager::new(client, Clock::system(), &registry, setup, stop.clone());
    task.spawn(async move {
        let (_leading, leads) = watch::channel(true);
        manager.run(leads, metrics, &Check::default()).await.unwrap();
    });
    (stop, task)
}

/// A Machine, a Metal3Machine on a host, and the Metal3Machine's claim.
pub async fn machine(site: &Site, name: &str, host: &str, template: &str) {
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c"});
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "labels": labels},
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "b"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Machine", "name": name}}});
    let machine = site.namespace.apply(&machine.to_string()).await;
    let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name,
        "uid": machine[0].metadata.uid}]);
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": host},
        "spec": {"online": false, "bootMACAddress": "52:54:00:00:00:01"}});
    site.apply(object).await;
    let metal3 = json!({"apiVersion": INFRA, "kind": "Metal3Machine",
        "metadata": {"name": name, "labels": labels, "ownerReferences": owner,
            "annotations": {"metal3.io/BareMetalHost": format!("{}/{host}", site.namespace.name)}},
        "spec": {"dataTemplate": {"name": template}, "image": {"url": "http://192.0.2.1/image", "checksum": "abc"}}});
    let metal3 = site.namespace.apply(&metal3.to_string()).await;
    let uid = metal3[0].metadata.uid.clone().unwrap();
    site.apply(claim(name, template, name, &uid)).await;
}

pub async fn text(site: &Site, secret: &str, key: &str) -> String {
    let secret = site.namespace.api::<Secret>().get(secret).await.unwrap();
    let data = secret.data.unwrap_or_default();
    String::from_utf8(data[key].0.clone()).unwrap()
}

#[tokio::test]
async fn data_from_addresses_of_both_kinds_to_its_end() {
    let site = Site::new(namespace!().await).await;
    cluster(&site).await;
    let spec = json!({
        "metaData": {
            "indexes": [{"key": "number", "prefix": "n-"}],
            "ipAddressesFromPool": [{"key": "ip", "name": "p"}, {"key": "other", "name": "q", "kind": "OtherPool",
                "apiGroup": "ipam.example.com"}],
            "dnsServersFromPool": [{"key": "dns", "name": "p"}],
            "fromHostInterfaces": [{"key": "mac", "fromBootMAC": true}],
        },
        "networkData": {
            "links": {"ethernets": [{"type": "phy", "id": "nic0", "macAddress": {"string": "52:54:00:00:00:01"}}]},
            "networks": {"ipv4": [{"id": "net0", "link": "nic0", "fromPoolRef": {"name": "p"}}]},
        },
    });
    site.apply(template("t", &spec)).await;
    let provider = site.provider().await;
    machine(&site, "m", "h", "t").await;

    // Its pool is missing, and that is said.
    let says_so = |data: &Metal3Data| {
        let status = data.status.clone().unwrap_or_default();
        status.error_message.contains("IPPool p, which does not exist")
    };
    site.namespace
        .expect("t-0", "names the pool that is missing", says_so)
        .await;
    site.namespace.expect_event("t-0", "NotRendered").await;
    let pool = json!({"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "p"},
        "spec": {"namePrefix": "p", "prefix": 24, "gateway": "192.0.2.1", "dnsServers": ["192.0.2.53"],
            "pools": [{"start": "192.0.2.10", "end": "192.0.2.20"}]}});
    site.apply(pool).await;
    let (stop, mut manager) = address_manager(&site);

    // The other pool's provider is played by the test.
    let asked = site
        .namespace
        .expect("t-0-q", "is made", |_: &IPAddressClaim| true)
        .await;
    assert_eq!(asked.spec.cluster_name, "c");
    let uid = asked.uid().unwrap();
    let address = json!({"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddress",
        "metadata": {"name": "t-0-q", "ownerReferences": [{"apiVersion": "ipam.cluster.x-k8s.io/v1beta2",
            "kind": "IPAddressClaim", "name": "t-0-q", "uid": uid}]},
        "spec": {"claimRef": {"name": "t-0-q"}, "address": "198.51.100.7", "prefix": 24,
            "poolRef": {"apiGroup": "ipam.example.com", "kind": "OtherPool", "name": "q"}}});
    site.apply(address).await;
    let answered = kube::api::Patch::Merge(json!({"status": {"addressRef": {"name": "t-0-q"}}}));
    let claims = site.namespace.api::<IPAddressClaim>();
    claims
        .patch_status("t-0-q", &kube::api::PatchParams::default(), &answered)
        .await
        .unwrap();

    let is_ready = |data: &Metal3Data| {
        let status = data.status.clone().unwrap_or_default();
        status.ready == Some(true) && status.error_message.is_empty()
    };
    site.namespace.expect("t-0", "is ready", is_ready).await;
    let metadata = text(&site, "m-metadata", "metaData").await;
    for line in [
        "number: n-0",
        "ip: \"192.0.2.10\"",
        "other: \"198.51.100.7\"",
        "dns: \"192.0.2.53\"",
        "\"52:54:00:00:00:01\"",
    ] {
        assert!(metadata.contains(line), "{line} in\n{metadata}");
    }
    let network = text(&site, "m-networkdata", "networkData").await;
    assert!(
        network.contains("ip_address: \"192.0.2.10\"") && network.contains("netmask: \"255.255.255.0\""),
        "{network}"
    );

    // At rest nothing is asked. A Secret that gets lost comes back, and is the same.
    let settled = site.settled().await;
    assert_eq!(site.settled().await, settled);
    site.delete::<Secret>("m-networkdata").await;
    let old = network;
    site.namespace
        .expect("m-networkdata", "is made again", |_: &Secret| true)
        .await;
    assert_eq!(text(&site, "m-networkdata", "networkData").await, old);
    assert_eq!(text(&site, "m-metadata", "metaData").await, metadata);

    // One that loses its owner is taken over as it is, and the other one is not touched.
    let secrets = site.namespace.api::<Secret>();
    let before = secrets.get("m-metadata").await.unwrap();
    let orphaned = kube::api::Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    secrets
        .patch("m-metadata", &kube::api::PatchParams::default(), &orphaned)
        .await
        .unwrap();
    let is_as_before = |secret: &Secret| {
        secret.metadata.owner_references == before.metadata.owner_references
            && secret.uid() == before.uid()
            && secret.data == before.data
    };
    site.namespace
        .expect("m-metadata", "has its owner again", is_as_before)
        .await;
    let data = site.namespace.api::<Metal3Data>().get("t-0").await.unwrap();
    assert!(is_ready(&data), "{:?}", data.status);

    // With another content it is left alone, and said.
    let edited = json!({"metadata": {"ownerReferences": null}, "data": {"metaData": "YTogYgo="}});
    let edited = kube::api::Patch::Merge(edited);
    secrets
        .patch("m-metadata", &kube::api::PatchParams::default(), &edited)
        .await
        .unwrap();
    let is_told = |data: &Metal3Data| {
        let message = data.status.clone().unwrap_or_default().error_message;
        message.contains("Secret m-metadata") && message.contains("holds something else")
    };
    site.namespace.expect("t-0", "names the Secret", is_told).await;
    assert_eq!(text(&site, "m-metadata", "metaData").await, "a: b\n");
    site.delete::<Secret>("m-metadata").await;
    site.namespace.expect("t-0", "is ready again", is_ready).await;
    assert_eq!(text(&site, "m-metadata", "metaData").await, metadata);

    // It outlives a wish to delete it as long as its claim is there, and goes with the claim, with all that it had.
    site.delete::<Metal3Data>("t-0").await;
    let is_held = |data: &Metal3Data| {
        let status = data.status.clone().unwrap_or_default();
        status.error_message.contains("still needs it")
    };
    site.namespace.expect("t-0", "says what keeps it", is_held).await;
    site.delete::<Metal3DataClaim>("m").await;
    site.namespace.expect_gone::<Metal3Data>("t-0").await;
    site.namespace.expect_gone::<Metal3DataClaim>("m").await;
    site.namespace.expect_gone::<IPClaim>("t-0-p").await;
    site.namespace.expect_gone::<IPAddressClaim>("t-0-q").await;
    site.namespace.expect_gone::<Secret>("m-metadata").await;
    site.namespace.expect_gone::<Secret>("m-networkdata").await;
    let left = site.namespace.api::<metal3_api::ipam::IPAddress>();
    let none_left = || async {
        match left.list(&ListParams::default()).await.unwrap().items.len() {
            0 => Ok(()),
            count => Err(format!("{count} are left")),
        }
    };
    eventually(DEADLINE, "all addresses are free", none_left).await;
    site.delete::<Metal3DataTemplate>("t").await;
    site.namespace.expect_gone::<Metal3DataTemplate>("t").await;
    stop.cancel();
    while manager.join_next().await.is_some() {}
    provider.stop().await;
}

// OWN 31wy: upstream's provider, and ours as clusterctl installed it, could list the Secrets of all namespaces.
#[tokio::test]
async fn rendered_data_is_kept_by_who_may_not_list_secrets() {
    let site = Site::new(namespace!().await).await;
    site.grant_secrets_by_name().await;
    cluster(&site).await;
    let spec = json!({"metaData": {"indexes": [{"key": "number", "prefix": "n-"}]}});
    site.apply(template("t", &spec)).await;
    let provider = site.provider().await;
    machine(&site, "m", "h", "t").await;
    let is_ready = |data: &Metal3Data| data.status.as_ref().is_some_and(|status| status.ready == Some(true));
    site.namespace.expect("t-0", "is ready", is_ready).await;

    let lose = async || {
        site.delete::<Secret>("m-metadata").await;
        site.namespace
            .expect("m-metadata", "is made again", |_: &Secret| true)
            .await;
        assert!(text(&site, "m-metadata", "metaData").await.contains("number: n-0\n"));
    };
    lose().await;
    provider.stop().await;
    let provider = site.provider().await;
    lose().await;
    let is_refused = |request: &Request| request.resource == "secrets" && request.status == 403;
    assert!(site.requests().iter().any(is_refused), "Secrets were listed");

    // What is made again at once is not taken for that of before.
    for _ in 0..2 {
        let uid = site
            .namespace
            .api::<Metal3Machine>()
            .get("m")
            .await
            .unwrap()
            .uid()
            .unwrap();
        site.delete::<Metal3DataClaim>("m").await;
        site.namespace.expect_gone::<Metal3Data>("t-0").await;
        site.namespace.expect_gone::<Secret>("m-metadata").await;
        site.namespace.expect_gone::<Metal3DataClaim>("m").await;
        site.apply(claim("m", "t", "m", &uid)).await;
        site.namespace.expect("t-0", "is ready again", is_ready).await;
    }
    provider.stop().await;
}

#[tokio::test]
async fn claims_that_wait_say_so_and_nothing_is_given_out_while_paused() {
    let site = Site::new(namespace!().await).await;
    cluster(&site).await;
    let provider = site.provider().await;
    site.apply(claim("m", "missing", "m", "no-such-machine")).await;
    let says_so = |claim: &Metal3DataClaim| {
        let status = claim.status.clone().unwrap_or_default();
        status
            .error_message
            .contains("Metal3DataTemplate missing, which does not exist")
    };
    site.namespace.expect("m", "names what is missing", says_so).await;
    site.namespace.expect_event("m", "NotAnswered").await;
    let mut elsewhere = claim("foreign", "missing", "foreign", "no-such-machine");
    elsewhere["spec"]["template"]["namespace"] = json!("elsewhere");
    site.apply(elsewhere).await;
    let says_so = |claim: &Metal3DataClaim| {
        let status = claim.status.clone().unwrap_or_default();
        status.error_message.contains("Metal3DataTemplate elsewhere/missing")
    };
    site.namespace
        .expect("foreign", "says that other namespaces do not count", says_so)
        .await;
    site.namespace.expect_event("foreign", "NotAnswered").await;
    site.patch::<metal3_api::capi::Cluster>("c", json!({"spec": {"paused": true}}))
        .await;
    site.settled().await;
    site.apply(template("missing", &json!({}))).await;
    site.settled().await;
    let left: Metal3DataClaim = site.namespace.api().get("m").await.unwrap();
    assert_eq!(answer(&left), "", "nothing is given out while the Cluster is paused");
    site.patch::<metal3_api::capi::Cluster>("c", json!({"spec": {"paused": false}}))
        .await;
    let is_answered = |claim: &Metal3DataClaim| {
        let status = claim.status.clone().unwrap_or_default();
        status.rendered_data.name == "missing-0" && status.error_message.is_empty()
    };
    site.namespace.expect("m", "is answered", is_answered).await;
    provider.stop().await;
}
