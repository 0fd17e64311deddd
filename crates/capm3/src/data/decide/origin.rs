//! From what data was rendered. An annotation keeps the digest of it, so that a Secret that is lost comes back as it was or not at
//! all: templates can be edited where no rule of the API server keeps them as they are, such as in v1beta1.

use kube::ResourceExt;
use metal3_api::infra::names::annotation::RENDERED_FROM;
use metal3_api::infra::v1beta2::Metal3DataTemplate;
use metal3_runtime::events::{Note, Severity};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::effect::Secret;
use super::super::observed::Observed;

/// SHA-256 of what a template says of metadata and network data, in hexadecimal digits.
pub fn digest(template: &Metal3DataTemplate) -> String {
    let spec = &template.spec;
    let text = json!([spec.meta_data, spec.network_data]).to_string();
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn noted(seen: &Observed) -> Option<&String> {
    seen.data.annotations().get(RENDERED_FROM)
}

fn was_ready(seen: &Observed) -> bool {
    seen.data.status.as_ref().and_then(|status| status.ready) == Some(true)
}

/// What is to be noted of the template. It is noted once, and not after a Secret was made: nobody knows from what.
pub fn to_note(seen: &Observed, template: &Metal3DataTemplate) -> Option<String> {
    let is_made = was_ready(seen) || seen.secrets.iter().any(|secret| seen.owns(secret));
    (noted(seen).is_none() && !is_made).then(|| digest(template))
}

/// Refuses to render other data than before, for a Secret of this name.
pub fn check(seen: &Observed, template: &Metal3DataTemplate, secret: &str) -> Result<(), String> {
    let is_same = noted(seen).is_none_or(|noted| *noted == digest(template));
    if is_same {
        return Ok(());
    }
    Err(format!(
        "Metal3DataTemplate {} was edited after this data was asked for: Secret {secret}, which does not exist, could differ from \
         what the host was told. Replace the Machine; or, to have the Secret rendered from the template as it is, remove the \
         annotation {RENDERED_FROM} of this Metal3Data",
        template.name_any()
    ))
}

/// What is said of a Secret that was lost and rendered again. Where nothing was noted, an earlier version rendered it: then only
/// the generation of the template tells that it was edited at some time.
pub fn rendered_again(seen: &Observed, secret: &Secret) -> Option<Note> {
    let template = seen.template.as_deref().filter(|_| was_ready(seen))?;
    let generation = template.metadata.generation.unwrap_or_default();
    let is_doubtful = noted(seen).is_none() && generation > 1;
    let mut message = format!(
        "Secret {} was lost and is rendered again from Metal3DataTemplate {}",
        secret.name,
        template.name_any()
    );
    if is_doubtful {
        message += &format!(
            ", which was edited after it was made (its generation is {generation}): the host may run with other data; compare \
             them, or replace the Machine"
        );
    }
    let severity = if is_doubtful {
        Severity::Warning
    } else {
        Severity::Normal
    };
    Some(Note {
        reason: "RenderedAgain",
        message,
        severity,
    })
}
