//! Reading: what is at hand for every decision, and the rest when one asks for it. Nothing is changed here.

mod deployment;
mod ironic;
mod objects;
mod secrets;

use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use metal3_api::metal3::BareMetalHost;
use metal3_ironic::Feature;
use metal3_runtime::secrets::{Known, SecretKey};

pub use self::secrets::{read_credentials, read_network_data};
use super::cached;
use super::context::Context;
use super::error::ObserveError;
use super::observed::{
    ConfigDriveView, DeploymentSecrets, Lookup, NetworkDataView, NodeView, Observed, PullSecretView, SecretView,
};
use super::plan::Need;
use crate::fleet::outage_of;
use crate::host::identity::key_of;

/// What is at hand without a call.
pub fn begin(ctx: &Context, cached: &BareMetalHost) -> Observed {
    let mut host = ctx.written.newest(cached);
    let hardware = cached::take_hardware(&mut host);
    let host = Arc::new(host);
    let key = key_of(&host);
    let id = host.status.as_ref().map_or("", |s| s.provisioning.id.as_str());
    let memory = ctx.memory.get(&key);
    Observed {
        secret: secret_at_hand(ctx, &host),
        may_claim_unread: ctx.rights.may_patch_secrets() && !ctx.settings.requires_credentials_label,
        node: ctx.fleet.of(id, super::identity::own_uuid(&host), &key),
        ports: Lookup::NotLooked,
        boot_mac_owner: Lookup::NotLooked,
        inventory: Lookup::NotLooked,
        hardware_data: Lookup::NotLooked,
        bmc_access: Lookup::NotLooked,
        bmc_name: Lookup::NotLooked,
        ramdisk: Lookup::NotLooked,
        network_data: network_data_at_hand(ctx, &host),
        config_drive: ConfigDriveView::NotLooked,
        pull_secret: PullSecretView::NotLooked,
        deployment_secrets: deployment_secrets(ctx, &host),
        hardware_data_edit: ctx.companions.hardware_data(&key),
        data_image_at_hand: ctx.companions.data_image(&key),
        data_image: Lookup::NotLooked,
        disc: Lookup::NotLooked,
        disc_refusal: None,
        firmware: ctx.companions.of(&key),
        firmware_objects: Lookup::NotLooked,
        bios: Lookup::NotLooked,
        validation: Lookup::NotLooked,
        slot: Lookup::NotLooked,
        outage: ctx.fleet.outage(),
        reconfigured: memory.is_untried,
        is_confirmed: false,
        stored_state: None,
        memory,
        settings: ctx.settings.for_ironic(ctx.fleet.can(Feature::DisablePowerOff)),
        hardware,
        host,
    }
}

/// Registers which Secrets concern the host, so that their changes wake it.
fn secret_at_hand(ctx: &Context, host: &BareMetalHost) -> SecretView {
    let namespace = host.namespace().unwrap_or_default();
    let spec = &host.spec;
    let names = [Some(&spec.bmc.credentials_name)]
        .into_iter()
        .chain([&spec.user_data, &spec.network_data, &spec.meta_data].map(|r| r.as_ref().map(|r| &r.name)))
        .chain([Some(&spec.preprovisioning_network_data_name)])
        .chain([spec.image.as_ref().map(|i| &i.oci_auth_secret_name)])
        .flatten()
        .filter(|name| !name.is_empty());
    let keys = names.map(|name| SecretKey {
        namespace: namespace.clone(),
        name: name.clone(),
    });
    ctx.secrets.set_references(ObjectRef::from_obj(host), keys);
    match ctx.secrets.get(&SecretKey {
        namespace,
        name: spec.bmc.credentials_name.clone(),
    }) {
        Known::Unknown => SecretView::NotLooked { version: None },
        Known::Absent => SecretView::Missing,
        Known::Present(known) => SecretView::NotLooked {
            version: known.resource_version.clone(),
        },
    }
}

/// After the references were registered.
fn network_data_at_hand(ctx: &Context, host: &BareMetalHost) -> NetworkDataView {
    let key = SecretKey {
        namespace: host.namespace().unwrap_or_default(),
        name: host.spec.preprovisioning_network_data_name.clone(),
    };
    match ctx.secrets.get(&key) {
        Known::Unknown => NetworkDataView::NotLooked {
            version: None,
            claimed: false,
        },
        Known::Absent => NetworkDataView::Missing,
        Known::Present(known) => NetworkDataView::NotLooked {
            version: known.resource_version.clone(),
            claimed: known.is_marked,
        },
    }
}

/// After the references were registered.
fn deployment_secrets(ctx: &Context, host: &BareMetalHost) -> DeploymentSecrets {
    let spec = &host.spec;
    let texts = [&spec.user_data, &spec.network_data, &spec.meta_data].map(|r| r.as_ref().map(|r| &r.name));
    let account = spec.image.as_ref().map(|image| &image.oci_auth_secret_name);
    let names = texts
        .into_iter()
        .chain([account])
        .flatten()
        .filter(|name| !name.is_empty());
    let known = names.filter_map(|name| {
        let key = SecretKey {
            namespace: host.namespace().unwrap_or_default(),
            name: name.clone(),
        };
        match ctx.secrets.get(&key) {
            Known::Unknown => None,
            Known::Absent => Some((key.name, None)),
            Known::Present(known) => Some((key.name, known.resource_version.clone())),
        }
    });
    known.collect()
}

/// Reads what a decision asked for.
///
/// Trouble with Ironic as a whole is something seen, not an error: the next decision tells the user.
pub async fn fetch(ctx: &Context, seen: &mut Observed, need: Need) -> Result<(), ObserveError> {
    let answer = match need {
        Need::Credentials => secrets::credentials(ctx, seen).await,
        Need::ConfigDrive => deployment::config_drive(ctx, seen).await,
        Need::PullSecret => deployment::pull_secret(ctx, seen).await,
        Need::Firmware => objects::firmware_objects(ctx, seen).await,
        Need::Bios => ironic::bios(ctx, seen).await,
        Need::LiveNode => ironic::live_node(ctx, seen).await,
        Need::Ports => ironic::ports(ctx, seen).await,
        Need::BootMacOwner => ironic::boot_mac_owner(ctx, seen).await,
        Need::Inventory => ironic::inventory(ctx, seen).await,
        Need::Validation => ironic::validation(ctx, seen).await,
        Need::Slot => {
            ironic::slot(ctx, seen);
            Ok(())
        }
        Need::HardwareData => objects::hardware_data(ctx, seen).await,
        Need::Hardware => objects::stored_hardware(ctx, seen).await,
        Need::Ramdisk => objects::ramdisk(ctx, seen).await,
        Need::NetworkData => secrets::network_data(ctx, seen).await,
        Need::BmcAccess => ironic::bmc_access(ctx, seen).await,
        Need::BmcName => {
            ironic::bmc_name(ctx, seen).await;
            Ok(())
        }
        Need::DataImage => objects::data_image(ctx, seen).await,
        Need::Disc => ironic::disc(ctx, seen).await,
    };
    match answer {
        Err(ObserveError::Ironic(error)) => match outage_of(&error, seen.namespace()) {
            Some(outage) => {
                ctx.fleet.doubt();
                seen.node = NodeView::Unknown {
                    cause: Some(outage.clone()),
                };
                seen.outage = Some(outage);
                Ok(())
            }
            None => Err(ObserveError::Ironic(error)),
        },
        other => other,
    }
}
