//! Metal3Cluster and Metal3ClusterTemplate.

use metal3_api::infra::v1beta2::{ApiEndpoint, Metal3Cluster, Metal3ClusterTemplate};
use metal3_runtime::webhook::{FieldError, Rules};

use super::errors::error_if;
use crate::cluster::API_SERVER_PORT;

pub const RULES: Rules<Metal3Cluster> = Rules {
    defaults: Some(defaults),
    ..Rules::of(shape)
};

pub const TEMPLATE_RULES: Rules<Metal3ClusterTemplate> = Rules::of(template_shape);

fn defaults(cluster: &mut Metal3Cluster) {
    let endpoint = &mut cluster.spec.control_plane_endpoint;
    if endpoint.port == 0 {
        endpoint.port = API_SERVER_PORT;
    }
    cluster.spec.cloud_provider_enabled.get_or_insert(false);
}

fn shape(cluster: &Metal3Cluster) -> Vec<FieldError> {
    let endpoint = &cluster.spec.control_plane_endpoint;
    host("spec", endpoint).into_iter().collect()
}

/// The port in a template has no default.
fn template_shape(template: &Metal3ClusterTemplate) -> Vec<FieldError> {
    let endpoint = &template.spec.template.spec.control_plane_endpoint;
    let field = "spec.template.spec.controlPlaneEndpoint.port";
    host("spec.template.spec", endpoint)
        .into_iter()
        .chain(error_if(endpoint.port == 0, field, "is required"))
        .collect()
}

fn host(spec: &str, endpoint: &ApiEndpoint) -> Option<FieldError> {
    let field = format!("{spec}.controlPlaneEndpoint.host");
    error_if(endpoint.host.is_empty(), &field, "is required")
}
