//! What is to be done for a definition and for an object of it. Pure.

use std::collections::BTreeSet;

use clap::ValueEnum;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Patch;
use kube::core::{ApiResource, ObjectMeta};
use serde::Deserialize;
use serde_json::{Value, json};

/// The generation of a definition whose objects have been migrated. The same annotation as Cluster API's.
pub const OBSERVED_GENERATION: &str = "crd-migration.cluster.x-k8s.io/observed-generation";

/// The manager of the entry that stands for all entries that were removed.
const SEED: &str = "metal3-storage-migration";

/// A part of the migration; the names are Cluster API's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Phase {
    /// Writes each object, unchanged, so that it is stored in the current version.
    #[value(name = "StorageVersionMigration")]
    StorageVersionMigration,
    /// Removes entries of managedFields that name a version that is not served: server-side apply fails on them.
    #[value(name = "CleanupManagedFields")]
    CleanupManagedFields,
}

/// The work on the objects of one definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The kind, in the version that is stored.
    pub resource: ApiResource,
    /// The identity of the definition: another one of the same name has other objects.
    uid: Option<String>,
    /// Whether objects may be stored in another version.
    pub rewrites: bool,
    /// The served versions, if managedFields are cleaned.
    served: Option<BTreeSet<String>>,
}

/// An object.
#[derive(Clone, Debug, Deserialize)]
pub struct Object {
    /// Its metadata.
    pub metadata: Metadata,
}

/// What counts of an object's metadata. Of the entries of managedFields nothing else is read: a user can write times into them that
/// the type of an entry cannot hold, and fields that are nested too deeply to be read at all.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    resource_version: Option<String>,
    #[serde(default)]
    managed_fields: Vec<Entry>,
}

/// An entry of managedFields.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    api_version: Option<String>,
}

/// Whether the objects of a definition have been migrated, by its metadata alone.
pub fn is_done(definition: &ObjectMeta) -> bool {
    let observed = definition
        .annotations
        .as_ref()
        .and_then(|all| all.get(OBSERVED_GENERATION));
    let generation = definition.generation.map(|generation| generation.to_string());
    observed.is_some() && observed == generation.as_ref()
}

/// The work for a definition, which may be to look at its objects and find nothing. `None` without a stored version.
pub fn work(definition: &CustomResourceDefinition, phases: &BTreeSet<Phase>) -> Option<Work> {
    let spec = &definition.spec;
    let storage = &spec.versions.iter().find(|version| version.storage)?.name;
    let stored = definition
        .status
        .as_ref()
        .and_then(|status| status.stored_versions.as_ref());
    let is_right = stored.is_some_and(|stored| stored.as_slice() == [storage.clone()]);
    let version = |name: &str| format!("{}/{name}", spec.group);
    let served = spec.versions.iter().filter(|each| each.served);
    let served: BTreeSet<String> = served.map(|each| version(&each.name)).collect();
    Some(Work {
        resource: ApiResource {
            group: spec.group.clone(),
            version: storage.clone(),
            api_version: version(storage),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        },
        uid: definition.metadata.uid.clone(),
        rewrites: phases.contains(&Phase::StorageVersionMigration) && !is_right,
        served: phases.contains(&Phase::CleanupManagedFields).then_some(served),
    })
}

impl Work {
    /// Whether there may be an object that needs a write.
    pub fn is_empty(&self) -> bool {
        !self.rewrites && self.served.is_none()
    }

    /// The write that an object needs. It asks for no change of content or annotations, so a paused object remains paused;
    /// mutating webhooks may add defaults that the object lacks. It is conditional on the version that was listed, because an
    /// object that has been written since is stored as it should be.
    pub fn write(&self, object: &Metadata) -> Option<Patch<Value>> {
        let version = &object.resource_version;
        if let Some(mut operations) = self.cleaning(object) {
            operations.push(json!({"op": "replace", "path": "/metadata/resourceVersion", "value": version}));
            let operations = serde_json::from_value(Value::Array(operations)).ok()?;
            return Some(Patch::Json(operations));
        }
        self.rewrites
            .then(|| Patch::Merge(json!({"metadata": {"resourceVersion": version}})))
    }

    /// What removes the entries of versions that are not served; `None` if there are no such entries.
    fn cleaning(&self, object: &Metadata) -> Option<Vec<Value>> {
        let (served, fields) = (self.served.as_ref()?, &object.managed_fields);
        let is_left_over = |entry: &Entry| {
            entry
                .api_version
                .as_ref()
                .is_some_and(|version| !served.contains(version))
        };
        // The last one first: what is removed moves those behind it.
        let left_over: Vec<_> = (0..fields.len())
            .rev()
            .filter(|place| is_left_over(&fields[*place]))
            .collect();
        if left_over.is_empty() {
            return None;
        }
        if left_over.len() == fields.len() {
            // The API server does not track an object without entries.
            let seed = json!([{
                "apiVersion": self.resource.api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:metadata": {"f:name": {}}},
                "manager": SEED,
                "operation": "Update",
            }]);
            return Some(vec![
                json!({"op": "replace", "path": "/metadata/managedFields", "value": seed}),
            ]);
        }
        let remove = |place: usize| json!({"op": "remove", "path": format!("/metadata/managedFields/{place}")});
        Some(left_over.into_iter().map(remove).collect())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn all() -> BTreeSet<Phase> {
        BTreeSet::from([Phase::StorageVersionMigration, Phase::CleanupManagedFields])
    }

    fn definition(stored: &[&str]) -> CustomResourceDefinition {
        let version =
            |name: &str, storage: bool, served: bool| json!({"name": name, "storage": storage, "served": served});
        serde_json::from_value(json!({
            "metadata": {"name": "things.g", "uid": "u", "generation": 3},
            "spec": {"group": "g", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"}, "versions": [
                version("v1alpha5", false, false), version("v1beta1", false, true), version("v1beta2", true, true),
            ]},
            "status": {"storedVersions": stored},
        }))
        .unwrap()
    }

    fn metadata(versions: &[&str]) -> Value {
        let fields = versions.iter().map(|version| {
            json!({"apiVersion": version, "manager": version, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}})
        });
        let fields: Vec<Value> = fields.collect();
        json!({"name": "a", "resourceVersion": "7", "managedFields": fields})
    }

    fn object(versions: &[&str]) -> Metadata {
        serde_json::from_value(metadata(versions)).unwrap()
    }

    #[rstest]
    #[case::old_and_new(&["v1beta1", "v1beta2"], true)]
    #[case::only_old(&["v1beta1"], true)]
    #[case::nothing_known(&[], true)]
    #[case::only_new(&["v1beta2"], false)]
    fn objects_are_rewritten_while_another_version_may_be_stored(#[case] stored: &[&str], #[case] rewrites: bool) {
        let work = work(&definition(stored), &all()).unwrap();
        assert_eq!(work.rewrites, rewrites);
        assert_eq!(work.resource.api_version, "g/v1beta2");
        let patch = work.write(&object(&["g/v1beta1", "g/v1beta2"]));
        assert_eq!(
            patch,
            rewrites.then(|| Patch::Merge(json!({"metadata": {"resourceVersion": "7"}})))
        );
    }

    #[test]
    fn a_phase_that_is_skipped_does_nothing() {
        let old = definition(&["v1beta1"]);
        let entries = object(&["g/v1alpha5", "g/v1beta1"]);
        let storage = work(&old, &BTreeSet::from([Phase::StorageVersionMigration])).unwrap();
        assert!(matches!(storage.write(&entries), Some(Patch::Merge(_))));
        let cleanup = work(&old, &BTreeSet::from([Phase::CleanupManagedFields])).unwrap();
        assert!(matches!(cleanup.write(&entries), Some(Patch::Json(_))));
        assert_eq!(cleanup.write(&object(&["g/v1beta1"])), None);
        assert!(work(&old, &BTreeSet::new()).unwrap().is_empty());
    }

    #[rstest]
    #[case::one_of_two(&["g/v1alpha5", "g/v1beta1"], &["g/v1beta1"])]
    #[case::some_of_many(&["g/v1alpha4", "g/v1beta1", "g/v1alpha5", "g/v1beta2"], &["g/v1beta1", "g/v1beta2"])]
    #[case::the_only_one(&["g/v1alpha5"], &[SEED])]
    fn entries_of_versions_that_are_not_served_are_removed(#[case] before: &[&str], #[case] after: &[&str]) {
        let work = work(&definition(&["v1beta2"]), &all()).unwrap();
        let Some(Patch::Json(patch)) = work.write(&object(before)) else {
            panic!("no patch");
        };
        let mut object = json!({"metadata": metadata(before)});
        object["metadata"]["resourceVersion"] = json!("of a write in between");
        json_patch::patch(&mut object, &patch).unwrap();
        let metadata = &object["metadata"];
        let left = metadata["managedFields"].as_array().unwrap().iter();
        let left: Vec<_> = left.map(|entry| entry["manager"].as_str().unwrap()).collect();
        assert_eq!(left, after);
        assert_eq!(metadata["resourceVersion"], "7", "on the version that was seen");
    }

    #[rstest]
    #[case::this_generation(Some("3"), true)]
    #[case::an_earlier_one(Some("2"), false)]
    #[case::none(None, false)]
    fn a_definition_is_done_in_the_generation_that_it_names(#[case] observed: Option<&str>, #[case] done: bool) {
        let mut metadata = definition(&[]).metadata;
        let named = observed.map(|observed| (OBSERVED_GENERATION.to_owned(), observed.to_owned()));
        metadata.annotations = Some(named.into_iter().collect());
        assert_eq!(is_done(&metadata), done);
    }

    #[test]
    fn work_is_the_same_as_long_as_versions_and_identity_are() {
        let mut later = definition(&["v1beta1"]);
        later.metadata.generation = Some(4);
        assert_eq!(work(&later, &all()), work(&definition(&["v1beta1"]), &all()));
        later.metadata.uid = Some("another".to_owned());
        assert_ne!(work(&later, &all()), work(&definition(&["v1beta1"]), &all()));
    }
}
