//! The definitions of the cluster beside those that would take their place.

use std::collections::BTreeSet;

use metal3_api::crd::Crd;
use serde_json::Value;

use super::fields;
use super::observe::Observed;
use super::report::Finding;

/// The kind of Cluster API's that tells which versions of its API the cluster has.
const CLUSTERS: &str = "clusters.cluster.x-k8s.io";
/// The version of Cluster API's API that the provider uses.
const NEEDED: &str = "v1beta2";

/// What stands in the way of the definitions to come.
pub fn blockers(observed: &Observed, wanted: &[Crd]) -> Vec<Finding> {
    let mut found = Vec::new();
    for wanted in wanted {
        let Some(current) = observed.definitions.get(wanted.name()) else {
            continue;
        };
        let object = format!("CustomResourceDefinition {}", wanted.name());
        let versions = versions(wanted.manifest(), |_| true);
        let stored = current["status"]["storedVersions"].as_array().into_iter().flatten();
        let lost: Vec<_> = stored
            .filter_map(Value::as_str)
            .filter(|version| !versions.contains(version))
            .collect();
        if !lost.is_empty() {
            found.push(Finding {
                object: object.clone(),
                what: format!("objects are stored as {}, which the new definition does not have", lost.join(", ")),
                then: "let a release of upstream's that still has this version run until it has written all objects again, and see \
                       that status.storedVersions no longer names it"
                    .to_owned(),
            });
        }
        let unknown = fields::missing(current, wanted.manifest());
        if !unknown.is_empty() {
            found.push(Finding {
                object,
                what: format!("it has fields that the new definition does not have: {}", unknown.join(", ")),
                then: "a newer release is installed; objects would lose these fields when they are written. Take a release of ours \
                       that has them"
                    .to_owned(),
            });
        }
    }
    if let Some(clusters) = observed.definitions.get(CLUSTERS)
        && !versions(clusters, |version| version["served"] == true).contains(NEEDED)
    {
        found.push(Finding {
            object: format!("CustomResourceDefinition {CLUSTERS}"),
            what: format!("it does not serve {NEEDED}, by which the provider reads clusters and machines"),
            then: "upgrade Cluster API to 1.11 or newer first".to_owned(),
        });
    }
    found
}

/// The names of a definition's versions.
fn versions(definition: &Value, which: impl Fn(&Value) -> bool) -> BTreeSet<&str> {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let versions = versions.filter(|version| which(version));
    versions.filter_map(|version| version["name"].as_str()).collect()
}

/// The kinds with objects that are stored in more than one version.
pub fn to_migrate(observed: &Observed, wanted: &[Crd]) -> Vec<String> {
    let stored = |crd: &&Crd| {
        let current = observed.definitions.get(crd.name());
        let stored = current.and_then(|current| current["status"]["storedVersions"].as_array());
        let new = crd.manifest()["spec"]["versions"].as_array().into_iter().flatten();
        let mut new = new.filter(|version| version["storage"] == true);
        let new = new.next().map(|version| &version["name"]);
        stored.is_some_and(|stored| stored.iter().any(|version| Some(version) != new))
    };
    wanted.iter().filter(stored).map(|crd| crd.name().to_owned()).collect()
}
