//! `config/crd`: one file for each CustomResourceDefinition, and a kustomization that lists them.

use super::files::{Files, document};
use metal3_api::crd;
use serde_json::json;
use std::path::Path;

pub const FOLDER: &str = "config/crd";

const SOURCE: &str = "crates/api";

pub fn files() -> anyhow::Result<Files> {
    let crds = crd::all()?;
    let mut files = Files::new();
    for crd in &crds {
        files.insert(
            Path::new(FOLDER).join(crd.file_name()),
            document(SOURCE, crd.manifest())?,
        );
    }
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        // Not needed by kustomize, but by readers that expect a name of every object in a folder of manifests.
        "metadata": { "name": "metal3-crds" },
        "resources": crds.iter().map(crd::Crd::file_name).collect::<Vec<_>>(),
    });
    files.insert(
        Path::new(FOLDER).join("kustomization.yaml"),
        document(SOURCE, &kustomization)?,
    );
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What is written must be what the definition says, whatever quoting and folding the emitter chose.
    #[test]
    fn the_yaml_reads_back_as_the_manifest() {
        let files = files().unwrap();
        for crd in crd::all().unwrap() {
            let text = &files[&Path::new(FOLDER).join(crd.file_name())];
            let read: Value = serde_saphyr::from_str(text).unwrap();
            assert_eq!(&read, crd.manifest(), "{}", crd.name());
        }
    }
}
