//! Metal3Machine and Metal3MachineTemplate.

use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineSpec, Metal3MachineTemplate};
use metal3_api::reference::SecretReference;
use metal3_runtime::webhook::{FieldError, Rules};

use super::errors::error_if;
use super::image;

pub const RULES: Rules<Metal3Machine> = Rules::of(|machine| {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    shape(&machine.spec, "spec", namespace)
});

/// Upstream does not validate Secrets here, and then rejects every machine created from the template.
pub const TEMPLATE_RULES: Rules<Metal3MachineTemplate> = Rules::of(|template| {
    let namespace = template.metadata.namespace.as_deref().unwrap_or_default();
    shape(&template.spec.template.spec, "spec.template.spec", namespace)
});

fn shape(spec: &Metal3MachineSpec, path: &str, own: &str) -> Vec<FieldError> {
    let mut errors = image::shape(spec, path);
    let secrets = [
        ("userData", &spec.user_data),
        ("metaData", &spec.meta_data),
        ("networkData", &spec.network_data),
    ];
    for (name, secret) in secrets {
        let Some(SecretReference { namespace, name: of }) = secret else {
            continue;
        };
        // With the name, so that the error of a stored object does not excuse another Secret.
        let message = format!("{namespace:?} is another namespace than the object's own ({own:?}) for Secret {of:?}");
        let is_foreign = !namespace.is_empty() && namespace != own;
        errors.extend(error_if(is_foreign, &format!("{path}.{name}.namespace"), &message));
    }
    errors
}
