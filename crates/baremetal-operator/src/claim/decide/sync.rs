//! Gives the host what the claim says.
//!
//! An image goes to the host only with all its data. While a part is missing, the host keeps the image and the data that it has, and
//! only its power follows the claim.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::labels::is_subdomain;
use metal3_api::metal3::names::annotation::{REBOOT, REBOOT_PREFIX};
use metal3_api::metal3::names::condition::host_claim::HOST_NOT_SYNCHRONIZED;
use metal3_api::metal3::names::label::TAKES_SECRETS;
use metal3_api::metal3::{BareMetalHost, HostClaim};
use metal3_runtime::controller::Next;
use metal3_runtime::controller::{Decision, Plan};
use metal3_runtime::timing::operator::RELEASE;
use serde_json::{Map, Value, json};

use super::status::{Problem, associated};
use super::{Answer, Effect, Read, release};
use crate::claim::moving::{is_moved_with, marks};
use crate::claim::observed::{Data, Observed, Source};
use crate::claim::stores::{claim_uid, has_uid_of};
use crate::host::mark;

pub fn decide(seen: &Observed, host: &Arc<BareMetalHost>, now: Timestamp) -> Answer {
    if release::runs_what_a_person_chose(&seen.claim, host) {
        let problem = Problem {
            reason: HOST_NOT_SYNCHRONIZED,
            message: "the host has an image or a custom deployment that it did not get from this claim, and is left as it is; give spec.image and spec.customDeploy of the claim the host's values, or have them removed from the host".to_owned(),
            is_rechecked: false,
        };
        let annotations = marks(host);
        let marks = Effect::SetHost(0, json!({"metadata": {"annotations": annotations}}));
        let effects = (!annotations.is_empty()).then_some(marks);
        return report(seen, effects.into_iter().collect(), &Err(problem), now);
    }
    let copies = match check_image(&seen.claim).and_then(|()| copies(seen)) {
        Ok(copies) => copies,
        Err(Stop::Fetch(read)) => return Decision::Fetch(read),
        Err(Stop::Problem(problem)) => return report(seen, power_only(&seen.claim, host), &Err(problem), now),
    };
    let mut effects: Vec<Effect> = copies.into_iter().map(Effect::Copy).collect();
    // Before the host, which afterwards no longer leads to them. A moved host is paused until it names the new copies.
    effects.extend(old_copies(&seen.claim, host));
    effects.extend(change(&seen.claim, host, true));
    let is_dropped = |data: &Data| {
        let copy = data.copy(&seen.claim);
        let is_there = data.of_host(&host.spec).is_some_and(|one| one.name == copy) || seen.copied.contains_key(data);
        data.of_claim(&seen.claim).is_none() && is_there
    };
    let dropped = Data::ALL.into_iter().filter(is_dropped);
    effects.extend(dropped.map(|data| Effect::DeleteCopy(0, data)));
    effects.extend(forget_reboot(&seen.claim));
    for (number, extra) in seen.own.iter().enumerate().skip(1) {
        // The copies may be those of the first host.
        let steps = release::wind_down(seen, number, extra).0.into_iter();
        effects.extend(steps.filter(|step| matches!(step, Effect::SetHost(..))));
    }
    report(seen, effects, &Ok(()), now)
}

/// Lets the hosts go that only name a claim which has another host. No such host runs anything, and whoever named the claim in one has no
/// more than a host that is not in use: to let it go costs nobody anything, and it would be in use for nobody.
fn free_named(seen: &Observed) -> Vec<Effect> {
    seen.named.iter().cloned().map(Effect::Free).collect()
}

fn report(seen: &Observed, effects: Vec<Effect>, synced: &Result<(), Problem>, now: Timestamp) -> Answer {
    let is_rechecked = synced.as_ref().is_err_and(|problem| problem.is_rechecked);
    let is_moved = seen.own.first().is_some_and(|host| is_moved_with(host, &seen.claim));
    let is_adopted = is_moved && synced.is_ok();
    let plan = Plan {
        effects,
        report: associated(seen, synced, now),
        next: if is_rechecked {
            Next::After(RELEASE)
        } else if is_adopted {
            Next::Decide
        } else {
            Next::Change
        },
        // Whoever refuses this does not keep the claim from its host.
        afterwards: free_named(seen),
    };
    plan.into()
}

/// What does not wait for the Secrets of the claim. A host that was moved here stays paused until it gets all.
fn power_only(claim: &HostClaim, host: &BareMetalHost) -> Vec<Effect> {
    if is_moved_with(host, claim) {
        return Vec::new();
    }
    change(claim, host, false)
        .into_iter()
        .chain(forget_reboot(claim))
        .collect()
}

fn forget_reboot(claim: &HostClaim) -> Option<Effect> {
    let is_asked_for = claim.annotations().contains_key(REBOOT);
    is_asked_for.then(|| Effect::Forget(REBOOT.to_owned()))
}

enum Stop {
    Fetch(Read),
    Problem(Problem),
}

/// Refuses a pull secret.
fn check_image(claim: &HostClaim) -> Result<(), Stop> {
    // The Secret would be one of the host's namespace, and its content would be sent to a server that the claim names.
    let image = claim.spec.image.as_ref();
    if image.is_none_or(|image| image.oci_auth_secret_name.is_empty()) {
        return Ok(());
    }
    Err(Stop::Problem(Problem {
        reason: HOST_NOT_SYNCHRONIZED,
        message:
            "spec.image.ociAuthSecretName cannot be used in a HostClaim: it would name a Secret of the host's namespace"
                .to_owned(),
        is_rechecked: false,
    }))
}

/// The data whose copy is not known to be up to date.
fn copies(seen: &Observed) -> Result<Vec<Data>, Stop> {
    let mut copies = Vec::new();
    for data in Data::ALL {
        let Some(reference) = data.of_claim(&seen.claim) else {
            continue;
        };
        let problem = |words: &str, is_rechecked| {
            let message = format!("spec.{}: {words}", data.field());
            Stop::Problem(Problem {
                reason: data.failure(),
                message,
                is_rechecked,
            })
        };
        let own = seen.claim.metadata.namespace.as_deref().unwrap_or_default();
        if reference.local(own).is_err() {
            return Err(problem("the Secret must be in the namespace of the claim", false));
        }
        if !seen.is_trusted {
            let words = format!(
                "the Secret is not copied to the namespace of the host until spec.hostSelector.inNamespace names it, or that Namespace has the label {TAKES_SECRETS}"
            );
            return Err(problem(&words, false));
        }
        if !is_subdomain(&reference.name) {
            // It becomes part of the path of a request.
            return Err(problem(
                "the name is not that of a Secret, which is a DNS subdomain",
                false,
            ));
        }
        let known = seen.versions.get(&data);
        let intact = seen.copied.get(&data).filter(|copied| !copied.is_damaged);
        if known.is_some() && known == intact.map(|copied| &copied.source) {
            continue;
        }
        match seen.read.get(&data) {
            None => return Err(Stop::Fetch(Read::Secret(data))),
            Some(Source::Found { version, .. }) if intact.is_some_and(|copied| copied.source == *version) => {}
            Some(Source::Found { .. }) => copies.push(data),
            Some(Source::Absent) => return Err(problem(&format!("Secret {} does not exist", reference.name), false)),
            Some(Source::Unusable(why)) => {
                return Err(problem(&format!("Secret {} {why}", reference.name), false));
            }
            Some(Source::Forbidden) => {
                let words = format!("the operator may not read Secret {}", reference.name);
                return Err(problem(&words, true));
            }
        }
    }
    Ok(copies)
}

/// The copies that a moved host has from before, under the UID that the claim had.
fn old_copies(claim: &HostClaim, host: &BareMetalHost) -> Vec<Effect> {
    if !is_moved_with(host, claim) {
        return Vec::new();
    }
    let names = Data::ALL.into_iter().filter_map(|data| {
        let name = data.copy_for(claim_uid(host));
        data.of_host(&host.spec).filter(|one| one.name == name).map(|_| name)
    });
    names.map(Effect::DeleteOld).collect()
}

/// What turns the host on and off.
fn power(claim: &HostClaim) -> Map<String, Value> {
    [("online".to_owned(), json!(claim.spec.powered_on))]
        .into_iter()
        .collect()
}

/// All fields of the host that the claim decides on.
fn settings(claim: &HostClaim) -> Map<String, Value> {
    let mut wanted = power(claim);
    wanted.insert("image".to_owned(), json!(claim.spec.image));
    wanted.insert("customDeploy".to_owned(), json!(claim.spec.custom_deploy));
    for data in Data::ALL {
        let reference = data.of_claim(claim).map(|_| json!({"name": data.copy(claim)}));
        wanted.insert(data.field().to_owned(), json!(reference));
    }
    wanted
}

/// The change that gives the host all settings of the claim, or only its power; `None` if it has them. With the UID a host that
/// upstream bound, or one that was moved here, becomes one whose settings come from the claim.
fn change(claim: &HostClaim, host: &BareMetalHost, is_whole: bool) -> Option<Effect> {
    let mut wanted = if is_whole { settings(claim) } else { power(claim) };
    let has = serde_json::to_value(&host.spec).unwrap_or_default();
    let has = |field: &str| has.get(field).unwrap_or(&Value::Null);
    wanted.retain(|field, value| has(field) != value);
    for (field, value) in &mut wanted {
        replace(has(field), value);
    }
    if is_whole && !has_uid_of(host, claim) {
        wanted.insert("consumerRef".to_owned(), json!({"uid": claim.metadata.uid}));
    }
    let mut annotations = marks(host);
    annotations.extend(reboots(claim, host));
    let is_same = wanted.is_empty() && annotations.is_empty();
    let change = json!({"metadata": {"annotations": annotations}, "spec": wanted});
    (!is_same).then_some(Effect::SetHost(0, change))
}

/// Completes a merge patch, so that it leaves nothing of the old value: a field that the new one lacks is null.
fn replace(old: &Value, new: &mut Value) {
    if let (Some(old), Some(new)) = (old.as_object(), new.as_object_mut()) {
        for field in old.keys() {
            new.entry(field).or_insert(Value::Null);
        }
    }
}

/// Beginning of the annotations that keep the host powered off for the claim. The host's namespace may have others.
pub const OF_CLAIM: &str = "reboot.metal3.io/hostclaim-";

/// The annotation of the host for one of the claim. A name of an annotation has at most 63 characters after its prefix: what is longer
/// is cut, and told apart by its digest.
fn of_claim(client: &str) -> String {
    const LONGEST: usize = 63 - "hostclaim-".len();
    if client.len() <= LONGEST {
        return format!("{OF_CLAIM}{client}");
    }
    let digest = mark::name(&client);
    // Annotations have ASCII names.
    let begin: String = client.chars().take(LONGEST - digest.len() - 1).collect();
    format!("{OF_CLAIM}{begin}-{digest}")
}

/// The annotations of the host to change: those of the claim that ask for a reboot, and those that it no longer has.
fn reboots(claim: &HostClaim, host: &BareMetalHost) -> Map<String, Value> {
    let mut wanted = Map::new();
    for key in host.annotations().keys().filter(|key| key.starts_with(OF_CLAIM)) {
        wanted.insert(key.clone(), Value::Null);
    }
    for (key, value) in claim.annotations() {
        if let Some(client) = key.strip_prefix(REBOOT_PREFIX) {
            wanted.insert(of_claim(client), json!(value));
        } else if key == REBOOT {
            wanted.insert(key.clone(), json!(value));
        }
    }
    wanted.retain(|key, value| host.annotations().get(key).map_or(Value::Null, |has| json!(has)) != *value);
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 31wv: the API server refused the host's whole change.
    #[test]
    fn an_annotation_of_any_length_has_a_valid_name_on_the_host() {
        let longest = "x".repeat(53);
        assert_eq!(of_claim(&longest), format!("{OF_CLAIM}{longest}"));
        let (one, other) = (of_claim(&format!("{longest}1")), of_claim(&format!("{longest}2")));
        assert_ne!(one, other);
        for name in [one, other] {
            assert_eq!(name.split_once('/').unwrap().1.len(), 63, "{name}");
            assert!(name.starts_with(OF_CLAIM) && name.ends_with(|last: char| last.is_ascii_alphanumeric()));
        }
    }
}
