//! The images of our programs, made by the project's own Dockerfile: what is in them, and that each program runs in its image as a
//! pod's would, as another user and on a root that nobody can write to, until it is ready.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metal3_lab::apply::apply_crds;
use metal3_lab::instance::Scratch;
use metal3_lab::ports::Port;
use metal3_lab::process::{Child, Program};
use metal3_lab::{ControlPlane, ControlPlaneConfig, oci};
use serde_json::{Value, json};

const IMAGES: [&str; 3] = [
    "baremetal-operator",
    "cluster-api-provider-metal3",
    "ip-address-manager",
];

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

#[tokio::test]
#[ignore = "builds all programs as they are released, for minutes: cargo xtask test --images"]
async fn each_image_holds_one_program_that_runs_as_a_pod_would_have_it() {
    let context = root();
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let built = tokio::task::spawn_blocking(move || {
        let source = oci::Source {
            context: &context,
            version,
        };
        oci::build(&source, &IMAGES)
    });
    let images = built.await.unwrap().unwrap_or_else(|error| unreachable!("{error:#}"));
    let cluster = ControlPlane::start(ControlPlaneConfig::default()).await.unwrap();
    apply_crds(&cluster.client().await.unwrap(), &root().join("config/crd"))
        .await
        .unwrap();

    for image in &images {
        let config = read(&image.config);
        let command = config["process"]["args"][0].as_str().unwrap();
        assert_eq!(config["process"]["user"], json!({"uid": 65532, "gid": 65532}));
        let annotations = &config["annotations"];
        assert_eq!(annotations["org.opencontainers.image.title"], image.name);
        assert_eq!(annotations["org.opencontainers.image.version"], version);

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
