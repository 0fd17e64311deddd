//! The demo and labs in the background, as a person runs them: real control plane, real Ironic, the operator's program.

#![expect(clippy::unwrap_used, reason = "what cannot be asked or read fails the test")]

use parking_lot::{Mutex, MutexGuard};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// One lab at a time: two cores are enough for one only.
static TURN: Mutex<()> = Mutex::new(());

/// A lab with a name of its own, which ends with the test.
struct Lab {
    name: String,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    fn new(what: &str) -> Self {
        let turn = TURN.lock();
        let name = format!("test-{what}-{}", std::process::id());
        Self { name, _turn: turn }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.args(args).args(["--name", &self.name]).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .canonicalize()
            .unwrap()
            .join(".lab")
            .join(&self.name)
    }

    /// Processes that work in the lab's folder or are told of it.
    fn processes(&self) -> Vec<String> {
        let folder = self.folder().display().to_string();
        let listing = fs::read_dir("/proc").unwrap().flatten();
        let about = listing.filter_map(|entry| {
            let path = entry.path();
            let words = String::from_utf8_lossy(&fs::read(path.join("cmdline")).ok()?).replace('\0', " ");
            let cwd = fs::read_link(path.join("cwd")).unwrap_or_default();
            let is_ours = words.contains(&folder) || words.contains(&format!("--name {} ", self.name));
            (is_ours || cwd.starts_with(&folder)).then(|| format!("{}: {words}", path.display()))
        });
        about.collect()
    }

    #[track_caller]
    fn expect_no_process(&self) {
        let start = Instant::now();
        while !self.processes().is_empty() {
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "left over: {:#?}",
                self.processes()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The process that holds the lab.
    fn owner(&self) -> Pid {
        let text = fs::read_to_string(self.folder().join("instance.lock")).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.run(&["lab", "down"]);
    }
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn the_demo_provisions_three_hosts_deletes_one_and_leaves_nothing() {
    let lab = Lab::new("demo");
    let output = lab.run(&["demo", "--hosts-only"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for name in ["rack2-node1", "rack2-node2", "rack2-node3"] {
        let states = ["registering", "inspecting", "provisioned"];
        assert!(
            states.iter().all(|state| text.contains(&format!("{name}  {state}"))),
            "{name}: {text}"
        );
        let result = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert!(result.contains(" on ") && result.contains("matches"), "{result}");
    }
    assert!(
        text.contains("node1.example.org") && text.contains("#cloud-config"),
        "{text}"
    );
    for line in [
        "all 3 hosts are provisioned",
        "rack2-node3 is available",
        "rack2-node3 is deleted",
    ] {
        assert!(text.contains(line), "no {line}: {text}");
    }
    let total = text
        .lines()
        .find(|line| line.trim_start().starts_with("until provisioned"))
        .unwrap();
    let numbers: Vec<f64> = total.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // Hosts, wall, slowest, Ironic's, ours. Medians do not add up exactly, but nearly.
    let [hosts, wall, slowest, ironic, ours] = numbers[..5] else {
        panic!("{total}")
    };
    assert!((hosts - 3.0).abs() < 0.1 && wall <= slowest, "{total}");
    assert!(
        ironic > 1.0 && ours > 0.0 && (ironic + ours - wall).abs() < 0.5 * wall,
        "{total}"
    );
    assert!(
        !text.contains('\x1b') && !text.contains('\r'),
        "no tricks where there is no terminal: {text}"
    );
    lab.expect_no_process();
    assert!(!lab.folder().exists());
}

#[test]
fn the_demo_makes_a_cluster_of_hosts_adds_a_worker_and_deletes_it() {
    let lab = Lab::new("cluster");
    let output = lab.run(&["demo", "--played"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for host in ["master-0", "worker-0", "worker-1", "worker-2"] {
        assert!(text.contains(&format!("{host}  provisioned")), "{host}: {text}");
    }
    let rows = text.lines().filter(|line| line.contains("metal3://metal3/"));
    assert_eq!(rows.filter(|line| line.contains(" True ")).count(), 3, "{text}");
    for line in [
        "all 3 Machines run",
        "all 4 Machines run",
        "no Machine is left, and all 4 hosts are available",
        "until provisioned",
    ] {
        assert!(text.contains(line), "no {line}: {text}");
    }
    lab.expect_no_process();
    assert!(!lab.folder().exists());
}

/// The leftovers of servers on the machine, apart from their folders.
fn left_of_servers() -> Vec<String> {
    let cgroups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let cgroups = cgroups
        .lines()
        .filter_map(|line| line.rsplit_once(':'))
        .flat_map(|(rest, path)| {
            let hierarchy = rest
                .rsplit_once(':')
                .map_or("", |(_, name)| name.trim_start_matches("name="));
            let hierarchy = if hierarchy.is_empty() { "unified" } else { hierarchy };
            let folder = Path::new("/sys/fs/cgroup")
                .join(hierarchy)
                .join(path.trim_start_matches('/'));
            let below = fs::read_dir(folder).into_iter().flatten().flatten();
            below
                .map(|entry| entry.path().display().to_string())
                .collect::<Vec<_>>()
        });
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let cable = Path::new("/sys/class/net/metal3-lab");
    let cable = cable.exists().then(|| cable.display().to_string());
    cgroups
        .chain(mounts.lines().map(str::to_owned))
        .filter(|name| name.contains("metal3-lab"))
        .chain(cable)
        .collect()
}

#[test]
fn the_demo_ends_with_real_nodes_and_one_that_is_killed_is_cleaned_up_after() {
    let lab = Lab::new("real");
    let _turn = metal3_lab::nodes::turn().unwrap();
    // A test that failed leaves its servers' settings of the kernel to the next one.
    metal3_lab::nodes::clean_up().unwrap();
    let before =
        ["vm/overcommit_memory", "kernel/panic"].map(|name| fs::read(Path::new("/proc/sys").join(name)).unwrap());
    let output = lab.run(&["demo", "--keep"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    if let Some(line) = text.lines().find(|line| line.contains("NOT REAL")) {
        println!("NOT RUN on real nodes: {line}");
        return;
    }
    let nodes = text
        .lines()
        .filter(|line| line.contains("Debian GNU/Linux") && line.contains(" Ready "));
    assert_eq!(nodes.count(), 3, "{text}");
    assert!(text.contains("deployment \"hello\" successfully rolled out"), "{text}");
    assert!(text.contains("all 4 Machines run"), "{text}");
    let kubeconfig = lab.folder().join("servers/kubeconfig");
    assert!(text.contains(&format!("KUBECONFIG={}", kubeconfig.display())), "{text}");
    assert!(!left_of_servers().is_empty(), "or this test looks in the wrong places");

    kill_process(lab.owner(), Signal::KILL).unwrap();
    lab.expect_no_process();
    let down = lab.run(&["lab", "down"]);
    assert!(down.status.success(), "{}", self::text(&down));
    assert_eq!(left_of_servers(), Vec::<String>::new());
    let after =
        ["vm/overcommit_memory", "kernel/panic"].map(|name| fs::read(Path::new("/proc/sys").join(name)).unwrap());
    assert_eq!(before, after, "settings of the kernel");
    assert!(!lab.folder().exists());
}

#[test]
fn hosts_that_are_not_provisioned_in_time_are_explained_and_fail() {
    let lab = Lab::new("late");
    let output = lab.run(&["demo", "--hosts-only", "--hosts", "1", "--deadline", "2"]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("provisioning: not done after 2 s"), "{text}");
    assert!(
        text.contains("waits for: ") && text.contains("last error: none"),
        "{text}"
    );
    let log = lab.folder().join("operator/operator.log");
    assert!(text.contains(&log.display().to_string()) && log.exists(), "{text}");
    lab.expect_no_process();
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    let lab = Lab::new("interrupt");
    let child = lab
        .command(&["demo", "--hosts-only", "--hosts", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !lab.folder().join("lab.json").exists() {
        assert!(start.elapsed() < Duration::from_secs(120), "the lab does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(text(&output).contains("everything has been ended"), "{}", text(&output));
    lab.expect_no_process();
    assert!(!lab.folder().exists());
}

#[test]
fn a_lab_in_the_background_ends_with_its_supervisor_and_starts_again() {
    let lab = Lab::new("background");
    let first = lab.run(&["lab", "up", "--hosts", "1"]);
    assert!(first.status.success(), "{}", text(&first));
    assert!(text(&first).contains("KUBECONFIG="), "{}", text(&first));

    let second = lab.run(&["lab", "up", "--hosts", "1"]);
    assert!(
        !second.status.success() && text(&second).contains("runs already"),
        "{}",
        text(&second)
    );
    let status = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["lab", "status"])
        .output()
        .unwrap();
    let status = text(&status);
    let line = status.lines().find(|line| line.contains(&lab.name)).unwrap();
    assert!(
        line.contains("up (process") && line.contains("none of 1 servers"),
        "{status}"
    );

    kill_process(lab.owner(), Signal::KILL).unwrap();
    lab.expect_no_process();
    let again = lab.run(&["lab", "up", "--hosts", "1"]);
    assert!(again.status.success(), "{}", text(&again));

    let down = lab.run(&["lab", "down"]);
    assert!(
        down.status.success() && text(&down).contains("has ended"),
        "{}",
        text(&down)
    );
    lab.expect_no_process();
    assert!(!lab.folder().exists());
    let down = lab.run(&["lab", "down"]);
    assert!(
        down.status.success() && text(&down).contains("no lab"),
        "{}",
        text(&down)
    );
}
