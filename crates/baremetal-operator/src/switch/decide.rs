//! Decides what the two Secrets of a namespace contain, and what each switch reports. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::names::condition::switch::{RECONCILED, VALID};
use metal3_api::metal3::{BareMetalSwitch, BareMetalSwitchStatus};
use metal3_runtime::conditions::{self, Claim};
use metal3_runtime::controller::{Decision, Next, Plan};
use metal3_runtime::events::Event;
use metal3_runtime::timing::operator::RELEASE;

use super::observed::{MOST_SWITCHES, Observed, credentials_of};
use super::render::{CONFIGS_KEY, Entry, HEADER, Problem, entry};

/// Read these Secrets.
#[derive(Debug, PartialEq)]
pub struct ReadSecrets(pub Vec<String>);

/// What a Secret contains.
pub type Data = BTreeMap<String, ByteString>;

/// One write.
#[derive(PartialEq)]
pub enum Effect {
    /// Replace the content of one of the two Secrets.
    Write { name: String, data: Data },
    /// Store the status of this switch, and publish the event, if there is one.
    Report(usize, BareMetalSwitchStatus, Option<Event>),
}

pub fn decide<S>(seen: &Observed, now: Timestamp) -> Decision<ReadSecrets, Effect, S> {
    if seen.refusal.is_none() {
        let unread = seen.referenced().into_iter();
        let unread: Vec<String> = unread.filter(|name| !seen.secrets.contains_key(name)).collect();
        if !unread.is_empty() {
            return Decision::Fetch(ReadSecrets(unread));
        }
    }
    let (data, problems) = content(seen);
    let (fixed, writes) = writes(seen, data);
    let is_written = writes.is_empty();
    let plan = Plan {
        // What the switches report depends on whether the Secrets could be written.
        effects: if is_written {
            reports(seen, fixed.as_deref(), problems, now)
        } else {
            writes
        },
        next: match (&seen.refusal, is_written) {
            (_, false) => Next::Decide,
            (Some(_), true) => Next::After(RELEASE),
            (None, true) => Next::Change,
        },
        ..Plan::default()
    };
    plan.into()
}

/// What the two Secrets should contain, and what is wrong with each switch.
fn content(seen: &Observed) -> ([Data; 2], Vec<Option<Problem>>) {
    let (mut text, mut keys, mut size_of_keys) = (HEADER.to_owned(), Data::new(), 0);
    let mut add = |switch: &BareMetalSwitch| {
        let entry = rendered(seen, switch)?;
        if text.len() + entry.section.len() > LARGEST_SECRET {
            return Err(too_much(&seen.settings.configs));
        }
        if let Some((file, key)) = entry.key_file {
            match keys.get(&file) {
                Some(other) if *other != key => {
                    let message = "spec.macAddress is that of another switch with another private key".to_owned();
                    return Err(Problem::of_configuration(message));
                }
                Some(_) => {}
                None if size_of_keys + key.0.len() > LARGEST_SECRET => {
                    return Err(too_much(&seen.settings.credentials));
                }
                None => {
                    size_of_keys += key.0.len();
                    keys.insert(file, key);
                }
            }
        }
        text.push_str(&entry.section);
        Ok(())
    };
    let problems = seen.switches.iter().enumerate().map(|(number, switch)| {
        if number >= MOST_SWITCHES {
            let message =
                format!("the namespace has more than {MOST_SWITCHES} switches: only the first by name are written");
            return Some(Problem::of_configuration(message));
        }
        add(switch).err()
    });
    let problems = problems.collect();
    let configs = Data::from([(CONFIGS_KEY.to_owned(), ByteString(text.into_bytes()))]);
    ([configs, keys], problems)
}

/// The most bytes that the API server accepts as the values of a Secret.
const LARGEST_SECRET: usize = 1 << 20;

fn too_much(secret: &str) -> Problem {
    Problem::of_configuration(format!(
        "with this switch, Secret {secret} would be larger than 1 MiB, which is the most that a Secret can hold: only the switches \
         that come first by name are written. Delete others, or shorten their credentials"
    ))
}

fn rendered(seen: &Observed, switch: &BareMetalSwitch) -> Result<Entry, Problem> {
    let name = credentials_of(switch).map_err(Problem::of_credentials)?;
    if seen.too_large.contains(name) {
        let message = format!("Secret {name} is larger than the credentials of a switch are");
        return Err(Problem::of_credentials(message));
    }
    let Some(secret) = seen.secrets.get(name).and_then(Option::as_ref) else {
        let message = format!("Secret {name} does not exist; the switch is added when it is created");
        return Err(Problem::of_credentials(message));
    };
    entry(switch, secret, &seen.settings.path)
}

/// The writes, and the name of a Secret that would have to be written, and is immutable.
fn writes(seen: &Observed, data: [Data; 2]) -> (Option<String>, Vec<Effect>) {
    let (mut fixed, mut writes) = (None, Vec::new());
    if seen.refusal.is_some() || is_of_another(seen) {
        return (fixed, writes);
    }
    let names = [&seen.settings.configs, &seen.settings.credentials];
    for (name, data) in names.into_iter().zip(data) {
        let Some(secret) = seen.secrets.get(name).and_then(Option::as_ref) else {
            continue;
        };
        if secret.data.as_ref().unwrap_or(&Data::new()) == &data {
            continue;
        }
        if secret.immutable == Some(true) {
            fixed.get_or_insert_with(|| name.clone());
        } else {
            let name = name.clone();
            writes.push(Effect::Write { name, data });
        }
    }
    (fixed, writes)
}

/// Whether the Secret with the configuration has the content of somebody else, and there is no switch for which it would be replaced.
fn is_of_another(seen: &Observed) -> bool {
    let configs = seen.secrets.get(&seen.settings.configs).and_then(Option::as_ref);
    let data = configs.and_then(|secret| secret.data.as_ref());
    let is_ours = |data: &Data| {
        data.get(CONFIGS_KEY)
            .is_some_and(|text| text.0.starts_with(HEADER.as_bytes()))
    };
    seen.switches.is_empty() && data.is_some_and(|data| !data.is_empty() && !is_ours(data))
}

/// The statuses that differ, with an event for what is new.
fn reports(seen: &Observed, fixed: Option<&str>, problems: Vec<Option<Problem>>, now: Timestamp) -> Vec<Effect> {
    let unwritten = unwritten(seen, fixed).map(Problem::of_configuration);
    let switches = seen.switches.iter().zip(problems).enumerate();
    let reports = switches.filter_map(|(number, (switch, problem))| {
        let (claim, event) = match problem.as_ref().or(unwritten.as_ref()) {
            Some(problem) => (
                valid(ConditionStatus::False, problem.reason, &problem.message),
                Event::warning(problem.reason, &*problem.message),
            ),
            None => (
                valid(ConditionStatus::True, RECONCILED, CONTAINED),
                Event::normal(RECONCILED, CONTAINED),
            ),
        };
        let mut status = switch.status.clone().unwrap_or_default();
        let before = conditions::get(&status.conditions, VALID);
        let is_new = before.is_none_or(|one| one.reason != claim.reason || one.message != claim.message);
        let is_changed = conditions::set(&mut status.conditions, &claim, switch.metadata.generation, now);
        is_changed.then(|| Effect::Report(number, status, is_new.then_some(event)))
    });
    reports.collect()
}

/// What a switch reports that is as it should be.
const CONTAINED: &str = "Ironic's configuration contains the switch";

fn valid<'a>(status: ConditionStatus, reason: &'a str, message: &'a str) -> Claim<'a> {
    Claim {
        type_: VALID,
        status,
        reason,
        message,
    }
}

/// Why the configuration could not be written.
fn unwritten(seen: &Observed, fixed: Option<&str>) -> Option<String> {
    if seen.refusal.is_some() {
        return seen.refusal.clone();
    }
    if let Some(name) = fixed {
        return Some(format!(
            "Secret {name} in namespace {} is immutable, so that the configuration cannot be written to it: delete it, and create it \
             again, empty and without `immutable`",
            seen.namespace
        ));
    }
    let names = [&seen.settings.configs, &seen.settings.credentials];
    let missing = names
        .into_iter()
        .find(|name| !matches!(seen.secrets.get(*name), Some(Some(_))))?;
    Some(format!(
        "Secret {missing} does not exist in namespace {}: create it, empty, so that the operator can write the configuration to it",
        seen.namespace
    ))
}
