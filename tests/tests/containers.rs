//! The images of our programs, made by the project's own Dockerfile: what is in them; that each program runs in its image as a pod's
//! would, as another user and on a root that nobody can write to, until it is ready; and that Helm installs them in a real cluster, with an Ironic that it deploys, too.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

#[path = "containers/ironic.rs"]
mod ironic;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metal3_lab::apply::apply_crds;
use metal3_lab::instance::Scratch;
use metal3_lab::ports::Port;
use metal3_lab::process::{Child, Program};
use metal3_lab::{ControlPlane, ControlPlaneConfig, binaries, nodes, oci};
use metal3_scenarios::{ClusterEnv, Kind, run};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

const IMAGES: [&str; 3] = [
    "baremetal-operator",
    "cluster-api-provider-metal3",
    "ip-address-manager",
];

const VERSION: &str = concat!("v", env!("CARGO_PKG_VERSION"));

/// How long a program may take until it is ready.
const LIMIT: Duration = Duration::from_secs(60);

/// Lays a file over an image's root, mounts it so that nobody can write to it, and runs the program in it as upstream's user.
const RUN: &str = r#"mount -t overlay overlay -o "lowerdir=$1:$2" "$3" && root=$3 && shift 3 && exec chroot --userspec=65532:65532 "$root" "$@""#;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap()
}

/// The files of a root tree.
fn files(folder: &Path, below: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, below, found);
        } else {
            found.insert(format!("/{}", path.strip_prefix(below).unwrap().display()));
        }
    }
}

/// Starts a program in its image. The kubeconfig is the file `/kubeconfig` there.
fn start(image: &oci::Unpacked, command: &str, args: &[String], folder: &Path) -> Child {
    let mount = folder.join("root");
    fs::create_dir_all(&mount).unwrap();
    let (extra, root) = (folder.join("extra"), image.root.clone());
    let mut all: Vec<_> = ["--mount", "--propagation", "private", "sh", "-ec", RUN, "sh"]
        .map(Into::into)
        .to_vec();
    all.extend([extra, root, mount].map(PathBuf::into_os_string));
    all.push(command.into());
    all.extend(args.iter().map(Into::into));
    let variables = [
        ("IRONIC_ENDPOINT", "http://127.0.0.1:1/v1/"),
        ("DEPLOY_KERNEL_URL", "http://127.0.0.1:1/kernel"),
        ("DEPLOY_RAMDISK_URL", "http://127.0.0.1:1/ramdisk"),
        ("POD_NAMESPACE", "default"),
        ("POD_NAME", "pod"),
    ];
    Child::spawn(&Program {
        name: image.name.clone(),
        executable: "unshare".into(),
        args: all,
        env: variables.map(|(name, value)| (name.into(), value.into())).to_vec(),
        log: folder.join("log"),
        ..Program::default()
    })
    .unwrap()
}

/// Waits until a program says that it is ready. Returns how long that took.
async fn ready(program: &Child, port: u16) -> Duration {
    let begin = Instant::now();
    let url = format!("http://127.0.0.1:{port}/readyz");
    loop {
        let answer = reqwest::get(&url).await;
        if answer.as_ref().is_ok_and(|answer| answer.status() == 200) {
            return begin.elapsed();
        }
        program.ensure_alive().unwrap_or_else(|error| unreachable!("{error:#}"));
        assert!(begin.elapsed() < LIMIT, "{answer:?}: {}", program.log_tail());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The resident memory of a process, in KiB.
fn memory(program: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", program.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Builds them, where anything has changed; once, because a build removes what the last one has unpacked.
async fn images() -> &'static [oci::Unpacked] {
    static BUILT: OnceCell<Vec<oci::Unpacked>> = OnceCell::const_new();
    let build = async || {
        let built = tokio::task::spawn_blocking(|| {
            let source = oci::Source {
                context: &root(),
                version: VERSION,
            };
            oci::build(&source, &IMAGES)
        });
        built.await.unwrap().unwrap_or_else(|error| unreachable!("{error:#}"))
    };
    BUILT.get_or_init(build).await
}

#[tokio::test]
#[ignore = "builds all programs as they are released, for minutes: cargo xtask test --images"]
async fn each_image_holds_one_program_that_runs_as_a_pod_would_have_it() {
    let images = images().await;
    let cluster = ControlPlane::start(ControlPlaneConfig::default()).await.unwrap();
    apply_crds(&cluster.client().await.unwrap(), &root().join("config/crd"))
        .await
        .unwrap();

    for image in images {
        let config = read(&image.config);
        let command = config["process"]["args"][0].as_str().unwrap();
        assert_eq!(config["process"]["user"], json!({"uid": 65532, "gid": 65532}));
        let annotations = &config["annotations"];
        assert_eq!(annotations["org.opencontainers.image.title"], image.name);
        assert_eq!(annotations["org.opencontainers.image.version"], VERSION);

        let mut found = BTreeSet::new();
        files(&image.root, &image.root, &mut found);
        let expected = [command, "/etc/ssl/certs/ca-certificates.crt"].map(str::to_owned);
        assert_eq!(found, BTreeSet::from(expected), "no shell, and nothing else");
        let program = fs::read(image.root.join(command.trim_start_matches('/'))).unwrap();
        let section = b".dep-v0";
        assert!(
            program.windows(section.len()).any(|part| part == section),
            "the list of crates"
        );

        let folder = Scratch::new("metal3-containers").unwrap();
        let extra = folder.folder().join("extra");
        fs::create_dir_all(&extra).unwrap();
        let kubeconfig = extra.join("kubeconfig");
        fs::copy(cluster.admin_kubeconfig(), &kubeconfig).unwrap();
        fs::set_permissions(&kubeconfig, fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&extra, fs::Permissions::from_mode(0o755)).unwrap();
        let port = Port::free().unwrap();
        let args = [
            "--kubeconfig=/kubeconfig".to_owned(),
            format!("--health-addr=127.0.0.1:{}", port.number()),
            "--metrics-addr=0".to_owned(),
            "--webhook-port=0".to_owned(),
        ];
        let running = start(image, command, &args, folder.folder());
        let took = ready(&running, port.number()).await;
        println!(
            "{}: program {:.1} MB, archive {:.1} MB, ready after {:.2} s, {:.1} MiB resident",
            image.name,
            megabytes(program.len() as u64),
            megabytes(fs::metadata(&image.archive).unwrap().len()),
            took.as_secs_f64(),
            megabytes(memory(&running) * 1000) * 1000.0 / 1024.0,
        );
    }
    cluster.stop().await;
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Helm's values: there is no registry, and Pods of different servers do not reach each other in the lab, so that the API server
/// reaches webhooks on its own server only.
const VALUES: &str = "--set image.registry=localhost,operator.replicas=1,provider.replicas=1,ipam.replicas=1 \
    --set ironic.endpoint=https://192.0.2.2:6385/v1/ --set secrets.allNamespaces=true";

const HOST: &str = r#"{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h", "namespace": "default"},
    "spec": {"online": false, "bootMACAddress": "52:54:00:00:00:01", "bmc": {"address": "ipmi://ADDRESS", "credentialsName": "c"}}}"#;

/// A user's shell.
struct Shell {
    folder: Scratch,
}

impl Shell {
    fn new(kubeconfig: &str, tools: [(&str, &Path); 2]) -> Self {
        let folder = Scratch::new("metal3-shell").unwrap();
        fs::write(folder.folder().join("kubeconfig"), kubeconfig).unwrap();
        for (name, program) in tools {
            std::os::unix::fs::symlink(program, folder.folder().join(name)).unwrap();
        }
        Self { folder }
    }

    /// What a command says, and whether it succeeds.
    async fn run(&self, command: &str) -> (String, bool) {
        let folder = self.folder.folder();
        let output = tokio::process::Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(root())
            .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
            .env("HOME", folder)
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_secs(150), output)
            .await
            .unwrap()
            .unwrap();
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            output.status.success(),
        )
    }

    async fn expect(&self, command: &str) -> String {
        let (said, is_ok) = self.run(command).await;
        assert!(is_ok, "{command}: {said}");
        said
    }

    async fn refused(&self, command: &str) -> String {
        let (said, is_ok) = self.run(command).await;
        assert!(!is_ok, "{command}: {said}");
        said
    }

    async fn apply_host(&self, address: &str) -> (String, bool) {
        let host = HOST.replace("ADDRESS", address);
        self.run(&format!("echo '{host}' | kubectl apply -f -")).await
    }

    /// Waits until all programs are ready in their newest form.
    async fn expect_ready(&self) {
        let begin = Instant::now();
        for name in ["baremetal-operator", "capm3", "ipam"] {
            self.expect(&format!(
                "kubectl -n metal3-system rollout status deployment {name}-controller-manager --timeout 120s"
            ))
            .await;
        }
        println!("ready after {:.1} s", begin.elapsed().as_secs_f64());
    }
}

/// The server that a real cluster consists of.
const NODE: &str = "host-1";

/// A real cluster of one server, and a user's shell for it, with a namespace that admits no privileges.
async fn real_cluster(test: &str) -> (ClusterEnv, Shell) {
    let env = ClusterEnv::start_real(test, 1).await;
    env.apply_hosts(1).await;
    env.expect_available(1).await;
    env.apply_cluster("cluster/small.yaml", "small", |object| {
        if object
            .types
            .as_ref()
            .is_some_and(|types| types.kind == "MachineDeployment")
        {
            object.data["spec"]["replicas"] = json!(0);
        }
    })
    .await;
    env.expect_running(1).await;
    let helm = tokio::task::spawn_blocking(binaries::ensure_helm)
        .await
        .unwrap()
        .unwrap();
    let tools = [("helm", helm.as_path()), ("kubectl", &env.servers().access().kubectl)];
    let shell = Shell::new(&env.cluster_kubeconfig().await.unwrap(), tools);
    for command in [
        "kubectl wait --for condition=Ready node --all --timeout 60s",
        "kubectl create namespace metal3-system",
        "kubectl label namespace metal3-system pod-security.kubernetes.io/enforce=restricted",
    ] {
        shell.expect(command).await;
    }
    (env, shell)
}

#[test]
#[ignore = "builds all programs as they are released, for minutes: cargo xtask test --images"]
fn helm_installs_upgrades_and_uninstalls_in_a_real_cluster() {
    let _turn = nodes::turn().unwrap();
    if let Err(reason) = nodes::probe() {
        println!("NOT RUN: servers cannot really boot here: {reason:#}");
        return;
    }
    run(async {
        let images = images().await;
        let (env, shell) = real_cluster("pods").await;
        for image in images {
            env.servers().import_image(NODE, &image.archive).unwrap();
        }
        let install = format!("helm install metal3 charts/metal3 --namespace metal3-system {VALUES}");
        shell.expect(&install).await;
        shell.expect_ready().await;
        let no_shell = "kubectl -n metal3-system exec deployment/baremetal-operator-controller-manager -- sh -c true";
        assert!(shell.refused(no_shell).await.contains("executable file not found"));

        // The webhooks answer, and the operator reads and writes with its own rights.
        let (said, is_ok) = shell.apply_host("x:y:z").await;
        assert!(!is_ok && said.contains("spec.bmc.address"), "{said}");
        let (said, is_ok) = shell.apply_host("192.0.2.9").await;
        assert!(is_ok, "{said}");
        let reason = r#"-o jsonpath='{.status.conditions[?(@.type=="Waiting")].reason}'"#;
        let waits = format!("kubectl wait bmh h --timeout 60s --for condition=Waiting && kubectl get bmh h {reason}");
        assert!(shell.expect(&waits).await.ends_with("SecretMissing"));

        let upgrade = "helm upgrade metal3 charts/metal3 --namespace metal3-system --reuse-values";
        shell
            .expect(&format!("{upgrade} --set 'operator.args={{--log-filter=debug}}'"))
            .await;
        shell.expect_ready().await;
        assert!(!shell.apply_host("x:y:z").await.1, "the new one answers");

        shell
            .expect("helm uninstall metal3 --namespace metal3-system --wait")
            .await;
        let kept = shell
            .expect("kubectl get bmh h -o jsonpath='{.status.provisioning.state}'")
            .await;
        assert_eq!(kept, "registering");
        shell
            .expect(&format!("{install} --take-ownership --force-conflicts"))
            .await;
        shell.expect_ready().await;
        assert!(!shell.apply_host("x:y:z").await.1, "the webhooks are back");

        env.delete(Kind::CLUSTER, "small").await;
        env.expect_available(1).await;
        env.stop().await;
    });
}
