//! The files that `clusterctl` downloads: components, and which contract of Cluster API each series of releases has.

use metal3_api::crd;
use serde_json::{Value, json};

use super::certificates;
use super::deployment::{Certificates, Style, deployment};
use super::program::Program;

/// Series of upstream's releases, by which `clusterctl upgrade` judges the installed provider: all of them are minor versions of 1.
/// The series before this one have the contract v1beta1.
const FIRST_OF_V1BETA2: u64 = 13;
/// The first series that upstream lists.
const FIRST: u64 = 1;

/// A program in one file. Every object has the provider's label, by which `clusterctl` finds and deletes it.
pub fn components(program: &Program, registry: &str, version: &str) -> anyhow::Result<Vec<Value>> {
    let image = format!("{registry}/{}:{version}", program.name);
    let style = Style {
        image: &image,
        certificates: Certificates::CertManager,
        has_variables: true,
    };
    let definitions = crd::all()?;
    let definitions = definitions.iter().filter(|crd| program.brings(crd.name()));
    let definitions = definitions.map(|crd| crd.manifest().clone());
    let (namespace, rights): (Vec<Value>, Vec<Value>) = program
        .rights
        .base
        .iter()
        .cloned()
        .partition(|object| object["kind"] == "Namespace");
    let mut objects: Vec<Value> = namespace.into_iter().chain(definitions).chain(rights).collect();
    // A namespace with clusters is made later, and by users who may not bind roles.
    objects.extend(program.rights.secrets_by_name.iter().cloned());
    objects.extend(certificates::objects(program));
    objects.extend(program.webhooks.iter().cloned());
    objects.push(deployment(program, style));
    for object in &mut objects {
        certificates::inject(object, program);
        object["metadata"]["labels"][program.label.0] = json!(program.label.1);
    }
    Ok(objects)
}

/// `metadata.yaml`.
pub fn metadata(version: &str) -> anyhow::Result<Value> {
    let mut numbers = version.trim_start_matches('v').split('.').map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        anyhow::bail!("{version:?} is no version");
    };
    anyhow::ensure!(
        major == 1u64 && minor >= FIRST_OF_V1BETA2,
        "{version} is older than what it replaces: `clusterctl` upgrades to newer versions only"
    );
    let series = (FIRST..=minor).rev().map(|minor| {
        let contract = if minor < FIRST_OF_V1BETA2 { "v1beta1" } else { "v1beta2" };
        json!({"major": major, "minor": minor, "contract": contract})
    });
    Ok(json!({
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": series.collect::<Vec<_>>(),
    }))
}
