//! What is in the cluster.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt};
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::metal3::names::annotation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::programs::running;

/// Objects per page of a list.
const PAGE: u32 = 500;

/// A namespace and a name.
pub type Key = (String, String);

/// Everything that counts for the change.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// All Deployments.
    pub deployments: Vec<Deployment>,
    /// All Services, and whether a pod behind it is ready, or another name stands for it.
    pub services: BTreeMap<Key, bool>,
    /// All definitions, by their names.
    pub definitions: BTreeMap<String, Value>,
    /// All configurations of webhooks.
    pub configurations: Vec<Configuration>,
    /// The data of the ConfigMaps that the programs' Deployments take variables from.
    pub config_maps: BTreeMap<Key, BTreeMap<String, String>>,
    /// Those of these ConfigMaps that may not be read.
    pub unreadable: BTreeSet<Key>,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// What clusterctl takes to be installed.
    pub inventory: Vec<Provider>,
}

/// A provider of Cluster API in the inventory of clusterctl.
#[derive(Clone, Debug, Default)]
pub struct Provider {
    /// Its namespace and its name.
    pub key: Key,
    /// The installed version.
    pub version: String,
}

/// A configuration of webhooks.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// The whole of it.
    pub object: Value,
}

/// What counts of a host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its namespace and its name.
    pub key: Key,
    /// `status.provisioning.state`.
    pub state: String,
    /// `status.operationalStatus`.
    pub operational: String,
    /// It has the annotation that pauses it.
    pub is_paused: bool,
    /// It has the annotation that detaches it.
    pub is_detached: bool,
    /// It is being moved by clusterctl, or such a move was cut off.
    pub is_moving: bool,
    /// It has no status yet, and an annotation that holds one.
    pub is_to_be_restored: bool,
}

/// Lists what counts.
///
/// # Errors
/// a list fails, other than for a kind that the cluster does not have
pub async fn observe(client: &Client) -> anyhow::Result<Observed> {
    let deployments = list::<Deployment>(client).await?;
    let services = list::<Service>(client).await?;
    let slices = list::<EndpointSlice>(client).await?;
    let answered: BTreeSet<_> = slices.iter().filter_map(answered).collect();
    let is_name = |service: &Service| service.spec.as_ref().is_some_and(|spec| spec.external_name.is_some());
    let services = services
        .iter()
        .map(|one| (key(one), is_name(one) || answered.contains(&key(one))));
    let services = services.collect();
    let definitions = list::<CustomResourceDefinition>(client).await?;
    let definitions: BTreeMap<_, _> = definitions.iter().map(|one| (one.name_any(), json!(one))).collect();
    let validating = list::<ValidatingWebhookConfiguration>(client).await?;
    let mutating = list::<MutatingWebhookConfiguration>(client).await?;
    let validating = validating
        .iter()
        .map(|one| configuration("ValidatingWebhookConfiguration", one));
    let mutating = mutating
        .iter()
        .map(|one| configuration("MutatingWebhookConfiguration", one));
    let (config_maps, unreadable) = config_maps(client, &deployments).await?;
    Ok(Observed {
        config_maps,
        unreadable,
        hosts: hosts(client, &definitions).await?,
        inventory: inventory(client, &definitions).await?,
        configurations: validating.chain(mutating).collect(),
        deployments,
        services,
        definitions,
    })
}

/// The Service with these endpoints, if one of them is ready.
fn answered(slice: &EndpointSlice) -> Option<Key> {
    let is_ready = |one: &Endpoint| one.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false);
    let service = slice.labels().get("kubernetes.io/service-name")?;
    let is_answered = slice.endpoints.iter().any(is_ready);
    is_answered.then(|| (slice.namespace().unwrap_or_default(), service.clone()))
}

fn configuration(kind: &'static str, object: &(impl ResourceExt + Serialize)) -> Configuration {
    Configuration {
        kind,
        name: object.name_any(),
        object: json!(object),
    }
}

fn key(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

async fn list<K>(client: &Client) -> anyhow::Result<Vec<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let kind = K::kind(&());
    pages(&Api::<K>::all(client.clone()))
        .await
        .with_context(|| format!("cannot list the {kind} objects"))
}

async fn pages<K>(api: &Api<K>) -> Result<Vec<K>, kube::Error>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
}

/// The ConfigMaps with variables of the programs, and those that may not be read: the rest of the check does without them.
async fn config_maps(
    client: &Client,
    deployments: &[Deployment],
) -> anyhow::Result<(BTreeMap<Key, BTreeMap<String, String>>, BTreeSet<Key>)> {
    let (mut found, mut unreadable) = (BTreeMap::new(), BTreeSet::new());
    for one in running(deployments) {
        let sources = one
            .container
            .env_from
            .iter()
            .flatten()
            .filter_map(|source| source.config_map_ref.as_ref());
        let sources = sources.map(|map| &map.name);
        let variables = one
            .container
            .env
            .iter()
            .flatten()
            .filter_map(|variable| variable.value_from.as_ref());
        let keys = variables
            .filter_map(|from| from.config_map_key_ref.as_ref())
            .map(|key| &key.name);
        let namespace = one.namespace();
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        for name in sources.chain(keys).collect::<BTreeSet<_>>() {
            let key = (namespace.clone(), name.clone());
            match maps.get_opt(name).await {
                Ok(map) => drop(map.and_then(|map| map.data).map(|data| found.insert(key, data))),
                Err(kube::Error::Api(status)) if status.is_forbidden() => drop(unreadable.insert(key)),
                Err(error) => return Err(error).with_context(|| format!("cannot read ConfigMap {namespace}/{name}")),
            }
        }
    }
    Ok((found, unreadable))
}

async fn hosts(client: &Client, definitions: &BTreeMap<String, Value>) -> anyhow::Result<Vec<Host>> {
    let all = custom(
        client,
        definitions,
        ("metal3.io", "v1alpha1", "BareMetalHost", "baremetalhosts"),
    )
    .await?;
    Ok(all.iter().map(host).collect())
}

async fn inventory(client: &Client, definitions: &BTreeMap<String, Value>) -> anyhow::Result<Vec<Provider>> {
    let kind = ("clusterctl.cluster.x-k8s.io", "v1alpha3", "Provider", "providers");
    let all = custom(client, definitions, kind).await?;
    let provider = |object: &DynamicObject| Provider {
        key: key(object),
        version: object.data["version"].as_str().unwrap_or_default().to_owned(),
    };
    Ok(all.iter().map(provider).collect())
}

/// All objects of a kind, by its group, version, name and plural; none if the cluster does not have it.
async fn custom(
    client: &Client,
    definitions: &BTreeMap<String, Value>,
    (group, version, kind, plural): (&str, &str, &str, &str),
) -> anyhow::Result<Vec<DynamicObject>> {
    if !definitions.contains_key(&format!("{plural}.{group}")) {
        return Ok(Vec::new());
    }
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    pages(&Api::<DynamicObject>::all_with(client.clone(), &resource))
        .await
        .with_context(|| format!("cannot list the {kind} objects"))
}

fn host(object: &DynamicObject) -> Host {
    let status = &object.data["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let has = |name: &str| object.annotations().contains_key(name);
    let state = text(&status["provisioning"]["state"]);
    Host {
        key: key(object),
        is_paused: has(annotation::PAUSED),
        is_detached: has(annotation::DETACHED),
        is_moving: has(DELETE_FOR_MOVE),
        is_to_be_restored: state.is_empty() && has(annotation::STATUS),
        operational: text(&status["operationalStatus"]),
        state,
    }
}
