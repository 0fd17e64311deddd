//! What clusterctl takes to be installed. Its inventory does not follow what another tool installs. Pure.

use serde_json::json;

use super::observe::{Observed, Provider};
use super::programs::{PROGRAMS, Program, Running};
use super::report::{Finding, Step};
use super::shell::line;

/// The kind of the inventory's objects.
const KIND: &str = "providers.clusterctl.cluster.x-k8s.io";

/// The objects of the inventory that stand for our programs, each with its program.
fn of_ours(observed: &Observed) -> impl Iterator<Item = (&'static Program, &Provider)> {
    let program = |one: &Provider| {
        PROGRAMS
            .iter()
            .find(|program| program.provider == Some(one.key.1.as_str()))
    };
    let all = observed.inventory.iter();
    all.filter_map(move |one| program(one).map(|program| (program, one)))
}

fn delete(one: &Provider) -> String {
    line(["kubectl", "--namespace", &one.key.0, "delete", KIND, &one.key.1])
}

/// Where another tool than clusterctl installs the programs, clusterctl is to forget them.
pub fn forgotten(observed: &Observed) -> impl Iterator<Item = Step> {
    of_ours(observed).map(|(program, one)| Step {
        why: format!(
            "clusterctl forgets {}, or its next upgrade would install another over ours; name the version from now on, as in \
             clusterctl generate cluster --infrastructure metal3:VERSION",
            program.name
        ),
        command: delete(one),
    })
}

/// Where these programs were installed by clusterctl and then replaced by other means, it is to know the version.
pub fn corrected(observed: &Observed, missing: &[&Program], version: &str) -> Vec<Step> {
    let replaced = of_ours(observed).filter(|(program, _)| missing.iter().any(|one| one.name == program.name));
    let patch = json!({ "version": version }).to_string();
    let step = |(program, one): (&Program, &Provider)| Step {
        why: format!("clusterctl learns which {} is installed", program.name),
        command: line([
            "kubectl",
            "--namespace",
            &one.key.0,
            "patch",
            KIND,
            &one.key.1,
            "--type",
            "merge",
            "--patch",
            &patch,
        ]),
    };
    replaced.map(step).collect()
}

/// Objects that name another version than the program of ours that runs.
pub fn stale(observed: &Observed, running: &[Running<'_>]) -> Vec<Finding> {
    let is_stale = |(program, one): &(&Program, &Provider)| {
        let mut ours = running
            .iter()
            .filter(|running| running.is_ours() && running.program.name == program.name);
        // An image that is named by its digest does not say its version.
        ours.any(|running| running.version().starts_with('v') && running.version() != one.version)
    };
    let finding = |(program, one): (&Program, &Provider)| Finding {
        object: format!("Provider {}/{}", one.key.0, one.key.1),
        what: format!(
            "by it, clusterctl takes {} {} to be installed, and its next upgrade would install another over ours",
            program.name, one.version
        ),
        then: format!("have it forget that: `{}`", delete(one)),
    };
    of_ours(observed).filter(is_stale).map(finding).collect()
}
