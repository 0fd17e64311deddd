//! What cannot be changed is refused without a webhook, and nothing else is.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use metal3_testkit::{TestNamespace, namespace};
use serde_json::{Value, json};

struct Kind(&'static str, &'static str, &'static str);

const TEMPLATE: Kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3DataTemplate");
const DATA: Kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3Data");
const DATA_CLAIM: Kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3DataClaim");
const POOL: Kind = Kind("ipam.metal3.io", "v1alpha1", "IPPool");
const CLAIM: Kind = Kind("ipam.metal3.io", "v1alpha1", "IPClaim");
const ADDRESS: Kind = Kind("ipam.metal3.io", "v1alpha1", "IPAddress");
const HOST: Kind = Kind("metal3.io", "v1alpha1", "BareMetalHost");

/// An object that is there.
struct Stored<'a> {
    api: Api<DynamicObject>,
    namespace: &'a TestNamespace,
    kind: Kind,
    spec: Value,
}

impl<'a> Stored<'a> {
    async fn new(namespace: &'a TestNamespace, kind: Kind, spec: Value) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.0, kind.1, kind.2));
        let api = Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource);
        let stored = Self {
            api,
            namespace,
            kind,
            spec,
        };
        let object = serde_json::from_value(stored.object()).unwrap();
        stored.api.create(&PostParams::default(), &object).await.unwrap();
        stored
    }

    fn object(&self) -> Value {
        let Kind(group, version, kind) = self.kind;
        json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "spec": self.spec,
            "metadata": {"name": "it", "namespace": self.namespace.name}})
    }

    async fn change(&self, spec: Value) -> Result<(), String> {
        let patch = Patch::Merge(json!({"spec": spec}));
        let answer = self.api.patch("it", &PatchParams::default(), &patch).await;
        answer.map(|_| ()).map_err(|error| error.to_string())
    }

    /// The change is refused, by a message with these words.
    async fn refuses(&self, spec: Value, words: &str) {
        let Err(told) = self.change(spec.clone()).await else {
            panic!("{} takes {spec}", self.kind.2)
        };
        assert!(told.contains(words), "{told}");
    }

    async fn takes(&self, spec: Value) {
        self.change(spec.clone())
            .await
            .unwrap_or_else(|told| panic!("{} refuses {spec}: {told}", self.kind.2));
    }

    /// What leaves the specification as it is works: labels, the same again, and applying the same.
    async fn can_be_written(&self) {
        let label = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
        self.api.patch("it", &PatchParams::default(), &label).await.unwrap();
        self.takes(self.spec.clone()).await;
        let apply = PatchParams::apply("test").force();
        let applied = self
            .api
            .patch("it", &apply, &Patch::Apply(self.object()))
            .await
            .unwrap();
        assert_eq!(applied.name_any(), "it");
    }
}

// OWN 15a: a template could be edited, so that a lost Secret came back with other data.
#[tokio::test]
async fn what_a_data_template_renders_stays() {
    let namespace = namespace!().await;
    let strings = |value: &str| json!({"strings": [{"key": "a", "value": value}]});
    let links = json!({"links": {"ethernets": [{"type": "phy", "id": "eth0", "mtu": 1500,
        "macAddress": {"string": "52:54:00:12:34:56"}}]}});
    let template = Stored::new(&namespace, TEMPLATE, json!({"metaData": strings("1")})).await;
    template.can_be_written().await;
    template
        .refuses(
            json!({"metaData": strings("2")}),
            "metaData cannot be changed: make another Metal3DataTemplate",
        )
        .await;
    template
        .refuses(json!({"metaData": null}), "metaData cannot be changed")
        .await;
    template
        .refuses(json!({"networkData": links}), "networkData cannot be changed")
        .await;
    template.takes(json!({"clusterName": "c"})).await;
}

#[tokio::test]
async fn what_a_data_template_connects_stays() {
    let namespace = namespace!().await;
    let mac = json!({"string": "52:54:00:12:34:56"});
    let ethernet = |mtu: u32| json!([{"type": "phy", "id": "e", "mtu": mtu, "macAddress": mac}]);
    let spec = json!({"networkData": {"links": {"ethernets": ethernet(1500)}}});
    let template = Stored::new(&namespace, TEMPLATE, spec).await;
    template.can_be_written().await;
    for changed in [
        json!({"links": {"ethernets": ethernet(9000)}}),
        json!({"links": {"ethernets": null}}),
        json!({"links": {"bonds": [{"id": "b", "bondMode": "802.3ad", "macAddress": mac, "parameters": [{"name": "p"}]}]}}),
        json!({"links": {"vlans": [{"id": "v", "vlanID": 1, "vlanLink": "e", "mtu": 1500, "macAddress": mac}]}}),
        json!({"links": null}),
        json!({"services": {"dns": ["192.0.2.1"]}}),
        json!({"networks": {"ipv4DHCP": [{"id": "n", "link": "e"}]}}),
    ] {
        template
            .refuses(json!({"networkData": changed}), "networkData cannot be changed")
            .await;
    }
}

/// What v1beta1 writes and v1beta2 has no place for is no change.
#[tokio::test]
async fn a_template_of_v1beta1_can_be_applied_again() {
    let namespace = namespace!().await;
    let kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta1", "Metal3DataTemplate");
    let links = json!({"ethernets": [{"type": "phy", "id": "eth0", "mtu": 1500,
        "macAddress": {"fromHostInterface": "eth0", "string": ""}}], "bonds": []});
    let spec = json!({"clusterName": "c", "metaData": {"strings": [{"key": "a", "value": "1"}], "indexes": []},
        "networkData": {"links": links, "networks": {"ipv4": [{"id": "n", "link": "eth0", "ipAddressFromIPPool": "p", "routes": []}]},
            "services": {}}});
    let template = Stored::new(&namespace, kind, spec).await;
    template.can_be_written().await;
    template.can_be_written().await;
}

// OWN 20a: fields were called immutable, and could be changed.
#[tokio::test]
async fn fields_that_are_called_immutable_are() {
    let namespace = namespace!().await;
    let pool = Stored::new(
        &namespace,
        POOL,
        json!({"namePrefix": "p", "pools": [{"start": "192.0.2.1", "end": "192.0.2.9"}], "prefix": 24}),
    )
    .await;
    pool.can_be_written().await;
    pool.refuses(json!({"namePrefix": "q"}), "namePrefix: Invalid value")
        .await;
    pool.refuses(json!({"allocationStrategy": "random"}), "cannot be changed")
        .await;
    pool.takes(json!({"allocationStrategy": "sequential", "gateway": "192.0.2.254"}))
        .await;

    let claim = Stored::new(&namespace, CLAIM, json!({"pool": {"name": "p"}})).await;
    claim.can_be_written().await;
    claim
        .refuses(json!({"pool": {"name": "q"}}), "spec.pool.name: Invalid value")
        .await;
    claim
        .refuses(
            json!({"pool": {"name": null}}),
            "spec.pool: Invalid value: name cannot be removed",
        )
        .await;
    claim
        .takes(json!({"pool": {"namespace": "", "apiVersion": "ipam.metal3.io/v1alpha1"}}))
        .await;

    let spec = json!({"address": "192.0.2.3", "claim": {"name": "c"}, "pool": {"name": "p"}, "prefix": 24});
    let address = Stored::new(&namespace, ADDRESS, spec).await;
    address.can_be_written().await;
    address.refuses(json!({"address": "192.0.2.4"}), "spec.address").await;
    address.refuses(json!({"claim": {"name": "d"}}), "spec.claim").await;
    address.refuses(json!({"pool": {"name": "q"}}), "spec.pool").await;
    for gone in ["address", "claim", "pool"] {
        address.refuses(json!({gone: null}), &format!("spec.{gone}")).await;
    }
    address.takes(json!({"prefix": 25})).await;

    let spec = json!({"index": 0, "claim": {"name": "m"}, "template": {"name": "t"}});
    let data = Stored::new(&namespace, DATA, spec).await;
    data.can_be_written().await;
    data.refuses(json!({"index": 1}), "spec.index").await;
    data.refuses(json!({"claim": {"name": "n"}}), "spec.claim.name").await;
    data.refuses(json!({"template": {"name": "u"}}), "spec.template.name")
        .await;
    // Nor in two steps.
    for gone in ["index", "claim", "template"] {
        data.refuses(json!({gone: null}), &format!("{gone} cannot be removed"))
            .await;
    }
    data.refuses(
        json!({"claim": {"name": null}}),
        "spec.claim: Invalid value: name cannot be removed",
    )
    .await;
    data.takes(json!({"metaData": {"name": "m-metadata"}, "claim": {"namespace": namespace.name}}))
        .await;

    let wish = Stored::new(&namespace, DATA_CLAIM, json!({"template": {"name": "t"}})).await;
    wish.can_be_written().await;
    wish.refuses(json!({"template": {"name": "u"}}), "spec.template.name")
        .await;
    wish.refuses(json!({"template": null}), "template").await;
    claim.refuses(json!({"pool": null}), "spec.pool").await;
    pool.refuses(json!({"namePrefix": null}), "spec.namePrefix").await;
    // The default comes in its place.
    pool.takes(json!({"allocationStrategy": null})).await;

    let host = Stored::new(&namespace, HOST, json!({"online": false})).await;
    host.can_be_written().await;
    host.takes(json!({"bootMACAddress": "52:54:00:aa:bb:cc"})).await;
    host.takes(json!({"bootMACAddress": "52:54:00:AA:BB:CC", "online": true}))
        .await;
    for other in [json!("52:54:00:aa:bb:cd"), json!(null)] {
        host.refuses(
            json!({"bootMACAddress": other}),
            "bootMACAddress cannot be changed once it is set",
        )
        .await;
    }
}
