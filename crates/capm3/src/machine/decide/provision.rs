//! A machine with a host: the host is told what to run, and Cluster API how far it is.

use std::collections::HashSet;
use std::time::Duration;

use kube::ResourceExt;
use metal3_api::capi::names::condition;
use metal3_api::infra::names::label;
use metal3_api::infra::v1beta2::{MachineAddress, MachineAddressType};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_runtime::events::Severity;
use serde_json::Value;

use super::associate;
use super::data;
use super::draft::{Draft, Why};
use super::host_spec;
use super::installed::{self, Edits, Installed};
use super::node;
use super::pause;
use super::preview;
use super::waits;
use super::words;
use crate::conditions::LegacySeverity;
use crate::machine::decide::plan::{Decision, Effect, HostPatch};
use crate::machine::names::{CLAIMED, UP_TO_DATE};
use crate::world::host::MOST_ADDRESSES;

/// Reason of Ready while the host reports an error.
const HOST_ERROR: &str = "BareMetalHostError";

/// Its reason, and that of an event: the machine asks for something else than when its host was told what to install.
const MACHINE_CHANGED: &str = "MachineSpecChanged";
/// Reason of Ready, and of an event, when somebody has told the host to run something else.
const CHANGED: &str = "BareMetalHostChanged";

pub(super) fn decide(mut draft: Draft<'_>, host: &BareMetalHost) -> Decision {
    let seen = draft.seen;
    let mut patch = HostPatch::default();
    draft.failure(None);
    if let Some(cluster) = seen.cluster.found().filter(|_| !seen.says_host()) {
        draft.taken = Some(associate::taken(host, &cluster.name_any()));
    }
    draft.associated(seen.untold.map_or(CLAIMED, |step| step.claim.reason));
    pause::release(&mut patch, seen, host);
    host_spec::identify(&mut patch, &seen.machine, host);
    if host.labels().contains_key(label::NODE_REUSE) {
        patch.label(label::NODE_REUSE, Value::Null);
    }
    if seen.machine.spec.automated_cleaning_mode.as_ref() != Some(&host.spec.automated_cleaning_mode) {
        host_spec::cleaning(&mut patch, &seen.machine);
    }
    draft.status.addresses = addresses(host);
    let is_told = installed::is_told(host);
    let was_provisioned = seen.was_provisioned();
    let mut edits = Edits::default();
    let waits = if is_told {
        edits = follow(&mut draft, &mut patch, host, was_provisioned);
        None
    } else if was_provisioned {
        let name = host.name_any();
        Some(format!(
            "BareMetalHost {name} has no image any more; what ran on it is not installed again: delete the Machine to have \
             it replaced"
        ))
    } else {
        match tell(&mut draft, &mut patch) {
            Ok(waits) => waits,
            Err(need) => return Decision::Look(need),
        }
    };
    if let Some(owner) = seen.owner.found() {
        associate::choose(&mut draft, owner, host);
    }
    draft.host(host, &patch, "set up the host");
    data::ask(&mut draft);
    report(&mut draft, host, is_told, waits.as_deref(), &edits);
    draft.plan()
}

/// The host does not know yet what to run. What is waited for, in words, unless the conditions say it already.
fn tell(draft: &mut Draft<'_>, patch: &mut HostPatch) -> Result<Option<String>, super::Need> {
    let Some(owner) = draft.seen.owner.found() else {
        return Ok(Some("the Machine that this belongs to does not exist".to_owned()));
    };
    if waits::bootstrap_secret(owner).is_none() {
        return Ok(Some(format!(
            "waiting for the bootstrap data of Machine {}",
            owner.name_any()
        )));
    }
    if let Err(message) = host_spec::check(&draft.seen.machine) {
        draft.failure(Some(("InvalidConfiguration", &message)));
        return Ok(Some(message));
    }
    if let Some(missing) = waits::missing_secrets(draft)? {
        return Ok(Some(missing));
    }
    let Some(sources) = data::sources(draft) else {
        draft.patience = data::patience(draft);
        return Ok(Some(String::new()));
    };
    if let Some(objection) = preview::objection(draft, owner, &sources)? {
        return Ok(Some(objection));
    }
    host_spec::run(patch, draft, owner, &sources);
    Ok(None)
}

/// The host knows what to run; or something else, if somebody has edited it.
fn follow(draft: &mut Draft<'_>, patch: &mut HostPatch, host: &BareMetalHost, was_provisioned: bool) -> Edits {
    // A user who switches a machine off that runs wants it to be off; before that it would never get there.
    if !host.spec.online && !was_provisioned && words::state(host) != ProvisioningState::Provisioned {
        patch.set("online", true);
    }
    let (sources, owner) = (data::sources(draft), draft.seen.owner.found());
    let owner = owner.map(|owner| &**owner);
    let edits = installed::edits(host, &draft.seen.machine, owner, sources.as_ref());
    let changes = installed::drift(host, &draft.seen.machine, owner, sources.as_ref());
    drifted(draft, host, &changes);
    if edits.is_empty() {
        match (Installed::kept(host).and_then(|kept| kept.given), &sources, owner) {
            (Some(given), _, _) => host_spec::remember_told(draft, &given),
            (None, Some(sources), Some(owner)) => host_spec::remember(draft, owner, sources),
            (None, _, _) => {}
        }
    }
    edits
}

/// The machine was changed after its host was told what to run: by Cluster API, which updates a machine in place, or by a user.
/// Nothing is installed anew, and the machine stays as ready as it was.
fn drifted(draft: &mut Draft<'_>, host: &BareMetalHost, differences: &[String]) {
    if differences.is_empty() {
        return draft.up_to_date(None);
    }
    let message = format!(
        "the machine was changed after BareMetalHost {} was told what to run: {}; the host is not installed anew: replace the \
         Machine to have that",
        host.name_any(),
        differences.join(", ")
    );
    if draft.is_news(UP_TO_DATE, MACHINE_CHANGED) {
        draft.note(Severity::Normal, MACHINE_CHANGED, message.clone());
    }
    draft.up_to_date(Some((MACHINE_CHANGED, &message)));
}

/// The host has been told something else than this machine wants. That is left as it is: whoever did it had a reason, and
/// what runs on the host is not known.
fn changed(draft: &mut Draft<'_>, host: &BareMetalHost, edits: &Edits) -> String {
    let all: Vec<&str> = edits.installed.iter().chain(&edits.given).map(String::as_str).collect();
    let (name, machine) = (host.name_any(), draft.seen.machine.name_any());
    let machine = draft.seen.owner.found().map_or(machine, |owner| owner.name_any());
    let message = format!(
        "BareMetalHost {name} is not as this machine wants it: {}; put that back, or delete Machine {machine} to have it \
         replaced",
        all.join(", ")
    );
    if draft.is_unsaid(condition::READY, &message) {
        draft.note(Severity::Warning, CHANGED, message.clone());
    }
    message
}

fn report(draft: &mut Draft<'_>, host: &BareMetalHost, is_told: bool, waits: Option<&str>, edits: &Edits) {
    let name = host.name_any();
    let error = words::error_of(host).map(|error| format!("BareMetalHost {name}: {error}"));
    let state = words::state(host);
    let changed = (!edits.is_empty()).then(|| changed(draft, host, edits));
    match waits {
        // The condition for data has said it.
        Some("") => {}
        Some(message) => draft.not_ready(Why {
            reason: "NotReady",
            legacy: "NotReady",
            severity: LegacySeverity::Warning,
            message,
        }),
        None if let Some(message) = &changed
            && (!edits.installed.is_empty() || state != ProvisioningState::Provisioned) =>
        {
            draft.not_ready(Why {
                reason: CHANGED,
                legacy: CHANGED,
                severity: LegacySeverity::Error,
                message,
            });
        }
        None if is_told && state == ProvisioningState::Provisioned => {
            let id = match node::follow(draft, &name) {
                Ok(id) => id,
                Err((reason, message)) => {
                    return draft.not_ready(Why {
                        reason,
                        legacy: reason,
                        severity: LegacySeverity::Info,
                        message: &message,
                    });
                }
            };
            if draft.seen.machine.spec.provider_id.is_empty() {
                draft.spec.insert("providerID".to_owned(), id.into());
            }
            if draft.status.initialization.provisioned != Some(true) {
                let seen = draft.seen;
                draft.status.initialization.provisioned = Some(true);
                // Of a host that ran at once nobody was told that it is on its way.
                if seen.was_associated() {
                    let message = format!("BareMetalHost {name} is provisioned");
                    draft.note(Severity::Normal, "Provisioned", message);
                }
            }
            draft.ready(&changed.or(error).unwrap_or_default());
        }
        None => unready(draft, host, error),
    }
}

/// The host is on its way, or has failed.
fn unready(draft: &mut Draft<'_>, host: &BareMetalHost, error: Option<String>) {
    let held_up = words::held_up(host);
    let (reason, severity, message) = if let Some(error) = error {
        (HOST_ERROR, LegacySeverity::Warning, format!("{error}{held_up}"))
    } else {
        let (name, state) = (host.name_any(), words::state(host));
        let message = format!(
            "waiting until BareMetalHost {name} is provisioned: it is {}{held_up}",
            words::word(&state)
        );
        ("NotReady", LegacySeverity::Info, message)
    };
    if reason != HOST_ERROR && held_up.is_empty() {
        draft.patience = patience(draft);
    }
    if reason == HOST_ERROR && draft.is_news(condition::READY, HOST_ERROR) {
        draft.note(Severity::Warning, HOST_ERROR, message.clone());
    }
    draft.not_ready(Why {
        reason,
        legacy: reason,
        severity,
        message: &message,
    });
}

/// How much longer a host that is on its way need not be told of. Each write begins the wait anew.
fn patience(draft: &Draft<'_>) -> Option<Duration> {
    let step = draft.seen.untold.filter(|_| !draft.seen.says_host())?;
    let is_written = draft.effects.iter().any(|effect| matches!(effect, Effect::Host { .. }));
    step.patience(is_written)
}

/// Where the host is reached: the addresses that its inspection found, each once.
fn addresses(host: &BareMetalHost) -> Vec<MachineAddress> {
    let hardware = host.status.as_ref().and_then(|status| status.hardware.as_ref());
    let Some(hardware) = hardware else { return Vec::new() };
    let address = |type_, address: &String| MachineAddress {
        type_,
        address: address.clone(),
    };
    let types = [MachineAddressType::Hostname, MachineAddressType::InternalDns];
    let names: Vec<MachineAddress> = types
        .into_iter()
        .filter(|_| !hardware.hostname.is_empty())
        .map(|type_| address(type_, &hardware.hostname))
        .collect();
    let mut seen = HashSet::new();
    let ips = hardware.nics.iter().map(|nic| &nic.ip).filter(|ip| !ip.is_empty());
    let ips = ips.filter(|ip| seen.insert(*ip)).take(MOST_ADDRESSES - names.len());
    let ips = ips.map(|ip| address(MachineAddressType::InternalIp, ip));
    ips.chain(names).collect()
}
