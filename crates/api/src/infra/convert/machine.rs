//! Metal3Machine and Metal3MachineTemplate.

use crate::infra::{v1beta1 as old, v1beta2 as new};
use crate::reference::ObjectReference;
use crate::wire::is_default;

/// Nothing, if it is empty.
pub(super) fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

impl From<ObjectReference> for new::ObjectRef {
    fn from(reference: ObjectReference) -> Self {
        Self {
            name: reference.name,
            namespace: reference.namespace,
        }
    }
}

impl From<new::ObjectRef> for ObjectReference {
    fn from(reference: new::ObjectRef) -> Self {
        Self {
            name: reference.name,
            namespace: reference.namespace,
            ..Self::default()
        }
    }
}

/// An optional reference in v1beta1.
pub(super) fn reference_down(reference: new::ObjectRef) -> Option<ObjectReference> {
    (!is_default(&reference)).then(|| reference.into())
}

impl From<old::Metal3MachineSpec> for new::Metal3MachineSpec {
    fn from(spec: old::Metal3MachineSpec) -> Self {
        Self {
            provider_id: spec.provider_id.unwrap_or_default(),
            image: (!is_default(&spec.image)).then(|| spec.image.into()),
            custom_deploy: spec.custom_deploy.unwrap_or_default(),
            user_data: spec.user_data,
            host_selector: (!is_default(&spec.host_selector)).then_some(spec.host_selector),
            data_template: spec.data_template.unwrap_or_default().into(),
            meta_data: spec.meta_data,
            network_data: spec.network_data,
            automated_cleaning_mode: spec.automated_cleaning_mode.filter(|mode| !mode.as_str().is_empty()),
            failure_domain: spec.failure_domain,
        }
    }
}

impl From<new::Metal3MachineSpec> for old::Metal3MachineSpec {
    fn from(spec: new::Metal3MachineSpec) -> Self {
        Self {
            provider_id: non_empty(spec.provider_id),
            image: spec.image.map(Into::into).unwrap_or_default(),
            custom_deploy: (!is_default(&spec.custom_deploy)).then_some(spec.custom_deploy),
            user_data: spec.user_data,
            host_selector: spec.host_selector.unwrap_or_default(),
            data_template: reference_down(spec.data_template),
            meta_data: spec.meta_data,
            network_data: spec.network_data,
            automated_cleaning_mode: spec.automated_cleaning_mode.filter(|mode| !mode.as_str().is_empty()),
            failure_domain: spec.failure_domain,
        }
    }
}

impl From<old::Image> for new::Image {
    fn from(image: old::Image) -> Self {
        Self {
            url: image.url,
            checksum: non_empty(image.checksum),
            checksum_type: image.checksum_type.filter(|kind| !kind.as_str().is_empty()),
            disk_format: image.format.filter(|format| !format.as_str().is_empty()),
        }
    }
}

impl From<new::Image> for old::Image {
    fn from(image: new::Image) -> Self {
        Self {
            url: image.url,
            checksum: image.checksum.unwrap_or_default(),
            checksum_type: image.checksum_type.filter(|kind| !kind.as_str().is_empty()),
            format: image.disk_format.filter(|format| !format.as_str().is_empty()),
        }
    }
}

impl From<old::Metal3MachineStatus> for new::Metal3MachineStatus {
    fn from(status: old::Metal3MachineStatus) -> Self {
        Self {
            conditions: status.v1beta2.conditions,
            initialization: new::Initialization {
                provisioned: status.ready.then_some(true),
            },
            last_updated: status.last_updated,
            addresses: status.addresses,
            user_data: status.user_data,
            meta_data: status.meta_data,
            network_data: status.network_data,
            rendered_data: status.rendered_data.unwrap_or_default().into(),
            deprecated: new::DeprecatedStatus {
                v1beta1: new::DeprecatedConditions {
                    conditions: status.conditions,
                    failure_reason: status.failure_reason.unwrap_or_default(),
                    failure_message: status.failure_message.unwrap_or_default(),
                },
            },
        }
    }
}

impl From<new::Metal3MachineStatus> for old::Metal3MachineStatus {
    fn from(status: new::Metal3MachineStatus) -> Self {
        let deprecated = status.deprecated.v1beta1;
        Self {
            last_updated: status.last_updated,
            failure_reason: non_empty(deprecated.failure_reason),
            failure_message: non_empty(deprecated.failure_message),
            addresses: status.addresses,
            phase: String::new(), // v1beta2 has none
            ready: status.initialization.provisioned.unwrap_or_default(),
            user_data: status.user_data,
            meta_data: status.meta_data,
            network_data: status.network_data,
            rendered_data: reference_down(status.rendered_data),
            conditions: deprecated.conditions,
            v1beta2: old::NewConditions {
                conditions: status.conditions,
            },
        }
    }
}

impl From<old::Metal3MachineTemplateSpec> for new::Metal3MachineTemplateSpec {
    fn from(spec: old::Metal3MachineTemplateSpec) -> Self {
        Self {
            template: new::Metal3MachineTemplateResource {
                metadata: new::TemplateMetadata::default(), // v1beta1 has none
                spec: spec.template.spec.into(),
            },
            node_reuse: spec.node_reuse.then_some(true),
        }
    }
}

impl From<new::Metal3MachineTemplateSpec> for old::Metal3MachineTemplateSpec {
    fn from(spec: new::Metal3MachineTemplateSpec) -> Self {
        Self {
            template: old::Metal3MachineTemplateResource {
                spec: spec.template.spec.into(),
            },
            node_reuse: spec.node_reuse.unwrap_or_default(),
        }
    }
}
