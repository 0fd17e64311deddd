//! What a PreprovisioningImage needs. Pure.

use jiff::Timestamp;
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::names::finalizer::PREPROVISIONING_IMAGE;
use metal3_api::metal3::{PreprovisioningImage, PreprovisioningImageStatus, RamdiskFormat, SecretStatus};
use metal3_runtime::conditions::{self, Claim, READY};
use metal3_runtime::controller::{Decision, Next, Plan};
use metal3_runtime::events::Event;
use metal3_runtime::patch::{finalizer_added, finalizer_removed};
use serde_json::Value;

use super::{NetworkData, Observed};

/// A read that a decision may request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The version of the Secret with the network data.
    NetworkData,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Adds or removes the finalizer, on the version that was judged.
    Patch(Value),
}

const ERROR: &str = "Error";
const SUCCESS: &str = "ImageSuccess";
const CONFIGURATION_ERROR: &str = "ConfigurationError";
const MISSING_NETWORK_DATA: &str = "MissingNetworkData";
const REASONS: [&str; 3] = [SUCCESS, CONFIGURATION_ERROR, MISSING_NETWORK_DATA];

pub fn decide(seen: &Observed, now: Timestamp) -> Decision<Read, Effect, PreprovisioningImageStatus> {
    let image = &*seen.image;
    if image.metadata.deletion_timestamp.is_some() {
        return deleted(image);
    }
    if let Some(patch) = finalizer_added(&image.metadata, PREPROVISIONING_IMAGE) {
        return Plan {
            next: Next::Decide,
            ..Plan::of(Effect::Patch(patch))
        }
        .into();
    }
    let mut accepted = image.spec.accept_formats.iter();
    let Some(format) = accepted.find(|format| seen.images.supports(format)) else {
        let message = "No acceptable image format supported";
        return failed(image, CONFIGURATION_ERROR, message, now);
    };
    let version = match &seen.network_data {
        NetworkData::NotLooked => return Decision::Fetch(Read::NetworkData),
        NetworkData::Missing => {
            return failed(image, MISSING_NETWORK_DATA, "NetworkData secret not found", now);
        }
        NetworkData::None => String::new(),
        NetworkData::Found { version } => version.clone(),
    };
    built(seen, format, version, now)
}

/// Whoever else holds the image still uses it.
fn deleted(image: &PreprovisioningImage) -> Decision<Read, Effect, PreprovisioningImageStatus> {
    let mut finalizers = image.metadata.finalizers.iter().flatten();
    if finalizers.any(|other| other != PREPROVISIONING_IMAGE) {
        return Decision::idle();
    }
    match finalizer_removed(&image.metadata, PREPROVISIONING_IMAGE) {
        Some(patch) => Plan::of(Effect::Patch(patch)).into(),
        None => Decision::idle(),
    }
}

/// The image is there already: it is the same for every host of the format and architecture. Network data are not built
/// in, and the version tells the host's controller that they were seen.
fn built(
    seen: &Observed,
    format: &RamdiskFormat,
    version: String,
    now: Timestamp,
) -> Decision<Read, Effect, PreprovisioningImageStatus> {
    let image = &*seen.image;
    let urls = seen.images.urls(format, &image.spec.architecture);
    let mut status = PreprovisioningImageStatus {
        image_url: urls.image,
        kernel_url: urls.kernel,
        extra_kernel_params: String::new(),
        format: Some(format.clone()),
        network_data: SecretStatus {
            name: image.spec.network_data_name.clone(),
            version,
        },
        architecture: image.spec.architecture.clone(),
        conditions: stored(image).conditions,
    };
    set(
        &mut status,
        image,
        [(READY, true), (ERROR, false)],
        SUCCESS,
        ["Generated image", ""],
        now,
    );
    reported(image, status)
}

fn failed(
    image: &PreprovisioningImage,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Decision<Read, Effect, PreprovisioningImageStatus> {
    let mut status = PreprovisioningImageStatus {
        image_url: String::new(),
        ..stored(image)
    };
    set(
        &mut status,
        image,
        [(READY, false), (ERROR, true)],
        reason,
        ["", message],
        now,
    );
    reported(image, status)
}

fn set(
    status: &mut PreprovisioningImageStatus,
    image: &PreprovisioningImage,
    holds: [(&str, bool); 2],
    reason: &str,
    messages: [&str; 2],
    now: Timestamp,
) {
    for ((type_, is_true), message) in holds.into_iter().zip(messages) {
        let claim = Claim {
            type_,
            status: if is_true {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            },
            reason,
            message,
        };
        conditions::set(&mut status.conditions, &claim, image.metadata.generation, now);
    }
}

fn stored(image: &PreprovisioningImage) -> PreprovisioningImageStatus {
    image.status.clone().unwrap_or_default()
}

fn reported(
    image: &PreprovisioningImage,
    status: PreprovisioningImageStatus,
) -> Decision<Read, Effect, PreprovisioningImageStatus> {
    let mut plan = Plan::default();
    plan.report.events.extend(event(image, &status));
    if image.status.as_ref() != Some(&status) {
        plan.report.status = Some(status);
    }
    plan.into()
}

/// What is new about the ramdisk: that there is one, or why there is none.
fn event(image: &PreprovisioningImage, status: &PreprovisioningImageStatus) -> Option<Event> {
    let told = |status: &PreprovisioningImageStatus| {
        let error = conditions::get(&status.conditions, ERROR)?;
        Some((error.reason.clone(), error.message.clone()))
    };
    if image.status.as_ref().and_then(told) == told(status) {
        return None;
    }
    let error = conditions::get(&status.conditions, ERROR)?;
    let reason = REASONS.into_iter().find(|reason| error.reason == *reason)?;
    Some(match &error.status {
        ConditionStatus::True => Event::warning(reason, &*error.message),
        _ => Event::normal(reason, "the ramdisk is the one of the DEPLOY_* settings"),
    })
}
