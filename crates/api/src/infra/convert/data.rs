//! Metal3DataClaim and Metal3Data.

use super::machine::{non_empty, reference_down};
use crate::infra::{v1beta1 as old, v1beta2 as new};
use crate::wire::clamp;

impl From<old::Metal3DataClaimSpec> for new::Metal3DataClaimSpec {
    fn from(spec: old::Metal3DataClaimSpec) -> Self {
        Self {
            template: spec.template.into(),
        }
    }
}

impl From<new::Metal3DataClaimSpec> for old::Metal3DataClaimSpec {
    fn from(spec: new::Metal3DataClaimSpec) -> Self {
        Self {
            template: spec.template.into(),
        }
    }
}

impl From<old::Metal3DataClaimStatus> for new::Metal3DataClaimStatus {
    fn from(status: old::Metal3DataClaimStatus) -> Self {
        Self {
            rendered_data: status.rendered_data.unwrap_or_default().into(),
            error_message: status.error_message.unwrap_or_default(),
        }
    }
}

impl From<new::Metal3DataClaimStatus> for old::Metal3DataClaimStatus {
    fn from(status: new::Metal3DataClaimStatus) -> Self {
        Self {
            rendered_data: reference_down(status.rendered_data),
            error_message: non_empty(status.error_message),
        }
    }
}

impl From<old::Metal3DataSpec> for new::Metal3DataSpec {
    fn from(spec: old::Metal3DataSpec) -> Self {
        Self {
            // An absent index is index 0 in v1beta1.
            index: Some(clamp(spec.index)),
            meta_data: spec.meta_data,
            network_data: spec.network_data,
            claim: spec.claim.into(),
            template: spec.template.into(),
        }
    }
}

impl From<new::Metal3DataSpec> for old::Metal3DataSpec {
    fn from(spec: new::Metal3DataSpec) -> Self {
        Self {
            index: spec.index.unwrap_or_default().into(),
            template_reference: String::new(), // v1beta2 has none
            meta_data: spec.meta_data,
            network_data: spec.network_data,
            claim: spec.claim.into(),
            template: spec.template.into(),
        }
    }
}

impl From<old::Metal3DataStatus> for new::Metal3DataStatus {
    fn from(status: old::Metal3DataStatus) -> Self {
        Self {
            ready: Some(status.ready),
            error_message: status.error_message.unwrap_or_default(),
        }
    }
}

impl From<new::Metal3DataStatus> for old::Metal3DataStatus {
    fn from(status: new::Metal3DataStatus) -> Self {
        Self {
            ready: status.ready.unwrap_or_default(),
            error_message: non_empty(status.error_message),
        }
    }
}
