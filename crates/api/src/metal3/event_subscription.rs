//! BMCEventSubscription: has a host's BMC send its events somewhere.

use crate::reference::SecretReference;
use crate::rules::fixed_subscription;
use crate::wire::optional_spec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which events go where. It cannot be changed later.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "metal3.io",
    version = "v1alpha1",
    kind = "BMCEventSubscription",
    plural = "bmceventsubscriptions",
    shortname = "bes",
    shortname = "bmcevent",
    namespaced,
    doc = "Has the management controller (BMC) of a host send its Redfish events to a receiver.",
    status = "BMCEventSubscriptionStatus",
    derive = "Default",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Error", "type": "string", "jsonPath": ".status.error", "description": "Why the subscription could not be made"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp", "description": "Time since the BMCEventSubscription was created"}"#,
    printcolumn = r#"{"name": "Host", "type": "string", "jsonPath": ".spec.hostName", "description": "Host whose BMC sends its events", "priority": 1}"#,
    printcolumn = r#"{"name": "Subscription", "type": "string", "jsonPath": ".status.subscriptionID", "description": "Name of the subscription at the BMC", "priority": 1}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!remote, transform = fixed_subscription)]
pub struct BMCEventSubscriptionSpec {
    /// Name of the BareMetalHost, in the same namespace. The schema lets it be missing, the webhook does not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host_name: String,

    /// URL that the events are sent to; it needs a path, if only a slash. The schema lets it be missing, the webhook does
    /// not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub destination: String,

    /// Text that the BMC puts into every event, for the receiver to tell subscriptions apart. Default empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub context: String,

    /// Secret each entry of which becomes an HTTP header of the events. It must name the namespace of this object.
    #[serde(rename = "httpHeadersRef", skip_serializing_if = "Option::is_none")]
    pub http_headers: Option<SecretReference>,
}

optional_spec!(BMCEventSubscriptionSpec);

/// What became of a subscription.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BMCEventSubscriptionStatus {
    /// Id that the BMC gave the subscription. Empty while there is none.
    #[serde(rename = "subscriptionID", skip_serializing_if = "String::is_empty")]
    pub subscription_id: String,

    /// Why the subscription could not be made. Empty when it could, or was not tried.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}
