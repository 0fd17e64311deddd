//! BMCEventSubscription.

use metal3_api::metal3::BMCEventSubscription;
use metal3_api::reference::Elsewhere;
use metal3_runtime::go_url::RequestUri;
use metal3_runtime::webhook::{FieldError, Refusal, Rules};

use super::field::error_if;
use super::image;
use crate::host::named_url::UrlField;

pub const RULES: Rules<BMCEventSubscription> = Rules {
    change,
    warnings,
    refusal: Refusal::Forbidden,
    ..Rules::of(shape)
};

fn shape(subscription: &BMCEventSubscription) -> Vec<FieldError> {
    let spec = &subscription.spec;
    let own = subscription.metadata.namespace.as_deref().unwrap_or_default();
    let destination = match RequestUri::parse(&spec.destination) {
        Err(problem) => Some(problem),
        Ok(uri) if uri.path.is_empty() => Some("needs a path: write at least a / after the host"),
        Ok(_) => None,
    };
    let headers = spec.http_headers.as_ref();
    let foreign = headers.and_then(|headers| headers.own(own).err());
    [
        error_if(spec.host_name.is_empty(), "spec.hostName", "is required"),
        destination.map(|problem| FieldError::new("spec.destination", problem)),
        foreign.map(|Elsewhere(namespace)| {
            let message = format!("{namespace:?} must be the object's own namespace ({own:?})");
            FieldError::new("spec.httpHeadersRef.namespace", message)
        }),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Upstream compares the reference by its address, and so rejects every update of an object with headers.
fn change(old: &BMCEventSubscription, new: &BMCEventSubscription) -> Vec<FieldError> {
    let message = "cannot be changed: create another BMCEventSubscription";
    error_if(old.spec != new.spec, "spec", message).into_iter().collect()
}

/// A destination that the webhook accepts as upstream's does, and that no BMC is given.
fn warnings(subscription: &BMCEventSubscription) -> Vec<FieldError> {
    image::unusable(
        UrlField::Destination,
        "spec.destination",
        &subscription.spec.destination,
    )
    .into_iter()
    .collect()
}
