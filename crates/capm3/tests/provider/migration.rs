//! A store as upstream's releases left it, all in v1beta1, is read, converted and migrated.

use std::collections::BTreeMap;
use std::path::Path;

use cluster_api_provider_metal3::{rbac, webhooks};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use metal3_api::infra::convert;
use metal3_lab::ControlPlane;
use metal3_runtime::Clock;
use metal3_runtime::events::{Recorder, Reporter};
use metal3_runtime::metrics::{Build, Catalogue, Registry};
use metal3_runtime::migration::{self, Migration};
use metal3_testkit::{DEADLINE, Served, bare_server, definitions, endpoint, eventually, listen};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const GROUP: &str = "infrastructure.cluster.x-k8s.io";
const CONVERSION_DATA: &str = "cluster.x-k8s.io/conversion-data";
/// Enough to be killed among them: each takes a tenth of a second.
const CLAIMS: usize = 30;
const KINDS: [&str; 9] = [
    "Metal3Cluster",
    "Metal3ClusterTemplate",
    "Metal3Machine",
    "Metal3MachineTemplate",
    "Metal3DataTemplate",
    "Metal3DataClaim",
    "Metal3Data",
    "Metal3Remediation",
    "Metal3RemediationTemplate",
];

/// A Metal3Cluster from before `cloudProviderEnabled`, which the webhook sets to its default whenever the object is written.
const PLAIN: &str = "plain";

/// What upstream's manager wrote, in Go: it leaves out what is zero or false. The annotation is what its conversion left on an object that was written in
/// v1beta2 while v1beta1 was stored.
fn stored() -> Vec<Value> {
    let object = |kind: &str, name: &str, annotations: Value, spec: Value| {
        json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": kind, "spec": spec,
            "metadata": {"name": name, "namespace": "default", "annotations": annotations}})
    };
    let image = json!({"url": "https://e/i", "checksum": "abc", "checksumType": "sha256", "format": "qcow2"});
    let machine =
        json!({"image": image, "hostSelector": {"matchLabels": {"a": "b"}}, "automatedCleaningMode": "metadata"});
    let mut foreign = machine.clone();
    foreign["userData"] = json!({"name": "s", "namespace": "other"});
    let hub = |saved: Value| json!({CONVERSION_DATA: saved.to_string()});
    let cluster = json!({"controlPlaneEndpoint": {"host": "h", "port": 6443}, "cloudProviderEnabled": true,
        "noCloudProvider": false, "failureDomains": {"a": {"controlPlane": true}, "b": {}}});
    let saved_cluster = json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}, "cloudProviderEnabled": true,
        "failureDomains": [{"name": "a", "controlPlane": true}, {"name": "b"}]},
        "status": {"initialization": {"provisioned": true}}});
    let saved_image = json!({"url": "https://e/i", "checksum": "abc", "checksumType": "sha256", "diskFormat": "qcow2"});
    let mut paused = hub(json!({"spec": {"image": saved_image}, "status": {"initialization": {"provisioned": false}}}));
    paused["cluster.x-k8s.io/paused"] = json!("");
    let strategy = json!({"type": "Reboot", "retryLimit": 2, "timeout": "600s"});
    let template = json!({"name": "dt"});
    let mut objects = vec![
        object("Metal3Cluster", "c", hub(saved_cluster), cluster),
        object(
            "Metal3Cluster",
            PLAIN,
            json!({}),
            json!({"controlPlaneEndpoint": {"host": "h", "port": 6443}}),
        ),
        // Stored before a rule forbade it.
        object("Metal3Machine", "foreign", json!({}), foreign),
        object("Metal3Machine", "paused", paused, machine.clone()),
        object("Metal3Machine", "going", json!({}), machine.clone()),
        object(
            "Metal3MachineTemplate",
            "mt",
            json!({}),
            json!({"nodeReuse": true, "template": {"spec": machine}}),
        ),
        object(
            "Metal3ClusterTemplate",
            "ct",
            json!({}),
            json!({"template": {"spec": {
            "controlPlaneEndpoint": {"host": "h", "port": 6443}, "cloudProviderEnabled": false, "noCloudProvider": true}}}),
        ),
        object(
            "Metal3DataTemplate",
            "dt",
            json!({}),
            json!({"clusterName": "c",
            "metaData": {"ipAddressesFromIPPool": [{"key": "ip", "name": "pool", "apiGroup": "ipam.metal3.io", "kind": "IPPool"}], "indexes": [{"key": "i", "offset": 1}]}}),
        ),
        object(
            "Metal3Data",
            "dt-1",
            json!({}),
            json!({"index": 1, "template": template, "claim": {"name": "claim-0"}}),
        ),
        object("Metal3Remediation", "r", json!({}), json!({"strategy": strategy})),
        object(
            "Metal3RemediationTemplate",
            "rt",
            json!({}),
            json!({"template": {"spec": {"strategy": strategy}}}),
        ),
    ];
    let claim = |n| {
        object(
            "Metal3DataClaim",
            &format!("claim-{n}"),
            json!({}),
            json!({"template": template}),
        )
    };
    objects.extend((0..CLAIMS).map(claim));
    objects
}

/// A definition as an early release of upstream had it: v1beta1 is stored, and an older version is served still.
fn of_upstream(mut definition: DynamicObject) -> DynamicObject {
    definition.data["spec"]["conversion"] = json!({"strategy": "None"});
    let versions = definition.data["spec"]["versions"].as_array_mut().unwrap();
    versions.retain(|version| version["name"] == "v1beta1");
    versions[0]["storage"] = json!(true);
    let mut older = versions[0].clone();
    older["name"] = json!("v1alpha5");
    older["storage"] = json!(false);
    versions.push(older);
    definition
}

fn api(client: &Client, version: &str, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(
        client.clone(),
        "default",
        &ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, version, kind)),
    )
}

type Objects = BTreeMap<(String, String), DynamicObject>;

async fn objects(client: &Client, version: &str) -> Result<Objects, kube::Error> {
    let mut all = Objects::new();
    for kind in KINDS {
        for object in api(client, version, kind).list(&ListParams::default()).await? {
            all.insert((kind.to_owned(), object.name_any()), object);
        }
    }
    Ok(all)
}

fn versions(objects: &Objects) -> BTreeMap<&(String, String), Option<String>> {
    objects
        .iter()
        .map(|(key, object)| (key, object.resource_version()))
        .collect()
}

/// What users and controllers see, without the copy that conversion keeps.
fn meaning(object: &DynamicObject) -> Value {
    let metadata = &object.metadata;
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.remove(CONVERSION_DATA);
    json!({"uid": metadata.uid, "generation": metadata.generation, "labels": metadata.labels, "annotations": annotations,
        "finalizers": metadata.finalizers, "deletion": metadata.deletion_timestamp, "spec": object.data["spec"],
        "status": object.data["status"]})
}

/// The API server with upstream's definitions and objects.
async fn upstreams(definitions: &[DynamicObject]) -> &'static ControlPlane {
    let server = bare_server().await;
    let client = server.client().await.unwrap();
    let old: Vec<DynamicObject> = definitions.iter().cloned().map(of_upstream).collect();
    metal3_lab::apply::apply(&client, &old, None).await.unwrap();
    let text: Vec<String> = stored().iter().map(Value::to_string).collect();
    let text = metal3_lab::apply::parse(&text.join("\n---\n")).unwrap();
    metal3_lab::apply::apply(&client, &text, None).await.unwrap();

    // Written by an earlier release, through the version that it had.
    let label = json!({"apiVersion": format!("{GROUP}/v1alpha5"), "kind": "Metal3Machine",
        "metadata": {"name": "paused", "labels": {"old": "yes"}}});
    let machines = api(&client, "v1alpha5", "Metal3Machine");
    let apply = PatchParams::apply("an-earlier-release");
    machines.patch("paused", &apply, &Patch::Apply(&label)).await.unwrap();
    let ready = json!({"status": {"ready": true}});
    let clusters = api(&client, "v1beta1", "Metal3Cluster");
    clusters
        .patch_status("c", &PatchParams::default(), &Patch::Merge(&ready))
        .await
        .unwrap();

    // In deletion, and held.
    let held = json!({"metadata": {"finalizers": ["example.org/held"]}});
    let machines = api(&client, "v1beta1", "Metal3Machine");
    machines
        .patch("going", &PatchParams::default(), &Patch::Merge(&held))
        .await
        .unwrap();
    machines.delete("going", &DeleteParams::default()).await.unwrap();
    server
}

/// Installs our definitions, rights and webhook configurations, and serves the webhooks as a replica that leads does.
async fn install(server: &ControlPlane, mut definitions: Vec<DynamicObject>) -> JoinSet<()> {
    let client = server.client().await.unwrap();
    let listener = listen().unwrap();
    let url = format!("https://localhost:{}/convert", listener.local_addr().unwrap().port());
    for definition in &mut definitions {
        definition.data["spec"]["conversion"]["webhook"]["clientConfig"] = json!({ "url": url });
    }
    let rights: Vec<String> = rbac::objects().base.iter().map(Value::to_string).collect();
    let rights = metal3_lab::apply::parse(&rights.join("\n---\n")).unwrap();
    metal3_lab::apply::apply(&client, &rights, None).await.unwrap();
    metal3_lab::apply::apply(&client, &definitions, None).await.unwrap();
    let admission = Served::start(webhooks::all(), server.authority()).unwrap();
    let mut asked = webhooks::installed::INSTALLED.objects(&webhooks::all());
    asked.retain(|object| object["webhooks"].is_array());
    for configuration in &mut asked {
        admission.admit(configuration, "default");
    }
    let asked: Vec<String> = asked.iter().map(Value::to_string).collect();
    let asked = metal3_lab::apply::parse(&asked.join("\n---\n")).unwrap();
    metal3_lab::apply::apply(&client, &asked, None).await.unwrap();
    let (leading, leads) = watch::channel(true);
    let certificates = webhooks::installed::certificates(rbac::NAMESPACE);
    let endpoint = endpoint(listener, webhooks::all(), Path::new("/does/not/exist"))
        .unwrap()
        .self_managed(certificates, account(server).await, leads, Clock::system());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        endpoint.serve(CancellationToken::new()).await.unwrap();
        drop(leading);
    });
    tasks
}

async fn account(server: &ControlPlane) -> Client {
    let config = server.service_account(rbac::NAMESPACE, rbac::SERVICE_ACCOUNT).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Starts to migrate; it is killed when the result is dropped.
async fn migrate(server: &ControlPlane) -> JoinSet<()> {
    let client = account(server).await;
    let registry = Registry::new(Build {
        component: "tests",
        version: "",
    });
    let reporter = Reporter {
        component: "tests",
        controller: "tests",
    };
    let migration = Migration {
        recorder: Recorder::new(client.clone(), reporter, Clock::system()),
        client,
        definitions: webhooks::installed::certificates(rbac::NAMESPACE).definitions,
        phases: migration::phases(&[]),
        metrics: migration::Metrics::listed(&mut Catalogue::new(&registry)),
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (_leading, leads) = watch::channel(true);
        migration.run(leads, CancellationToken::new()).await.unwrap();
    });
    tasks
}

async fn stored_versions(client: &Client) -> BTreeMap<String, Vec<String>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let all = api.list(&ListParams::default()).await.unwrap().items.into_iter();
    let ours = all.filter(|definition| definition.spec.group == GROUP);
    let stored = |of: &CustomResourceDefinition| of.status.clone().and_then(|status| status.stored_versions);
    ours.map(|of| (of.name_any(), stored(&of).unwrap_or_default()))
        .collect()
}

async fn is_complete(client: &Client) {
    eventually(DEADLINE, "only v1beta2 is stored", async || {
        let left = stored_versions(client).await;
        let left: Vec<_> = left.into_iter().filter(|(_, stored)| stored != &["v1beta2"]).collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await;
}

/// Kills the migration when some of the claims are written.
async fn kill_among_the_claims(server: &ControlPlane, client: &Client, before: &Objects) {
    let migrating = migrate(server).await;
    let claims = api(client, "v1beta2", "Metal3DataClaim");
    eventually(DEADLINE, "some claims are written", async || {
        let now = claims
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let is_written = |claim: &&DynamicObject| {
            let key = ("Metal3DataClaim".to_owned(), claim.name_any());
            claim.resource_version() != before[&key].resource_version()
        };
        match now.iter().filter(is_written).count() {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    drop(migrating);
    let between = stored_versions(client).await;
    assert_eq!(
        between[&format!("metal3dataclaims.{GROUP}")],
        ["v1beta1", "v1beta2"],
        "{between:?}"
    );
}

/// Migrates once more: what is stored as it should be is not written again.
async fn nothing_is_written_again(server: &ControlPlane, client: &Client, before: &Objects) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in stored_versions(client).await.keys() {
        let stored = json!({"status": {"storedVersions": ["v1beta1", "v1beta2"]}});
        let again = json!({"metadata": {"annotations": {"crd-migration.cluster.x-k8s.io/observed-generation": null}}});
        let params = PatchParams::default();
        definitions
            .patch_status(name, &params, &Patch::Merge(&stored))
            .await
            .unwrap();
        definitions.patch(name, &params, &Patch::Merge(&again)).await.unwrap();
    }
    let _migrating = migrate(server).await;
    is_complete(client).await;
    assert_eq!(versions(&objects(client, "v1beta2").await.unwrap()), versions(before));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_upstream_left_is_migrated_without_a_change_of_meaning() {
    let mut definitions = definitions().unwrap();
    definitions.retain(|definition| definition.data["spec"]["group"] == GROUP);
    let server = upstreams(&definitions).await;
    let client = server.client().await.unwrap();
    let before = objects(&client, "v1beta1").await.unwrap();
    assert_eq!(before.len(), stored().len());

    let _webhooks = install(server, definitions).await;
    let converted = eventually(DEADLINE, "the API server converts", async || {
        objects(&client, "v1beta2").await.map_err(|error| error.to_string())
    })
    .await;
    for (key, old) in &before {
        let new = convert(serde_json::to_value(old).unwrap(), &format!("{GROUP}/v1beta2")).unwrap();
        assert_eq!(converted[key].data["spec"], new["spec"], "{key:?}");
        assert_eq!(
            converted[key].resource_version(),
            old.resource_version(),
            "reading writes nothing: {key:?}"
        );
    }

    kill_among_the_claims(server, &client, &before).await;

    let migrating = migrate(server).await;
    is_complete(&client).await;
    drop(migrating);
    let (old, new) = (
        objects(&client, "v1beta1").await.unwrap(),
        objects(&client, "v1beta2").await.unwrap(),
    );
    for (key, object) in &new {
        let mut expected = (meaning(&converted[key]), meaning(&before[key]));
        if key.1 == PLAIN {
            for expected in [&mut expected.0, &mut expected.1] {
                expected["generation"] = json!(2);
                expected["spec"]["cloudProviderEnabled"] = json!(false);
            }
            expected.1["spec"]["noCloudProvider"] = json!(true);
        }
        let now = (meaning(object), meaning(&old[key]));
        assert_eq!(now, expected, "{key:?}");
        assert_ne!(
            object.resource_version(),
            before[key].resource_version(),
            "it is written: {key:?}"
        );
        let names = object
            .managed_fields()
            .iter()
            .map(|entry| entry.api_version.clone().unwrap());
        assert!(
            names.into_iter().all(|version| !version.ends_with("v1alpha5")),
            "{key:?}"
        );
    }
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = |event: &Event| event.reason.as_deref() == Some("StorageMigrated");
    assert!(events.iter().any(told), "{events:?}");
    nothing_is_written_again(server, &client, &new).await;
}
