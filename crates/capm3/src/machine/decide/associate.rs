//! A machine without a host: what it waits for, and how it gets one.

use kube::ResourceExt;
use metal3_api::capi::names::reason;
use metal3_api::capi::{self, Machine};
use metal3_api::infra::names::{annotation, finalizer};
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::controller::Next;
use metal3_runtime::events::Event;
use serde_json::json;

use super::builder::{PlanBuilder, Why, has_finalizer};
use super::data;
use super::host_spec;
use super::provision;
use super::waits;
use crate::conditions::LegacySeverity;
use crate::machine::decide::plan::{Decision, HostPatch, Read};
use crate::machine::names::{ASSOCIATED, CLAIMED};
use crate::machine::observed::{Host, Observed};
use crate::select::Choice;
use crate::select::HostRequest;
use crate::select::Outcome;
use crate::select::selector;

/// On a Metal3Machine, usually set by its template: with the value true, hosts outside the failure domain are never chosen.
pub const STRICT_FAILURE_DOMAIN: &str = "infrastructure.cluster.x-k8s.io/strict-failure-domain";

const FAILED: &str = "AssociateBareMetalHostFailed";
const FAILED_LEGACY: &str = "AssociateBMHFailed";

pub(super) fn decide(mut builder: PlanBuilder<'_>) -> Decision {
    if let Host::Missing(_) | Host::Foreign(..) = &builder.seen.host {
        return unname(builder);
    }
    let owner = match waits::waits(builder.seen) {
        Ok(owner) => owner,
        Err(wait) => {
            waits::say(&mut builder, &wait);
            return builder.plan();
        }
    };
    match waits::missing_secrets(&builder) {
        Err(read) => return Decision::Fetch(read),
        Ok(None) => {}
        Ok(Some(message)) => {
            let wait = (reason::WAITING_FOR_BOOTSTRAP_DATA, "WaitingForBootstrapReady", message);
            waits::say(&mut builder, &wait);
            return builder.plan();
        }
    }
    let request = match request(builder.seen, owner) {
        Ok(request) => request,
        Err(message) => {
            refuse(&mut builder, &message, Some("InvalidConfiguration"));
            return builder.plan();
        }
    };
    let Some(choice) = &builder.seen.reads.choice else {
        return Decision::Fetch(Read::Host(Box::new(request)));
    };
    let chosen = match &choice.outcome {
        Outcome::Own(host) | Outcome::Chosen { host, .. } => Some(host),
        Outcome::Await(_) | Outcome::None => None,
    };
    let named = builder.seen.host.unclaimed();
    if named.is_some_and(|named| chosen.is_none_or(|chosen| chosen.metadata.name != named.metadata.name)) {
        // We name a host together with the finalizer.
        let is_by_user = !has_finalizer(&builder.seen.machine);
        if let Some(host) = named.filter(|host| is_by_user && is_deployed(host)) {
            let name = host.name_any();
            let message = format!(
                "BareMetalHost {name}, which annotation {} names, has an image and no spec.consumerRef, and a system that runs is not \
                 taken over: remove the annotation to have another host chosen, or the image to have this one deprovisioned",
                annotation::HOST
            );
            refuse(&mut builder, &message, None);
            return builder.plan();
        }
        return unname(builder);
    }
    match &choice.outcome {
        Outcome::Own(host) => choose(&mut builder, owner, host),
        Outcome::Chosen { host, is_reuse } => {
            choose(&mut builder, owner, host);
            claim(&mut builder, owner, host, *is_reuse, choice);
        }
        Outcome::Await(_) | Outcome::None => refuse(&mut builder, &choice.why, None),
    }
    builder.plan()
}

/// Whether the host is used by somebody without claiming it.
fn is_deployed(host: &BareMetalHost) -> bool {
    host.spec.consumer_ref.is_none() && (host.spec.image.is_some() || host.spec.custom_deploy.is_some())
}

/// Removes the reference to the host, so that the machine may choose again.
fn unname(mut builder: PlanBuilder<'_>) -> Decision {
    let annotations = json!({annotation::HOST: null});
    builder.metadata.insert("annotations".to_owned(), annotations);
    builder.next = Next::Now;
    builder.plan()
}

/// The requirements of a machine without a host, as far as they are known.
pub fn wanted(seen: &Observed) -> Option<HostRequest> {
    let is_going = seen.machine.metadata.deletion_timestamp.is_some() || seen.paused().is_some();
    let lacks_host = matches!(seen.host, Host::None | Host::Unclaimed(_)) && !seen.was_associated();
    if is_going || !lacks_host {
        return None;
    }
    request(seen, waits::waits(seen).ok()?).ok()
}

fn request(seen: &Observed, owner: &Machine) -> Result<HostRequest, String> {
    let machine = &*seen.machine;
    let selector = selector::parse(machine.spec.host_selector.as_ref()).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("; ")
    })?;
    host_spec::check(machine)?;
    let strict = machine.annotations().get(STRICT_FAILURE_DOMAIN);
    let domain = [&owner.spec.failure_domain, &machine.spec.failure_domain];
    let domain = domain.into_iter().find(|domain| !domain.is_empty());
    Ok(HostRequest {
        machine: seen.key(),
        uid: machine.uid().unwrap_or_default(),
        selector,
        failure_domain: domain.cloned().unwrap_or_default(),
        is_domain_strict: strict.is_some_and(|value| value == "true"),
        reuse: seen.kept_as.clone(),
    })
}

/// The machine references the host, guarded by the observed resource version, before it claims it.
pub(super) fn choose(builder: &mut PlanBuilder<'_>, owner: &Machine, host: &BareMetalHost) {
    let machine = &builder.seen.machine;
    let key = builder.seen.key();
    let chosen = format!("{}/{}", key.namespace, host.name_any());
    if !has_finalizer(machine) {
        let mut finalizers = machine.finalizers().to_vec();
        finalizers.push(finalizer::MACHINE.to_owned());
        builder.metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if machine.annotations().get(annotation::HOST) != Some(&chosen) {
        let annotations = json!({annotation::HOST: chosen});
        builder.metadata.insert("annotations".to_owned(), annotations);
    }
    let domain = &owner.spec.failure_domain;
    if !domain.is_empty() && *domain != machine.spec.failure_domain {
        builder.spec.insert("failureDomain".to_owned(), json!(domain));
    }
    let template = &machine.spec.data_template;
    if !template.name.is_empty() && template.namespace.is_empty() {
        let template = json!({"namespace": key.namespace});
        builder.spec.insert("dataTemplate".to_owned(), template);
    }
}

/// Claims the host and reports that at once. The host gets its image after the report is stored (see `provision`).
fn claim(builder: &mut PlanBuilder<'_>, owner: &Machine, host: &BareMetalHost, is_reuse: bool, choice: &Choice) {
    let mut patch = HostPatch::default();
    host_spec::take(&mut patch, &builder.seen.machine, &owner.spec.cluster_name);
    builder.claim_host(host, &patch);
    let reason = if is_reuse {
        "AssociateBareMetalHostViaNodeReuseSuccess"
    } else {
        CLAIMED
    };
    builder.failure(None);
    builder.status.addresses = provision::addresses(host);
    builder.associated(host, reason, Some(choice.considered));
    data::ask(builder);
    if let Some(sources) = data::sources(builder) {
        host_spec::remember(builder, owner, &sources);
        provision::on_its_way(builder, host);
    }
    builder.next = Next::Now;
}

/// Reports that there is no host, and why.
fn refuse(builder: &mut PlanBuilder<'_>, message: &str, failure: Option<&str>) {
    builder.event_once(ASSOCIATED, Event::warning(FAILED, message.to_owned()));
    let why = Why {
        reason: FAILED,
        legacy: FAILED_LEGACY,
        severity: LegacySeverity::Error,
        message,
    };
    builder.not_associated(why, failure);
}

/// The machine has lost its host. It is neither reclaimed nor replaced: another client did this, and what runs on the host is
/// unknown.
pub(super) fn lost(mut builder: PlanBuilder<'_>) -> Decision {
    let (host, what) = match &builder.seen.host {
        Host::None => (String::new(), String::new()),
        Host::Missing(host) => (host.clone(), "does not exist any more".to_owned()),
        Host::Foreign(host, other) => (host.name_any(), format!("is used by {} {} now", other.kind, other.name)),
        Host::Unclaimed(host) => (host.name_any(), "lost its spec.consumerRef".to_owned()),
        Host::Ours(_) => return Decision::idle(),
    };
    let after = match &builder.seen.host {
        Host::Unclaimed(_) => {
            ", once the host is deprovisioned (no spec.image): until then the Machine keeps its addresses"
        }
        Host::None | Host::Missing(_) | Host::Foreign(..) | Host::Ours(_) => "",
    };
    let name = builder.seen.key().name;
    let owner = builder.seen.owner.found();
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
             {name}), or delete Machine {replaced} to get another{after}"
        )
    };
    builder.event_once(capi::names::condition::READY, Event::warning(FAILED, message.clone()));
    builder.failure(Some(("UpdateError", &message)));
    builder.not_ready(Why {
        reason: FAILED,
        legacy: FAILED_LEGACY,
        severity: LegacySeverity::Error,
        message: &message,
    });
    builder.plan()
}
