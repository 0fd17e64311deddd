//! Metadata and network data: from Secrets that the user names, or rendered from a template.

use std::time::Duration;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataClaimSpec, Metal3Machine, ObjectRef};
use metal3_api::reference::SecretReference;
use metal3_runtime::events::Severity;

use super::draft::{Draft, Why};
use super::installed;
use crate::conditions::LegacySeverity;
use crate::data_template::observed::machine_of;
use crate::machine::decide::plan::Effect;
use crate::machine::names::DATA_READY;
use crate::machine::observed::{Host, Observed};

/// The Secrets to use.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sources {
    pub meta_data: Option<SecretReference>,
    pub network_data: Option<SecretReference>,
}

/// The Secrets, if all are known; else what is waited for has been said. A Secret that the user names goes before one that
/// is rendered.
pub(super) fn sources(draft: &mut Draft<'_>) -> Option<Sources> {
    draft.wish_for_data(None);
    let seen = draft.seen;
    let namespace = seen.key().namespace;
    let here = |reference: &Option<SecretReference>| {
        let named = reference.as_ref().filter(|reference| !reference.name.is_empty());
        named.map(|reference| SecretReference {
            name: reference.name.clone(),
            namespace: namespace.clone(),
        })
    };
    let spec = &seen.machine.spec;
    let mut sources = Sources {
        meta_data: here(&spec.meta_data),
        network_data: here(&spec.network_data),
    };
    if spec.data_template.name.is_empty() || (is_late(seen) && !is_lost(seen)) {
        draft.status.rendered_data = ObjectRef::default();
        draft.data(Ok("SecretsSetExternally"));
        return Some(sources);
    }
    let data = match rendered(draft) {
        Ok(data) => data,
        Err(message) => {
            let (reason, severity) = if is_lost(seen) {
                (LOST, LegacySeverity::Warning)
            } else {
                (WAITING, LegacySeverity::Info)
            };
            if reason == LOST && draft.is_news(DATA_READY, LOST) {
                draft.note(Severity::Warning, LOST, message.clone());
            }
            draft.data(Err(Why {
                reason,
                legacy: reason,
                severity,
                message: &message,
            }));
            return None;
        }
    };
    draft.data(Ok("Metal3DataSecretsReady"));
    draft.status.rendered_data = ObjectRef {
        name: data.name_any(),
        namespace: namespace.clone(),
    };
    sources.meta_data = sources.meta_data.or_else(|| here(&data.spec.meta_data));
    sources.network_data = sources.network_data.or_else(|| here(&data.spec.network_data));
    Some(sources)
}

/// Reason of the condition for data while that is rendered.
const WAITING: &str = "WaitingForMetal3Data";
/// The same, and that of an event, when nobody asks any more for the data that a host has.
const LOST: &str = "Metal3DataClaimMissing";

/// Whether it is too late to ask for data: the host has been told what to run, with data or without.
fn is_late(seen: &Observed) -> bool {
    seen.claim.is_none() && !seen.machine.spec.data_template.name.is_empty() && is_told(seen)
}

/// Whether the host of the machine knows what to run, or has known it.
fn is_told(seen: &Observed) -> bool {
    seen.was_provisioned() || matches!(&seen.host, Host::Ours(host) if installed::is_told(host))
}

/// The same where the machine had data, and its claim on that is gone.
fn is_lost(seen: &Observed) -> bool {
    is_late(seen) && matches!(&seen.host, Host::Ours(host) if installed::had_data(host, &seen.machine))
}

/// The rendered data, or what it waits for.
fn rendered<'a>(draft: &Draft<'a>) -> Result<&'a Metal3Data, String> {
    let seen = draft.seen;
    let template = &seen.machine.spec.data_template.name;
    if is_lost(seen) {
        return Err(format!(
            "there is no Metal3DataClaim {} any more. Another one would ask for other addresses than those that the host was told, \
             and is not made; others may be given these: replace the Machine",
            seen.key().name
        ));
    }
    let Some(claim) = &seen.claim else {
        return Err(format!("asking Metal3DataTemplate {template} for data"));
    };
    let name = claim.name_any();
    if seen.own_claim().is_none() {
        let owner = machine_of(claim).map_or_else(
            || "no Metal3Machine".to_owned(),
            |owner| format!("Metal3Machine {} with UID {}", owner.name, owner.uid),
        );
        return Err(format!(
            "waiting until Metal3DataClaim {name} is gone, which belongs to {owner} and not to this one: delete it if nobody \
             needs it"
        ));
    }
    // One that the host was told the data of is kept until the machine goes, whoever wants to delete it.
    if claim.metadata.deletion_timestamp.is_some() && !is_told(seen) {
        return Err(format!("waiting until the earlier Metal3DataClaim {name} is gone"));
    }
    let status = claim.status.clone().unwrap_or_default();
    if !status.error_message.is_empty() {
        return Err(format!("Metal3DataClaim {name}: {}", status.error_message));
    }
    let rendered = &status.rendered_data.name;
    if rendered.is_empty() {
        return Err(format!(
            "waiting for Metal3DataTemplate {template} to answer Metal3DataClaim {name}"
        ));
    }
    let Some(data) = &seen.data else {
        return Err(format!(
            "waiting for Metal3Data {rendered}, which Metal3DataClaim {name} names"
        ));
    };
    let status = data.status.clone().unwrap_or_default();
    if status.ready == Some(true) {
        return Ok(data);
    }
    Err(if status.error_message.is_empty() {
        format!("waiting until Metal3Data {rendered} is rendered")
    } else {
        format!("Metal3Data {rendered}: {}", status.error_message)
    })
}

/// A wait for data that is shorter than this is not told: it would cost a write for each step of whoever renders.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How much longer the data may take before it is told that it is waited for. None if something is wrong with it.
pub(super) fn patience(draft: &Draft<'_>) -> Option<Duration> {
    let seen = draft.seen;
    let Some(claim) = &seen.claim else {
        return Some(PATIENCE);
    };
    let of_claim = claim.status.as_ref().map(|status| &status.error_message);
    let of_data = seen.data.as_ref().and_then(|data| data.status.as_ref());
    let of_data = of_data.map(|status| &status.error_message);
    let is_wrong = of_claim.into_iter().chain(of_data).any(|message| !message.is_empty());
    if is_wrong || seen.own_claim().is_none() || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let made: Timestamp = claim.creation_timestamp()?.0;
    let age = Duration::try_from(draft.now.duration_since(made)).ok()?;
    PATIENCE.checked_sub(age).filter(|left| !left.is_zero())
}

/// Asks for data, if a template is named and nobody has asked yet. Not for a host that knows what to run: what it has been told
/// cannot be changed any more. A claim that somebody deletes before that is let go, and made again when it is gone.
pub(super) fn ask(draft: &mut Draft<'_>) {
    let seen = draft.seen;
    if seen.claim.is_none() && !is_late(seen) && !seen.machine.spec.data_template.name.is_empty() {
        let claim = claim_for(&seen.machine);
        draft.effects.push(Effect::CreateClaim(Box::new(claim)));
    }
    let is_held = |claim: &Metal3DataClaim| {
        let is_ours = |present: &String| present == finalizer::MACHINE;
        claim.metadata.deletion_timestamp.is_some() && claim.finalizers().iter().any(is_ours)
    };
    if let Some(claim) = seen.own_claim().filter(|claim| is_held(claim) && !is_told(seen)) {
        draft.effects.push(Effect::DeleteClaim(claim.clone()));
    }
}

/// The wish of a machine: it has its name and its labels, and stays until the machine and whoever answers it let it go.
fn claim_for(machine: &Metal3Machine) -> Metal3DataClaim {
    let spec = Metal3DataClaimSpec {
        template: ObjectRef {
            name: machine.spec.data_template.name.clone(),
            namespace: machine.namespace().unwrap_or_default(),
        },
    };
    let mut claim = Metal3DataClaim::new(&machine.name_any(), spec);
    claim.metadata.namespace = machine.namespace();
    claim.metadata.labels.clone_from(&machine.metadata.labels);
    claim.metadata.finalizers = Some(vec![finalizer::MACHINE.to_owned(), finalizer::DATA_CLAIM.to_owned()]);
    claim.metadata.owner_references = machine.controller_owner_ref(&()).map(|owner| vec![owner]);
    claim
}
