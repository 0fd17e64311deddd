//! The marks by which the operator holds a Secret.

use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::{Api, ResourceExt};
use metal3_api::capi::names::label::MOVE;
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::{finalizer, label};

/// Label and finalizer are there.
pub(super) fn is_claimed(secret: &ObjectMeta) -> bool {
    let label = secret.labels.as_ref().and_then(|l| l.get(label::ENVIRONMENT));
    let has_finalizer = secret.finalizers.iter().flatten().any(|f| f == finalizer::SECRET);
    has_finalizer && label.is_some_and(|v| v == label::ENVIRONMENT_BAREMETAL)
}

/// Finalizer and the label by which `clusterctl move` takes the Secret along are there: all that network data get. The other label
/// says that a Secret is for a BMC, which is for its owner to say.
pub(super) fn is_held(secret: &ObjectMeta) -> bool {
    let moves = secret.labels.as_ref().is_some_and(|l| l.contains_key(MOVE));
    moves && secret.finalizers.iter().flatten().any(|f| f == finalizer::SECRET)
}

/// The Secrets beside a host.
pub(super) fn secrets(client: &kube::Client, host: &BareMetalHost) -> Api<Secret> {
    Api::namespaced(client.clone(), &host.namespace().unwrap_or_default())
}
