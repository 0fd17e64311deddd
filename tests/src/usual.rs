//! Common changes to a host, and to the operator's settings.

use std::time::Duration;

use metal3_lab::ironic::{IronicConfig, IronicLab, Timeouts};
use metal3_lab::operator::OperatorConfig;
use serde_json::{Value, json};

/// The host is neither inspected nor cleaned: for scenarios that test neither.
pub fn at_once(host: &mut Value) {
    host["spec"]["inspectionMode"] = json!("disabled");
    host["spec"]["automatedCleaningMode"] = json!("disabled");
}

/// The same, with this image.
pub fn deployed_at_once(image: Value) -> impl FnOnce(&mut Value) {
    |host| {
        at_once(host);
        host["spec"]["image"] = image;
    }
}

/// The host boots over a provisioning network instead of by virtual media.
pub fn over_network(host: &mut Value) {
    let address = host["spec"]["bmc"]["address"].as_str().unwrap_or_default();
    host["spec"]["bmc"]["address"] = json!(address.replace("redfish-virtualmedia", "redfish"));
}

/// The operator has a ramdisk for hosts that boot over a network.
pub fn network_ramdisk(config: &mut OperatorConfig, ironic: &IronicLab) {
    let [kernel, ramdisk] = ironic.ramdisk_urls();
    config.args.push(format!("--deploy-kernel-url={kernel}"));
    config.args.push(format!("--deploy-ramdisk-url={ramdisk}"));
}

/// Failures are retried after longer than any scenario takes, so that only a correction can end the backoff.
pub fn without_retries(config: &mut OperatorConfig, _: &IronicLab) {
    config.args.retain(|flag| !flag.starts_with("--retry-base-seconds"));
    config.args.push("--retry-base-seconds=3600".to_owned());
}

/// This many servers, with a power sync every 15 seconds, which also reports their health to Ironic.
pub fn power_compared_often(hosts: u16) -> IronicConfig {
    IronicConfig {
        hosts,
        timeouts: Timeouts {
            power_sync_interval: Duration::from_secs(15),
            ..Timeouts::default()
        },
        ..IronicConfig::default()
    }
}

/// Prints the end of a program's log if a scenario has failed. Returns whether it has.
pub(crate) fn show_end_after_failure(what: &str, log: &str) -> bool {
    if std::thread::panicking() {
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(40)..];
        eprintln!("end of the log of {what}:\n{}", last.join("\n"));
    }
    std::thread::panicking()
}
