//! The check by the real kubectl on a real API server, and the commands that it prints, by the real helm.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use kube::api::{DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use metal3_lab::{ControlPlane, ControlPlaneConfig, binaries};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What one command may take.
const LIMIT: Duration = Duration::from_secs(240);

/// A user's shell.
struct Shell {
    cluster: ControlPlane,
    home: TempDir,
}

impl Shell {
    async fn new() -> Self {
        let cluster = ControlPlane::start(ControlPlaneConfig::default()).await.unwrap();
        let found = tokio::task::spawn_blocking(|| (binaries::ensure_complete(), binaries::ensure_helm())).await;
        let (complete, helm) = found.unwrap();
        let home = tempfile::tempdir().unwrap();
        let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-metal3")).to_owned();
        for (name, program) in [
            ("kubectl", complete.unwrap().kubectl.unwrap()),
            ("helm", helm.unwrap()),
            ("kubectl-metal3", plugin),
        ] {
            symlink(program, home.path().join(name)).unwrap();
        }
        Self { cluster, home }
    }

    /// In front of a cluster that has upstream's programs.
    async fn with_upstream() -> Self {
        let shell = Self::new().await;
        for command in [
            "kubectl apply --server-side -k config/crd",
            "kubectl apply -f crates/kubectl-metal3/tests/inventory.yaml",
            "kubectl wait --for condition=established crd --all",
            "kubectl apply -f crates/kubectl-metal3/tests/upstream.yaml",
        ] {
            shell.expect(command).await;
        }
        shell
    }

    async fn run(&self, command: &str) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = format!("{}:/usr/bin:/bin", self.home.path().display());
        let run = tokio::process::Command::new("sh")
            .args(["-c", command])
            .current_dir(root)
            .env("PATH", path)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.cluster.admin_kubeconfig())
            .kill_on_drop(true)
            .output();
        tokio::time::timeout(LIMIT, run).await.unwrap().unwrap()
    }

    async fn expect(&self, command: &str) -> String {
        let output = self.run(command).await;
        let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success(), "{command}: {}", text.concat());
        text[0].to_string()
    }

    /// The report, and the code that it ended with.
    async fn check(&self, args: &str) -> (Value, i32) {
        let output = self
            .run(&format!("kubectl metal3 check-migration -o json {args}"))
            .await;
        let error = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| json!(error));
        (report, output.status.code().unwrap())
    }

    /// All hosts, without what every write changes.
    async fn hosts(&self) -> Vec<DynamicObject> {
        let resource = ApiResource {
            group: "metal3.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "metal3.io/v1alpha1".to_owned(),
            kind: "BareMetalHost".to_owned(),
            plural: "baremetalhosts".to_owned(),
        };
        let hosts: Api<DynamicObject> = Api::all_with(self.cluster.client().await.unwrap(), &resource);
        let mut hosts = hosts.list(&ListParams::default()).await.unwrap().items;
        for host in &mut hosts {
            host.metadata.managed_fields = None;
        }
        hosts
    }
}

fn texts<'a>(report: &'a Value, list: &str, field: &str) -> Vec<&'a str> {
    let list = report[list].as_array().unwrap_or_else(|| unreachable!("{report:#}"));
    list.iter().map(|one| one[field].as_str().unwrap()).collect()
}

#[tokio::test]
async fn upstream_is_replaced_by_the_commands_that_are_printed() {
    let shell = Shell::with_upstream().await;
    for (name, state) in [
        ("in-use", "provisioned"),
        ("at-work", "inspecting"),
        ("paused", "available"),
    ] {
        let status = json!({"status": {"provisioning": {"state": state, "ID": "", "image": {"url": ""}},
            "operationalStatus": "OK", "errorCount": 0, "errorMessage": "", "poweredOn": true, "hardwareProfile": "",
            "operationHistory": {}, "triedCredentials": {}, "goodCredentials": {}}});
        let command = format!("kubectl patch bmh {name} --subresource status --type merge -p '{status}'");
        shell.expect(&command).await;
    }
    shell
        .expect("kubectl apply -f crates/kubectl-metal3/tests/webhooks.yaml")
        .await;
    let before = shell.hosts().await;
    assert_eq!(before.len(), 3);

    let (report, code) = shell.check("").await;
    assert_eq!(code, 2, "{report:#}");
    assert_eq!(
        texts(&report, "blockers", "object"),
        [
            "ValidatingWebhookConfiguration capm3-of-a-former-installation",
            "Deployment baremetal-operator-system/baremetal-operator-controller-manager",
        ]
    );
    let notes = texts(&report, "notes", "object");
    assert_eq!(notes, ["BareMetalHost default/at-work", "BareMetalHost default/paused"]);
    let command = texts(&report, "blockers", "then")[0].split('`').nth(1).unwrap();
    shell.expect(command).await;
    let args = json!([{"op": "remove", "path": "/spec/template/spec/containers/0/args/2"}]);
    shell
        .expect(&format!(
            "kubectl -n baremetal-operator-system patch deployment baremetal-operator-controller-manager --type json -p '{args}'"
        ))
        .await;

    let (report, code) = shell.check("").await;
    assert_eq!(code, 0, "{report:#}");
    let commands = texts(&report, "steps", "command");
    let install = commands.last().unwrap();
    for value in [
        "ironic.endpoint=https://172.22.0.2:6385/v1/",
        "ironic.deployRamdiskUrl=http://172.22.0.2:6180/images/ironic-python-agent.initramfs",
        "ironic.credentialsSecret=ironic-credentials-5k2mt8",
    ] {
        assert!(install.contains(value), "no {value} in {install}");
    }
    for command in &commands {
        shell
            .expect(&command.replace("REGISTRY", "registry.example.org/metal3"))
            .await;
    }

    let of_ipam = "kubectl get crd ippools.ipam.metal3.io -o jsonpath={.spec.conversion}";
    assert_eq!(shell.expect(of_ipam).await, r#"{"strategy":"None"}"#);
    assert_eq!(shell.expect("kubectl get providers -A -o name").await, "");

    // No pods run here: until some are ready, nobody answers.
    let (report, code) = shell.check("").await;
    assert_eq!((code, &report["steps"]), (2, &json!([])), "{report:#}");
    let blockers = texts(&report, "blockers", "what");
    assert!(
        blockers.len() > 9
            && blockers
                .iter()
                .all(|what| what.ends_with(", behind which no pod is ready")),
        "{blockers:?}"
    );
    for name in ["baremetal-operator", "capm3", "ipam"] {
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("{name}-of-ours"), "labels": {"kubernetes.io/service-name": format!("{name}-webhook-service")}},
            "endpoints": [{"addresses": ["10.0.0.3"]}]});
        let apply = format!("echo '{slice}' | kubectl -n baremetal-operator-system apply -f -");
        shell.expect(&apply).await;
    }
    let (report, code) = shell.check("").await;
    assert_eq!(
        (code, &report["steps"], &report["blockers"]),
        (0, &json!([]), &json!([])),
        "{report:#}"
    );
    assert_eq!(shell.hosts().await, before, "no host is touched");
    let text = shell.expect("kubectl metal3 check-migration").await;
    assert!(text.contains("Nothing is left to do."), "{text}");
    assert!(
        text.contains("3 hosts: 1 available, 1 inspecting, 1 provisioned"),
        "{text}"
    );

    let (report, code) = shell.check("--back").await;
    let blockers = texts(&report, "blockers", "object");
    assert_eq!(
        (code, blockers),
        (2, vec!["CustomResourceDefinition certificates.cert-manager.io"])
    );
    let uninstall = texts(&report, "steps", "command")[0];
    shell.expect(uninstall).await;
    assert_eq!(shell.hosts().await, before, "no host is touched");
    let (report, _) = shell.check("--back").await;
    let commands = texts(&report, "steps", "command");
    assert_eq!(commands.len(), 3, "{report:#}");
    assert!(commands[2].ends_with("-k OVERLAY"));

    let output = shell.run("kubectl metal3 check-migration --with apt").await;
    assert_eq!(output.status.code(), Some(1), "2 says that something blocks");
    let output = shell.run("kubectl metal3 check-migration --kubeconfig /none").await;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read kubeconfig /none"));
    assert_eq!(shell.hosts().await.iter().map(ResourceExt::name_any).count(), 3);
}

// OWN 31xv: webhooks of upstream's 1.12 stayed, called ours on paths that it does not serve, and so stopped all writes.
#[tokio::test]
async fn no_webhook_stays_that_the_next_program_does_not_serve() {
    let shell = Shell::with_upstream().await;
    // What another tool has applied stays where kubectl applies less.
    let of_1_12 = "kubectl apply --server-side --force-conflicts --field-manager clusterctl -f crates/kubectl-metal3/tests/of-1.12.yaml";
    let configurations = "kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let paths = format!("{configurations} -o jsonpath='{{.items[*].webhooks[*].clientConfig.service.path}}'");
    shell.expect(of_1_12).await;
    assert!(shell.expect(&paths).await.contains("v1beta1-metal3data "));
    let (report, _) = shell.check("--with kubectl").await;
    for command in texts(&report, "steps", "command") {
        shell.expect(command).await;
    }
    let installed = shell.expect(&paths).await;
    assert!(
        installed.contains("-v1beta2-metal3cluster") && !installed.contains("-v1beta1-"),
        "{installed}"
    );
    let (report, code) = shell.check("--with kubectl").await;
    assert_eq!((code, &report["notes"]), (0, &json!([])), "{report:#}");

    // Somebody who applies ours over upstream's without the check.
    let again = "kubectl apply --server-side --force-conflicts -k config/webhook";
    shell.expect(&format!("{of_1_12} && {again}")).await;
    let (report, code) = shell.check("--with kubectl").await;
    let blockers = texts(&report, "blockers", "object");
    let name = "MutatingWebhookConfiguration capm3-mutating-webhook-configuration";
    assert_eq!((code, blockers), (2, vec![name]), "{report:#}");
    let delete = texts(&report, "blockers", "then")[0].split('`').nth(1).unwrap();
    shell.expect(&format!("{delete} && {again}")).await;
    assert_eq!(shell.check("--with kubectl").await.1, 0);

    let (report, _) = shell.check("--back --with kubectl").await;
    let commands = texts(&report, "steps", "command");
    let deletions = commands.iter().filter(|command| command.contains(" delete "));
    for command in deletions {
        shell.expect(command).await;
    }
    assert_eq!(shell.expect(&format!("{configurations} -o name")).await, "");
}
