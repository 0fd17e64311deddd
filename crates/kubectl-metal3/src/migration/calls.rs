//! What the API server is told to call: who answers, and what is called for nothing. Pure.

use std::collections::BTreeSet;

use metal3_api::crd::Crd;
use serde_json::Value;

use super::observe::{Configuration, Observed};
use super::programs::{PROGRAMS, Program, Running};
use super::report::{Finding, Report};
use super::shell::line;

/// Groups whose kinds the programs have webhooks for.
const GROUPS: [&str; 3] = ["metal3.io", "infrastructure.cluster.x-k8s.io", "ipam.metal3.io"];

/// Webhooks and conversions that nobody answers.
pub fn findings(observed: &Observed, running: &[Running<'_>], wanted: &[Crd], is_to_change: bool, report: &mut Report) {
    let mut tell = |finding: Finding, is_replaced: bool| {
        if is_to_change && is_replaced {
            let then = "the change replaces it".to_owned();
            report.notes.push(Finding { then, ..finding });
        } else {
            report.blockers.push(finding);
        }
    };
    let replaced = PROGRAMS.iter().flat_map(Program::configurations);
    let replaced: BTreeSet<_> = replaced.map(|(_, name)| name).collect();
    for configuration in &observed.configurations {
        let is_replaced = replaced.contains(&configuration.name);
        if let Some(finding) = of_configuration(observed, running, configuration, is_replaced) {
            tell(finding, is_replaced);
        }
    }
    let needless: BTreeSet<_> = needless(observed, wanted).collect();
    for (name, definition) in &observed.definitions {
        let conversion = &definition["spec"]["conversion"];
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        let is_ours = wanted.iter().any(|crd| crd.name() == name);
        let is_relevant = is_ours || group.ends_with("cluster.x-k8s.io");
        if conversion["strategy"] != "Webhook" || !is_relevant || needless.contains(name.as_str()) {
            continue;
        }
        let Some(what) = unanswered(observed, running, [&conversion["webhook"]["clientConfig"]]) else {
            continue;
        };
        let finding = Finding {
            object: format!("CustomResourceDefinition {name}"),
            what,
            then: "objects cannot be read in the versions in which they are not stored: start what answers".to_owned(),
        };
        tell(finding, is_ours);
    }
}

/// What is wrong with a configuration; `has_our_name` if one of ours is called the same.
fn of_configuration(
    observed: &Observed,
    running: &[Running<'_>],
    configuration: &Configuration,
    has_our_name: bool,
) -> Option<Finding> {
    let webhooks = configuration.object["webhooks"].as_array().into_iter().flatten();
    let webhooks = webhooks.filter(|webhook| is_about_ours(webhook));
    let configs: Vec<_> = webhooks.map(|webhook| &webhook["clientConfig"]).collect();
    let what = unanswered(observed, running, configs.iter().copied())?;
    let (kind, name) = (configuration.kind, &configuration.name);
    let delete = line(["kubectl", "delete", &kind.to_lowercase(), name]);
    let is_left_over = has_our_name && ignored(running, configs).is_some();
    let then = if is_left_over {
        format!(
            "the API server refuses what it is to admit: `{delete}`, and install ours once more, with the entries that it answers"
        )
    } else {
        format!("the API server refuses what it is to admit: start what answers, or `{delete}`")
    };
    let object = format!("{kind} {name}");
    Some(Finding { object, what, then })
}

/// Whether the API server refuses objects of ours where nobody answers this webhook.
fn is_about_ours(webhook: &Value) -> bool {
    let rules = webhook["rules"].as_array().into_iter().flatten();
    let mut groups = rules.flat_map(|rule| rule["apiGroups"].as_array().into_iter().flatten());
    webhook["failurePolicy"] != "Ignore"
        && groups.any(|group| {
            group
                .as_str()
                .is_some_and(|group| group == "*" || GROUPS.contains(&group))
        })
}

/// Which of the called Services do not answer, in words. Addresses outside the cluster are not tried.
fn unanswered<'a>(
    observed: &Observed,
    running: &[Running<'_>],
    called: impl IntoIterator<Item = &'a Value> + Clone,
) -> Option<String> {
    let silent = called.clone().into_iter().filter_map(|config| {
        let service = &config["service"];
        let [namespace, name] = ["namespace", "name"].map(|field| service[field].as_str());
        let key = (namespace?.to_owned(), name?.to_owned());
        let what = match observed.services.get(&key) {
            None => "which does not exist",
            Some(false) => "behind which no pod is ready",
            Some(true) => return None,
        };
        Some(format!("Service {}/{}, {what}", key.0, key.1))
    });
    let mut words: Vec<_> = silent.collect::<BTreeSet<_>>().into_iter().collect();
    words.extend(ignored(running, called));
    (!words.is_empty()).then(|| format!("it calls {}", words.join("; ")))
}

/// Which paths of ours nobody answers on, in words.
fn ignored<'a>(running: &[Running<'_>], called: impl IntoIterator<Item = &'a Value>) -> Option<String> {
    let mut paths = BTreeSet::new();
    for config in called {
        let service = &config["service"];
        let part = |field: &str| service[field].as_str().unwrap_or_default();
        let path = service["path"].as_str().unwrap_or("/");
        if running
            .iter()
            .any(|one| one.ignores(part("namespace"), part("name"), path))
        {
            paths.insert(path);
        }
    }
    let paths: Vec<_> = paths.into_iter().collect();
    (!paths.is_empty()).then(|| format!("{}, which ours does not serve", paths.join(", ")))
}

/// Our definitions that ask for a conversion, as upstream's for IPAM do, though they have one version: the API server never calls it.
/// A definition of ours that is applied without a conversion leaves it, as another tool has set it.
pub fn needless<'a>(observed: &'a Observed, wanted: &'a [Crd]) -> impl Iterator<Item = &'a str> {
    let is_needless = |crd: &&Crd| {
        let current = observed.definitions.get(crd.name()).map(|current| &current["spec"]);
        let asks = current.is_some_and(|spec| {
            let has_one = spec["versions"].as_array().is_some_and(|versions| versions.len() == 1);
            spec["conversion"]["strategy"] == "Webhook" && has_one
        });
        asks && crd.manifest()["spec"]["conversion"].is_null()
    };
    wanted.iter().filter(is_needless).map(Crd::name)
}

/// The command that takes these conversions out; empty if there are none.
pub fn without_conversion(observed: &Observed, wanted: &[Crd]) -> Option<String> {
    const NONE: &str = r#"{"spec":{"conversion":{"strategy":"None","webhook":null}}}"#;
    let names: Vec<_> = needless(observed, wanted).collect();
    let words = ["kubectl", "patch", "crd"].into_iter().chain(names.iter().copied());
    (!names.is_empty()).then(|| line(words.chain(["--type", "merge", "--patch", NONE])))
}

/// What to know of these conversions where the change is over.
pub fn never_made(observed: &Observed, wanted: &[Crd]) -> Option<Finding> {
    let command = without_conversion(observed, wanted)?;
    let names: Vec<_> = needless(observed, wanted).collect();
    Some(Finding {
        object: format!("CustomResourceDefinition {}", names.join(", ")),
        what: "it has one version, and asks for a conversion that is therefore never made".to_owned(),
        then: format!("nothing depends on it; `{command}` takes it out"),
    })
}
