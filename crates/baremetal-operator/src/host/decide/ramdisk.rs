//! The ramdisk built for one host, if a builder is installed: requested by a PreprovisioningImage of the host's name,
//! awaited if the next operation boots it, and set on the node.

use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::names::finalizer;
use metal3_api::metal3::{
    BareMetalHost, CleaningMode, ErrorType, InspectionMode, OperationalStatus, PreprovisioningImage,
    PreprovisioningImageSpec, PreprovisioningImageStatus, ProvisioningState, RamdiskFormat,
};
use metal3_bmc::BmcAddress;
use metal3_ironic::ProvisionState;
use metal3_runtime::conditions;
use metal3_runtime::timing::operator::SLOW_RECHECK;

use super::network_data;
use crate::host::builder::{PlanBuilder, Step, Verdict};
use crate::host::named_url::{DeniedRanges, NamedUrl, UrlField};
use crate::host::observed::{Lookup, NetworkDataView};
use crate::host::ownership::{Ownership, ownership};
use crate::host::plan::{Effect, Read, Wait, WaitReason};
use crate::host::ramdisk::Ramdisk;
use crate::host::ramdisk::surroundings;

/// Whether the node matches the image, as far as is known without a read.
pub(super) fn is_settled(plan: &PlanBuilder<'_>, address: Option<&BmcAddress>) -> bool {
    let is_used = address.is_none_or(|address| formats(plan, address).is_some());
    let seen = plan.seen;
    !seen.settings.builds_ramdisks
        || !is_used
        || seen.memory.ramdisk == Some(surroundings(&seen.host, seen.network_data.version()))
}

/// The ramdisk that a node boots as long as no image built for it is known.
pub(super) fn unbuilt(plan: &PlanBuilder<'_>) -> Ramdisk {
    if plan.seen.settings.builds_ramdisks {
        Ramdisk::AsItIs
    } else {
        Ramdisk::Configured
    }
}

/// The ramdisk for the host's current operation.
pub(super) fn wanted(plan: &mut PlanBuilder<'_>, address: &BmcAddress) -> Result<Ramdisk, Step> {
    if !plan.seen.settings.builds_ramdisks {
        return Ok(unbuilt(plan));
    }
    let Some(accept_formats) = formats(plan, address) else {
        return Ok(Ramdisk::AsItIs);
    };
    let spec = PreprovisioningImageSpec {
        network_data_name: plan.spec().preprovisioning_network_data_name.clone(),
        architecture: plan.architecture().to_owned(),
        accept_formats,
    };
    let denied = &plan.seen.settings.denied_url_ranges;
    let image = match &plan.seen.ramdisk {
        Lookup::NotLooked => return Err(Step::Fetch(Read::Ramdisk)),
        Lookup::NotFound => return Err(write(plan, spec)),
        Lookup::Found(image) => image,
    };
    let is_going = image.metadata.deletion_timestamp.is_some();
    let is_held = image
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == finalizer::PREPROVISIONING_IMAGE_OF_HOST);
    let is_former = ownership(&image.metadata, &plan.seen.host) == Ownership::Former;
    if !is_going && !is_former && !is_current(&plan.seen.host, image, &spec) {
        return Err(write(plan, spec));
    }
    // Nobody builds it anew once it is being deleted, which also raises its generation, and it goes only after its host: for that it
    // serves as it is. So do those whose network data have gone with their host's namespace.
    let is_last = is_going && is_held || plan.is_deleting() && plan.seen.network_data == NetworkDataView::Missing;
    if is_last && !is_former {
        let status = image.status.as_ref();
        if let Some(status) = status.filter(|status| unusable(status, &spec, denied).is_none()) {
            plan.has_ramdisk = true;
            return Ok(Ramdisk::Built(Box::new(status.clone())));
        }
        if plan.is_deleting() {
            return Ok(Ramdisk::AsItIs);
        }
    }
    let version = if spec.network_data_name.is_empty() {
        None
    } else {
        match &plan.seen.network_data {
            NetworkDataView::NotLooked { version: None, .. } => return Err(Step::Fetch(Read::NetworkData)),
            NetworkDataView::Missing if is_needed(plan) => return Err(network_data::missing(plan)),
            known => known.version(),
        }
    };
    let problem = if is_former {
        "it belongs to an earlier host of this name, and the garbage collector is about to delete it".to_owned()
    } else if is_going && !is_held {
        "it is being deleted".to_owned()
    } else {
        match unavailable(image, &spec, version, denied) {
            None => {
                let status = image.status.clone().unwrap_or_default();
                plan.has_ramdisk = true;
                return Ok(Ramdisk::Built(Box::new(status)));
            }
            Some(problem) => problem,
        }
    };
    if !is_needed(plan) {
        return Ok(Ramdisk::AsItIs);
    }
    if let Some(error) = failed(image, denied) {
        let message = format!("The ramdisk for this host cannot be built: {error}");
        return Err(match plan.failure(&ErrorType::Registration, message.clone()) {
            Verdict::Hold(step) => step,
            Verdict::Retry => plan.fail(&ErrorType::Registration, message),
        });
    }
    let metadata = &plan.seen.host.metadata;
    Err(Step::Wait(Wait::for_time(
        WaitReason::RamdiskBuilding,
        SLOW_RECHECK,
        format!(
            "PreprovisioningImage {}/{} is not ready: {problem}; the host goes on when it is",
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default()
        ),
    )))
}

/// The formats that the host can boot, preferred one first; `None` if it boots no ramdisk, so that none is requested.
fn formats(plan: &PlanBuilder<'_>, address: &BmcAddress) -> Option<Vec<RamdiskFormat>> {
    let spec = plan.spec();
    let is_out_of_use = match plan.state() {
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting => true,
        ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => {
            plan.status.operational_status != OperationalStatus::Servicing
        }
        ProvisioningState::Deprovisioning => spec.automated_cleaning_mode == CleaningMode::Disabled,
        ProvisioningState::Inspecting => spec.inspection_mode == Some(InspectionMode::Fast),
        ProvisioningState::MatchProfile
        | ProvisioningState::Preparing
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::Other(_) => false,
    };
    if is_out_of_use {
        return None;
    }
    Some(if address.access().supports_iso() {
        vec![RamdiskFormat::Iso, RamdiskFormat::Initrd]
    } else {
        vec![RamdiskFormat::Initrd]
    })
}

/// Whether the next operation boots the ramdisk.
fn is_needed(plan: &PlanBuilder<'_>) -> bool {
    // A running operation has already booted something; waiting for an image must not delay handling its end.
    let is_running = plan.known().is_some_and(|node| {
        matches!(
            node.provision_state,
            ProvisionState::Inspecting
                | ProvisionState::InspectWait
                | ProvisionState::Cleaning
                | ProvisionState::CleanWait
                | ProvisionState::Deleting
                | ProvisionState::Servicing
                | ProvisionState::ServiceWait
        )
    });
    !is_running && boots_ramdisk(plan.state())
}

fn boots_ramdisk(state: &ProvisioningState) -> bool {
    match state {
        ProvisioningState::Inspecting
        | ProvisioningState::Preparing
        | ProvisioningState::Deprovisioning
        | ProvisioningState::Provisioned
        | ProvisioningState::ExternallyProvisioned => true,
        ProvisioningState::None
        | ProvisioningState::Unmanaged
        | ProvisioningState::Registering
        | ProvisioningState::MatchProfile
        | ProvisioningState::Ready
        | ProvisioningState::Available
        | ProvisioningState::Provisioning
        | ProvisioningState::PoweringOffBeforeDelete
        | ProvisioningState::Deleting
        | ProvisioningState::Other(_) => false,
    }
}

fn write(plan: &mut PlanBuilder<'_>, spec: PreprovisioningImageSpec) -> Step {
    plan.effects.push(Effect::WriteRamdisk(Box::new(spec)));
    Step::Again
}

/// Whether the image requests what the host needs now, and carries our marks and the host's labels.
fn is_current(host: &BareMetalHost, image: &PreprovisioningImage, spec: &PreprovisioningImageSpec) -> bool {
    let labels = host.metadata.labels.iter().flatten();
    let has_labels = labels
        .into_iter()
        .all(|(key, value)| image.metadata.labels.as_ref().and_then(|l| l.get(key)) == Some(value));
    let finalizers = image.metadata.finalizers.iter().flatten();
    let has_finalizer = finalizers
        .into_iter()
        .any(|f| f == finalizer::PREPROVISIONING_IMAGE_OF_HOST);
    image.spec == *spec && has_labels && has_finalizer
}

fn failed(image: &PreprovisioningImage, denied: &DeniedRanges) -> Option<String> {
    let status = image.status.as_ref()?;
    conditions::get(&status.conditions, "Error")
        .filter(|c| c.status == ConditionStatus::True)
        .map(|c| c.message.clone())
        .or_else(|| flaw(status, denied))
}

/// The problem with the built image. A writer of the status is trusted no more than a user who names an image: its URLs
/// are checked against the same rules. A control character ends the kernel parameters for the boot loader or its
/// configuration: what follows would be interpreted as something else.
fn flaw(status: &PreprovisioningImageStatus, denied: &DeniedRanges) -> Option<String> {
    let urls = [
        (UrlField::RamdiskImage, &status.image_url),
        (UrlField::RamdiskKernel, &status.kernel_url),
    ];
    let named = urls.into_iter().filter(|(_, url)| !url.is_empty());
    named
        .filter_map(|(field, url)| NamedUrl::parse(field, url, denied).err())
        .chain(status.extra_kernel_params.contains(char::is_control).then(|| {
            "status.extraKernelParams: it has a control character in it, such as the end of a line".to_owned()
        }))
        .next()
        .map(|flaw| format!("its PreprovisioningImage cannot be used: {flaw}"))
}

/// Why the image can never be used as it is.
fn unusable(
    status: &PreprovisioningImageStatus,
    spec: &PreprovisioningImageSpec,
    denied: &DeniedRanges,
) -> Option<String> {
    let has_format = |format| spec.accept_formats.contains(format);
    if status.image_url.is_empty() {
        return Some("it is being built".to_owned());
    }
    if status.architecture != spec.architecture {
        return Some(format!("it is for architecture {:?}", status.architecture));
    }
    if !status.format.as_ref().is_some_and(has_format) {
        return Some("it has no format that this host can boot".to_owned());
    }
    flaw(status, denied)
}

/// Why the image cannot be used yet.
fn unavailable(
    image: &PreprovisioningImage,
    spec: &PreprovisioningImageSpec,
    network_data_version: Option<&str>,
    denied: &DeniedRanges,
) -> Option<String> {
    let Some(status) = &image.status else {
        return Some("nobody has taken it up; is there an image builder?".to_owned());
    };
    if let Some(problem) = failed(image, denied).or_else(|| unusable(status, spec, denied)) {
        return Some(problem);
    }
    let network = &status.network_data;
    let is_current = spec.network_data_name.is_empty() || Some(network.version.as_str()) == network_data_version;
    if network.name != spec.network_data_name || !is_current {
        return Some("it was built with other network data".to_owned());
    }
    let is_ready = conditions::get(&status.conditions, "Ready")
        .is_some_and(|c| c.status == ConditionStatus::True && c.observed_generation == image.metadata.generation);
    (!is_ready).then(|| "it is being built".to_owned())
}
