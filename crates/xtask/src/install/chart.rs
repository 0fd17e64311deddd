//! The generated part of `charts/metal3`: objects without a namespace of their own, and the values with schema and README.
//!
//! Templates replace the programs' namespaces by that of the release, and set what the values say.

use std::path::Path;

use metal3_api::crd;
use serde_json::Value;

use super::deployment::{Certificates, Style, deployment, disruption_budget, metrics, metrics_reader, network_policy};
use super::program::{self, Program};
use super::{certificates, values};
use crate::generate::files::{Files, document, documents};

/// The folder whose YAML and JSON files are generated.
pub const FOLDER: &str = "charts/metal3/files";

const CHART: &str = "charts/metal3";
const SOURCE: &str = "crates/xtask/src/install";

/// The files.
pub fn files() -> anyhow::Result<Files> {
    let mut files = Files::new();
    let mut put = |path: &str, text: String| files.insert(Path::new(CHART).join(path), text);
    for program in program::all() {
        for (name, objects) in parts(&program)? {
            put(
                &format!("files/{}/{name}.yaml", program.key),
                documents(SOURCE, &objects)?,
            );
        }
        for definition in crd::all()? {
            if program.brings(definition.name()) {
                let path = format!("files/{}/crds/{}", program.key, definition.file_name());
                put(&path, document(SOURCE, definition.manifest())?);
            }
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    put(
        "Chart.yaml",
        format!("{HEADER}{}", CHART_FILE.replace("VERSION", version)),
    );
    put(
        "values.schema.json",
        format!("{}\n", serde_json::to_string_pretty(&values::schema())?),
    );
    put("values.yaml", format!("{HEADER}{}", values::file()?));
    put("README.md", README.replace("VALUES", &values::table()?));
    Ok(files)
}

fn parts(program: &Program) -> anyhow::Result<Vec<(&'static str, Vec<Value>)>> {
    let style = Style {
        image: program.name,
        certificates: Certificates::CertManager,
        has_variables: false,
    };
    let is_no_namespace = |object: &&Value| object["kind"] != "Namespace";
    let rights = &program.rights;
    anyhow::ensure!(rights.base.iter().any(|object| object["kind"] == "Namespace"));
    Ok(vec![
        ("rbac", rights.base.iter().filter(is_no_namespace).cloned().collect()),
        ("secrets-in-one-namespace", rights.secrets_in_one_namespace.clone()),
        ("secrets-in-all-namespaces", rights.secrets_in_all_namespaces.clone()),
        ("webhook", program.webhooks.clone()),
        ("certificates", certificates::objects(program)),
        ("deployment", vec![deployment(program, style)]),
        ("metrics", vec![metrics(program)]),
        ("metrics-reader", vec![metrics_reader(program)]),
        ("network-policy", vec![network_policy(program)]),
        ("disruption-budget", vec![disruption_budget(program)]),
    ]
    .into_iter()
    .filter(|(_, objects)| !objects.is_empty())
    .collect())
}

const HEADER: &str = "# Made by `cargo xtask generate` from crates/xtask/src/install.\n";

const CHART_FILE: &str = "apiVersion: v2
name: metal3
description: Bare-metal servers as Kubernetes objects
type: application
version: VERSION
appVersion: VERSION
kubeVersion: '>=1.33.0-0'
home: https://github.com/metal3-rs/metal3
";

const README: &str = "<!-- Made by `cargo xtask generate` from crates/xtask/src/install. -->

# Metal3

Bare-metal servers as Kubernetes objects: the baremetal-operator, the provider for Cluster API, and the manager of addresses.

```console
$ kubectl create namespace metal3
$ helm install metal3 charts/metal3 --namespace metal3-system --create-namespace \\
    --set image.registry=REGISTRY --set ironic.endpoint=https://ironic.example:6385/v1/ \\
    --set 'secrets.namespaces={metal3}'
```

It takes Helm 4. Your hosts and clusters go into the namespace `metal3`, or into others that you name.

With `ironic.deploy.enabled=true` instead of an endpoint it deploys an Ironic as well.

`helm upgrade` upgrades the definitions of the kinds, too. `helm uninstall` leaves them, and so all hosts; nothing happens to a
server. [Installing](../../docs/install.md) has the other ways, and says how to replace upstream's.

## Values

VALUES";
