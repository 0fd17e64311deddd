//! Takes N simulated servers through their life at the same time and says how long each phase takes, for all of them,
//! and what it costs: `cargo run -p metal3-lab --example ironic_cycle -- 30`. The figures in `lab/README.md` are its.

#![expect(clippy::unwrap_used, reason = "a failure is to be seen at once")]

#[path = "../tests/ironic_support/mod.rs"]
mod ironic_support;

use std::time::{Duration, Instant};

use ironic_support::{ask, call, choose_image, enroll, wait_for};
use metal3_lab::ironic::{IronicConfig, IronicLab, Mark, count};
use reqwest::Method;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(900);

#[tokio::main]
async fn main() {
    let number = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let open = std::env::args().any(|argument| argument == "--open");
    let begin = Instant::now();
    let config = IronicConfig {
        hosts: number,
        tls: !open,
        auth: !open,
        ..IronicConfig::default()
    };
    let lab = IronicLab::start(config).await.unwrap();
    println!("start     {:6.1} s", begin.elapsed().as_secs_f64());
    print_memory(&lab);

    let mut nodes = Vec::new();
    for host in lab.hosts() {
        nodes.push(enroll(&lab, host).await);
    }
    phase(&lab, &nodes, "manage", "manageable").await;
    phase(&lab, &nodes, "inspect", "manageable").await;
    phase(&lab, &nodes, "provide", "available").await;
    let image = lab.image().unwrap();
    for node in &nodes {
        choose_image(&lab, node, &image.sha256).await;
    }
    phase(&lab, &nodes, "active", "active").await;
    phase(&lab, &nodes, "deleted", "available").await;
    for machine in lab.machines().await.unwrap() {
        assert_eq!(
            (machine.deploys, machine.cleans(), machine.inspections()),
            (1, 2, 1),
            "{}",
            machine.name
        );
    }
    print_memory(&lab);
    let (requests, _) = lab.requests(Mark::default()).unwrap();
    let (ramdisks, operators): (Vec<_>, Vec<_>) = requests.iter().partition(|request| request.is_of_a_ramdisk());
    println!("requests of ramdisks: {:?}", count(ramdisks));
    println!("requests of the operator: {:?}", count(operators));
    lab.stop().await;
}

/// Sends all nodes on at once, and waits for the last by one list per second, as a frugal client does.
async fn phase(lab: &IronicLab, nodes: &[String], target: &str, state: &str) {
    let begin = Instant::now();
    for node in nodes {
        let mut request = json!({"target": target});
        if target == "active" {
            request["configdrive"] = json!({"meta_data": {"uuid": node}, "user_data": "#cloud-config\n"});
        }
        ask(lab, node, request).await;
    }
    loop {
        tokio::time::sleep(Duration::from_millis(if nodes.len() == 1 { 200 } else { 1000 })).await;
        let path = "/v1/nodes?fields=uuid,provision_state,target_provision_state,reservation,last_error";
        let list = call(lab, Method::GET, path, None).await;
        let list = list["nodes"].as_array().unwrap();
        let is_done = |node: &&Value| {
            node["provision_state"] == state
                && node["target_provision_state"].is_null()
                && node["reservation"].is_null()
        };
        if list.iter().filter(is_done).count() == nodes.len() {
            break;
        }
        let failed = list
            .iter()
            .find(|node| node["provision_state"].as_str().unwrap().contains("failed"));
        assert!(
            failed.is_none() && begin.elapsed() < LIMIT,
            "{target}: {failed:?} after {:?}",
            begin.elapsed()
        );
    }
    let seconds = begin.elapsed().as_secs_f64();
    for node in nodes {
        wait_for(lab, node, &[state], Duration::from_secs(1)).await;
    }
    println!("{target:<9} {seconds:6.1} s");
}

fn print_memory(lab: &IronicLab) {
    for pid in lab.processes() {
        print_memory_of(pid);
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            children
                .split_whitespace()
                .filter_map(|child| child.parse().ok())
                .for_each(print_memory_of);
        }
    }
}

fn print_memory_of(pid: u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let statistics = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ticks: u64 = statistics
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|t| t.parse::<u64>().ok())
        .sum();
    println!(
        "  {pid}: {} RSS {}, {} threads, {} CPU s",
        field("Name:"),
        field("VmRSS:"),
        field("Threads:"),
        ticks / 100
    );
}
