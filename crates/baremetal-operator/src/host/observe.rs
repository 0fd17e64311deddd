//! Reads the cached state for every decision, and more on request. It changes nothing.

mod deployment;
mod ironic;
mod objects;
mod secrets;

use kube::ResourceExt;
use metal3_api::metal3::BareMetalHost;
use metal3_ironic::Feature;
use metal3_runtime::backoff::random_seed;
use metal3_runtime::secrets::{Known, SecretKey};
use metal3_runtime::store::ObjectKey;

pub(crate) use self::secrets::for_a_server;
pub use self::secrets::{read_credentials, read_network_data};
use super::checks::Asker;
use super::context::Context;
use super::decide::{OwnNode, own_node};
use super::error::ObserveError;
use super::memory::Begin;
use super::observed::{DeploymentSecrets, NetworkDataView, NodeView, Observed, SecretView};
use super::plan::Read;
use crate::fleet::outage_of;

/// The state that needs no call.
pub fn at_hand(ctx: &Context, host: &BareMetalHost, begin: &Begin) -> Observed {
    let key = ObjectKey::of(host);
    let id = super::identity::stored_uuid(host.status.as_ref()).unwrap_or_default();
    let memory = begin.memory.clone();
    let settings = ctx.settings.for_ironic(ctx.fleet.can(Feature::DisablePowerOff));
    Observed {
        secret: secret_at_hand(ctx, host),
        may_claim_unread: ctx.rights.may_patch_secrets() && !ctx.settings.requires_credentials_label,
        node: ctx.fleet.of(id, super::identity::own_uuid(host), &key),
        network_data: network_data_at_hand(ctx, host),
        deployment_secrets: deployment_secrets(ctx, host),
        hardware_data_edit: ctx.companions.hardware_data(&key),
        data_image_at_hand: ctx.companions.data_image(host).with_note(host),
        firmware: ctx.companions.of(host),
        firmware_trouble: ctx.companions.trouble(&key),
        outage: ctx.fleet.outage(),
        reconfigured: memory.is_untried,
        failures: begin.failures,
        seed: random_seed(),
        memory,
        ..Observed::new(host.clone(), settings)
    }
}

/// The host's node, [proven](own_node) by what is at hand or else read.
pub(crate) async fn read_own_node(ctx: &Context, host: &BareMetalHost) -> Result<OwnNode, ObserveError> {
    let id = super::identity::stored_uuid(host.status.as_ref()).unwrap_or_default();
    let own = super::identity::own_uuid(host);
    let mut seen = Observed {
        node: ctx.fleet.of(id, own, &ObjectKey::of(host)),
        ..Observed::new(host.clone(), ctx.settings.clone())
    };
    loop {
        match own_node(&seen) {
            Ok(node) => return Ok(node),
            Err(Read::Credentials) => secrets::credentials(ctx, &mut seen).await?,
            Err(Read::CredentialCheck) => ironic::credential_check(ctx, Asker::Companion, &mut seen).await?,
            Err(_) => ironic::live_node(ctx, &mut seen).await?,
        }
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
    ctx.secrets.set_references(ObjectKey::of(host), keys);
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

/// Call this after the references were registered.
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

/// Call this after the references were registered.
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

/// Performs the read that a decision requested.
///
/// An outage of Ironic is an observation, not an error: the next decision reports it to the user.
pub async fn fetch(ctx: &Context, seen: &mut Observed, need: Read) -> Result<(), ObserveError> {
    let answer = match need {
        Read::Credentials => secrets::credentials(ctx, seen).await,
        Read::ConfigDrive => deployment::config_drive(ctx, seen).await,
        Read::PullSecret => deployment::pull_secret(ctx, seen).await,
        Read::Firmware => objects::firmware_objects(ctx, seen).await,
        Read::Bios => ironic::bios(ctx, seen).await,
        Read::Components => ironic::components(ctx, seen).await,
        Read::LiveNode => ironic::live_node(ctx, seen).await,
        Read::Ports => ironic::ports(ctx, seen).await,
        Read::BootMacOwner => ironic::boot_mac_owner(ctx, seen).await,
        Read::Inventory => ironic::inventory(ctx, seen).await,
        Read::Validation => ironic::validation(ctx, seen).await,
        Read::Slot => {
            ironic::slot(ctx, seen);
            Ok(())
        }
        Read::HardwareData => objects::hardware_data(ctx, seen).await,
        Read::Hardware => objects::stored_hardware(ctx, seen).await,
        Read::Ramdisk => objects::ramdisk(ctx, seen).await,
        Read::NetworkData => secrets::network_data(ctx, seen).await,
        Read::BmcAccess => ironic::bmc_access(ctx, seen).await,
        Read::CredentialCheck => ironic::credential_check(ctx, Asker::Host, seen).await,
        Read::BmcName => {
            ironic::bmc_name(ctx, seen).await;
            Ok(())
        }
        Read::DataImage => objects::data_image(ctx, seen).await,
        Read::Disc => ironic::disc(ctx, seen).await,
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
