//! Metal3Remediation and Metal3RemediationTemplate.

use super::duration;
use crate::infra::{v1beta1 as old, v1beta2 as new};
use crate::wire::clamp;

impl From<old::Metal3RemediationSpec> for new::Metal3RemediationSpec {
    fn from(spec: old::Metal3RemediationSpec) -> Self {
        Self {
            strategy: spec.strategy.map(Into::into),
        }
    }
}

impl From<new::Metal3RemediationSpec> for old::Metal3RemediationSpec {
    fn from(spec: new::Metal3RemediationSpec) -> Self {
        Self {
            strategy: spec.strategy.map(Into::into),
        }
    }
}

impl From<old::RemediationStrategy> for new::RemediationStrategy {
    fn from(strategy: old::RemediationStrategy) -> Self {
        Self {
            type_: (!strategy.type_.is_empty()).then(|| strategy.type_.as_str().into()),
            retry_limit: clamp(strategy.retry_limit),
            timeout_seconds: strategy.timeout.as_deref().and_then(duration::seconds).map_or(0, clamp),
        }
    }
}

impl From<new::RemediationStrategy> for old::RemediationStrategy {
    fn from(strategy: new::RemediationStrategy) -> Self {
        Self {
            type_: strategy.type_.map(|type_| type_.to_string()).unwrap_or_default(),
            retry_limit: strategy.retry_limit.into(),
            timeout: match strategy.timeout_seconds {
                0 => None,
                seconds => Some(duration::text(seconds)),
            },
        }
    }
}

impl From<old::Metal3RemediationStatus> for new::Metal3RemediationStatus {
    fn from(status: old::Metal3RemediationStatus) -> Self {
        Self {
            phase: (!status.phase.is_empty()).then(|| status.phase.as_str().into()),
            retry_count: clamp(status.retry_count),
            last_remediated: status.last_remediated,
        }
    }
}

impl From<new::Metal3RemediationStatus> for old::Metal3RemediationStatus {
    fn from(status: new::Metal3RemediationStatus) -> Self {
        Self {
            phase: status.phase.map(|phase| phase.to_string()).unwrap_or_default(),
            retry_count: status.retry_count.into(),
            last_remediated: status.last_remediated,
        }
    }
}

/// Only the strategy has another shape.
macro_rules! template {
    ($from:ident to $to:ident) => {
        impl From<$from::Metal3RemediationTemplateSpec> for $to::Metal3RemediationTemplateSpec {
            fn from(spec: $from::Metal3RemediationTemplateSpec) -> Self {
                Self {
                    template: $to::Metal3RemediationTemplateResource {
                        spec: spec.template.spec.into(),
                    },
                }
            }
        }

        impl From<$from::Metal3RemediationTemplateStatus> for $to::Metal3RemediationTemplateStatus {
            fn from(status: $from::Metal3RemediationTemplateStatus) -> Self {
                Self {
                    status: status.status.into(),
                }
            }
        }
    };
}

template!(old to new);
template!(new to old);
