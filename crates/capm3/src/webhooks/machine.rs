//! Metal3Machine and Metal3MachineTemplate.

use metal3_api::infra::v1beta2::{Metal3Machine, Metal3MachineSpec, Metal3MachineTemplate};
use metal3_api::reference::{Elsewhere, SecretReference};
use metal3_runtime::webhook::{FieldError, Rules};

use super::image;

pub const RULES: Rules<Metal3Machine> = Rules::of(|machine| {
    let foreign = foreign_secrets(&machine.spec, "spec", machine.metadata.namespace.as_deref(), "");
    image::shape(&machine.spec, "spec").into_iter().chain(foreign).collect()
});

/// Foreign Secrets are only warned of, as upstream admits them here: a template that is stored already can be moved and restored.
/// The rule for machines keeps them from being used.
pub const TEMPLATE_RULES: Rules<Metal3MachineTemplate> = Rules {
    warnings: |template| {
        let own = template.metadata.namespace.as_deref();
        foreign_secrets(
            &template.spec.template.spec,
            TEMPLATE,
            own,
            ": machines of this template will be rejected",
        )
    },
    ..Rules::of(|template| image::shape(&template.spec.template.spec, TEMPLATE))
};

const TEMPLATE: &str = "spec.template.spec";

/// Secrets in other namespaces than the object's own.
fn foreign_secrets(spec: &Metal3MachineSpec, path: &str, own: Option<&str>, so: &str) -> Vec<FieldError> {
    let own = own.unwrap_or_default();
    let secrets = [
        ("userData", &spec.user_data),
        ("metaData", &spec.meta_data),
        ("networkData", &spec.network_data),
    ];
    let problem = |(name, secret): (&str, &Option<SecretReference>)| {
        let secret = secret.as_ref()?;
        let Elsewhere(namespace) = secret.local(own).err()?;
        // With the name, so that the error of a stored object does not excuse another Secret.
        let of = &secret.name;
        let message =
            format!("{namespace:?} is another namespace than the object's own ({own:?}) for Secret {of:?}{so}");
        Some(FieldError::new(format!("{path}.{name}.namespace"), message))
    };
    secrets.into_iter().filter_map(problem).collect()
}
