//! Metal3Machines. What the baremetal-operator would do to hosts, the tests do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use metal3_api::capi::{Cluster, Machine};
use metal3_api::condition::ConditionStatus::True;
use metal3_api::infra::v1beta2::{Metal3Cluster, Metal3DataClaim, Metal3Machine};
use metal3_api::metal3::BareMetalHost;
use metal3_lab::audit::Request;
use metal3_testkit::{DEADLINE, TestNamespace, eventually, namespace};
use serde_json::{Value, json};

use crate::support::{ASSOCIATED, Running, Site, consumer, lacks, says};

const CLUSTER_NAME: &str = "cluster.x-k8s.io/cluster-name";
const BLOCK_MOVE: &str = "clusterctl.cluster.x-k8s.io/block-move";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
const NODE: &str = "NodeProviderIDSet";

fn is_ready(machine: &Metal3Machine) -> bool {
    let status = machine.status.clone().unwrap_or_default();
    says(&status.conditions, "Ready", &True, "Ready") && status.initialization.provisioned == Some(true)
}

/// A machine m on the host h, which runs what it is to run.
async fn provisioned(namespace: TestNamespace) -> (Site, Running) {
    let site = Site::for_machines(namespace).await;
    site.host("h", json!({}), "available").await;
    let provider = site.provider().await;
    site.machine("m", json!({})).await;
    site.claimed("h", "m").await;
    site.host_becomes("h", "provisioned").await;
    site.namespace.expect("m", "is ready", is_ready).await;
    (site, provider)
}

#[tokio::test]
async fn a_machine_from_its_host_to_its_end() {
    let site = Site::for_machines(namespace!().await).await;
    site.host("h", json!({}), "available").await;
    let provider = site.provider().await;
    site.machine("m", json!({})).await;
    let is_told = |host: &BareMetalHost| host.spec.image.is_some();
    let host = site.namespace.expect("h", "is to be provisioned", is_told).await;
    let claimed = host.spec.consumer_ref.clone().unwrap();
    assert_eq!((claimed.kind.as_str(), claimed.name.as_str()), ("Metal3Machine", "m"));
    assert!(host.spec.online, "a host that is off is not provisioned");
    let image = host.spec.image.clone().unwrap();
    assert_eq!(
        (image.url.as_str(), image.checksum.as_str()),
        ("http://images/i.qcow2", "abc")
    );
    assert_eq!(host.spec.user_data.clone().unwrap().name, "b");
    assert_eq!(host.labels()[CLUSTER_NAME], "c");
    assert!(host.annotations().contains_key(BLOCK_MOVE));
    let labelled = |secret: &Secret| secret.labels().get(CLUSTER_NAME).is_some_and(|cluster| cluster == "c");
    site.namespace
        .expect("bmc", "has the label of the cluster", labelled)
        .await;
    site.host_becomes("h", "provisioning").await;
    let is_coming =
        |machine: &Metal3Machine| lacks(machine, "Ready", "BareMetalHost h is provisioned: it is provisioning");
    let machine = site.namespace.expect("m", "waits for its host", is_coming).await;
    let here = format!("{}/h", site.namespace.name);
    assert_eq!(machine.annotations()["metal3.io/BareMetalHost"], here);
    assert_eq!(machine.spec.provider_id, "", "there is nothing yet that could have it");
    site.host_becomes("h", "provisioned").await;
    let machine = site.namespace.expect("m", "is ready", is_ready).await;
    assert_eq!(machine.spec.provider_id, format!("metal3://{here}/m"));
    let status = machine.status.unwrap();
    let addresses: Vec<(&str, &str)> = status
        .addresses
        .iter()
        .map(|a| (a.type_.as_str(), a.address.as_str()))
        .collect();
    let expected = [
        ("InternalIP", "192.0.2.77"),
        ("Hostname", "h.example"),
        ("InternalDNS", "h.example"),
    ];
    assert_eq!(addresses, expected);
    site.namespace.expect_event("m", "Provisioned").await;
    let figures = provider.registry.text().unwrap();
    for line in [
        "metal3_machines{phase=\"provisioned\"} 1",
        "metal3_machine_phase_seconds_count{phase=\"waiting\"} 1",
        "metal3_machine_phase_seconds_count{phase=\"provisioning\"} 1",
    ] {
        assert!(figures.lines().any(|found| found == line), "{line} in\n{figures}");
    }

    // What stands still costs nothing, and whoever switches the server off keeps it off.
    let settled = site.settled().await;
    site.patch::<BareMetalHost>("h", json!({"spec": {"online": false}}))
        .await;
    assert_eq!(site.settled().await, settled);

    site.delete::<Metal3Machine>("m").await;
    let is_emptied =
        |host: &BareMetalHost| host.spec.image.is_none() && host.spec.user_data.is_none() && !host.spec.online;
    let host = site.namespace.expect("h", "is to be deprovisioned", is_emptied).await;
    assert_eq!(consumer(&host), Some("m"), "it is nobody else's before it is clean");
    site.host_becomes("h", "deprovisioning").await;
    let is_waiting = |machine: &Metal3Machine| lacks(machine, "Ready", "it is deprovisioning");
    site.namespace.expect("m", "waits for its host", is_waiting).await;
    site.host_becomes("h", "available").await;
    site.namespace.expect_gone::<Metal3Machine>("m").await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    assert_eq!(
        (consumer(&host), host.labels().len(), host.annotations().len()),
        (None, 0, 0)
    );
    let secret: Secret = site.namespace.api().get("bmc").await.unwrap();
    assert_eq!(secret.labels().get(CLUSTER_NAME), None);
    provider.stop().await;
}

#[tokio::test]
async fn every_wait_is_explained_and_ends_by_itself() {
    let site = Site::new(namespace!().await).await;
    let endpoint = json!({"controlPlaneEndpoint": {"host": "192.0.2.1", "port": 6443}});
    site.cluster("c", endpoint).await;
    let provider = site.provider().await;
    site.machine("m", json!({"hostSelector": {"matchLabels": {"rack": "b"}}}))
        .await;
    let waits = async |words: &'static str| {
        let explained =
            move |machine: &Metal3Machine| lacks(machine, ASSOCIATED, words) && lacks(machine, "Ready", words);
        site.namespace
            .expect::<Metal3Machine>("m", "explains itself", explained)
            .await;
    };
    waits("waiting for the infrastructure of Cluster c").await;
    let no_data = json!({"spec": {"bootstrap": {"dataSecretName": null,
        "configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "k"}}}});
    site.patch::<Machine>("m", no_data).await;
    site.ready_cluster("c").await;
    waits("waiting for the bootstrap data of KubeadmConfig k").await;
    site.patch::<Machine>("m", json!({"spec": {"bootstrap": {"dataSecretName": "b"}}}))
        .await;
    waits("Secret b, named by spec.bootstrap.dataSecretName of the Machine, does not exist").await;
    site.secret("b").await;
    waits("there is no BareMetalHost in namespace").await;
    site.namespace.expect_event("m", "AssociateBareMetalHostFailed").await;
    site.host("a", json!({}), "available").await;
    site.host("h", json!({"rack": "b"}), "inspecting").await;
    site.host_becomes("h", "available").await;
    site.claimed("h", "m").await;
    let other: BareMetalHost = site.namespace.api().get("a").await.unwrap();
    assert_eq!(consumer(&other), None);
    provider.stop().await;
}

/// Waits until the server's clock, which tells whole seconds, has moved on since the object was made.
async fn a_second_after(site: &Site, name: &str) {
    let machine: Metal3Machine = site.namespace.api().get(name).await.unwrap();
    let api = site.namespace.api::<ConfigMap>();
    let map = serde_json::from_value(json!({"metadata": {"generateName": "clock-"}})).unwrap();
    loop {
        let made = api.create(&PostParams::default(), &map).await.unwrap();
        if made.creation_timestamp() > machine.creation_timestamp() {
            return;
        }
    }
}

#[tokio::test]
async fn a_host_that_becomes_free_goes_to_the_machine_that_has_waited_longest() {
    let site = Site::for_machines(namespace!().await).await;
    let provider = site.provider().await;
    for name in ["z", "y", "x"] {
        site.machine(name, json!({})).await;
        let waits = |machine: &Metal3Machine| lacks(machine, ASSOCIATED, "0 of 0 hosts");
        site.namespace.expect(name, "waits", waits).await;
        a_second_after(&site, name).await;
    }
    for (host, oldest) in [("h1", "z"), ("h2", "y"), ("h3", "x")] {
        site.host(host, json!({}), "available").await;
        site.claimed(host, oldest).await;
    }
    provider.stop().await;
}

#[tokio::test]
async fn two_providers_at_once_give_every_machine_one_host() {
    const MACHINES: usize = 12;
    let site = Site::for_machines(namespace!().await).await;
    for number in 0..MACHINES {
        site.host(&format!("h{number}"), json!({}), "available").await;
    }
    let (one, other) = tokio::join!(site.provider(), site.provider());
    for number in 0..MACHINES {
        site.machine(&format!("m{number}"), json!({})).await;
    }
    for number in 0..MACHINES {
        let has_host = |machine: &Metal3Machine| {
            let status = machine.status.clone().unwrap_or_default();
            says(&status.conditions, ASSOCIATED, &True, "AssociateBareMetalHostSuccess")
        };
        site.namespace
            .expect(&format!("m{number}"), "has a host", has_host)
            .await;
    }
    let hosts = site
        .namespace
        .api::<BareMetalHost>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let by_host: BTreeMap<String, String> = hosts
        .iter()
        .filter_map(|host| Some((host.name_any(), consumer(host)?.to_owned())))
        .collect();
    let machines = site
        .namespace
        .api::<Metal3Machine>()
        .list(&ListParams::default())
        .await
        .unwrap();
    let by_machine: BTreeMap<String, String> = machines
        .iter()
        .map(|machine| {
            let host = machine.annotations()["metal3.io/BareMetalHost"]
                .rsplit_once('/')
                .unwrap()
                .1;
            (host.to_owned(), machine.name_any())
        })
        .collect();
    assert_eq!((by_host.len(), &by_host), (MACHINES, &by_machine));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_host_that_was_taken_away_is_reported_and_not_taken_back() {
    let (site, provider) = provisioned(namespace!().await).await;
    let thief = json!({"spec": {"consumerRef": {"name": "thief", "uid": null}}});
    site.patch::<BareMetalHost>("h", thief).await;
    let knows = |machine: &Metal3Machine| lacks(machine, "Ready", "is used by Metal3Machine thief now");
    let machine = site.namespace.expect("m", "reports it", knows).await;
    assert_eq!(machine.status.unwrap().deprecated.v1beta1.failure_reason, "UpdateError");
    site.settled().await;
    site.delete::<Metal3Machine>("m").await;
    site.namespace.expect_gone::<Metal3Machine>("m").await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    assert!(
        host.spec.image.is_some() && consumer(&host) == Some("thief"),
        "what it runs is the thief's"
    );
    provider.stop().await;
}

#[tokio::test]
async fn a_paused_cluster_pauses_its_hosts_with_their_status_and_only_them() {
    let (site, provider) = provisioned(namespace!().await).await;
    site.host("free", json!({}), "available").await;
    site.patch::<Cluster>("c", json!({"spec": {"paused": true}})).await;
    let is_paused = |host: &BareMetalHost| host.annotations().get(PAUSED).is_some_and(|by| by == "metal3.io/capm3");
    let host = site.namespace.expect("h", "is paused", is_paused).await;
    assert!(!host.annotations().contains_key(BLOCK_MOVE));
    let status: Value = serde_json::from_str(&host.annotations()["baremetalhost.metal3.io/status"]).unwrap();
    assert_eq!(
        (&status["provisioning"]["state"], &status["hardware"]),
        (&json!("provisioned"), &Value::Null)
    );
    site.delete::<Metal3Machine>("m").await;
    site.settled().await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    assert!(host.spec.image.is_some(), "nothing goes while it is paused");
    let free: BareMetalHost = site.namespace.api().get("free").await.unwrap();
    assert!(!free.annotations().contains_key(PAUSED));
    site.patch::<Cluster>("c", json!({"spec": {"paused": false}})).await;
    let goes_on = |host: &BareMetalHost| !host.annotations().contains_key(PAUSED) && host.spec.image.is_none();
    site.namespace.expect("h", "is deprovisioned", goes_on).await;
    site.host_becomes("h", "available").await;
    site.namespace.expect_gone::<Metal3Machine>("m").await;
    provider.stop().await;
}

/// The same API server plays the workload cluster: its Nodes are told apart by their names.
#[tokio::test]
async fn a_node_gets_the_provider_id_of_its_machine() {
    let (site, provider) = provisioned(namespace!().await).await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    let machine: Metal3Machine = site.namespace.api().get("m").await.unwrap();
    let is_missed = |machine: &Metal3Machine| lacks(machine, NODE, "Secret") && lacks(machine, NODE, "c-kubeconfig");
    site.namespace.expect("m", "misses the kubeconfig", is_missed).await;

    let admin = std::fs::read_to_string(site.namespace.server().admin_kubeconfig()).unwrap();
    site.kubeconfig("c", &admin).await;
    let nodes: Api<Node> = Api::all(site.namespace.client.clone());
    let name = format!("{}-n", site.namespace.name);
    let node = json!({"metadata": {"name": name, "labels": {"metal3.io/uuid": host.uid()}}});
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let is_set = |machine: &Metal3Machine| {
        let status = machine.status.clone().unwrap_or_default();
        says(&status.conditions, NODE, &True, "ProviderIDSet")
    };
    site.namespace.expect("m", "knows its Node", is_set).await;
    let found = nodes.get(&name).await.unwrap().spec.unwrap_or_default().provider_id;
    assert_eq!(found, Some(machine.spec.provider_id));

    // At rest: heartbeats of the Node wake nobody, nor does a Node that no machine could be.
    let settled = site.settled().await;
    let passes = || -> u64 {
        let figures = provider.registry.text().unwrap();
        let lines = figures
            .lines()
            .filter(|line| line.starts_with("metal3_reconcile_seconds_count"));
        let ours = lines.filter(|line| line.contains("controller=\"metal3machine\""));
        ours.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    };
    let before = passes();
    let stranger = format!("{}-stranger", site.namespace.name);
    let labels = json!({"metal3.io/uuid": "nobody", "kubernetes.io/hostname": stranger});
    let node = serde_json::from_value(json!({"metadata": {"name": stranger, "labels": labels}})).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let beat = json!({"metadata": {"annotations": {"beat": "1"}}});
    nodes
        .patch(&name, &PatchParams::default(), &Patch::Merge(beat))
        .await
        .unwrap();
    assert_eq!((site.settled().await, passes()), (settled, before));
    nodes.delete(&stranger, &DeleteParams::default()).await.unwrap();
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    let is_waiting = |machine: &Metal3Machine| lacks(machine, NODE, "has joined");
    site.namespace.expect("m", "waits for its Node again", is_waiting).await;
    provider.stop().await;
}

#[tokio::test]
async fn data_comes_back_from_a_machine_that_was_removed_by_force() {
    let site = Site::for_machines(namespace!().await).await;
    site.host("h", json!({}), "available").await;
    let provider = site.provider().await;
    site.machine("m", json!({"dataTemplate": {"name": "t"}})).await;
    site.claimed("h", "m").await;
    let is_held = |claim: &Metal3DataClaim| !claim.finalizers().is_empty();
    site.namespace.expect("m", "is held", is_held).await;

    // Before the host is told what to run, a claim that somebody deletes is let go, and made again.
    let earlier: Metal3DataClaim = site.namespace.api().get("m").await.unwrap();
    site.delete::<Metal3DataClaim>("m").await;
    let is_another = |claim: &Metal3DataClaim| claim.uid() != earlier.uid() && is_held(claim);
    site.namespace.expect("m", "is another", is_another).await;

    // A paused machine does not let it go.
    let paused = json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}});
    site.patch::<Metal3Machine>("m", paused).await;
    let is_paused = |machine: &Metal3Machine| {
        let status = machine.status.clone().unwrap_or_default();
        says(&status.conditions, "Paused", &True, "Paused")
    };
    site.namespace.expect("m", "is paused", is_paused).await;
    site.delete::<Metal3DataClaim>("m").await;
    site.settled().await;
    let claim: Metal3DataClaim = site.namespace.api().get("m").await.unwrap();
    assert!(is_held(&claim), "{claim:?}");
    site.delete::<Metal3Machine>("m").await;
    site.patch::<Metal3Machine>("m", json!({"metadata": {"finalizers": null}}))
        .await;
    site.namespace.expect_gone::<Metal3DataClaim>("m").await;
    provider.stop().await;
}

#[tokio::test]
async fn what_the_api_server_refuses_is_told_and_done_when_it_is_allowed() {
    let site = Site::for_machines(namespace!().await).await;
    site.host("h", json!({}), "available").await;
    site.only_reads("baremetalhosts").await;
    let provider = site.provider().await;
    site.machine("m", json!({})).await;
    let words = "cannot claim the host of Metal3Machine";
    let is_told = |machine: &Metal3Machine| {
        lacks(machine, ASSOCIATED, words) && lacks(machine, "Ready", words) && lacks(machine, "Ready", "forbidden")
    };
    site.namespace.expect("m", "says what is refused", is_told).await;
    site.namespace.expect_event("m", "UpdateError").await;
    // Each attempt waits for longer than the one before: half a second, one, two. All that it writes is its choice.
    let patches = |resource: &str| -> usize {
        let requests = site.requests();
        let is_one = |request: &&Request| request.verb == "patch" && request.resource == resource;
        requests.iter().filter(is_one).count()
    };
    let refused = || patches("baremetalhosts.metal3.io");
    let (so_far, start) = (refused(), Instant::now());
    eventually(DEADLINE, "it is tried three times more", || async {
        let more = refused() - so_far;
        if more >= 3 { Ok(()) } else { Err(more) }
    })
    .await;
    assert!(start.elapsed() > Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(patches("metal3machines.infrastructure.cluster.x-k8s.io") <= refused() + 1);
    site.grant().await;
    site.claimed("h", "m").await;
    let is_on_its_way = |machine: &Metal3Machine| lacks(machine, "Ready", "BareMetalHost h is");
    site.namespace.expect("m", "goes on", is_on_its_way).await;
    provider.stop().await;
}

// OWN 8b: network data and metadata of a host that its user had set were taken away by the claim.
#[tokio::test]
async fn data_that_a_user_gave_to_a_host_outlive_its_machine() {
    let site = Site::for_machines(namespace!().await).await;
    site.host("h", json!({}), "available").await;
    let own = json!({"networkData": {"name": "site-network"}, "metaData": {"name": "site-metadata"}});
    site.patch::<BareMetalHost>("h", json!({"spec": own})).await;
    let provider = site.provider().await;
    site.machine("m", json!({})).await;
    let names = |host: &BareMetalHost| {
        let spec = &host.spec;
        [&spec.network_data, &spec.meta_data].map(|one| one.as_ref().map(|one| one.name.clone()).unwrap_or_default())
    };
    site.claimed("h", "m").await;
    let is_told = |host: &BareMetalHost| host.spec.image.is_some();
    site.namespace.expect("h", "is to be provisioned", is_told).await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    assert_eq!(names(&host), ["site-network", "site-metadata"]);
    site.host_becomes("h", "provisioned").await;
    site.namespace.expect("m", "is ready", is_ready).await;
    site.delete::<Metal3Machine>("m").await;
    let is_emptied = |host: &BareMetalHost| host.spec.image.is_none();
    site.namespace.expect("h", "is to be deprovisioned", is_emptied).await;
    site.host_becomes("h", "available").await;
    site.namespace.expect_gone::<Metal3Machine>("m").await;
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    assert_eq!(names(&host), ["site-network", "site-metadata"]);
    assert_eq!(host.spec.user_data, None, "what the machine gave goes with it");
    provider.stop().await;
}

// OWN 10c: two machines took the ID of one Node, whose host name both of their hosts had.
#[tokio::test]
async fn one_node_is_never_that_of_two_machines() {
    let site = Site::for_machines(namespace!().await).await;
    site.patch::<Metal3Cluster>("c", json!({"spec": {"cloudProviderEnabled": true}}))
        .await;
    let nodes: Api<Node> = Api::all(site.namespace.client.clone());
    let hostname = format!("{}-twin.example", site.namespace.name);
    let id = format!("cloud://{}", site.namespace.name);
    let node = json!({"metadata": {"name": hostname, "labels": {"kubernetes.io/hostname": hostname}},
        "spec": {"providerID": id}});
    nodes
        .create(&PostParams::default(), &serde_json::from_value(node).unwrap())
        .await
        .unwrap();
    for host in ["h", "i"] {
        site.host(host, json!({}), "available").await;
        let twin = json!({"status": {"hardware": {"hostname": hostname}}});
        site.patch_status::<BareMetalHost>(host, twin).await;
    }
    let admin = std::fs::read_to_string(site.namespace.server().admin_kubeconfig()).unwrap();
    site.kubeconfig("c", &admin).await;
    let provider = site.provider().await;
    for machine in ["m", "n"] {
        site.machine(machine, json!({})).await;
    }
    // A host that no machine uses yet is nobody's twin.
    for host in ["h", "i"] {
        let is_told = |host: &BareMetalHost| host.spec.image.is_some();
        site.namespace.expect(host, "is to be provisioned", is_told).await;
    }
    for host in ["h", "i"] {
        let state = json!({"status": {"poweredOn": true, "provisioning": {"state": "provisioned"}}});
        site.patch_status::<BareMetalHost>(host, state).await;
    }
    for machine in ["m", "n"] {
        let is_refused = |machine: &Metal3Machine| lacks(machine, NODE, "have the same host name");
        site.namespace.expect(machine, "cannot tell its node", is_refused).await;
    }
    // Its label tells whose it is.
    let host: BareMetalHost = site.namespace.api().get("h").await.unwrap();
    let label = json!({"metadata": {"labels": {"metal3.io/uuid": host.uid()}}});
    nodes
        .patch(&hostname, &PatchParams::default(), &Patch::Merge(label))
        .await
        .unwrap();
    let owner = consumer(&host).unwrap().to_owned();
    let has_id = |machine: &Metal3Machine| machine.spec.provider_id == id;
    site.namespace.expect(&owner, "has its node's ID", has_id).await;
    site.settled().await;
    let other = if owner == "m" { "n" } else { "m" };
    let other: Metal3Machine = site.namespace.api().get(other).await.unwrap();
    assert_eq!(other.spec.provider_id, "");
    nodes.delete(&hostname, &DeleteParams::default()).await.unwrap();
    provider.stop().await;
}
