//! What cannot be changed is refused without a webhook, and nothing else is.

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use metal3_testkit::{TestNamespace, namespace};
use serde_json::{Value, json};

pub struct Kind(pub &'static str, pub &'static str, pub &'static str);

const TEMPLATE: Kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3DataTemplate");
const DATA: Kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3Data");
const DATA_CLAIM: Kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta2", "Metal3DataClaim");
const POOL: Kind = Kind("ipam.metal3.io", "v1alpha1", "IPPool");
const CLAIM: Kind = Kind("ipam.metal3.io", "v1alpha1", "IPClaim");
const ADDRESS: Kind = Kind("ipam.metal3.io", "v1alpha1", "IPAddress");
const HOST: Kind = Kind("metal3.io", "v1alpha1", "BareMetalHost");
const SUBSCRIPTION: Kind = Kind("metal3.io", "v1alpha1", "BMCEventSubscription");

/// An object that is there.
pub struct Stored<'a> {
    api: Api<DynamicObject>,
    namespace: &'a TestNamespace,
    kind: Kind,
    name: String,
    spec: Value,
}

impl<'a> Stored<'a> {
    async fn new(namespace: &'a TestNamespace, kind: Kind, spec: Value) -> Self {
        let stored = Self::unwritten(namespace, kind, spec);
        stored.store().await.unwrap();
        stored
    }

    /// The same by another name.
    pub fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    pub fn kind(&self) -> &'static str {
        self.kind.2
    }

    /// The name of the definition of its kind. An address takes two letters.
    pub fn definition(&self) -> String {
        let Kind(group, _, kind) = self.kind;
        let plural = if kind.ends_with('s') { "es" } else { "s" };
        format!("{}{plural}.{group}", kind.to_lowercase())
    }

    /// Stores it.
    pub async fn store(&self) -> Result<(), String> {
        self.create(&self.name, false).await
    }

    /// Asks whether one like it can be created.
    pub async fn could_be_created(&self) -> Result<(), String> {
        self.create("another", true).await
    }

    pub fn unwritten(namespace: &'a TestNamespace, kind: Kind, spec: Value) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.0, kind.1, kind.2));
        let api = Api::namespaced_with(namespace.client.clone(), &namespace.name, &resource);
        Self {
            api,
            namespace,
            kind,
            name: "it".to_owned(),
            spec,
        }
    }

    async fn create(&self, name: &str, dry_run: bool) -> Result<(), String> {
        let mut object = self.object();
        object["metadata"]["name"] = json!(name);
        let object = serde_json::from_value(object).unwrap();
        let params = PostParams {
            dry_run,
            ..PostParams::default()
        };
        let created = self.api.create(&params, &object).await;
        created.map(|_| ()).map_err(|error| error.to_string())
    }

    pub fn object(&self) -> Value {
        let Kind(group, version, kind) = self.kind;
        json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "spec": self.spec,
            "metadata": {"name": self.name, "namespace": self.namespace.name}})
    }

    async fn change(&self, spec: Value) -> Result<(), String> {
        let patch = Patch::Merge(json!({"spec": spec}));
        let answer = self.api.patch(&self.name, &PatchParams::default(), &patch).await;
        answer.map(|_| ()).map_err(|error| error.to_string())
    }

    /// The change is refused, by a message with these words.
    async fn refuses(&self, spec: Value, words: &str) {
        let Err(told) = self.change(spec.clone()).await else {
            panic!("{} takes {spec}", self.kind.2)
        };
        assert!(told.contains(words), "{told}");
    }

    pub async fn takes(&self, spec: Value) {
        self.change(spec.clone())
            .await
            .unwrap_or_else(|told| panic!("{} refuses {spec}: {told}", self.kind.2));
    }

    /// Gives it this status, as its controller would.
    async fn has(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.api.patch_status(&self.name, &params, &patch).await.unwrap();
    }

    /// What leaves the specification as it is works: labels, the same again, and applying the same.
    pub async fn can_be_written(&self) {
        let label = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
        let params = PatchParams::default();
        self.api.patch(&self.name, &params, &label).await.unwrap();
        self.takes(self.spec.clone()).await;
        let apply = PatchParams::apply("test").force();
        let applied = self
            .api
            .patch(&self.name, &apply, &Patch::Apply(self.object()))
            .await
            .unwrap();
        assert_eq!(applied.name_any(), self.name);
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
    template
        .refuses(json!(null), "spec: Invalid value: cannot be removed")
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
// OWN 31a: the specification could be removed, and another one added.
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
    data.refuses(json!(null), "spec: Invalid value: cannot be removed")
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
    for without in [&wish, &claim, &pool, &address] {
        without
            .refuses(json!(null), "spec: Invalid value: cannot be removed")
            .await;
    }
    claim.refuses(json!({"pool": null}), "spec.pool").await;
    pool.refuses(json!({"namePrefix": null}), "spec.namePrefix").await;
    // The default comes in its place.
    pool.takes(json!({"allocationStrategy": null})).await;

    let host = Stored::new(&namespace, HOST, json!({"online": false})).await;
    host.can_be_written().await;
    host.takes(json!(null)).await;
    host.takes(json!({"online": false})).await;
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
    host.refuses(
        json!(null),
        "spec.bootMACAddress: Invalid value: cannot be changed once it is set",
    )
    .await;
}

// OWN 31b: v1beta1 leaves out an index of 0, and did not compare it.
#[tokio::test]
async fn the_index_of_data_cannot_change_in_v1beta1() {
    let namespace = namespace!().await;
    for (stored, changes) in [(3, [json!(null), json!(4)]), (0, [json!(7), json!(1)])] {
        let spec = json!({"index": stored, "claim": {"name": "m"}, "template": {"name": "t"}});
        let kind = Kind("infrastructure.cluster.x-k8s.io", "v1beta1", "Metal3Data");
        let data = Stored::unwritten(&namespace, kind, spec).named(format!("data-{stored}"));
        data.store().await.unwrap();
        data.can_be_written().await;
        for index in changes {
            data.refuses(json!({"index": index}), "spec.index: Invalid value: cannot be changed")
                .await;
        }
    }
}

#[tokio::test]
async fn what_a_host_may_change_depends_on_its_status() {
    let namespace = namespace!().await;
    let status = |state: &str, operational: &str| {
        json!({"operationalStatus": operational, "errorMessage": "", "errorCount": 0, "poweredOn": false,
            "provisioning": {"state": state, "ID": ""}})
    };
    let at = |address: &str| json!({"bmc": {"address": address, "credentialsName": "c"}});
    let (a, b) = (at("redfish://192.0.2.1/a"), at("redfish://192.0.2.2/b"));
    let host = Stored::new(&namespace, HOST, json!({"online": true})).await;
    host.takes(a.clone()).await;
    // No webhook may have seen the first address.
    host.takes(b.clone()).await;
    for (state, operational) in [("registering", "error"), ("provisioned", "detached")] {
        host.has(status(state, operational)).await;
        host.takes(a.clone()).await;
        host.takes(b.clone()).await;
    }
    host.has(status("provisioned", "OK")).await;
    host.takes(json!({"online": false})).await;
    host.refuses(a, "spec.bmc.address: Invalid value").await;
    host.refuses(
        json!({"bmc": null}),
        "can be changed only while the host is registering or detached",
    )
    .await;
    let external = json!({"externallyProvisioned": true});
    host.refuses(external.clone(), "spec.externallyProvisioned: Invalid value")
        .await;
    host.has(status("available", "OK")).await;
    host.takes(external.clone()).await;
    host.has(status("externally provisioned", "OK")).await;
    host.takes(external).await;
    host.takes(json!({"externallyProvisioned": false})).await;
}

#[tokio::test]
async fn a_subscription_cannot_change() {
    let namespace = namespace!().await;
    let spec = json!({"hostName": "h", "destination": "https://e/", "httpHeadersRef": {"name": "s", "namespace": "n"}});
    let subscription = Stored::new(&namespace, SUBSCRIPTION, spec).await;
    subscription.can_be_written().await;
    subscription.takes(json!({"context": ""})).await;
    subscription
        .refuses(json!(null), "spec: Invalid value: cannot be removed")
        .await;
    for change in [
        json!({"context": "c"}),
        json!({"hostName": null}),
        json!({"destination": "https://f/"}),
        json!({"httpHeadersRef": {"name": "t"}}),
        json!({"httpHeadersRef": {"namespace": null}}),
        json!({"httpHeadersRef": null}),
    ] {
        subscription.refuses(change, "cannot be changed").await;
    }
}
