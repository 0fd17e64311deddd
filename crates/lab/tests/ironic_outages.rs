//! Ironic stopped, killed and robbed of its database; and nothing left of a lab whose owner is killed.

#![expect(clippy::unwrap_used, reason = "test code; clippy knows only test functions as such")]

mod ironic_support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ironic_support::{call, enroll, go, make_available, wait_for};
use metal3_lab::ironic::{IronicConfig, IronicLab};
use reqwest::Method;
use serde_json::json;

/// Set for the copy of this test binary that plays the owner which gets killed; the folder that it works in.
const OWNER: &str = "METAL3_LAB_TEST_IRONIC_OWNER";

#[tokio::test(flavor = "multi_thread")]
async fn ironic_comes_back_after_an_outage_and_knows_nothing_after_amnesia() {
    let lab = IronicLab::start(IronicConfig::default()).await.unwrap();
    let host = &lab.hosts()[0];
    let node = make_available(&lab, host).await;
    let power = json!({"target": "power on"});
    call(
        &lab,
        Method::PUT,
        &format!("/v1/nodes/{node}/states/power"),
        Some(power),
    )
    .await;
    wait_for(&lab, &node, &["available"], Duration::from_secs(30)).await;
    let before = lab.machine(host).await.unwrap();
    assert!(before.is_on);

    let begin = Instant::now();
    lab.stop_ironic().await;
    println!("stop           {:.1?}", begin.elapsed());
    assert!(
        lab.request(Method::GET, "/v1").send().await.unwrap_err().is_connect(),
        "nobody listens"
    );
    assert!(lab.start_ironic().await.is_ok());
    assert!(lab.start_ironic().await.is_err(), "it runs already");
    let known = ironic_support::node(&lab, &node).await;
    assert_eq!(known["provision_state"], "available", "the database stays");

    lab.kill_ironic();
    let begin = Instant::now();
    lab.start_ironic().await.unwrap();
    println!("start          {:.1?}", begin.elapsed());

    let begin = Instant::now();
    let gone = lab.wipe_database().await.unwrap();
    println!("wipe           {:.1?}, {gone} rows", begin.elapsed());
    let nodes = call(&lab, Method::GET, "/v1/nodes", None).await;
    println!("serves again   {:.1?}", begin.elapsed());
    assert_eq!(nodes["nodes"], json!([]));
    assert_eq!(lab.machine(host).await.unwrap(), before, "the server does not notice");
    let node = enroll(&lab, host).await;
    go(&lab, &node, "manage", "manageable").await;
    assert_eq!(
        ironic_support::node(&lab, &node).await["power_state"],
        "power on",
        "it is adopted as it is"
    );

    lab.stop_ironic().await;
    lab.wipe_database().await.unwrap();
    lab.start_ironic().await.unwrap();
    assert_eq!(
        call(&lab, Method::GET, "/v1/nodes", None).await["nodes"],
        json!([]),
        "also while it is down"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_labs_run_side_by_side_and_one_takes_anybody_without_tls() {
    let open = IronicConfig {
        tls: false,
        auth: false,
        ..IronicConfig::default()
    };
    let plain = IronicConfig {
        plain: true,
        ..IronicConfig::default()
    };
    let (open, plain) = tokio::join!(IronicLab::start(open), IronicLab::start(plain));
    let (open, plain) = (open.unwrap(), plain.unwrap());
    assert!(open.endpoint().starts_with("http://") && open.ca_file().is_none() && open.credentials().is_none());
    assert_ne!(open.folder(), plain.folder());
    let (first, second) = tokio::join!(enroll(&open, &open.hosts()[0]), enroll(&plain, &plain.hosts()[0]));
    tokio::join!(
        go(&open, &first, "manage", "manageable"),
        go(&plain, &second, "manage", "manageable")
    );
    tokio::join!(
        go(&open, &first, "inspect", "manageable"),
        go(&plain, &second, "inspect", "manageable")
    );
    assert!(
        plain
            .requests(metal3_lab::ironic::Mark::default())
            .unwrap()
            .0
            .is_empty(),
        "no change, no log"
    );
}

/// All processes that work in this folder, as every process of a lab does. (Their command lines say nothing: Ironic
/// changes them.)
fn processes_in(folder: &Path) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
            continue;
        };
        if fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == folder) {
            found.insert(pid);
        }
    }
    found
}

/// Ends the owner whatever becomes of the test.
struct Owner(std::process::Child);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What the copy of this binary does: starts a lab, says so, and waits to be killed.
async fn play_owner(folder: PathBuf) -> ! {
    let lab = IronicLab::start(IronicConfig {
        folder: Some(folder.join("lab")),
        ..IronicConfig::default()
    })
    .await
    .unwrap();
    fs::write(folder.join("ready.part"), format!("{:?}", lab.processes())).unwrap();
    fs::rename(folder.join("ready.part"), folder.join("ready")).unwrap();
    std::future::pending().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_owner_leaves_nothing_behind() {
    if let Some(folder) = std::env::var_os(OWNER) {
        play_owner(folder.into()).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_owner_leaves_nothing_behind", "--nocapture"])
        .env(OWNER, folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut owner = Owner(owner);
    let lab = folder.path().canonicalize().unwrap().join("lab");
    let start = Instant::now();
    while !folder.path().join("ready").exists() {
        assert!(owner.0.try_wait().unwrap().is_none(), "the owner ended by itself");
        assert!(start.elapsed() < Duration::from_secs(300), "the lab does not start");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let running = processes_in(&lab);
    assert_eq!(
        running.len(),
        3,
        "the simulated servers, Ironic's master and its worker: {running:?}"
    );

    drop(owner);
    let begin = Instant::now();
    while !processes_in(&lab).is_empty() {
        assert!(
            begin.elapsed() < Duration::from_secs(5),
            "left: {:?}",
            processes_in(&lab)
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("all gone       {:.1?}", begin.elapsed());
}
