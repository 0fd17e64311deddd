//! What to say about what is in the cluster. Pure.

use std::collections::BTreeMap;

use metal3_api::crd::{self, Crd};

use super::change::{Direction, With};
use super::observe::{Host, Observed};
use super::programs::{PROGRAMS, Running, running};
use super::report::{Finding, Report};
use super::settings::Settings;
use super::{calls, definitions, inventory, steps};

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
        blockers: two_of_one(&running, observed),
        notes: Vec::new(),
        steps: steps::steps(observed, &running, &wanted, direction, with),
    };
    let is_to_change = !report.steps.is_empty();
    report.blockers.extend(definitions::blockers(observed, &wanted));
    report.blockers.extend(moves(&observed.hosts));
    calls::findings(observed, &running, &wanted, is_to_change, &mut report);
    if is_to_change && (direction == Direction::Back || with == With::Clusterctl) {
        report.blockers.extend(without_cert_manager(observed));
    }
    for (namespace, name) in &observed.unreadable {
        report.notes.push(Finding {
            object: format!("ConfigMap {namespace}/{name}"),
            what: "you may not read it".to_owned(),
            then: "what it tells the program is missing in the commands below: add it".to_owned(),
        });
    }
    match direction {
        Direction::Here if is_to_change => here(observed, &running, &wanted, with, &mut report),
        Direction::Back if is_to_change => back(observed, &wanted, &mut report),
        Direction::Here => {
            report.notes.extend(calls::never_made(observed, &wanted));
            report.notes.extend(inventory::stale(observed, &running));
        }
        Direction::Back => {}
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

fn two_of_one(running: &[Running<'_>], observed: &Observed) -> Vec<Finding> {
    let mut found = Vec::new();
    for program in &PROGRAMS {
        let same = running
            .iter()
            .filter(|one| one.program.name == program.name && one.replicas() > 0);
        let same: Vec<_> = same.map(|one| (one.object(), Settings::of(one, observed))).collect();
        let meets = |number: usize| {
            let mut others = same.iter().enumerate().filter(|(other, _)| *other != number);
            others.any(|(_, (_, other))| overlap(same[number].1.watched(), other.watched()))
        };
        let several: Vec<_> = (0..same.len())
            .filter(|number| meets(*number))
            .map(|number| same[number].0.clone())
            .collect();
        if !several.is_empty() {
            found.push(Finding {
                object: several.join(", "),
                what: format!(
                    "more than one {} runs, and each would work on the same objects",
                    program.name
                ),
                then: "delete all but one".to_owned(),
            });
        }
    }
    found
}

/// Whether two programs that watch these namespaces meet; `None` is all of them.
fn overlap(one: Option<Vec<&str>>, other: Option<Vec<&str>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.iter().any(|name| other.contains(name)),
        _ => true,
    }
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

fn without_cert_manager(observed: &Observed) -> Option<Finding> {
    let is_there = observed.definitions.contains_key(CERTIFICATES);
    (!is_there).then(|| Finding {
        object: format!("CustomResourceDefinition {CERTIFICATES}"),
        what: "it does not exist, so cert-manager is not installed, and the programs would get no certificates"
            .to_owned(),
        then: "install cert-manager first".to_owned(),
    })
}

fn here(observed: &Observed, running: &[Running<'_>], wanted: &[Crd], with: With, report: &mut Report) {
    for one in running.iter().filter(|one| !one.is_ours()) {
        if let Some(error) = Settings::of(one, observed).refused {
            report.blockers.push(Finding {
                object: one.object(),
                what: format!("its arguments mean nothing to our {}: {error}", one.program.name),
                then: "find its counterpart in docs/flags.md, and remove it from this Deployment, so that nothing you rely on is lost"
                    .to_owned(),
            });
        }
    }
    for one in running
        .iter()
        .filter(|one| !one.is_ours() && (with == With::Kubectl || with == With::Clusterctl && !one.is_operator()))
    {
        let told = Settings::of(one, observed).told;
        if !told.is_empty() {
            let told: Vec<_> = told.iter().map(|(name, value)| format!("{name}={value}")).collect();
            report.notes.push(Finding {
                object: one.object(),
                what: format!("it is told {}", told.join(", ")),
                then: "set these variables on the Deployment that takes its place".to_owned(),
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
            then: "upstream's releases from 1.13 on can read them, and no older one".to_owned(),
        });
    }
    report.notes.push(Finding {
        object: "the configuration of clusterctl on your machine".to_owned(),
        what: "if it names our artefacts for the provider metal3, clusterctl does not find upstream's".to_owned(),
        then: "take these entries out of its `providers` first".to_owned(),
    });
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
