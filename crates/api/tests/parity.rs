//! The manifests in `config/crd` against the reference API, where its description lies beside this checkout.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// What our definitions have beyond the reference, and why. An entry that is no longer needed has to go.
const ALLOWED: &[(&str, &str)] = &[
    (
        "dataimages.metal3.io v1alpha1:.status.conditions: not in the reference",
        "a disc that is not in the drive yet says what it waits for, and what unblocks it",
    ),
    (
        "ipclaims.ipam.metal3.io v1alpha1:.status.conditions: not in the reference",
        "a claim that waits says for which pool and why, without the error message that consumers take for final",
    ),
    (
        "ippools.ipam.metal3.io v1alpha1:.status.allocating: not in the reference",
        "what keeps two managers at once from giving one address to two claims of different families",
    ),
    (
        "ippools.ipam.metal3.io v1alpha1:.status.conditions: not in the reference",
        "Cluster API recommends the condition Ready for pools; Paused and Exhausted are for people",
    ),
    (
        "ippools.ipam.metal3.io v1alpha1:.status.usage: not in the reference",
        "the numbers that the printer columns show",
    ),
];

/// Says that a check was not run, past the test harness, which keeps the output of tests that pass to itself.
fn not_run(why: &str) {
    let line = format!("\n*** NOT RUN: parity of config/crd with the reference API: {why} ***\n\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn manifests_match_the_reference() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Beside the checkout, or beside a folder that it is in, as that of a second working tree.
    let folders = root.canonicalize().unwrap();
    let mut tools = folders
        .ancestors()
        .map(|folder| folder.join("../shared/tools/crd-parity"));
    let Some(tool) = tools.find(|tool| tool.exists()) else {
        return not_run("the comparison tool is not beside this checkout");
    };
    let output = Command::new("python3")
        .arg(&tool)
        .arg("--warn")
        .arg(root.join("config/crd"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !errors.contains("No module named"),
        "the comparison needs PyYAML (pip install pyyaml, or apt-get install python3-yaml): {errors}"
    );
    let crds = metal3_api::crd::all().unwrap();
    let differences: Vec<_> = text.lines().filter(|line| line.starts_with("FAIL ")).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    // What our rules refuse, and what they do not, the tests of `wire/fixed.rs` show.
    let is_own_rule = |line: &&str| line.contains("CEL rules in the reference [], here");
    let additions = text.lines().filter_map(|line| line.strip_prefix("warn "));
    let mut additions: Vec<_> = additions.filter(|line| !is_own_rule(line)).collect();
    additions.sort_unstable();
    let mut allowed: Vec<_> = ALLOWED.iter().map(|(addition, _)| *addition).collect();
    allowed.sort_unstable();
    assert_eq!(
        additions, allowed,
        "additions to the reference, and those that ALLOWED gives a reason for"
    );
    let summary = text.lines().last().unwrap_or_default();
    let passed = summary.split_once(" passed, ").map(|(count, _)| count);
    assert_eq!(passed, Some(crds.len().to_string().as_str()), "{summary}\n{errors}");
}
