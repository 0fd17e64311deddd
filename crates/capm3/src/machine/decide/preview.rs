//! Checks a machine's boot data before its host gets it.

use kube::ResourceExt;
use metal3_api::capi::Machine;
use metal3_runtime::events::Event;

use super::builder::PlanBuilder;
use super::data::Sources;
use super::waits::bootstrap_secret;
use crate::machine::decide::plan::Read;
use crate::machine::names::BOOTSTRAP_DATA;
use crate::machine::preview::{Keys, Payload, Preview};

/// On a Metal3Machine, usually set by its template: with the value true, no host is provisioned with bootstrap data that uses
/// missing metadata keys.
pub const STRICT_BOOTSTRAP_DATA: &str = "infrastructure.cluster.x-k8s.io/strict-bootstrap-data";

const KEYS_MISSING: &str = "MetadataKeysMissing";
const NO_METADATA: &str = "MetadataUnreadable";

/// Why the host must not be provisioned yet, as text. Missing keys are always reported; waiting for them is opt-in.
pub(super) fn objection(
    builder: &mut PlanBuilder<'_>,
    owner: &Machine,
    sources: &Sources,
) -> Result<Option<String>, Read> {
    let Some(user_data) = bootstrap_secret(owner) else {
        return Ok(None);
    };
    let seen = builder.seen;
    let meta_data = sources.meta_data.as_ref().map(|secret| secret.name.as_str());
    let (reason, what) = match &seen.reads.preview {
        None => {
            return Err(Read::Preview(Payload {
                user_data: user_data.to_owned(),
                meta_data: meta_data.map(str::to_owned),
            }));
        }
        Some(Preview::Complete) => {
            builder.bootstrap_data(None);
            return Ok(None);
        }
        Some(Preview::NoMetadata(why)) => (
            NO_METADATA,
            format!("the bootstrap data of Secret {user_data} is a template, and {why}: mend it"),
        ),
        Some(Preview::Lacks(keys)) => (
            KEYS_MISSING,
            format!(
                "the bootstrap data of Secret {user_data} takes {} from the metadata, which has no such key: {}, or give it a \
                 default in the bootstrap data",
                Keys(keys),
                way_out(builder, meta_data)
            ),
        ),
    };
    let annotations = seen.machine.annotations();
    let is_strict = annotations
        .get(STRICT_BOOTSTRAP_DATA)
        .is_some_and(|value| value == "true");
    let message = if is_strict {
        format!("{what}; the host waits for that, as the annotation {STRICT_BOOTSTRAP_DATA} asks")
    } else {
        format!("{what}; the host is provisioned all the same")
    };
    builder.event_once(BOOTSTRAP_DATA, Event::warning(reason, message.clone()));
    builder.bootstrap_data(Some((reason, &message)));
    Ok(is_strict.then_some(message))
}

/// A template is immutable, and existing rendered metadata is not rewritten.
fn way_out(builder: &PlanBuilder<'_>, meta_data: Option<&str>) -> String {
    let spec = &builder.seen.machine.spec;
    let template = &spec.data_template.name;
    let is_users = spec.meta_data.as_ref().is_some_and(|secret| !secret.name.is_empty());
    match meta_data {
        Some(secret) if is_users => format!("add it to Secret {secret}"),
        None if template.is_empty() => "name a Metal3DataTemplate in spec.dataTemplate that has it".to_owned(),
        Some(_) | None => format!(
            "make a Metal3DataTemplate like {template} that has it, have the machine template name that one, and replace the Machine"
        ),
    }
}
