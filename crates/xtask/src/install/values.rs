//! The values of the Helm chart. Their schema, their file and their table in the README come from these types.

mod ironic;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use self::ironic::Ironic;

/// Values of the chart `metal3`.
#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Values {
    /// The images of the programs
    image: Image,
    /// Where the certificates of the webhooks come from: `own`, made by the programs, or `cert-manager`
    certificates: Certificates,
    /// The definitions of the kinds
    crds: Crds,
    /// Secrets that the programs may read: those of hosts and clusters
    secrets: Secrets,
    /// Namespaces that the programs watch; all of them if empty
    #[schemars(inner(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")))]
    watch_namespaces: BTreeSet<String>,
    /// Whether only the served ports of the programs accept connections
    network_policy: Switch,
    /// Whether a drain leaves a replica of each program running
    pod_disruption_budget: Switch,
    /// Objects for Prometheus and Grafana
    monitoring: Monitoring,
    /// The Ironic that the operator drives
    ironic: Ironic,
    /// The baremetal-operator: registers, inspects, provisions and powers hosts
    operator: Operator,
    /// The cluster-api-provider-metal3: turns Cluster API's Machines into provisioned hosts
    provider: Program,
    /// The ip-address-manager: hands out addresses from pools
    ipam: Program,
}

/// The images of the programs.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Image {
    /// The registry and the path before the name of each program; required
    #[schemars(regex(pattern = r"^([^\s/]+(/[^\s/]+)*)?$"))]
    registry: String,
    /// The tag; the chart's version if empty
    #[schemars(regex(pattern = r"^([0-9A-Za-z_][0-9A-Za-z_.-]{0,127})?$"))]
    tag: String,
    /// When a node pulls an image: `Always`, `IfNotPresent` or `Never`
    pull_policy: PullPolicy,
    /// Names of Secrets with credentials for the registry
    pull_secrets: BTreeSet<String>,
}

impl Default for Image {
    fn default() -> Self {
        Self {
            registry: String::new(),
            tag: String::new(),
            pull_policy: PullPolicy::IfNotPresent,
            pull_secrets: BTreeSet::new(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[expect(dead_code, reason = "the schema names all; the default is one of them")]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "the schema names both; the default is one of them")]
enum Certificates {
    #[default]
    Own,
    CertManager,
}

/// The definitions of the kinds.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Crds {
    /// Whether they are installed and upgraded with the chart
    install: bool,
    /// Whether they, and so all hosts, stay when the release is uninstalled
    keep: bool,
}

impl Default for Crds {
    fn default() -> Self {
        Self {
            install: true,
            keep: true,
        }
    }
}

/// Secrets that the programs may read.
#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Secrets {
    /// Namespaces with hosts or clusters; they must exist
    #[schemars(inner(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")))]
    namespaces: BTreeSet<String>,
    /// Whether the programs may read the Secrets of all namespaces, as upstream's may
    all_namespaces: bool,
}

/// On or off.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Switch {
    /// Whether it is installed
    enabled: bool,
}

impl Default for Switch {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Objects for Prometheus and Grafana.
#[derive(Serialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Monitoring {
    /// Whether a ServiceMonitor for each program is installed; needs the Prometheus operator
    service_monitors: bool,
    /// Whether a PrometheusRule with alerts is installed; needs the Prometheus operator
    rules: bool,
    /// Whether a ConfigMap with a Grafana dashboard is installed, for Grafana's sidecar
    dashboards: bool,
    /// Labels of these objects, by which Prometheus and Grafana select them
    labels: BTreeMap<String, String>,
}

/// The operator.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Operator {
    #[serde(flatten)]
    program: Program,
    /// Whether it assigns hosts to HostClaims of namespaces that a HostDeployPolicy permits, as upstream's does
    host_claims: bool,
}

impl Default for Operator {
    fn default() -> Self {
        Self {
            program: Program::default(),
            host_claims: true,
        }
    }
}

/// The value of an environment variable.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "the schema names all; there are none by default")]
enum Scalar {
    Text(String),
    Number(f64),
    Switch(bool),
}

/// One program.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Program {
    /// Whether it is installed
    enabled: bool,
    /// Its pods. One of them leads; all serve webhooks
    #[schemars(range(min = 1))]
    replicas: u32,
    /// More flags, such as `--log-filter=debug`. Of a flag that is given twice the last one counts
    args: Vec<String>,
    /// More environment variables
    env: BTreeMap<String, Scalar>,
    /// Resource requests and limits
    resources: Map<String, Value>,
    /// Labels of the nodes that its pods run on
    node_selector: BTreeMap<String, String>,
    /// Tolerations besides those for nodes of the control plane
    tolerations: Vec<Map<String, Value>>,
    /// Affinity of its pods
    affinity: Map<String, Value>,
    /// Its priority class
    priority_class_name: String,
}

impl Default for Program {
    fn default() -> Self {
        Self {
            enabled: true,
            replicas: 2,
            args: Vec::new(),
            env: BTreeMap::new(),
            resources: requests("50m", "64Mi"),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            affinity: Map::new(),
            priority_class_name: String::new(),
        }
    }
}

/// What a container asks for.
fn requests(cpu: &str, memory: &str) -> Map<String, Value> {
    let requests = json!({"cpu": cpu, "memory": memory});
    Map::from_iter([("requests".to_owned(), requests)])
}

/// The schema by which Helm checks a user's values.
pub fn schema() -> Value {
    let settings = schemars::generate::SchemaSettings::draft07().with(|settings| settings.inline_subschemas = true);
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<Values>();
    let mut schema = schema.to_value();
    open(&mut schema);
    schema
}

/// No value is required, and Helm adds `global`.
fn open(schema: &mut Value) {
    fn optional(schema: &mut Value) {
        if let Some(object) = schema.as_object_mut() {
            object.remove("required");
            object.values_mut().for_each(optional);
        }
    }
    optional(schema);
    schema["properties"]["global"] = json!({"type": "object"});
}

/// A value as a user reads of it.
struct Described {
    path: String,
    default: String,
    about: String,
}

/// All values that have no parts of their own.
fn described() -> anyhow::Result<Vec<Described>> {
    let mut all = Vec::new();
    describe("", &schema(), &serde_json::to_value(Values::default())?, &mut all);
    Ok(all)
}

fn describe(path: &str, schema: &Value, value: &Value, all: &mut Vec<Described>) {
    let properties = schema["properties"].as_object();
    match (properties, value.as_object()) {
        (Some(properties), Some(value)) => {
            for (name, value) in value {
                let dot = if path.is_empty() { "" } else { "." };
                describe(&format!("{path}{dot}{name}"), &properties[name], value, all);
            }
        }
        _ => all.push(Described {
            path: path.to_owned(),
            default: value.to_string(),
            about: about(schema),
        }),
    }
}

/// The first line of a description.
fn about(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.replace('\n', " ")
}

/// The chart's `values.yaml`.
pub fn file() -> anyhow::Result<String> {
    let mut text = String::new();
    write_values(&mut text, 0, &schema(), &serde_json::to_value(Values::default())?)?;
    Ok(text)
}

fn write_values(text: &mut String, depth: usize, schema: &Value, value: &Value) -> anyhow::Result<()> {
    let indent = "  ".repeat(depth);
    for (name, value) in value.as_object().into_iter().flatten() {
        let schema = &schema["properties"][name];
        writeln!(text, "{indent}# {}", about(schema))?;
        if schema["properties"].is_object() {
            writeln!(text, "{indent}{name}:")?;
            write_values(text, depth + 1, schema, value)?;
        } else {
            // JSON is YAML.
            writeln!(text, "{indent}{name}: {value}")?;
        }
    }
    Ok(())
}

/// The table of values for the README.
pub fn table() -> anyhow::Result<String> {
    let mut text = String::from("| value | default | |\n|---|---|---|\n");
    for Described { path, default, about } in described()? {
        writeln!(text, "| `{path}` | `{default}` | {about} |")?;
    }
    Ok(text)
}
