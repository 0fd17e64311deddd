//! Whether our programs have exactly the rights that they use: what their roles say beside the audit logs of all tests in which
//! they run with nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use metal3_lab::audit::{Asked, AuditLog};
use serde_json::Value;

/// Where the servers of tests leave their audit logs.
pub const AUDIT_FOLDER: &str = "METAL3_AUDIT_FOLDER";

/// A program, the service accounts that it runs as here, and what it ships.
struct Program {
    accounts: &'static [&'static str],
    roles: Vec<Value>,
}

fn programs() -> Vec<Program> {
    vec![
        Program {
            accounts: &["operator", baremetal_operator::rbac::SERVICE_ACCOUNT],
            roles: baremetal_operator::rbac::objects().base,
        },
        Program {
            accounts: &[
                "cluster-api-provider-metal3",
                cluster_api_provider_metal3::rbac::SERVICE_ACCOUNT,
            ],
            roles: cluster_api_provider_metal3::rbac::objects().base,
        },
        Program {
            accounts: &["ip-address-manager", ip_address_manager::rbac::SERVICE_ACCOUNT],
            roles: ip_address_manager::rbac::objects().base,
        },
    ]
}

/// Rights that are needed where no test goes: resource, verb, and when.
const RARE: [(&str, &str, &str); 7] = [
    (
        "tokenreviews.authentication.k8s.io",
        "create",
        "metrics are scraped over TLS",
    ),
    ("subjectaccessreviews.authorization.k8s.io", "create", "the same"),
    (
        "ipclaims.ipam.metal3.io",
        "get",
        "another process has made the claim a moment before",
    ),
    ("ipaddressclaims.ipam.cluster.x-k8s.io", "get", "the same"),
    (
        "leases.coordination.k8s.io",
        "get",
        "several replicas; shown with the operator, the code is the same for all",
    ),
    ("leases.coordination.k8s.io", "create", "the same"),
    ("leases.coordination.k8s.io", "update", "the same"),
];

/// Rights that the API server asks for by itself, without a request that would be logged: resource, verb, and when. Each is named, so
/// that no other one passes for used.
const SILENT: [(&str, &str, &str); 6] = [
    (
        "metal3datas.infrastructure.cluster.x-k8s.io/finalizers",
        "update",
        "the deletion of an owner is to wait for what it owns",
    ),
    ("ippools.ipam.metal3.io/finalizers", "update", "the same"),
    ("ipaddressclaims.ipam.cluster.x-k8s.io/finalizers", "update", "the same"),
    (
        "hardwaredata.metal3.io",
        "create",
        "a patch (server-side apply) makes what is not there",
    ),
    ("preprovisioningimages.metal3.io", "create", "the same"),
    ("secrets", "create", "the same, for the Secrets of HostClaims"),
];

fn is_asked_in_silence(right: &Right, used: &BTreeSet<Right>) -> bool {
    let (resource, verb) = right;
    let is_named = SILENT.iter().any(|(named, of, _)| named == resource && of == verb);
    // Who made nothing by a patch needs no right to create either.
    is_named && (verb != "create" || used.contains(&(resource.clone(), "patch".to_owned())))
}

fn is_rare(right: &Right) -> bool {
    RARE.iter()
        .any(|(resource, verb, _)| *resource == right.0 && *verb == right.1)
}

/// A resource as an audit log names it, and a verb.
type Right = (String, String);

/// An empty folder for the logs.
pub fn empty_folder() -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/lab/audit");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    folder.canonicalize().context("the folder of the audit logs")
}

/// Rights that no test used, and refusals for want of a right. One that was taken away for a test is no such refusal.
pub fn check(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut asked = BTreeSet::new();
    for log in fs::read_dir(folder).context("the audit logs")? {
        asked.extend(AuditLog::at(log?.path()).rights()?);
    }
    let wrong: Vec<String> = programs().iter().flat_map(|program| compare(program, &asked)).collect();
    for line in &wrong {
        println!("{line}");
    }
    if wrong.is_empty() {
        // Gigabytes, on the scale of a thousand hosts.
        fs::remove_dir_all(folder).ok();
    }
    Ok(wrong)
}

fn compare(program: &Program, asked: &BTreeSet<Asked>) -> Vec<String> {
    let is_its = |asked: &&Asked| {
        let account = asked
            .user
            .strip_prefix("system:serviceaccount:")
            .and_then(|name| name.split_once(':'));
        account.is_some_and(|(_, name)| program.accounts.contains(&name))
    };
    let (refused, granted): (Vec<&Asked>, Vec<&Asked>) =
        asked.iter().filter(is_its).partition(|asked| asked.is_forbidden);
    let right = |asked: &&Asked| -> Right { (asked.resource.clone(), asked.verb.clone()) };
    let used: BTreeSet<Right> = granted.iter().map(right).collect();
    let shipped = shipped(&program.roles);
    let name = program.accounts[0];
    let unused = shipped
        .keys()
        .filter(|right| !used.contains(*right) && !is_rare(right) && !is_asked_in_silence(right, &used));
    let unused = unused.map(|(resource, verb)| format!("the role of {name}: unused right to {verb} {resource}"));
    let is_missing = |asked: &&&Asked| match shipped.get(&right(asked)) {
        None => true,
        Some(Objects::All) => false,
        Some(Objects::Named(names)) => !names.contains(&asked.name),
    };
    let missing = refused.iter().filter(is_missing).map(|asked| {
        let Asked { verb, resource, .. } = asked;
        let named = shipped
            .get(&right(asked))
            .map_or_else(String::new, |_| format!(" named {:?}", asked.name));
        format!("the role of {name} lacks the right to {verb} {resource}{named}")
    });
    let missing: BTreeSet<String> = missing.collect();
    unused.chain(missing).collect()
}

/// The objects that a right is about.
#[derive(Clone, Debug, PartialEq)]
enum Objects {
    All,
    Named(BTreeSet<String>),
}

impl Objects {
    /// What this rule and another one are about together.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Named(names), Self::Named(others)) => Self::Named(names.into_iter().chain(others).collect()),
            _ => Self::All,
        }
    }
}

/// The rights in the roles among these objects.
fn shipped(roles: &[Value]) -> BTreeMap<Right, Objects> {
    let words = |rule: &Value, key: &str| -> Vec<String> {
        let words = rule[key].as_array().into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let all = roles.iter().filter_map(|role| role["rules"].as_array()).flatten();
    let mut rights = BTreeMap::new();
    for rule in all {
        let names: BTreeSet<String> = words(rule, "resourceNames").into_iter().collect();
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                let (kind, sub) = resource
                    .split_once('/')
                    .map_or((&*resource, None), |(kind, sub)| (kind, Some(sub)));
                let dot = if group.is_empty() { "" } else { "." };
                let sub = sub.map_or_else(String::new, |sub| format!("/{sub}"));
                let resource = format!("{kind}{dot}{group}{sub}");
                for verb in words(rule, "verbs") {
                    let objects = if names.is_empty() {
                        Objects::All
                    } else {
                        Objects::Named(names.clone())
                    };
                    let right = (resource.clone(), verb);
                    let objects = match rights.remove(&right) {
                        None => objects,
                        Some(before) => Objects::and(before, objects),
                    };
                    rights.insert(right, objects);
                }
            }
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(account: &str, verb: &str, resource: &str, is_forbidden: bool) -> Asked {
        Asked {
            user: format!("system:serviceaccount:ns:{account}"),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            is_forbidden,
            name: String::new(),
        }
    }

    // OWN 29h: each update of finalizers counted as used, and each creation of what is patched.
    // OWN 25: roles had rights that nobody used.
    #[test]
    fn what_is_unused_and_what_is_missing_is_told() {
        let rules = json!([
            {"apiGroups": ["g"], "resources": ["things", "things/status"], "verbs": ["get", "patch"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
            {"apiGroups": ["g"], "resources": ["things/finalizers"], "verbs": ["update"]},
            {"apiGroups": ["ipam.metal3.io"], "resources": ["ippools/finalizers"], "verbs": ["update"]},
            {"apiGroups": ["metal3.io"], "resources": ["hardwaredata", "preprovisioningimages"], "verbs": ["create"]},
            {"apiGroups": ["g"], "resources": ["things", "others"], "verbs": ["create"]},
            {"apiGroups": ["g"], "resources": ["leases"], "verbs": ["get"], "resourceNames": ["own"]},
        ]);
        let program = Program {
            accounts: &["a", "b"],
            roles: vec![
                json!({"kind": "Namespace"}),
                json!({"kind": "ClusterRole", "rules": rules}),
            ],
        };
        let named = |name: &str, is_forbidden| Asked {
            name: name.to_owned(),
            ..asked("a", "get", "leases.g", is_forbidden)
        };
        let log = BTreeSet::from([
            named("", false),
            named("own", true),
            named("other", true),
            asked("a", "get", "things.g", false),
            asked("b", "patch", "things.g", false),
            asked("a", "patch", "things.g/status", false),
            asked("a", "patch", "hardwaredata.metal3.io", false),
            // Of another program, and taken away for a test.
            asked("c", "get", "things.g/status", false),
            asked("a", "get", "secrets", true),
            asked("a", "list", "secrets", true),
        ]);
        let mut wrong = compare(&program, &log);
        wrong.sort();
        assert_eq!(
            wrong,
            [
                "the role of a lacks the right to get leases.g named \"other\"",
                "the role of a lacks the right to list secrets",
                "the role of a: unused right to create others.g",
                "the role of a: unused right to create preprovisioningimages.metal3.io",
                "the role of a: unused right to create things.g",
                "the role of a: unused right to get secrets",
                "the role of a: unused right to get things.g/status",
                "the role of a: unused right to update things.g/finalizers",
            ]
        );
    }
}
