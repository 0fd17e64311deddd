//! `config`: kustomize bases for `kubectl apply -k`.

use std::path::{Path, PathBuf};

use metal3_runtime::rbac::Objects;
use serde_json::{Value, json};

use super::deployment::{Certificates, Style, deployment, disruption_budget, metrics, metrics_reader, network_policy};
use super::program::{self, Program};
use crate::generate::files::{Files, document, documents};

/// The folders of these files alone.
pub const FOLDERS: [&str; 2] = ["config/manager", "config/default"];

/// The version of the images, and of everything else that is released.
pub fn version() -> String {
    format!("v{}", env!("CARGO_PKG_VERSION"))
}

/// A kustomization for each folder, and the Deployments.
pub fn files() -> anyhow::Result<Files> {
    let programs = program::all();
    let mut files = Files::new();
    for program in &programs {
        let path = Path::new("config/manager").join(format!("{}.yaml", program.name));
        files.insert(path, documents(SOURCE, &manager(program))?);
    }
    let named = |folder: &str, has: fn(&Program) -> bool| -> anyhow::Result<(PathBuf, String)> {
        let names = programs.iter().filter(|program| has(program));
        let names: Vec<String> = names.map(|program| format!("{}.yaml", program.name)).collect();
        kustomization(folder, &json!({"resources": names}))
    };
    files.extend([
        named("config/manager", |_| true)?,
        named("config/rbac", |_| true)?,
        named("config/webhook", |_| true)?,
        named("config/rbac/secrets-in-all-namespaces", has_secrets)?,
        named("config/rbac/secrets-in-one-namespace", has_secrets)?,
        named("config/rbac/secrets-by-name", has_secrets)?,
        kustomization("config/default", &default(&programs))?,
    ]);
    Ok(files)
}

const SOURCE: &str = "crates/xtask/src/install";

fn has_secrets(program: &Program) -> bool {
    let Objects {
        secrets_in_one_namespace,
        ..
    } = &program.rights;
    !secrets_in_one_namespace.is_empty()
}

/// Everything, with certificates that the programs make. Permissions for Secrets are bound for each namespace.
fn default(programs: &[Program]) -> Value {
    let image = |program: &Program| json!({"name": program.name, "newTag": version()});
    json!({
        "resources": ["../crd", "../rbac", "../manager", "../webhook"],
        "images": programs.iter().map(image).collect::<Vec<_>>(),
    })
}

fn kustomization(folder: &str, content: &Value) -> anyhow::Result<(PathBuf, String)> {
    let mut object = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        // Not needed by kustomize, but by readers that expect a name of every object in a folder of manifests.
        "metadata": {"name": folder.replace('/', "-")},
    });
    if let (Some(object), Some(content)) = (object.as_object_mut(), content.as_object()) {
        object.extend(content.clone());
    }
    Ok((Path::new(folder).join("kustomization.yaml"), document(SOURCE, &object)?))
}

fn manager(program: &Program) -> Vec<Value> {
    let style = Style {
        image: program.name,
        certificates: Certificates::Own,
        has_variables: false,
    };
    vec![
        deployment(program, style),
        metrics(program),
        metrics_reader(program),
        network_policy(program),
        disruption_budget(program),
    ]
}
