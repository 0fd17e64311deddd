//! Manifests as users have them (`tests/corpus`) and as we show them (`examples`), applied as users apply them: by
//! kubectl, with every warning of the API server taken for an error, but one: that v1beta1 of the infrastructure kinds is
//! deprecated. That is so, and existing definitions say it too.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helper functions too"
)]

use std::path::{Path, PathBuf};

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use metal3_api::crd;
use metal3_api::infra::convert;
use metal3_lab::apply::apply_crds;
use metal3_lab::binaries;
use metal3_scenarios::kubectl::{CONVERTED, Kubectl, STORED};
use metal3_scenarios::{LIMIT, admit};
use metal3_testkit::{TestNamespace, eventually, namespace, parse};
use serde_json::{Value, json};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    folder.canonicalize().unwrap()
}

/// The YAML files in a folder and all below it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    assert!(!files.is_empty(), "{} has no manifests", folder.display());
    files
}

fn objects(file: &Path) -> Vec<DynamicObject> {
    let text = std::fs::read_to_string(file).unwrap();
    parse(&text).unwrap_or_else(|error| panic!("{}: {error:#}", file.display()))
}

/// Some manifests are of Cluster API's kinds.
async fn with_cluster_api_kinds(namespace: &TestNamespace) {
    let folders = tokio::task::spawn_blocking(binaries::cluster_api_definitions);
    for folder in folders.await.unwrap().unwrap() {
        apply_crds(&namespace.client, &folder).await.unwrap();
    }
}

/// What kubectl says about a kind or a field. The API server publishes schemas a while after it serves their kinds.
async fn explain(kubectl: &Kubectl, what: &str, api_version: &str, flags: &[&str]) -> String {
    let version = format!("--api-version={api_version}");
    let arguments = [&["explain", what, &version], flags].concat();
    eventually(LIMIT, "kubectl explains it", || kubectl.run(&arguments)).await
}

/// Applies all manifests below a folder, those that name Metal3's usual namespace in kubectl's, and makes sure that none was passed over.
async fn apply(kubectl: &Kubectl, folder: &Path, flags: &[&str], each: &str) {
    let count: usize = files(folder).iter().map(|file| objects(file).len()).sum();
    let here = kubectl.folder.with_extension("manifests");
    std::fs::create_dir_all(&here).unwrap();
    for (number, file) in files(folder).iter().enumerate() {
        let text = std::fs::read_to_string(file).unwrap();
        let text = text.replace("namespace: metal3", &format!("namespace: {}", kubectl.namespace));
        std::fs::write(here.join(format!("{number}.yaml")), text).unwrap();
    }
    let here = here.to_str().unwrap();
    let said = kubectl.expect(&[&["apply", "--filename", here], flags].concat()).await;
    let done = said.lines().filter(|line| line.ends_with(each)).count();
    assert_eq!(done, count, "objects that are {each}:\n{said}");
}

/// Dry and for good, by the API server and by the client, and again.
async fn apply_in_every_way(folder: &Path, namespace: TestNamespace) {
    with_cluster_api_kinds(&namespace).await;
    admit(&namespace).await;
    let kubectl = Kubectl::new(&namespace).await;
    let (server_side, dry) = ("--server-side", "--dry-run=server");
    let dried = " serverside-applied (server dry run)";
    apply(&kubectl, folder, &[server_side, dry], dried).await;
    let stored = kubectl.expect(&["get", "bmh,ipp,hd", "--output=name"]).await;
    assert_eq!(stored, "", "a dry run stores nothing");
    apply(&kubectl, folder, &[server_side], " serverside-applied").await;
    apply(&kubectl, folder, &[server_side], " serverside-applied").await;

    let other = TestNamespace::new("by-the-client").await;
    admit(&other).await;
    let kubectl = Kubectl::new(&other).await;
    apply(&kubectl, folder, &[], " created").await;
    // Some are changed each time: the client knows no defaults, and not that stringData is stored in another form.
    apply(&kubectl, folder, &[dry], " (server dry run)").await;
}

#[tokio::test]
async fn manifests_of_users_apply_without_a_warning() {
    apply_in_every_way(&folder("tests/corpus"), namespace!().await).await;
}

// OWN 30x: an example was one that the webhooks refuse.
#[tokio::test]
async fn examples_apply_without_a_warning() {
    apply_in_every_way(&folder("examples"), namespace!().await).await;
}

/// What need not be there again: a structure without anything in it, and null.
fn is_bare(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// The same for a version that is not stored: Go writes empty texts, lists and structures where its types cannot leave them
/// out, and the version that is stored has no place for them.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(says_nothing),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What was sent and is not there, but for what need not be.
fn missing(sent: &Value, stored: &Value, need_not_be: fn(&Value) -> bool, path: &str, found: &mut Vec<String>) {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => {
            for (key, value) in sent {
                let stored = stored.get(key).unwrap_or(&Value::Null);
                missing(value, stored, need_not_be, &format!("{path}.{key}"), found);
            }
        }
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => {
            for (n, (sent, stored)) in sent.iter().zip(stored).enumerate() {
                missing(sent, stored, need_not_be, &format!("{path}[{n}]"), found);
            }
        }
        (sent, Value::Null) if need_not_be(sent) => {}
        (sent, stored) if sent == stored => {}
        (sent, stored) => found.push(format!("{path} is {stored}, not {sent}")),
    }
}

#[tokio::test]
async fn nothing_in_a_manifest_is_lost() {
    for (namespace, of) in [(namespace!().await, "tests/corpus"), (namespace!().await, "examples")] {
        with_cluster_api_kinds(&namespace).await;
        nothing_is_lost(&namespace, &folder(of)).await;
    }
}

async fn nothing_is_lost(namespace: &TestNamespace, folder: &Path) {
    for file in files(folder) {
        let sent = objects(&file);
        let stored = namespace.apply(&std::fs::read_to_string(&file).unwrap()).await;
        assert_eq!(sent.len(), stored.len());
        for (sent, stored) in sent.iter().zip(&stored) {
            let name = sent.metadata.name.as_deref().unwrap();
            let is_converted = sent.types.as_ref().is_some_and(|types| types.api_version == CONVERTED);
            let need_not_be = if is_converted { says_nothing } else { is_bare };
            let mut found = Vec::new();
            missing(
                &sent.data["spec"],
                &stored.data["spec"],
                need_not_be,
                "spec",
                &mut found,
            );
            assert!(found.is_empty(), "{} {name}: {found:#?}", file.display());
            assert_eq!(
                (&sent.metadata.name, sent.types.as_ref().map(|t| &t.kind)),
                (&stored.metadata.name, stored.types.as_ref().map(|t| &t.kind))
            );
            both_versions_agree(namespace, stored).await;
        }
    }
}

/// Clients of both versions see the same object, also after a write in either: each sees the conversion of what the other sees.
async fn both_versions_agree(namespace: &TestNamespace, object: &DynamicObject) {
    let types = object.types.clone().unwrap();
    if ![CONVERTED, STORED].contains(&&*types.api_version) {
        return;
    }
    let name = object.metadata.name.as_deref().unwrap();
    let apis = [CONVERTED, STORED].map(|version| {
        let (group, version) = version.split_once('/').unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
        let home = object.metadata.namespace.as_deref().unwrap_or(&namespace.name);
        Api::<DynamicObject>::namespaced_with(namespace.client.clone(), home, &resource)
    });
    let seen = async || {
        let [old, new] = &apis;
        let [old, new] =
            [old.get(name).await.unwrap(), new.get(name).await.unwrap()].map(|o| serde_json::to_value(o).unwrap());
        let parts = |object: &Value| json!({"spec": object["spec"], "status": object["status"]});
        let converted = convert(new.clone(), CONVERTED).unwrap();
        let (old, new) = (parts(&old), parts(&new));
        // The API server adds defaults of the version that it shows.
        let mut found = Vec::new();
        missing(&parts(&converted), &old, is_bare, "", &mut found);
        assert!(found.is_empty(), "{} {name}: {found:#?}", types.kind);
        (old, new)
    };
    let before = seen().await;
    for (number, api) in apis.iter().enumerate() {
        let label = json!({"metadata": {"labels": {"written": number.to_string()}}});
        let written = api.patch(name, &PatchParams::default(), &Patch::Merge(label)).await;
        written.unwrap_or_else(|error| panic!("{} {name}: {error}", types.kind));
        assert_eq!(seen().await, before, "{} {name}", types.kind);
    }
}

#[tokio::test]
async fn kubectl_explains_and_lists_every_kind() {
    let namespace = namespace!().await;
    let kubectl = Kubectl::new(&namespace).await;
    for crd in crd::all().unwrap() {
        let spec = &crd.manifest()["spec"];
        let plural = spec["names"]["plural"].as_str().unwrap();
        for version in spec["versions"].as_array().unwrap() {
            let api_version = format!(
                "{}/{}",
                spec["group"].as_str().unwrap(),
                version["name"].as_str().unwrap()
            );
            let said = explain(&kubectl, plural, &api_version, &["--recursive"]).await;
            let schema = &version["schema"]["openAPIV3Schema"];
            let description = schema["description"].as_str().unwrap();
            let start: String = description.split_whitespace().take(5).collect::<Vec<_>>().join(" ");
            assert!(said.contains(&start), "{api_version} {plural}: no {start:?} in\n{said}");
            let mut names = Vec::new();
            fields(schema, &mut names);
            for name in names {
                let is_there = said
                    .lines()
                    .any(|line| line.trim_start().starts_with(&format!("{name}\t")));
                assert!(is_there, "{api_version} {plural}: no {name} in\n{said}");
            }
            let field = explain(&kubectl, &format!("{plural}.spec"), &api_version, &[]).await;
            let description = schema["properties"]["spec"]["description"].as_str().unwrap();
            let start: String = description.split_whitespace().take(5).collect::<Vec<_>>().join(" ");
            assert!(
                field.contains(&start),
                "{api_version} {plural}.spec: no {start:?} in\n{field}"
            );
        }
        for short in spec["names"]["shortNames"].as_array().into_iter().flatten() {
            let name = format!("{}.{}", short.as_str().unwrap(), spec["group"].as_str().unwrap());
            kubectl.expect(&["get", &name]).await;
        }
    }
}

/// The names of all fields of a schema.
fn fields(schema: &Value, names: &mut Vec<String>) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        names.push(name.clone());
        // What kubectl explains of metadata is Kubernetes' own.
        if name != "metadata" {
            fields(below, names);
        }
    }
    for within in ["items", "additionalProperties"] {
        if schema[within].is_object() {
            fields(&schema[within], names);
        }
    }
}
