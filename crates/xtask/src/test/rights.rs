//! Whether our programs have exactly the rights that they use: what their roles say beside the audit logs of all tests in which
//! they run with nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use metal3_lab::audit::{Asked, AuditLog};
use metal3_runtime::rbac;
use serde_json::Value;

/// Where the servers of tests leave their audit logs.
pub const AUDIT_FOLDER: &str = "METAL3_AUDIT_FOLDER";

/// A program, the service accounts that it runs as here, and what it ships.
struct Program {
    accounts: &'static [&'static str],
    /// Its roles and their bindings in all installations.
    objects: Vec<Value>,
    meant: &'static [Meant],
}

/// Refusals that a scenario means: it takes the right away, or does not bind it.
struct Meant {
    /// The function with the scenario, after which its namespace is named.
    scenario: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
}

const MEANT_OF_OPERATOR: [Meant; 2] = [
    Meant {
        scenario: "secrets_are_read_where_the_rights_to_them_are_bound",
        resource: "secrets",
        verbs: &["get", "list", "watch", "patch"],
    },
    // As `metal3.yaml` binds it. What may not be patched is updated.
    Meant {
        scenario: "a_secret_that_may_only_be_read_by_its_name_is_waited_for_too",
        resource: "secrets",
        verbs: &["list", "watch", "patch"],
    },
];

/// The right to Secrets is bound as the artefacts for clusterctl have it.
const fn by_name(scenario: &'static str) -> Meant {
    Meant {
        scenario,
        resource: "secrets",
        verbs: &["list", "watch"],
    }
}

const MEANT_OF_PROVIDER: [Meant; 8] = [
    by_name("clusters"),
    by_name("moves"),
    by_name("nodes"),
    by_name("pods"),
    by_name("rendered_data_is_kept_by_who_may_not_list_secrets"),
    by_name("a_kubeconfig_that_may_only_be_read_by_its_name_is_followed"),
    Meant {
        scenario: "a_namespace_without_rights_to_secrets_holds_up_no_other",
        resource: "secrets",
        verbs: &["list"],
    },
    Meant {
        scenario: "what_the_api_server_refuses_is_told_and_done_when_it_is_allowed",
        resource: "baremetalhosts.metal3.io",
        verbs: &["patch"],
    },
];

const MEANT_OF_IPAM: [Meant; 1] = [Meant {
    scenario: "a_pool_whose_status_cannot_be_written_says_so_on_its_claims_and_still_takes_addresses_back",
    resource: "ippools.ipam.metal3.io/status",
    verbs: &["patch"],
}];

impl Meant {
    fn is(&self, asked: &Asked) -> bool {
        let namespace = asked.user.split(':').nth(2).unwrap_or_default();
        let (of_namespace, _) = namespace.rsplit_once('-').unwrap_or_default();
        let own: String = self.scenario.replace('_', "-").chars().take(LONGEST_NAME).collect();
        let is_in_it = of_namespace == own;
        is_in_it && self.resource == asked.resource && self.verbs.contains(&&*asked.verb)
    }
}

/// The characters of a scenario's name in that of its namespace, as the testkit makes it.
const LONGEST_NAME: usize = 50;

fn programs() -> Vec<Program> {
    vec![
        Program {
            accounts: &["operator", baremetal_operator::rbac::SERVICE_ACCOUNT],
            objects: shipped(baremetal_operator::rbac::objects()),
            meant: &MEANT_OF_OPERATOR,
        },
        Program {
            accounts: &[
                "cluster-api-provider-metal3",
                cluster_api_provider_metal3::rbac::SERVICE_ACCOUNT,
            ],
            objects: shipped(cluster_api_provider_metal3::rbac::objects()),
            meant: &MEANT_OF_PROVIDER,
        },
        Program {
            accounts: &["ip-address-manager", ip_address_manager::rbac::SERVICE_ACCOUNT],
            objects: shipped(ip_address_manager::rbac::objects()),
            meant: &MEANT_OF_IPAM,
        },
    ]
}

/// What the chart, `metal3.yaml`, clusterctl and `config/rbac` install, each a part of it.
fn shipped(objects: rbac::Objects) -> Vec<Value> {
    let rbac::Objects {
        base,
        secrets_in_one_namespace,
        secrets_in_all_namespaces,
        secrets_by_name,
    } = objects;
    [
        base,
        secrets_in_one_namespace,
        secrets_in_all_namespaces,
        secrets_by_name,
    ]
    .concat()
}

/// Rights that are needed where no test goes: the end of the role's name, resource, verb, and when.
const RARE: [(&str, &str, &str, &str); 8] = [
    (
        "-metrics-auth-role",
        "tokenreviews.authentication.k8s.io",
        "create",
        "metrics are scraped over TLS",
    ),
    (
        "-metrics-auth-role",
        "subjectaccessreviews.authorization.k8s.io",
        "create",
        "the same",
    ),
    (
        "",
        "ipclaims.ipam.metal3.io",
        "get",
        "another process has made the claim a moment before",
    ),
    ("", "ipaddressclaims.ipam.cluster.x-k8s.io", "get", "the same"),
    (
        "-leader-election-role",
        "leases.coordination.k8s.io",
        "get",
        "several replicas; shown with the operator, the code is the same for all",
    ),
    (
        "-leader-election-role",
        "leases.coordination.k8s.io",
        "create",
        "the same",
    ),
    (
        "-leader-election-role",
        "leases.coordination.k8s.io",
        "update",
        "the same",
    ),
    (
        "-webhook-certificate-role",
        "secrets",
        "update",
        "a certificate is due for renewal; shown with the ip-address-manager, the code is the same for all",
    ),
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

fn is_rare(role: &str, right: &Right) -> bool {
    RARE.iter()
        .any(|(end, resource, verb, _)| role.ends_with(end) && *resource == right.0 && *verb == right.1)
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

/// Rights that no test used, and refusals that no scenario means.
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

/// Each role is judged by itself, as the API server does: what one allows is not missing, nor unused, in another. Some installations
/// bind less than others, so that a refusal counts although a role has the right, unless its scenario means it.
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
    let roles: Vec<Role> = program.objects.iter().filter_map(Role::of).collect();
    let bound: BTreeSet<&str> = program
        .objects
        .iter()
        .filter_map(|object| object["roleRef"]["name"].as_str())
        .collect();
    let is_one = |name: &str| roles.iter().any(|role| role.name == name);
    let name = program.accounts[0];
    let unused = roles.iter().flat_map(|role| {
        // Some tests give the program all its rules in a role of their own.
        let is_by_it = |asked: &&&Asked| asked.role == role.name || !is_one(&asked.role);
        let used: BTreeSet<Right> = granted.iter().filter(is_by_it).map(right).collect();
        let unused = role.rights.keys();
        let unused = unused.filter(|right| {
            !used.contains(*right) && !is_rare(&role.name, right) && !is_asked_in_silence(right, &used)
        });
        let unused: Vec<Right> = unused.cloned().collect();
        unused
            .into_iter()
            .map(|(resource, verb)| format!("the role {} of {name}: unused right to {verb} {resource}", role.name))
    });
    let wrong = refused.iter().filter_map(|asked| {
        let is_shipped = roles
            .iter()
            .any(|role| bound.contains(&*role.name) && role.allows(asked));
        // What no installation binds is missing, whatever a scenario means.
        if is_shipped && program.meant.iter().any(|meant| meant.is(asked)) {
            return None;
        }
        let Asked {
            user,
            verb,
            resource,
            namespace,
            name: object,
            ..
        } = asked;
        let of = if roles.iter().any(|role| role.rights.contains_key(&right(asked))) {
            format!(" named {object:?} in {namespace:?}")
        } else {
            String::new()
        };
        Some(if is_shipped {
            format!("{name} may not {verb} {resource}{of} as {user}: some installations bind this, and no scenario means to refuse it")
        } else {
            format!("the roles of {name} lack the right to {verb} {resource}{of}")
        })
    });
    let wrong: BTreeSet<String> = wrong.collect();
    unused.chain(wrong).collect()
}

/// A role that is shipped.
struct Role {
    name: String,
    /// The only namespace that it is about, if it is no ClusterRole. ClusterRoles are bound in all namespaces, or where a test does.
    home: Option<String>,
    rights: BTreeMap<Right, Objects>,
}

impl Role {
    /// The role in an object, if it is one.
    fn of(object: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            rights: rights_in(object["rules"].as_array()?),
            home: text(&object["metadata"]["namespace"]),
            name: text(&object["metadata"]["name"])?,
        })
    }

    fn allows(&self, asked: &Asked) -> bool {
        let right = (asked.resource.clone(), asked.verb.clone());
        let is_there = self.home.as_ref().is_none_or(|home| *home == asked.namespace);
        is_there
            && match self.rights.get(&right) {
                None => false,
                Some(Objects::All) => true,
                Some(Objects::Named(names)) => names.contains(&asked.name),
            }
    }
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

/// The rights in the rules of a role.
fn rights_in(rules: &[Value]) -> BTreeMap<Right, Objects> {
    let words = |rule: &Value, key: &str| -> Vec<String> {
        let words = rule[key].as_array().into_iter().flatten();
        words.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut rights = BTreeMap::new();
    for rule in rules {
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
            user: format!("system:serviceaccount:a-test-x7z2q:{account}"),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            role: String::new(),
            is_forbidden,
            namespace: String::new(),
            name: String::new(),
        }
    }

    fn bound(role: &str) -> Value {
        json!({"kind": "RoleBinding", "metadata": {"name": "b"}, "roleRef": {"name": role}})
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
            objects: vec![
                json!({"kind": "Namespace"}),
                json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": rules}),
                bound("r"),
            ],
            meant: &[Meant {
                scenario: "a_test",
                resource: "secrets",
                verbs: &["get", "list"],
            }],
        };
        let named = |name: &str, is_forbidden| Asked {
            name: name.to_owned(),
            ..asked("a", "get", "leases.g", is_forbidden)
        };
        let log = BTreeSet::from([
            named("", false),
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
                "the role r of a: unused right to create others.g",
                "the role r of a: unused right to create preprovisioningimages.metal3.io",
                "the role r of a: unused right to create things.g",
                "the role r of a: unused right to get secrets",
                "the role r of a: unused right to get things.g/status",
                "the role r of a: unused right to update things.g/finalizers",
                "the roles of a lack the right to get leases.g named \"other\" in \"\"",
                "the roles of a lack the right to list secrets",
            ]
        );
    }

    // OWN 31wh: the roles of a program were judged as one: what one lacked passed for used or allowed, because another has it.
    #[test]
    fn each_role_is_judged_by_itself() {
        let of_leases = |verbs: &[&str]| json!({"apiGroups": ["g"], "resources": ["leases"], "verbs": verbs});
        let program = Program {
            accounts: &["a"],
            objects: vec![
                json!({"kind": "ClusterRole", "metadata": {"name": "all"}, "rules": [of_leases(&["list", "get"])]}),
                json!({"kind": "Role", "metadata": {"name": "home", "namespace": "system"}, "rules": [of_leases(&["update", "get"])]}),
                bound("all"),
                bound("home"),
            ],
            meant: &[Meant {
                scenario: "a_test",
                resource: "leases.g",
                verbs: &["update"],
            }],
        };
        let by = |role: &str, verb| Asked {
            role: role.to_owned(),
            ..asked("a", verb, "leases.g", false)
        };
        let refused = |namespace: &str| Asked {
            namespace: namespace.to_owned(),
            ..asked("a", "update", "leases.g", true)
        };
        let log = BTreeSet::from([
            by("all", "list"),
            by("home", "update"),
            by("home", "get"),
            refused("system"),
            refused("other"),
        ]);
        assert_eq!(
            compare(&program, &log),
            [
                "the role all of a: unused right to get leases.g",
                "the roles of a lack the right to update leases.g named \"\" in \"other\"",
            ]
        );
        // With all its rules in a role of the test.
        let log = BTreeSet::from([by("test", "list"), by("test", "update"), by("test", "get")]);
        assert_eq!(compare(&program, &log), [""; 0]);
    }

    #[test]
    fn a_refusal_is_excused_where_a_scenario_means_it_and_nowhere_else() {
        let of_secrets = |name: &str, verbs: &[&str]| {
            let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": verbs});
            json!({"kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule]})
        };
        let program = Program {
            accounts: &["a"],
            objects: vec![
                of_secrets("all", &["get", "list"]),
                of_secrets("by-name", &["get"]),
                of_secrets("unbound", &["delete"]),
                bound("all"),
                bound("by-name"),
            ],
            meant: &[Meant {
                scenario: "a_secret_that_may_only_be_read_by_its_name_is_waited_for_too",
                resource: "secrets",
                verbs: &["list", "delete", "create"],
            }],
        };
        let in_scenario = |scenario: &str, verb| Asked {
            user: format!("system:serviceaccount:{scenario}-x7z2q:a"),
            ..asked("a", verb, "secrets", true)
        };
        let meant = "a-secret-that-may-only-be-read-by-its-name-is-wait";
        let refusals = |scenario: &str, verbs: &[&'static str]| {
            let used = ["get", "list", "delete"].map(|verb| asked("a", verb, "secrets", false));
            let refused = verbs.iter().map(|verb| in_scenario(scenario, verb));
            compare(&program, &refused.chain(used).collect())
        };
        assert_eq!(refusals(meant, &["list"]), [""; 0]);
        let unmeant = |verb: &str, scenario: &str| {
            format!(
                "a may not {verb} secrets named \"\" in \"\" as system:serviceaccount:{scenario}-x7z2q:a: some installations bind \
                 this, and no scenario means to refuse it"
            )
        };
        assert_eq!(refusals("another", &["list"]), [unmeant("list", "another")]);
        assert_eq!(refusals(meant, &["get"]), [unmeant("get", meant)]);
        let missing = [
            "the roles of a lack the right to create secrets",
            "the roles of a lack the right to delete secrets named \"\" in \"\"",
        ];
        assert_eq!(refusals(meant, &["create", "delete"]), missing);
    }

    /// Each role of a program is bound by an installation, and each scenario is there.
    #[test]
    fn excuses_are_about_what_there_is() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = |file: &str| fs::read_to_string(sources.join(file)).unwrap();
        let files = [
            "tests/tests/registration.rs",
            "tests/tests/fleet/namespaces.rs",
            "crates/capm3/tests/provider/clusters.rs",
            "crates/capm3/tests/provider/machines.rs",
            "crates/capm3/tests/provider/data.rs",
            "crates/capm3/tests/provider/workload.rs",
            "tests/tests/clusters/main.rs",
            "tests/tests/moves/main.rs",
            "tests/tests/nodes/main.rs",
            "tests/tests/containers.rs",
            "crates/ipam/tests/claims/bad_input.rs",
        ];
        let scenarios: String = files.map(text).concat();
        for program in programs() {
            let binds = |role: &Role| {
                program
                    .objects
                    .iter()
                    .any(|object| object["roleRef"]["name"] == role.name)
            };
            let roles: Vec<Role> = program.objects.iter().filter_map(Role::of).collect();
            assert!(roles.len() > 2 && roles.iter().all(binds), "{}", program.accounts[0]);
            for meant in program.meant {
                let name = meant.scenario;
                let marks = [
                    format!("fn {name}()"),
                    format!("start(\"{name}\""),
                    format!("start_real(\"{name}\""),
                    format!("real_cluster(\"{name}\""),
                ];
                assert!(marks.iter().any(|mark| scenarios.contains(mark)), "{name}");
            }
        }
    }
}
