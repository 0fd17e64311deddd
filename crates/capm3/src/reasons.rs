//! Checks that `docs/conditions-of-machines.md` lists every reason of conditions and events.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use metal3_api::capi::names::reason;

/// CamelCase words in the code that are not reasons: kinds, roles, and reasons of hosts, which have their own document.
const OTHERS: &[&str] = &[
    "BareMetalHost",
    "DataImageChanging",
    "DoesNotExist",
    "IPAddressClaim",
    "IPClaim",
    "InternalDNS",
    "MachineDeployment",
    "MachineSet",
    "Metal3Cluster",
    "Metal3Data",
    "Metal3DataClaim",
    "Metal3DataTemplate",
    "Metal3Machine",
    "Metal3MachineTemplate",
    "Metal3Remediation",
    "NoExecute",
    "NoSchedule",
    "NodeLocked",
    "NotFound",
    "NotIn",
    "PowerChanging",
    "TearingDown",
];

/// The CamelCase string literals of a program, such as `WaitingForHost`, without its tests.
fn words(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if name != "tests" {
                words(&path, found);
            }
            continue;
        }
        if ["tests.rs", "reasons.rs", "sim.rs"].contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let texts = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
        found.extend(texts.filter(|text| is_word_of_several(text)).map(str::to_owned));
    }
}

fn is_word_of_several(text: &str) -> bool {
    let (mut humps, mut is_lower) = (0, false);
    for c in text.chars() {
        if !c.is_ascii_alphanumeric() {
            return false;
        }
        humps += usize::from(is_lower && c.is_ascii_uppercase());
        is_lower = c.is_ascii_lowercase();
    }
    humps > 0 && text.starts_with(|c: char| c.is_ascii_uppercase())
}

#[test]
fn users_are_told_of_every_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut reasons = BTreeSet::new();
    words(&root.join("src"), &mut reasons);
    for other in OTHERS {
        reasons.remove(*other);
    }
    assert!(
        reasons.contains("NodeConflict"),
        "the code is not understood: {reasons:?}"
    );
    let of_cluster_api = [
        reason::NOT_PAUSED,
        reason::WAITING_FOR_BOOTSTRAP_DATA,
        reason::WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY,
    ];
    reasons.extend(of_cluster_api.map(str::to_owned));
    let document = fs::read_to_string(root.join("../../docs/conditions-of-machines.md")).unwrap();
    let untold: Vec<&String> = reasons
        .iter()
        .filter(|reason| !document.contains(&format!("`{reason}`")))
        .collect();
    assert!(
        untold.is_empty(),
        "docs/conditions-of-machines.md does not have {untold:?}"
    );
}
