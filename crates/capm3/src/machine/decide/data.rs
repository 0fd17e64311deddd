//! Metadata and network data: from Secrets given by the user, or rendered from a template.

use std::time::Duration;

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::{Metal3Data, Metal3DataClaim, Metal3DataClaimSpec, Metal3Machine, ObjectRef};
use metal3_api::reference::SecretReference;
use metal3_runtime::controller::Next;
use metal3_runtime::events::Event;
use metal3_runtime::timing::provider::RENDERED;

use super::builder::{PlanBuilder, Why};
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

/// The Secrets, if all are known; otherwise what is pending has been reported. A Secret given by the user takes precedence over a
/// rendered one.
pub(super) fn sources(builder: &mut PlanBuilder<'_>) -> Option<Sources> {
    builder.data_claim(None);
    let seen = builder.seen;
    let namespace = seen.key().namespace;
    let here = |reference: &Option<SecretReference>| {
        let named = reference.as_ref().filter(|reference| !reference.name.is_empty());
        named.map(|reference| SecretReference {
            name: reference.name.clone(),
            namespace: namespace.clone().into(),
        })
    };
    let spec = &seen.machine.spec;
    let mut sources = Sources {
        meta_data: here(&spec.meta_data),
        network_data: here(&spec.network_data),
    };
    if spec.data_template.name.is_empty() || (is_late(seen) && !is_lost(seen)) {
        builder.status.rendered_data = ObjectRef::default();
        builder.data(Ok("SecretsSetExternally"));
        return Some(sources);
    }
    let data = match rendered(builder.seen) {
        Ok(data) => data,
        Err(lack) => {
            let message = lack.text(builder);
            let (reason, severity) = if is_lost(seen) {
                (LOST, LegacySeverity::Warning)
            } else {
                (WAITING, LegacySeverity::Info)
            };
            if reason == LOST {
                builder.event_once(DATA_READY, Event::warning(LOST, message.clone()));
            }
            builder.data(Err(Why::of(reason, severity, &message)));
            return None;
        }
    };
    builder.data(Ok("Metal3DataSecretsReady"));
    builder.status.rendered_data = ObjectRef {
        name: data.name_any(),
        namespace: namespace.clone().into(),
    };
    sources.meta_data = sources.meta_data.or_else(|| here(&data.spec.meta_data));
    sources.network_data = sources.network_data.or_else(|| here(&data.spec.network_data));
    Some(sources)
}

/// Reason of the data condition while rendering.
const WAITING: &str = "WaitingForMetal3Data";
/// Reason of the condition and of an event when the data claim of a provisioned host is gone.
const LOST: &str = "Metal3DataClaimMissing";

/// Whether it is too late to request data: the host already has its image, with or without data.
fn is_late(seen: &Observed) -> bool {
    seen.claim.is_none() && !seen.machine.spec.data_template.name.is_empty() && is_told(seen)
}

/// Whether the machine's host has, or had, its image set.
fn is_told(seen: &Observed) -> bool {
    seen.was_provisioned() || matches!(&seen.host, Host::Ours(host) if host.has_image())
}

/// The same for a machine that had data and whose data claim is gone.
fn is_lost(seen: &Observed) -> bool {
    is_late(seen) && matches!(&seen.host, Host::Ours(host) if installed::had_data(host, &seen.machine))
}

/// Why there is no data yet.
enum Lack {
    /// A step is not done yet.
    Step(String),
    /// An error blocks it.
    Problem(String),
}

impl Lack {
    /// The message. It names the step only if the data takes long, because each new message costs a write.
    fn text(self, builder: &mut PlanBuilder<'_>) -> String {
        match self {
            Self::Problem(text) => text,
            Self::Step(text) => match time_to_render(builder) {
                Some(left) => {
                    builder.next = Next::After(left);
                    let template = &builder.seen.machine.spec.data_template.name;
                    format!("waiting for Metal3DataTemplate {template} to render the data")
                }
                None => text,
            },
        }
    }
}

/// The delay before a message names the step.
fn time_to_render(builder: &PlanBuilder<'_>) -> Option<Duration> {
    let Some(claim) = &builder.seen.claim else {
        return Some(RENDERED);
    };
    let made: Timestamp = claim.creation_timestamp()?.0;
    let age = Duration::try_from(builder.now.duration_since(made)).ok()?;
    RENDERED.checked_sub(age).filter(|left| !left.is_zero())
}

/// The rendered data, or what it waits for.
fn rendered(seen: &Observed) -> Result<&Metal3Data, Lack> {
    let template = &seen.machine.spec.data_template.name;
    if is_lost(seen) {
        return Err(Lack::Problem(format!(
            "there is no Metal3DataClaim {} any more. Another one would ask for other addresses than those that the host was told, \
             and is not made; others may be given these: replace the Machine",
            seen.key().name
        )));
    }
    let Some(claim) = &seen.claim else {
        return Err(Lack::Step(format!("asking Metal3DataTemplate {template} for data")));
    };
    let name = claim.name_any();
    if seen.own_claim().is_none() {
        let owner = machine_of(claim).map_or_else(
            || "no Metal3Machine".to_owned(),
            |owner| format!("Metal3Machine {} with UID {}", owner.name, owner.uid),
        );
        return Err(Lack::Problem(format!(
            "waiting until Metal3DataClaim {name} is gone, which belongs to {owner} and not to this one: delete it if nobody \
             needs it"
        )));
    }
    // If the host already uses the data, the machine holds the claim until its own deletion, even if a user deletes it.
    if claim.metadata.deletion_timestamp.is_some() && !is_told(seen) {
        return Err(Lack::Problem(format!(
            "waiting until the earlier Metal3DataClaim {name} is gone"
        )));
    }
    let status = claim.status.clone().unwrap_or_default();
    if !status.error_message.is_empty() {
        return Err(Lack::Problem(format!(
            "Metal3DataClaim {name}: {}",
            status.error_message
        )));
    }
    let rendered = &status.rendered_data.name;
    if rendered.is_empty() {
        return Err(Lack::Step(format!(
            "waiting for Metal3DataTemplate {template} to answer Metal3DataClaim {name}"
        )));
    }
    let Some(data) = &seen.data else {
        return Err(Lack::Step(format!(
            "waiting for Metal3Data {rendered}, which Metal3DataClaim {name} names"
        )));
    };
    let status = data.status.clone().unwrap_or_default();
    if status.ready == Some(true) {
        return Ok(data);
    }
    Err(if status.error_message.is_empty() {
        Lack::Step(format!("waiting until Metal3Data {rendered} is rendered"))
    } else {
        Lack::Problem(format!("Metal3Data {rendered}: {}", status.error_message))
    })
}

/// Creates the data claim, if a template is set and no claim exists. Not once the host has its image: its data cannot change any
/// more. A claim deleted before that is released, and created again once it is gone.
pub(super) fn ask(builder: &mut PlanBuilder<'_>) {
    let seen = builder.seen;
    if seen.claim.is_none() && !is_late(seen) && !seen.machine.spec.data_template.name.is_empty() {
        let claim = claim_for(&seen.machine);
        builder.effects.push(Effect::CreateClaim(Box::new(claim)));
    }
    let is_held = |claim: &Metal3DataClaim| {
        let is_ours = |present: &String| present == finalizer::MACHINE;
        claim.metadata.deletion_timestamp.is_some() && claim.finalizers().iter().any(is_ours)
    };
    if let Some(claim) = seen.own_claim().filter(|claim| is_held(claim) && !is_told(seen)) {
        builder.effects.push(Effect::DeleteClaim(claim.clone()));
    }
}

/// The data claim of a machine: it has the machine's name and labels, and exists until the machine and the template controller
/// release it.
fn claim_for(machine: &Metal3Machine) -> Metal3DataClaim {
    let spec = Metal3DataClaimSpec {
        template: ObjectRef {
            name: machine.spec.data_template.name.clone(),
            namespace: machine.namespace().unwrap_or_default().into(),
        },
    };
    let mut claim = Metal3DataClaim::new(&machine.name_any(), spec);
    claim.metadata.namespace = machine.namespace();
    claim.metadata.labels.clone_from(&machine.metadata.labels);
    claim.metadata.finalizers = Some(vec![finalizer::MACHINE.to_owned(), finalizer::DATA_CLAIM.to_owned()]);
    claim.metadata.owner_references = machine.controller_owner_ref(&()).map(|owner| vec![owner]);
    claim
}
