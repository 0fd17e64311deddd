//! Applies YAML objects to the API server, by server-side apply.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, Scope};
use kube::{Api, Client, ResourceExt, discovery};

use crate::process::POLL;

/// The field manager of what we apply.
const FIELD_MANAGER: &str = "metal3-lab";
/// How long a new kind may take until it is served.
const ESTABLISHED: Duration = Duration::from_secs(30);

/// Reads a stream of YAML documents; empty ones are left out, and a List stands for its items. What readers of YAML do not agree on (`on`, `0644`, `1_000`)
/// is text here, so the API server refuses it where it expects something else, instead of storing a guess.
pub fn parse(yaml: &str) -> Result<Vec<DynamicObject>> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
    };
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple_with_options(yaml, options).context("not YAML")?;
    documents
        .into_iter()
        .flat_map(items)
        .filter(|document| !document.is_null())
        .map(|document| {
            let object: DynamicObject = serde_json::from_value(document).context("a document that is no object")?;
            if object.types.is_none() || object.metadata.name.is_none() {
                bail!("an object needs apiVersion, kind and metadata.name");
            }
            Ok(object)
        })
        .collect()
}

/// What `kubectl get -o yaml` prints is one List of several objects.
fn items(document: serde_json::Value) -> Vec<serde_json::Value> {
    match (&document["kind"], &document["items"]) {
        (kind, serde_json::Value::Array(items)) if kind == "List" => items.clone(),
        _ => vec![document],
    }
}

/// Applies the objects: namespaces and custom resource definitions first, then the others in their order, when the new
/// kinds are served. What has no namespace and needs one gets `namespace`. Returns them as the API server has them.
pub async fn apply(client: &Client, objects: &[DynamicObject], namespace: Option<&str>) -> Result<Vec<DynamicObject>> {
    let mut ordered: Vec<&DynamicObject> = objects.iter().collect();
    ordered.sort_by_key(|object| rank(kind(object)));
    let mut known: HashMap<GroupVersionKind, (ApiResource, ApiCapabilities)> = HashMap::new();
    let mut defined = Vec::new();
    let mut applied = Vec::new();
    for object in ordered {
        if rank(kind(object)) == LAST && !defined.is_empty() {
            wait_until_established(client, &std::mem::take(&mut defined)).await?;
        }
        let types = object.types.as_ref().context("an object without a kind")?;
        let what = format!("{} {}", types.kind, object.name_any());
        let gvk = GroupVersionKind::try_from(types).with_context(|| format!("{what}: odd apiVersion"))?;
        let (resource, capabilities) = if let Some(found) = known.get(&gvk) {
            found
        } else {
            let found = discovery::pinned_kind(client, &gvk).await.with_context(|| {
                format!(
                    "{what}: the API server does not serve {}/{}",
                    gvk.api_version(),
                    gvk.kind
                )
            })?;
            known.entry(gvk).or_insert(found)
        };
        let api: Api<DynamicObject> = match (&capabilities.scope, object.namespace()) {
            (Scope::Cluster, _) => Api::all_with(client.clone(), resource),
            (Scope::Namespaced, Some(own)) => Api::namespaced_with(client.clone(), &own, resource),
            (Scope::Namespaced, None) => {
                let namespace = namespace.with_context(|| format!("{what} names no namespace"))?;
                Api::namespaced_with(client.clone(), namespace, resource)
            }
        };
        let done = api
            .patch(
                &object.name_any(),
                &PatchParams::apply(FIELD_MANAGER).force(),
                &Patch::Apply(object),
            )
            .await
            .with_context(|| format!("cannot apply {what}"))?;
        if kind(object) == CRD {
            defined.push(object.name_any());
        }
        applied.push(done);
    }
    wait_until_established(client, &defined).await?;
    Ok(applied)
}

/// Applies every custom resource definition in the YAML files of a folder, and returns when all are served, with their
/// number. A folder without any is an error.
pub async fn apply_crds(client: &Client, folder: &Path) -> Result<usize> {
    Ok(apply(client, &crds_in(folder)?, None).await?.len())
}

/// Every custom resource definition in the YAML files of a folder. A folder without any is an error.
pub fn crds_in(folder: &Path) -> Result<Vec<DynamicObject>> {
    let listing = std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files: Vec<_> = listing.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        objects.extend(parse(&text).with_context(|| file.display().to_string())?);
    }
    objects.retain(|object| kind(object) == CRD);
    if objects.is_empty() {
        bail!("{} holds no custom resource definition", folder.display());
    }
    Ok(objects)
}

const CRD: &str = "CustomResourceDefinition";
const LAST: u8 = 2;

/// What must be there before what.
fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        CRD => 1,
        _ => LAST,
    }
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

/// Waits until each definition is established, and until discovery knows its kinds: a controller of its own brings that
/// about, a moment later.
async fn wait_until_established(client: &Client, names: &[String]) -> Result<()> {
    let start = Instant::now();
    for name in names {
        while let Err(missing) = is_served(client, name).await {
            if start.elapsed() > ESTABLISHED {
                return Err(missing.context(format!("{name} is not served after {ESTABLISHED:?}")));
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

async fn is_served(client: &Client, name: &str) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definition = api.get(name).await.context("cannot read the definition")?;
    let conditions = definition
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    if !conditions
        .iter()
        .any(|condition| condition.type_ == "Established" && condition.status == "True")
    {
        bail!("its conditions are {conditions:?}");
    }
    let spec = definition.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let gvk = GroupVersionKind::gvk(&spec.group, &version.name, &spec.names.kind);
        discovery::pinned_kind(client, &gvk)
            .await
            .with_context(|| format!("no discovery of {}", version.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_readers_do_not_agree_on_is_text() {
        let text = "---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  switch: on\n  \
                    mode: 0644\n  mac: 52:54:00:12:34:56\n---\n";
        let objects = parse(text).unwrap();
        assert_eq!(objects.len(), 1);
        assert_eq!(
            objects[0].data["data"],
            serde_json::json!({"switch": "on", "mode": "0644", "mac": "52:54:00:12:34:56"})
        );
        assert!(
            parse("kind: ConfigMap\nmetadata: {name: a}\n").is_err(),
            "no apiVersion"
        );
    }

    #[test]
    fn a_list_stands_for_its_items() {
        let item = |name: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}");
        let text = format!(
            "{}\n---\napiVersion: v1\nkind: List\nitems: [{}, {}]\n",
            item("a"),
            item("b"),
            item("c")
        );
        let objects = parse(&text).unwrap();
        let names: Vec<_> = objects.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
