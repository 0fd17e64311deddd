//! Metal3Cluster and Metal3ClusterTemplate.

use super::body::Body;
use crate::infra::{v1beta1 as old, v1beta2 as new};
use crate::wire::clamp;
use serde_json::json;
use std::collections::BTreeMap;

impl From<old::Metal3ClusterSpec> for new::Metal3ClusterSpec {
    fn from(spec: old::Metal3ClusterSpec) -> Self {
        Self {
            control_plane_endpoint: spec.control_plane_endpoint.into(),
            cloud_provider_enabled: spec.cloud_provider_enabled.or(spec.no_cloud_provider.map(|no| !no)),
            failure_domains: failure_domains_up(spec.failure_domains),
        }
    }
}

impl From<new::Metal3ClusterSpec> for old::Metal3ClusterSpec {
    fn from(spec: new::Metal3ClusterSpec) -> Self {
        Self {
            control_plane_endpoint: spec.control_plane_endpoint.into(),
            no_cloud_provider: spec.cloud_provider_enabled.map(|enabled| !enabled),
            cloud_provider_enabled: spec.cloud_provider_enabled,
            failure_domains: failure_domains_down(spec.failure_domains),
        }
    }
}

impl From<old::ApiEndpoint> for new::ApiEndpoint {
    fn from(endpoint: old::ApiEndpoint) -> Self {
        Self {
            host: endpoint.host,
            port: clamp(endpoint.port),
        }
    }
}

impl From<new::ApiEndpoint> for old::ApiEndpoint {
    fn from(endpoint: new::ApiEndpoint) -> Self {
        Self {
            host: endpoint.host,
            port: endpoint.port.into(),
        }
    }
}

/// Makes a list of a map of failure domains that was stored as v1beta2, so that the annotation with the whole object does not bring
/// the map back.
pub fn list_domains(body: &mut Body) {
    let spec = body.get_mut("spec");
    let domains = spec.and_then(|spec| spec.pointer_mut("/template/spec/failureDomains"));
    if let Some(domains) = domains.filter(|domains| domains.is_object())
        && let Ok(list) = new::domains(&*domains)
    {
        *domains = json!(list);
    }
}

/// In the order of their names.
fn failure_domains_up(domains: BTreeMap<String, old::FailureDomain>) -> Vec<new::FailureDomain> {
    let domains = domains.into_iter().map(|(name, domain)| new::FailureDomain {
        name,
        control_plane: domain.control_plane.then_some(true),
        attributes: domain.attributes,
    });
    domains.collect()
}

fn failure_domains_down(domains: Vec<new::FailureDomain>) -> BTreeMap<String, old::FailureDomain> {
    let domains = domains.into_iter().map(|domain| {
        let value = old::FailureDomain {
            control_plane: domain.control_plane.unwrap_or_default(),
            attributes: domain.attributes,
        };
        (domain.name, value)
    });
    domains.collect()
}

impl From<old::Metal3ClusterStatus> for new::Metal3ClusterStatus {
    fn from(status: old::Metal3ClusterStatus) -> Self {
        Self {
            conditions: status.v1beta2.conditions,
            initialization: new::Initialization {
                provisioned: status.ready.then_some(true),
            },
            last_updated: status.last_updated,
            failure_domains: failure_domains_up(status.failure_domains),
            deprecated: new::DeprecatedStatus {
                v1beta1: new::DeprecatedConditions {
                    conditions: status.conditions,
                    failure_reason: status.failure_reason,
                    failure_message: status.failure_message,
                },
            },
        }
    }
}

impl From<new::Metal3ClusterStatus> for old::Metal3ClusterStatus {
    fn from(status: new::Metal3ClusterStatus) -> Self {
        let deprecated = status.deprecated.v1beta1;
        Self {
            last_updated: status.last_updated,
            failure_reason: deprecated.failure_reason,
            failure_message: deprecated.failure_message,
            ready: status.initialization.provisioned.unwrap_or_default(),
            failure_domains: failure_domains_down(status.failure_domains),
            conditions: deprecated.conditions,
            v1beta2: old::NewConditions {
                conditions: status.conditions,
            },
        }
    }
}

impl From<old::Metal3ClusterTemplateSpec> for new::Metal3ClusterTemplateSpec {
    fn from(spec: old::Metal3ClusterTemplateSpec) -> Self {
        Self {
            template: new::Metal3ClusterTemplateResource {
                metadata: new::TemplateMetadata::default(), // v1beta1 has none
                spec: spec.template.spec.into(),
            },
        }
    }
}

impl From<new::Metal3ClusterTemplateSpec> for old::Metal3ClusterTemplateSpec {
    fn from(spec: new::Metal3ClusterTemplateSpec) -> Self {
        Self {
            template: old::Metal3ClusterTemplateResource {
                spec: spec.template.spec.into(),
            },
        }
    }
}
