//! What all controllers see: one watch for each kind, and an index for each question that is asked of it.

mod data;
mod remediation;

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use metal3_api::capi::{self, Cluster, IPAddressClaim, Machine, MachineSet};
use metal3_api::infra;
use metal3_api::infra::names::{annotation, label};
use metal3_api::infra::v1beta2::{
    Metal3Cluster, Metal3Data, Metal3DataClaim, Metal3DataTemplate, Metal3Machine, Metal3MachineTemplate,
    Metal3Remediation,
};
use metal3_api::ipam::IPClaim;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::args::Namespaces;
use metal3_runtime::error::chain;
use metal3_runtime::store::{Awaited, Follow, ObjectKey, Store};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::data::{DataBy, DataTemplateBy, KnownClaims, OfDataBy, SecretMeta, data_of, template_asked, template_of};
pub use self::remediation::{RemediationBy, machine_of_remediation};
use crate::data::SECRET_TYPE;
use crate::machine::MOST_ADDRESSES;
use crate::machine_template::cloned_from;
use crate::remediation::requested_by;
use crate::select::{self, Selector};

/// The stores. Cheap to clone.
#[derive(Clone, Debug)]
pub struct World {
    /// Cluster API's Clusters.
    pub clusters: Store<Cluster, ClusterBy>,
    /// Cluster API's Machines.
    pub machines: Store<Machine, MachineBy>,
    /// Cluster API's MachineSets.
    pub machine_sets: Store<MachineSet>,
    /// Our side of the Clusters.
    pub metal3_clusters: Store<Metal3Cluster>,
    /// Our side of the Machines.
    pub metal3_machines: Store<Metal3Machine, Metal3MachineBy>,
    /// What those are made from.
    pub templates: Store<Metal3MachineTemplate>,
    /// The hosts. Of their hardware only addresses and the host name are kept.
    pub hosts: Store<BareMetalHost, HostBy>,
    /// What metadata and network data are rendered from.
    pub data_templates: Store<Metal3DataTemplate, DataTemplateBy>,
    /// The machines' wishes for such data.
    pub data_claims: Store<Metal3DataClaim, DataBy>,
    /// Those of which it is known what was made for them.
    pub known_claims: KnownClaims,
    /// The data of single machines.
    pub datas: Store<Metal3Data, DataBy>,
    /// The Secrets with rendered data, without what is in them.
    pub secrets: Store<SecretMeta, OfDataBy>,
    /// Claims on addresses of Metal3's pools.
    pub ip_claims: Store<IPClaim, OfDataBy>,
    /// Claims on addresses of other pools.
    pub ip_address_claims: Store<IPAddressClaim, OfDataBy>,
    /// Requests to remedy machines.
    pub remediations: Store<Metal3Remediation, RemediationBy>,
    filter: String,
}

/// What a Cluster is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClusterBy {
    /// The Metal3Cluster that it names.
    Infrastructure(ObjectKey),
}

/// What a Machine is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MachineBy {
    /// The Cluster that its label names.
    Cluster(ObjectKey),
}

/// What a Metal3Machine is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Metal3MachineBy {
    /// The Cluster that its label names.
    Cluster(ObjectKey),
    /// The host that its annotation names.
    Host(ObjectKey),
    /// The Metal3MachineTemplate that it was made from.
    Template(ObjectKey),
}

/// What a host is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostBy {
    /// Its namespace.
    Namespace(String),
    /// Its UID, which nodes carry as a label.
    Uid(String),
    /// Its host name, as its inspection found it.
    Hostname(String),
    /// The UID of a Metal3Remediation that keeps it switched off.
    Remediation(String),
    /// The Metal3Machine that uses it.
    Consumer(ObjectKey),
    /// The Cluster for whose machines it is kept.
    Keeper(ObjectKey),
    /// Free in this namespace: available, used by nobody and kept for nobody.
    Free(String),
    /// The same with this label: namespace, key and value.
    FreeWith(String, String, String),
    /// Kept in this namespace for the machines of the control plane or deployment that the value of its label names.
    Kept(String, String),
}

impl HostBy {
    /// The narrowest of these that shows all free hosts of a namespace that a selector admits.
    pub fn free(namespace: &str, selector: &Selector) -> Self {
        let exact = selector.exact().next();
        exact.map_or_else(
            || Self::Free(namespace.to_owned()),
            |(key, value)| Self::FreeWith(namespace.to_owned(), key.to_owned(), value.to_owned()),
        )
    }
}

fn keys_of_host(host: &BareMetalHost) -> Vec<HostBy> {
    let namespace = host.namespace().unwrap_or_default();
    let mut keys = vec![HostBy::Namespace(namespace.clone())];
    keys.extend(host.uid().map(HostBy::Uid));
    let hardware = host.status.as_ref().and_then(|status| status.hardware.as_ref());
    let hostname = hardware.map(|hardware| hardware.hostname.clone());
    keys.extend(hostname.filter(|name| !name.is_empty()).map(HostBy::Hostname));
    keys.extend(requested_by(host).map(|uid| HostBy::Remediation(uid.to_owned())));
    keys.extend(select::consumer_of(host).map(HostBy::Consumer));
    keys.extend(select::keeper_of(host).map(HostBy::Keeper));
    if let Some(kept_for) = host.labels().get(label::NODE_REUSE) {
        keys.push(HostBy::Kept(namespace, kept_for.clone()));
    } else if select::consumer(host).is_none() && select::is_available(host) {
        let labels = host.labels().iter();
        keys.extend(labels.map(|(key, value)| HostBy::FreeWith(namespace.clone(), key.clone(), value.clone())));
        keys.push(HostBy::Free(namespace));
    }
    keys
}

/// What data is rendered from is read when it is: once for each machine.
fn reduce_host(host: &mut BareMetalHost) {
    if let Some(hardware) = host.status.as_mut().and_then(|status| status.hardware.as_mut()) {
        **hardware = hardware.reachability(MOST_ADDRESSES);
    }
}

impl World {
    /// Empty stores. Objects that the controllers work on must carry `filter` in the label for that, unless it is empty.
    pub fn new(filter: &str) -> Self {
        Self {
            clusters: Store::new(|cluster| {
                infrastructure(cluster)
                    .map(ClusterBy::Infrastructure)
                    .into_iter()
                    .collect()
            }),
            machines: Store::new(|machine| cluster_of(machine).map(MachineBy::Cluster).into_iter().collect()),
            machine_sets: Store::new(|_| Vec::new()),
            metal3_clusters: Store::new(|_| Vec::new()),
            metal3_machines: Store::new(|machine| {
                let cluster = cluster_of(machine).map(Metal3MachineBy::Cluster);
                let host = host_of(machine).map(Metal3MachineBy::Host);
                let template = cloned_from(machine).map(Metal3MachineBy::Template);
                cluster.into_iter().chain(host).chain(template).collect()
            }),
            templates: Store::new(|_| Vec::new()),
            hosts: Store::reduced(keys_of_host, reduce_host),
            data_templates: Store::new(data::keys_of_template),
            data_claims: Store::new(data::keys_of_claim),
            known_claims: KnownClaims::default(),
            datas: Store::new(data::keys_of_data),
            secrets: Store::new(data::keys_of_owned),
            ip_claims: Store::new(data::keys_of_owned),
            ip_address_claims: Store::new(data::keys_of_owned),
            remediations: Store::new(remediation::keys_of),
            filter: filter.to_owned(),
        }
    }

    /// Whether the controllers work on this object, as far as the watch filter goes.
    pub fn is_ours(&self, object: &impl ResourceExt) -> bool {
        self.filter.is_empty() || object.labels().get(capi::names::label::WATCH_FILTER) == Some(&self.filter)
    }

    /// Shows every store to `visitor`.
    fn visit(&self, visitor: &mut impl Visitor) {
        visitor.kind(&self.clusters);
        visitor.kind(&self.machines);
        visitor.kind(&self.machine_sets);
        visitor.kind(&self.metal3_clusters);
        visitor.kind(&self.metal3_machines);
        visitor.kind(&self.templates);
        visitor.kind(&self.hosts);
        visitor.kind(&self.data_templates);
        visitor.kind(&self.data_claims);
        visitor.kind(&self.datas);
        visitor.kind(&self.remediations);
        let rendered = watcher::Config::default().fields(&format!("type={SECRET_TYPE}"));
        visitor.watched(&self.secrets, rendered, false);
        // Whoever uses no pools of a kind need not install it.
        visitor.watched(&self.ip_claims, watcher::Config::default(), true);
        visitor.watched(&self.ip_address_claims, watcher::Config::default(), true);
    }

    /// Starts the watches. They end with `stop`. What is returned says when all have shown what there is.
    pub fn follow(
        &self,
        client: &Client,
        namespaces: &Namespaces,
        watches: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) -> Awaited {
        let mut starter = Starter {
            client,
            namespaces,
            tasks: watches,
            stop,
            awaited: Awaited::default(),
        };
        self.visit(&mut starter);
        starter.awaited
    }

    /// Waits until all kinds are served, Cluster API's too, so that the order of installation does not matter. Asked by a
    /// list of one object, for which the rights are there anyway.
    pub async fn served(&self, client: &Client, namespaces: &Namespaces) {
        loop {
            let mut asker = Asker {
                client,
                namespaces,
                answers: Vec::new(),
            };
            self.visit(&mut asker);
            let answers = futures::future::join_all(asker.answers).await;
            let Some(error) = answers.into_iter().find_map(Result::err) else {
                return;
            };
            tracing::warn!(error = %chain(&error), "waiting until the kinds of the provider and of Cluster API can be listed");
            tokio::time::sleep(KINDS_RECHECK).await;
        }
    }
}

/// Between looks for kinds that are not served yet.
const KINDS_RECHECK: Duration = Duration::from_secs(2);

/// Does something with each store.
trait Visitor {
    /// One whose kind must be there, with all its objects.
    fn kind<K, By>(&mut self, store: &Store<K, By>)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        By: Eq + Hash + Clone + Send + Sync + 'static,
    {
        self.watched(store, watcher::Config::default(), false);
    }

    fn watched<K, By>(&mut self, store: &Store<K, By>, config: watcher::Config, is_optional: bool)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        By: Eq + Hash + Clone + Send + Sync + 'static;
}

struct Starter<'a> {
    client: &'a Client,
    namespaces: &'a Namespaces,
    tasks: &'a mut JoinSet<()>,
    stop: &'a CancellationToken,
    awaited: Awaited,
}

impl Visitor for Starter<'_> {
    fn watched<K, By>(&mut self, store: &Store<K, By>, config: watcher::Config, is_optional: bool)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        By: Eq + Hash + Clone + Send + Sync + 'static,
    {
        for api in self.namespaces.apis::<K>(self.client) {
            let follow = Follow {
                api,
                store: store.clone(),
                config: config.clone(),
                is_optional,
            };
            self.awaited.expect();
            self.tasks.spawn(follow.run(self.awaited.clone(), self.stop.clone()));
        }
    }
}

struct Asker<'a> {
    client: &'a Client,
    namespaces: &'a Namespaces,
    answers: Vec<BoxFuture<'static, Result<(), kube::Error>>>,
}

impl Visitor for Asker<'_> {
    fn watched<K, By>(&mut self, _: &Store<K, By>, _: watcher::Config, is_optional: bool)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
        K: Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        By: Eq + Hash + Clone + Send + Sync + 'static,
    {
        let apis = self.namespaces.apis::<K>(self.client);
        for api in apis.into_iter().filter(|_| !is_optional) {
            let first = async move {
                let answer = api.list_metadata(&ListParams::default().limit(1)).await;
                answer.map(|_| ())
            };
            self.answers.push(first.boxed());
        }
    }
}

/// The Metal3Cluster that a Cluster names.
pub fn infrastructure(cluster: &Cluster) -> Option<ObjectKey> {
    let reference = cluster.spec.infrastructure_ref.as_ref()?;
    reference
        .is_of(infra::names::GROUP, &Metal3Cluster::kind(&()))
        .then(|| ObjectKey::new(cluster.namespace().unwrap_or_default(), &reference.name))
}

/// The Cluster that an object's label names.
pub fn cluster_of(object: &impl ResourceExt) -> Option<ObjectKey> {
    let name = object.labels().get(capi::names::label::CLUSTER_NAME)?;
    (!name.is_empty()).then(|| ObjectKey::new(object.namespace().unwrap_or_default(), name))
}

/// The host that a Metal3Machine's annotation names. It is looked for in the machine's namespace, whatever namespace is
/// written there.
pub fn host_of(machine: &Metal3Machine) -> Option<ObjectKey> {
    let text = machine.annotations().get(annotation::HOST)?;
    let name = text.rsplit_once('/').map_or(text.as_str(), |(_, name)| name);
    (!name.is_empty()).then(|| ObjectKey::new(machine.namespace().unwrap_or_default(), name))
}

/// The name of the owner of this group and kind, whatever its version. The controller flag says nothing: Cluster API sets
/// it in some cases only.
pub fn owner<'a>(object: &'a impl ResourceExt, group: &str, kind: &str) -> Option<&'a str> {
    let owners = object.owner_references().iter();
    let mut owners = owners.filter(|owner| owner.kind == kind && group_of(&owner.api_version) == group);
    owners.next().map(|owner| owner.name.as_str())
}

/// The group in a group and version.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn keys(metadata: &Value, spec: &Value, state: &str) -> Vec<HostBy> {
        let mut host: BareMetalHost = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": metadata, "spec": spec,
            "status": {"provisioning": {"state": state, "ID": ""}},
        }))
        .unwrap();
        host.metadata.namespace = Some("ns".to_owned());
        keys_of_host(&host)
    }

    #[test]
    fn hosts_are_found_by_what_makes_them_candidates() {
        let all = HostBy::Namespace("ns".to_owned());
        let free = [
            all.clone(),
            HostBy::FreeWith("ns".into(), "rack".into(), "a".into()),
            HostBy::Free("ns".into()),
        ];
        let labels = json!({"labels": {"rack": "a"}});
        assert_eq!(keys(&labels, &json!({}), "available"), free);
        assert_eq!(keys(&labels, &json!({"consumerRef": {}}), "ready"), free);
        assert_eq!(keys(&labels, &json!({}), "inspecting"), std::slice::from_ref(&all));
        let off = json!({"annotations": {"reboot.metal3.io/metal3-remediation-r": "", "reboot.metal3.io/x": ""}});
        let by = [all.clone(), HostBy::Remediation("r".into())];
        assert_eq!(keys(&off, &json!({}), "provisioned"), by);
        let mut named: BareMetalHost =
            serde_json::from_value(json!({"metadata": {}, "spec": {}, "status": {"poweredOn": true,
            "hardware": {"hostname": "h.example"}}}))
            .unwrap();
        named.metadata.namespace = Some("ns".to_owned());
        assert_eq!(
            keys_of_host(&named),
            [all.clone(), HostBy::Hostname("h.example".into())]
        );
        let used = json!({"consumerRef": {"kind": "Metal3Machine", "name": "m",
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1"}});
        let consumer = HostBy::Consumer(ObjectKey::new("ns", "m"));
        assert_eq!(keys(&json!({}), &used, "available"), [all.clone(), consumer]);
        let kept = json!({"labels": {"infrastructure.cluster.x-k8s.io/node-reuse": "cp-a"}, "uid": "u"});
        let by = [all, HostBy::Uid("u".into()), HostBy::Kept("ns".into(), "cp-a".into())];
        assert_eq!(keys(&kept, &json!({}), "available"), by);
    }

    #[test]
    fn of_a_hosts_hardware_its_name_and_addresses_are_kept() {
        let nic = |name: &str, ip: &str| json!({"name": name, "mac": "52:54:00:00:00:01", "model": "m", "ip": ip, "pxe": true});
        let hardware = json!({"hostname": "h", "ramMebibytes": 4096, "cpu": {"arch": "x86_64"},
            "nics": [nic("a", "192.0.2.1"), nic("b", ""), nic("a", "2001:db8::1"), nic("c", "192.0.2.1")]});
        let mut host: BareMetalHost = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h"}, "spec": {},
            "status": {"poweredOn": true, "hardware": hardware},
        }))
        .unwrap();
        reduce_host(&mut host);
        let status = host.status.unwrap();
        let kept = json!({"hostname": "h", "nics": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}]});
        assert_eq!(serde_json::to_value(&status.hardware).unwrap(), kept);
        assert!(status.powered_on);
    }

    #[test]
    fn the_hosts_annotation_names_a_host_of_the_own_namespace() {
        let machine = |value: &str| {
            let machine: Metal3Machine = serde_json::from_value(json!({
                "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
                "metadata": {"namespace": "ns", "name": "m", "annotations": {"metal3.io/BareMetalHost": value}}, "spec": {},
            }))
            .unwrap();
            host_of(&machine)
        };
        assert_eq!(machine("ns/h"), Some(ObjectKey::new("ns", "h")));
        assert_eq!(machine("other/h"), Some(ObjectKey::new("ns", "h")));
        assert_eq!(machine("h"), Some(ObjectKey::new("ns", "h")));
        assert_eq!(machine(""), None);
    }
}
