//! The Deployment of a program, and what stands beside it: a NetworkPolicy, a PodDisruptionBudget, the Service of its metrics.

use serde_json::{Value, json};

use super::program::{Program, Target};

/// Ports of a pod: name and number. The defaults of the flags.
const PORTS: [(&str, u16); 3] = [("webhook-server", 9443), ("healthz", 9440), ("metrics", 8443)];

/// Where the programs look for a certificate, by the default of `--webhook-cert-dir`.
const CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";

/// Optional mounts of the operator: volume, Secret, folder. The folders are the defaults of the variables that name them.
const IRONIC: [(&str, &str, &str); 3] = [
    ("ironic-auth", "ironic-credentials", "/opt/metal3/auth/ironic"),
    ("ironic-ca", "ironic-cacert", "/opt/metal3/certs/ca"),
    ("ironic-client", "ironic-client-cert", "/opt/metal3/certs/client"),
];

/// The ConfigMap with the operator's environment. Upstream's name.
pub const CONFIGURATION: &str = "ironic";

/// Where the certificate of the webhooks comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Certificates {
    /// The program makes it.
    Own,
    /// cert-manager makes it, before the pod can start.
    CertManager,
}

/// How a Deployment is written.
#[derive(Clone, Copy)]
pub struct Style<'a> {
    /// Its image.
    pub image: &'a str,
    /// Where the certificate of the webhooks comes from.
    pub certificates: Certificates,
    /// Whether `clusterctl` fills in settings from variables. Otherwise the defaults of the flags apply.
    pub has_variables: bool,
}

/// The Deployment.
pub fn deployment(program: &Program, style: Style<'_>) -> Value {
    let mut labels = program.labels();
    let selector = labels.clone();
    // Upstream's pods have neither: by both together `kubectl metal3` tells them apart.
    labels["app.kubernetes.io/name"] = json!(program.name);
    labels["app.kubernetes.io/part-of"] = json!("metal3");
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": program.metadata("controller-manager"),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
                },
                "spec": pod(program, style),
            },
        },
    })
}

fn pod(program: &Program, style: Style<'_>) -> Value {
    let spread = json!({
        "labelSelector": {"matchLabels": program.labels()},
        // Pods that an upgrade replaces do not count.
        "matchLabelKeys": ["pod-template-hash"],
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
    });
    let tolerated = |key: &str| json!({"effect": "NoSchedule", "key": format!("node-role.kubernetes.io/{key}")});
    json!({
        "containers": [container(program, style)],
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "serviceAccountName": program.service_account,
        "terminationGracePeriodSeconds": 10,
        "tolerations": [tolerated("control-plane"), tolerated("master")],
        "topologySpreadConstraints": [spread],
        "volumes": volumes(program, style),
    })
}

fn container(program: &Program, style: Style<'_>) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut env = vec![
        field("POD_NAME", "metadata.name"),
        field("POD_NAMESPACE", "metadata.namespace"),
    ];
    let mut args = vec![json!("--enable-leader-election"), json!("--webhook-port=9443")];
    args.extend(program.flags.iter().map(|flag| json!(flag)));
    for variable in program.variables.iter().filter(|_| style.has_variables) {
        let value = format!("${{{}:={}}}", variable.name, variable.default);
        match variable.target {
            Target::Flag(flag) => args.push(json!(format!("{flag}={value}"))),
            // Quoted, or a boolean would not be text after the substitution.
            Target::Environment(name) => env.push(json!({"name": name, "value": value})),
        }
    }
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "healthz"}});
    let ports = PORTS.map(|(name, port)| json!({"containerPort": port, "name": name, "protocol": "TCP"}));
    let mut container = json!({
        "name": "manager",
        "image": style.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [program.command],
        "args": args,
        "env": env,
        "ports": ports,
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "privileged": false,
            "readOnlyRootFilesystem": true,
            "runAsGroup": 65532,
            "runAsUser": 65532,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts(program, style),
    });
    if program.drives_ironic() {
        container["envFrom"] = json!([{"configMapRef": {"name": CONFIGURATION}}]);
    }
    container
}

fn volumes(program: &Program, style: Style<'_>) -> Vec<Value> {
    let volume = |name: &str, secret: &str, is_optional: bool| json!({"name": name, "secret": {"defaultMode": 420, "optional": is_optional, "secretName": secret}});
    let mut volumes = Vec::new();
    if has_certificate(style) {
        volumes.push(volume("cert", program.certificate, false));
    }
    if program.drives_ironic() {
        // What Ironic does not ask for need not exist.
        volumes.extend(IRONIC.map(|(name, secret, _)| volume(name, secret, true)));
    }
    volumes
}

fn mounts(program: &Program, style: Style<'_>) -> Vec<Value> {
    let mount = |name: &str, path: &str| json!({"mountPath": path, "name": name, "readOnly": true});
    let mut mounts = Vec::new();
    if has_certificate(style) {
        mounts.push(mount("cert", CERTIFICATES));
    }
    if program.drives_ironic() {
        mounts.extend(IRONIC.map(|(name, _, path)| mount(name, path)));
    }
    mounts
}

fn has_certificate(style: Style<'_>) -> bool {
    style.certificates == Certificates::CertManager
}

/// The Service that Prometheus scrapes.
pub fn metrics(program: &Program) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": program.metadata("metrics-service"),
        "spec": {
            "ports": [{"name": "https", "port": 8443, "protocol": "TCP", "targetPort": "metrics"}],
            "selector": program.labels(),
        },
    })
}

/// What Prometheus may be bound to: the metrics are served only to those who may get them. Upstream's operator brings it, too.
pub fn metrics_reader(program: &Program) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": program.object("metrics-reader"), "labels": program.labels()},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    })
}

/// Only the served ports accept connections.
pub fn network_policy(program: &Program) -> Value {
    let ports = PORTS.map(|(_, port)| json!({"port": port, "protocol": "TCP"}));
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": program.metadata("ingress"),
        "spec": {
            "ingress": [{"ports": ports}],
            "podSelector": {"matchLabels": program.labels()},
            "policyTypes": ["Ingress"],
        },
    })
}

/// A drain waits until another replica serves webhooks. With one replica it does not.
pub fn disruption_budget(program: &Program) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": program.metadata("controller-manager"),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": program.labels()},
        },
    })
}
