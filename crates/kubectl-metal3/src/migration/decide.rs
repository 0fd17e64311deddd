//! What to say about what is in the cluster. Pure.

use std::collections::BTreeMap;

use metal3_api::crd::{self, Crd};
use serde_json::Value;

use super::change::{Direction, With};
use super::observe::{Configuration, Host, Observed};
use super::programs::{PROGRAMS, Running, running};
use super::report::{Finding, Report};
use super::{definitions, steps};

/// Groups whose kinds the programs have webhooks for.
const GROUPS: [&str; 3] = ["metal3.io", "infrastructure.cluster.x-k8s.io", "ipam.metal3.io"];

/// A definition of cert-manager's. Upstream's programs have their certificates from it.
const CERTIFICATES: &str = "certificates.cert-manager.io";

/// States in which a host's server is at work.
const AT_WORK: [&str; 7] = [
    "registering",
    "inspecting",
    "preparing",
    "provisioning",
    "deprovisioning",
    "powering off before delete",
    "deleting",
];

/// Everything that is said about the change.
pub fn decide(observed: &Observed, direction: Direction, with: With) -> Report {
    let running = running(&observed.deployments);
    let wanted = crd::all().unwrap_or_default();
    let mut report = Report {
        direction,
        found: found(&running, &observed.hosts),
        blockers: two_of_one(&running),
        notes: Vec::new(),
        steps: steps::steps(observed, &running, direction, with),
    };
    let is_to_change = !report.steps.is_empty();
    report.blockers.extend(definitions::blockers(observed, &wanted));
    report.blockers.extend(moves(&observed.hosts));
    configurations(observed, is_to_change, &mut report);
    if is_to_change && (direction == Direction::Back || with == With::Clusterctl) {
        report.blockers.extend(without_cert_manager(observed));
    }
    match direction {
        Direction::Here if is_to_change => here(observed, &running, &wanted, &mut report),
        Direction::Back if is_to_change => back(observed, &wanted, &mut report),
        _ => {}
    }
    if is_to_change {
        report.notes.extend(hosts(&observed.hosts));
    }
    report
}

fn found(running: &[Running<'_>], hosts: &[Host]) -> Vec<String> {
    let mut found: Vec<_> = running
        .iter()
        .map(|one| {
            format!(
                "{}: {}, {}, {}, {} {}",
                one.program.name,
                if one.is_ours() { "ours" } else { "upstream's" },
                one.version(),
                one.object(),
                one.replicas(),
                if one.replicas() == 1 { "replica" } else { "replicas" },
            )
        })
        .collect();
    let absent = PROGRAMS
        .iter()
        .filter(|program| running.iter().all(|one| one.program.name != program.name));
    found.extend(absent.map(|program| format!("{}: not installed", program.name)));
    let mut states = BTreeMap::<&str, usize>::new();
    for host in hosts {
        let state = if host.state.is_empty() {
            "no state yet"
        } else {
            &host.state
        };
        *states.entry(state).or_default() += 1;
    }
    let states: Vec<_> = states.iter().map(|(state, count)| format!("{count} {state}")).collect();
    found.push(match hosts.len() {
        0 => "no hosts".to_owned(),
        count => format!("{count} hosts: {}", states.join(", ")),
    });
    found
}

fn two_of_one(running: &[Running<'_>]) -> Vec<Finding> {
    let of = |name: &str| {
        let same = running
            .iter()
            .filter(|one| one.program.name == name && one.replicas() > 0);
        same.map(Running::object).collect::<Vec<_>>()
    };
    let several = PROGRAMS.iter().map(|program| (program, of(program.name)));
    let several = several.filter(|(_, deployments)| deployments.len() > 1);
    several
        .map(|(program, deployments)| Finding {
            object: deployments.join(", "),
            what: format!(
                "more than one {} runs, and each would work on the same objects",
                program.name
            ),
            then: "delete all but one".to_owned(),
        })
        .collect()
}

fn moves(hosts: &[Host]) -> Vec<Finding> {
    let moving: Vec<_> = hosts.iter().filter(|host| host.is_moving).collect();
    if moving.is_empty() {
        return Vec::new();
    }
    vec![Finding {
        object: names(&moving),
        what: "they are marked for deletion by `clusterctl move`".to_owned(),
        then: "let the move end, or repeat it if it was cut off".to_owned(),
    }]
}

/// Webhooks that nobody answers.
fn configurations(observed: &Observed, is_to_change: bool, report: &mut Report) {
    let replaced = PROGRAMS.iter().flat_map(|program| {
        ["mutating", "validating"].map(|kind| format!("{}{kind}-webhook-configuration", program.prefix))
    });
    let replaced: Vec<_> = replaced.collect();
    for configuration in &observed.configurations {
        let void = void(configuration, observed);
        if void.is_empty() {
            continue;
        }
        let what = format!("it calls what does not exist: {}", void.join(", "));
        let object = format!("{} {}", configuration.kind, configuration.name);
        if is_to_change && replaced.contains(&configuration.name) {
            let then = "the change replaces it".to_owned();
            report.notes.push(Finding { object, what, then });
        } else {
            let then = format!(
                "the API server refuses what it is to admit: `kubectl delete {} {}`",
                configuration.kind.to_lowercase(),
                configuration.name
            );
            report.blockers.push(Finding { object, what, then });
        }
    }
}

/// The Services that a configuration calls about our kinds, and that do not exist.
fn void(configuration: &Configuration, observed: &Observed) -> Vec<String> {
    let webhooks = configuration.object["webhooks"].as_array().into_iter().flatten();
    let is_ours = |webhook: &&Value| {
        let rules = webhook["rules"].as_array().into_iter().flatten();
        let mut groups = rules.flat_map(|rule| rule["apiGroups"].as_array().into_iter().flatten());
        webhook["failurePolicy"] != "Ignore"
            && groups.any(|group| group.as_str().is_some_and(|group| GROUPS.contains(&group)))
    };
    let services = webhooks.filter(is_ours).filter_map(|webhook| {
        let service = &webhook["clientConfig"]["service"];
        Some((
            service["namespace"].as_str()?.to_owned(),
            service["name"].as_str()?.to_owned(),
        ))
    });
    let mut void: Vec<_> = services
        .filter(|service| !observed.services.contains(service))
        .map(|(namespace, name)| format!("Service {namespace}/{name}"))
        .collect();
    void.sort();
    void.dedup();
    void
}

fn without_cert_manager(observed: &Observed) -> Option<Finding> {
    let is_there = observed.definitions.contains_key(CERTIFICATES);
    (!is_there).then(|| Finding {
        object: format!("CustomResourceDefinition {CERTIFICATES}"),
        what: "it does not exist, so cert-manager is not installed, and the programs would get no certificates"
            .to_owned(),
        then: "install cert-manager first".to_owned(),
    })
}

fn here(observed: &Observed, running: &[Running<'_>], wanted: &[Crd], report: &mut Report) {
    for one in running.iter().filter(|one| !one.is_ours()) {
        if let Some(error) = one.refuses_arguments() {
            report.blockers.push(Finding {
                object: one.object(),
                what: format!("its arguments mean nothing to our {}: {error}", one.program.name),
                then: "find its counterpart in docs/flags.md, and remove it from this Deployment, so that nothing you rely on is lost"
                    .to_owned(),
            });
        }
    }
    let migrated = definitions::to_migrate(observed, wanted);
    if !migrated.is_empty() {
        report.notes.push(Finding {
            object: migrated.join(", "),
            what: "objects may be stored in an old version".to_owned(),
            then: "cluster-api-provider-metal3 writes them again, ten a second, and then trims status.storedVersions"
                .to_owned(),
        });
    }
}

fn back(observed: &Observed, wanted: &[Crd], report: &mut Report) {
    let is_two = |crd: &&Crd| {
        crd.manifest()["spec"]["versions"]
            .as_array()
            .is_some_and(|all| all.len() > 1)
    };
    let there = wanted.iter().filter(is_two).map(Crd::name);
    let there: Vec<_> = there.filter(|name| observed.definitions.contains_key(*name)).collect();
    if !there.is_empty() {
        report.notes.push(Finding {
            object: there.join(", "),
            what: "objects are stored as v1beta2".to_owned(),
            then: "of upstream's releases 1.13 and 1.14 can read them, and no older one".to_owned(),
        });
    }
}

fn hosts(hosts: &[Host]) -> Vec<Finding> {
    let groups = [
        (
            hosts
                .iter()
                .filter(|host| AT_WORK.contains(&host.state.as_str()))
                .collect::<Vec<_>>(),
            "their servers are at work",
            "Ironic goes on meanwhile, and the program that follows takes up where it finds the node",
        ),
        (
            hosts.iter().filter(|host| host.is_paused).collect(),
            "they are paused",
            "they stay so, and nothing is done to them",
        ),
        (
            hosts.iter().filter(|host| host.is_detached).collect(),
            "they are detached",
            "they stay so, and have no node in Ironic",
        ),
        (
            hosts.iter().filter(|host| host.is_to_be_restored).collect(),
            "they have no status, and an annotation that holds one",
            "the program that runs first restores it from there",
        ),
        (
            hosts.iter().filter(|host| host.operational == "error").collect(),
            "they are in an error state",
            "what failed is tried again",
        ),
    ];
    let groups = groups.into_iter().filter(|(hosts, ..)| !hosts.is_empty());
    groups
        .map(|(hosts, what, then)| Finding {
            object: names(&hosts),
            what: what.to_owned(),
            then: then.to_owned(),
        })
        .collect()
}

/// The first few hosts, and how many more there are.
fn names(hosts: &[&Host]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = hosts
        .iter()
        .take(SHOWN)
        .map(|host| format!("{}/{}", host.key.0, host.key.1))
        .collect();
    let more = match hosts.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("BareMetalHost {}{more}", shown.join(", "))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
