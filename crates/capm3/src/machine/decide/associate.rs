//! A machine without a host: what it waits for, and which host it gets.

use kube::ResourceExt;
use metal3_api::capi::names::reason;
use metal3_api::capi::{self, Machine};
use metal3_api::infra::names::{annotation, finalizer};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::events::Severity;
use serde_json::{Value, json};

use super::data;
use super::draft::{Draft, Taken, Why, has_finalizer};
use super::host_spec;
use super::preview;
use super::waits;
use crate::conditions::LegacySeverity;
use crate::machine::claims::{self, CLAIM_TURN, Claimant};
use crate::machine::decide::plan::{Decision, Effect, HostPatch, Need};
use crate::machine::names::{ASSOCIATED, CLAIMED};
use crate::machine::observed::{Host, Observed};
use crate::machine::untold::{self, Claim};
use crate::select::Choice;
use crate::select::Outcome;
use crate::select::Wish;
use crate::select::selector::Selector;

/// On a Metal3Machine, usually by its template: with the value true, hosts outside the failure domain are never chosen.
pub const STRICT_FAILURE_DOMAIN: &str = "infrastructure.cluster.x-k8s.io/strict-failure-domain";

/// What a claim is for, in errors.
pub const CLAIM: &str = "claim the host";

const FAILED: &str = "AssociateBareMetalHostFailed";
const FAILED_LEGACY: &str = "AssociateBMHFailed";

/// On a host that a machine has named but not claimed: the UID of the machine, which will not claim it under that name.
///
/// Another process may be about to claim it for the same machine. As that is written over the version before this mark, or
/// sees the mark, the machine can then take another host and nobody will give it two.
pub const PASSED_OVER: &str = "infrastructure.cluster.x-k8s.io/passed-over-by";

pub(super) fn decide(mut draft: Draft<'_>) -> Decision {
    if let Host::Missing(_) | Host::Foreign(..) = &draft.seen.host {
        return unname(draft);
    }
    let owner = match waits::waits(draft.seen) {
        Ok(owner) => owner,
        Err(wait) => {
            waits::say(&mut draft, &wait);
            return draft.plan();
        }
    };
    match waits::missing_secrets(&draft) {
        Err(need) => return Decision::Look(need),
        Ok(None) => {}
        Ok(Some(message)) => {
            let wait = (reason::WAITING_FOR_BOOTSTRAP_DATA, "WaitingForBootstrapReady", message);
            waits::say(&mut draft, &wait);
            return draft.plan();
        }
    }
    let wish = match wish(draft.seen, owner) {
        Ok(wish) => wish,
        Err(message) => {
            refuse(&mut draft, &message, Some("InvalidConfiguration"));
            return draft.plan();
        }
    };
    let named = match &draft.seen.host {
        Host::Unclaimed(_) if !draft.seen.looks.is_host_fresh => return Decision::Look(Need::FreshHost),
        Host::Unclaimed(host) if is_passed_over(host, &draft.seen.machine) => return unname(draft),
        Host::Unclaimed(host) => Some(host),
        _ => None,
    };
    let Some(selection) = &draft.seen.looks.selection else {
        return Decision::Look(Need::Host(Box::new(wish)));
    };
    let chosen = match &selection.outcome {
        Outcome::Own(host) | Outcome::Chosen { host, .. } => Some(host),
        Outcome::Await(_) | Outcome::None => None,
    };
    if let Some(named) = named
        && chosen.is_none_or(|chosen| chosen.metadata.name != named.metadata.name)
    {
        return pass_over(draft, named);
    }
    match &selection.outcome {
        Outcome::Own(host) => {
            choose(&mut draft, owner, host);
            draft.plan()
        }
        Outcome::Chosen { host, .. } if is_passed_over(host, &draft.seen.machine) => {
            let mut patch = HostPatch::default();
            patch.annotate(PASSED_OVER, Value::Null);
            draft.host(host, &patch, "consider the host again");
            draft.is_again = true;
            draft.plan()
        }
        Outcome::Chosen { host, is_reuse } => {
            choose(&mut draft, owner, host);
            take_turn(&mut draft);
            draft.insist = true;
            claim(draft, owner, host, *is_reuse, selection)
        }
        Outcome::Await(_) | Outcome::None => {
            refuse(&mut draft, &selection.why, None);
            draft.plan()
        }
    }
}

/// Whether the machine has named this host before and will not claim it under that name.
fn is_passed_over(host: &BareMetalHost, machine: &Metal3Machine) -> bool {
    let by = host.annotations().get(PASSED_OVER);
    by.is_some() && by == machine.metadata.uid.as_ref()
}

/// The mark that no claim for the machine is written over, where one may be under way. A host that takes no write at all
/// takes no mark either.
pub(super) fn mark_passed_over(draft: &mut Draft<'_>, host: &BareMetalHost) {
    let machine = &draft.seen.machine;
    if !is_passed_over(host, machine) && draft.seen.claimant.may_claim(host) {
        let mut patch = HostPatch::default();
        patch.annotate(PASSED_OVER, machine.metadata.uid.clone());
        draft.host(host, &patch, "pass the host over");
    }
}

/// The host that was named will not do any more. The mark has room for one machine: whoever waited for the next pass to name
/// it no more might find that of another, for ever in turns.
fn pass_over(mut draft: Draft<'_>, host: &BareMetalHost) -> Decision {
    mark_passed_over(&mut draft, host);
    let unnamed = json!({"metadata": {
        "resourceVersion": draft.seen.machine.metadata.resource_version, "annotations": unnamed(draft.seen)}});
    draft.effects.push(Effect::Machine(unnamed));
    draft.is_again = true;
    draft.plan()
}

/// The annotations of a machine that names no host any more. A process that has named it before must not take a name of
/// another process for its own.
fn unnamed(seen: &Observed) -> Value {
    let mut annotations = json!({annotation::HOST: null});
    if seen.claimant == Claimant::Any {
        let next = (claims::turn(&seen.machine) | 1).saturating_add(1);
        annotations[CLAIM_TURN] = next.to_string().into();
    }
    annotations
}

/// The machine names no host any more, and may choose anew.
fn unname(mut draft: Draft<'_>) -> Decision {
    if !draft.seen.looks.is_host_fresh {
        return Decision::Look(Need::FreshHost);
    }
    let unnamed = unnamed(draft.seen);
    draft.metadata.insert("annotations".to_owned(), unnamed);
    draft.is_again = true;
    draft.plan()
}

/// What a machine asks of a host that is about to ask for one, as far as that is at hand.
pub fn wanted(seen: &Observed) -> Option<Wish> {
    let is_going = seen.machine.metadata.deletion_timestamp.is_some() || seen.paused().is_some();
    let lacks_host = matches!(seen.host, Host::None | Host::Unclaimed(_)) && !seen.was_associated();
    if is_going || !lacks_host {
        return None;
    }
    wish(seen, waits::waits(seen).ok()?).ok()
}

fn wish(seen: &Observed, owner: &Machine) -> Result<Wish, String> {
    let machine = &*seen.machine;
    let selector = Selector::parse(machine.spec.host_selector.as_ref()).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("; ")
    })?;
    host_spec::check(machine)?;
    let strict = machine.annotations().get(STRICT_FAILURE_DOMAIN);
    let domain = [&owner.spec.failure_domain, &machine.spec.failure_domain];
    let domain = domain.into_iter().find(|domain| !domain.is_empty());
    Ok(Wish {
        machine: seen.key(),
        uid: machine.uid().unwrap_or_default(),
        selector,
        failure_domain: domain.cloned().unwrap_or_default(),
        is_domain_strict: strict.is_some_and(|value| value == "true"),
        reuse: seen.kept_as.clone(),
    })
}

/// The choice is stored before the host is claimed: of two managers that choose for one machine, one writes over an old
/// version and looks again, so that never two hosts are claimed for it.
pub(super) fn choose(draft: &mut Draft<'_>, owner: &Machine, host: &BareMetalHost) {
    let machine = &draft.seen.machine;
    let key = draft.seen.key();
    let chosen = format!("{}/{}", key.namespace, host.name_any());
    if !has_finalizer(machine) {
        let mut finalizers = machine.finalizers().to_vec();
        finalizers.push(finalizer::MACHINE.to_owned());
        draft.metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if machine.annotations().get(annotation::HOST) != Some(&chosen) {
        let annotations = json!({annotation::HOST: chosen});
        draft.metadata.insert("annotations".to_owned(), annotations);
    }
    let domain = &owner.spec.failure_domain;
    if !domain.is_empty() && *domain != machine.spec.failure_domain {
        draft.spec.insert("failureDomain".to_owned(), json!(domain));
    }
    let template = &machine.spec.data_template;
    if !template.name.is_empty() && template.namespace.is_empty() {
        let template = json!({"namespace": key.namespace});
        draft.spec.insert("dataTemplate".to_owned(), template);
    }
}

/// Who claims a host that it has not named says so first: the other would think that nobody else does. Who names one begins
/// with a turn of its own.
fn take_turn(draft: &mut Draft<'_>) {
    let turn = claims::turn(&draft.seen.machine);
    let is_naming = draft.metadata.contains_key("annotations");
    let is_taken = !is_naming && draft.seen.claimant == Claimant::Any && turn.is_multiple_of(2);
    let is_new = is_naming && !turn.is_multiple_of(2);
    if is_taken || is_new {
        let annotations = draft.metadata.entry("annotations").or_insert_with(|| json!({}));
        annotations[CLAIM_TURN] = turn.saturating_add(1).to_string().into();
    }
}

/// One write makes the host ours, with all that it takes to provision it where that is known.
fn claim(mut draft: Draft<'_>, owner: &Machine, host: &BareMetalHost, is_reuse: bool, selection: &Choice) -> Decision {
    let mut patch = HostPatch::default();
    let cluster = owner.spec.cluster_name.as_str();
    host_spec::take(&mut patch, &draft.seen.machine, cluster);
    if host.annotations().contains_key(PASSED_OVER) {
        patch.annotate(PASSED_OVER, Value::Null);
    }
    let reason = if is_reuse {
        "AssociateBareMetalHostViaNodeReuseSuccess"
    } else {
        CLAIMED
    };
    draft.claim = Some(Claim {
        reason,
        considered: selection.considered,
    });
    draft.taken = Some(taken(host, cluster));
    draft.failure(None);
    draft.associated(reason);
    let message = format!("BareMetalHost {} is being provisioned", host.name_any());
    draft.not_ready(Why {
        reason: "NotReady",
        legacy: "NotReady",
        severity: LegacySeverity::Info,
        message: &message,
    });
    if let Some(sources) = data::sources(&mut draft) {
        match preview::objection(&mut draft, owner, &sources) {
            Err(need) => return Decision::Look(need),
            Ok(None) => {
                host_spec::run(&mut patch, &mut draft, owner, &sources);
                draft.patience = Some(untold::PATIENCE);
            }
            // The host is the machine's, and waits.
            Ok(Some(_)) => {}
        }
    } else {
        draft.patience = data::patience(&draft);
    }
    draft.host(host, &patch, CLAIM);
    data::ask(&mut draft);
    draft.plan()
}

/// What is told of a host that is the machine's.
pub(super) fn taken(host: &BareMetalHost, cluster: &str) -> Taken {
    Taken {
        host: host.name_any(),
        secret: host.spec.bmc.credentials_name.clone(),
        cluster: cluster.to_owned(),
    }
}

/// No host, and why.
fn refuse(draft: &mut Draft<'_>, message: &str, failure: Option<&str>) {
    if draft.is_news(ASSOCIATED, FAILED) {
        draft.note(Severity::Warning, FAILED, message.to_owned());
    }
    let why = Why {
        reason: FAILED,
        legacy: FAILED_LEGACY,
        severity: LegacySeverity::Error,
        message,
    };
    draft.not_associated(why, failure);
}

/// The host that the machine had is not its own any more. Nothing is taken back and nothing replaced: somebody else did
/// this, and what runs on the host is not known.
pub(super) fn lost(mut draft: Draft<'_>) -> Decision {
    let (host, what) = match &draft.seen.host {
        Host::None => (String::new(), String::new()),
        Host::Missing(host) => (host.clone(), "does not exist any more".to_owned()),
        Host::Foreign(host, other) => (host.name_any(), format!("is used by {} {} now", other.kind, other.name)),
        Host::Unclaimed(host) => (host.name_any(), "lost its spec.consumerRef".to_owned()),
        Host::Ours(_) => return Decision::Nothing,
    };
    let name = draft.seen.key().name;
    if let Some(step) = &draft.seen.untold {
        // It is not told yet, and has to be known as long as the machine is there.
        draft.associated(step.claim.reason);
    }
    let owner = draft.seen.owner.found();
    let replaced = owner.map_or_else(|| name.clone(), |owner| owner.name_any());
    let message = if host.is_empty() {
        format!(
            "the annotation {}, which named the BareMetalHost that this machine had, is gone, and no host names the machine: \
             set it again to NAMESPACE/HOST, or delete Machine {replaced} to get another",
            annotation::HOST
        )
    } else {
        format!(
            "BareMetalHost {host}, which this machine had, {what}: give it back (spec.consumerRef naming Metal3Machine \
             {name}), or delete Machine {replaced} to get another"
        )
    };
    if draft.is_news(capi::names::condition::READY, FAILED) {
        draft.note(Severity::Warning, FAILED, message.clone());
    }
    draft.failure(Some(("UpdateError", &message)));
    draft.not_ready(Why {
        reason: FAILED,
        legacy: FAILED_LEGACY,
        severity: LegacySeverity::Error,
        message: &message,
    });
    draft.plan()
}
