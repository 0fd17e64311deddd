//! A machine with a host: sets the host's image and reports its progress to Cluster API.

use std::collections::HashSet;

use kube::ResourceExt;
use metal3_api::capi::names::condition;
use metal3_api::infra::names::label;
use metal3_api::infra::v1beta2::{MachineAddress, MachineAddressType};
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_runtime::controller::Next;
use metal3_runtime::events::Event;
use serde_json::Value;

use super::associate;
use super::builder::{PlanBuilder, Why};
use super::data;
use super::host_spec;
use super::installed::{self, Edits, Installed};
use super::node;
use super::pause;
use super::preview;
use super::waits;
use super::words;
use crate::conditions::LegacySeverity;
use crate::machine::decide::plan::{Decision, HostPatch, Read};
use crate::machine::names::{CLAIMED, UP_TO_DATE};
use crate::stores::host::MOST_ADDRESSES;

/// Reason of Ready while the host reports an error.
const HOST_ERROR: &str = "BareMetalHostError";

/// Reason of the condition and of an event: the machine has changed since its host was provisioned.
const MACHINE_CHANGED: &str = "MachineSpecChanged";
/// Reason of Ready and of an event: another client has changed the host's image or data.
const CHANGED: &str = "BareMetalHostChanged";

pub(super) fn decide(mut builder: PlanBuilder<'_>, host: &BareMetalHost) -> Decision {
    let seen = builder.seen;
    let mut patch = HostPatch::default();
    builder.failure(None);
    builder.associated(host, CLAIMED, None);
    pause::release(&mut patch, seen, host);
    host_spec::identify(&mut patch, &seen.machine, host);
    if host.labels().contains_key(label::NODE_REUSE) {
        patch.label(label::NODE_REUSE, Value::Null);
    }
    if seen.machine.spec.automated_cleaning_mode.as_ref() != Some(&host.spec.automated_cleaning_mode) {
        host_spec::cleaning(&mut patch, &seen.machine);
    }
    builder.status.addresses = addresses(host);
    let is_told = host.has_image();
    let was_provisioned = seen.was_provisioned();
    let mut edits = Edits::default();
    let waits = if is_told {
        edits = follow(&mut builder, &mut patch, host, was_provisioned);
        None
    } else if was_provisioned {
        let name = host.name_any();
        Some(format!(
            "BareMetalHost {name} has no image any more; what ran on it is not installed again: delete the Machine to have \
             it replaced"
        ))
    } else {
        match tell(&mut builder, &mut patch) {
            Ok(waits) => waits,
            Err(need) => return Decision::Fetch(need),
        }
    };
    if let Some(owner) = seen.owner.found() {
        associate::choose(&mut builder, owner, host);
    }
    builder.write_host(host, &patch, "set up the host");
    data::ask(&mut builder);
    report(&mut builder, host, is_told, waits.as_deref(), &edits);
    builder.plan()
}

/// The host has no image yet. Returns what is awaited, or an empty text if the conditions already report it.
fn tell(builder: &mut PlanBuilder<'_>, patch: &mut HostPatch) -> Result<Option<String>, Read> {
    let Some(owner) = builder.seen.owner.found() else {
        return Ok(Some("the Machine that this belongs to does not exist".to_owned()));
    };
    if waits::bootstrap_secret(owner).is_none() {
        return Ok(Some(format!(
            "waiting for the bootstrap data of Machine {}",
            owner.name_any()
        )));
    }
    if let Err(message) = host_spec::check(&builder.seen.machine) {
        builder.failure(Some(("InvalidConfiguration", &message)));
        return Ok(Some(message));
    }
    if let Some(missing) = waits::missing_secrets(builder)? {
        return Ok(Some(missing));
    }
    let Some(sources) = data::sources(builder) else {
        return Ok(Some(String::new()));
    };
    if let Some(objection) = preview::objection(builder, owner, &sources)? {
        return Ok(Some(objection));
    }
    host_spec::remember(builder, owner, &sources);
    // A machine whose status has this host never references another. Before that, another process may point it at a different
    // host.
    if builder.seen.says_host() {
        host_spec::run(patch, builder, owner, &sources);
    } else {
        builder.next = Next::Now;
    }
    Ok(None)
}

/// The host has its image, or a different one if it was edited.
fn follow(builder: &mut PlanBuilder<'_>, patch: &mut HostPatch, host: &BareMetalHost, was_provisioned: bool) -> Edits {
    // A user who powers off a running machine wants it off. Before it runs, being off would block provisioning.
    if !host.spec.online && !was_provisioned && words::state(host) != ProvisioningState::Provisioned {
        patch.set("online", true);
    }
    let (sources, owner) = (data::sources(builder), builder.seen.owner.found());
    let owner = owner.map(|owner| &**owner);
    let edits = installed::edits(host, &builder.seen.machine, owner, sources.as_ref());
    let changes = installed::drift(host, &builder.seen.machine, owner, sources.as_ref());
    drifted(builder, host, &changes);
    if edits.is_empty() {
        match (Installed::kept(host).and_then(|kept| kept.given), &sources, owner) {
            (Some(given), _, _) => host_spec::remember_told(builder, &given),
            (None, Some(sources), Some(owner)) => host_spec::remember(builder, owner, sources),
            (None, _, _) => {}
        }
    }
    edits
}

/// The machine was changed after its host was provisioned: by Cluster API, which updates machines in place, or by a user. Nothing
/// is reinstalled, and readiness does not change.
fn drifted(builder: &mut PlanBuilder<'_>, host: &BareMetalHost, differences: &[String]) {
    if differences.is_empty() {
        return builder.up_to_date(None);
    }
    let message = format!(
        "the machine was changed after BareMetalHost {} was told what to run: {}; the host is not installed anew: replace the \
         Machine to have that",
        host.name_any(),
        differences.join(", ")
    );
    builder.event_once(UP_TO_DATE, Event::normal(MACHINE_CHANGED, message.clone()));
    builder.up_to_date(Some((MACHINE_CHANGED, &message)));
}

/// The host's image or data differs from what this machine requests. It is left unchanged: the edit may be deliberate, and what
/// runs on the host is unknown.
fn changed(builder: &mut PlanBuilder<'_>, host: &BareMetalHost, edits: &Edits) -> String {
    let all: Vec<&str> = edits.installed.iter().chain(&edits.given).map(String::as_str).collect();
    let (name, machine) = (host.name_any(), builder.seen.machine.name_any());
    let machine = builder.seen.owner.found().map_or(machine, |owner| owner.name_any());
    let message = format!(
        "BareMetalHost {name} is not as this machine wants it: {}; put that back, or delete Machine {machine} to have it \
         replaced",
        all.join(", ")
    );
    if builder.is_new_message(condition::READY, &message) {
        builder.event(Event::warning(CHANGED, message.clone()));
    }
    message
}

fn report(builder: &mut PlanBuilder<'_>, host: &BareMetalHost, is_told: bool, waits: Option<&str>, edits: &Edits) {
    let name = host.name_any();
    let error = words::error_of(host).map(|error| format!("BareMetalHost {name}: {error}"));
    let state = words::state(host);
    let changed = (!edits.is_empty()).then(|| changed(builder, host, edits));
    match waits {
        // The data condition reports it.
        Some("") => {}
        Some(message) => builder.not_ready(Why::of("NotReady", LegacySeverity::Warning, message)),
        None if let Some(message) = &changed
            && (!edits.installed.is_empty() || state != ProvisioningState::Provisioned) =>
        {
            builder.not_ready(Why::of(CHANGED, LegacySeverity::Error, message));
        }
        None if is_told && state == ProvisioningState::Provisioned => {
            let id = match node::follow(builder, &name) {
                Ok(id) => id,
                Err((reason, message)) => {
                    return builder.not_ready(Why::of(reason, LegacySeverity::Info, &message));
                }
            };
            if builder.seen.machine.spec.provider_id.is_empty() {
                builder.spec.insert("providerID".to_owned(), id.into());
            }
            if builder.status.initialization.provisioned != Some(true) {
                builder.status.initialization.provisioned = Some(true);
                let message = format!("BareMetalHost {name} is provisioned");
                builder.event(Event::normal("Provisioned", message));
            }
            builder.ready(&changed.or(error).unwrap_or_default());
        }
        None if let Some(error) = error => failed(builder, host, &error),
        None => on_its_way(builder, host),
    }
}

fn failed(builder: &mut PlanBuilder<'_>, host: &BareMetalHost, error: &str) {
    let message = format!("{error}{}", words::held_up(host));
    builder.event_once(condition::READY, Event::warning(HOST_ERROR, message.clone()));
    builder.not_ready(Why::of(HOST_ERROR, LegacySeverity::Warning, &message));
}

/// The host is being provisioned, or is about to be.
pub(super) fn on_its_way(builder: &mut PlanBuilder<'_>, host: &BareMetalHost) {
    let (mut state, held_up) = (words::state(host), words::held_up(host));
    // It continues as soon as the operator reconciles it, which does not justify a status write.
    if matches!(state, ProvisioningState::Available | ProvisioningState::Ready) && held_up.is_empty() {
        state = ProvisioningState::Provisioning;
    }
    let (name, state) = (host.name_any(), words::word(&state));
    let message = format!("waiting until BareMetalHost {name} is provisioned: it is {state}{held_up}");
    builder.not_ready(Why::of("NotReady", LegacySeverity::Info, &message));
}

/// The host's addresses: those found by inspection, without duplicates.
pub(super) fn addresses(host: &BareMetalHost) -> Vec<MachineAddress> {
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
