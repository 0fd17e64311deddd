//! Reading: what is at hand for every decision, and the rest when one asks for it. Nothing is changed here.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt};
use metal3_api::metal3::names::{finalizer, label, secret_key};
use metal3_api::metal3::{BareMetalHost, DataImage, HardwareData, PreprovisioningImage};
use metal3_api::reference::SecretReference;
use metal3_bmc::BmcAddress;
use metal3_ironic::{ErrorClass, Feature};
use metal3_runtime::conditions::whole_seconds;
use metal3_runtime::secrets::{Known, SecretKey, SecretVersions};

use super::cached;
use super::config_drive::{self, Texts};
use super::context::Context;
use super::error::ObserveError;
use super::hardware;
use super::observed::{
    ConfigDriveView, DeploymentSecrets, HardwareView, Lookup, MacOwner, NetworkDataView, NodeView, Observed,
    PullSecret, PullSecretView, SecretFound, SecretView,
};
use super::plan::{EventReason, Need};
use super::{firmware, instance, pull_secret, queue};
use crate::fleet::{HostKey, Turn, outage_of};

/// The key of a host.
pub fn key_of(host: &BareMetalHost) -> HostKey {
    HostKey {
        namespace: host.namespace().unwrap_or_default(),
        name: host.name_any(),
    }
}

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
        may_claim_unread: ctx.rights.may_patch_secrets(),
        node: ctx.fleet.of(id, &key),
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
        Need::Credentials => credentials(ctx, seen).await,
        Need::ConfigDrive => config_drive(ctx, seen).await,
        Need::PullSecret => pull_secret(ctx, seen).await,
        Need::Firmware => firmware_objects(ctx, seen).await,
        Need::Bios => bios(ctx, seen).await,
        Need::LiveNode => live_node(ctx, seen).await,
        Need::Ports => ports(ctx, seen).await,
        Need::BootMacOwner => boot_mac_owner(ctx, seen).await,
        Need::Inventory => inventory(ctx, seen).await,
        Need::Validation => validation(ctx, seen).await,
        Need::Slot => {
            slot(ctx, seen);
            Ok(())
        }
        Need::HardwareData => hardware_data(ctx, seen).await,
        Need::Hardware => stored_hardware(ctx, seen).await,
        Need::Ramdisk => ramdisk(ctx, seen).await,
        Need::NetworkData => network_data(ctx, seen).await,
        Need::BmcAccess => bmc_access(ctx, seen).await,
        Need::BmcName => {
            bmc_name(ctx, seen).await;
            Ok(())
        }
        Need::DataImage => data_image(ctx, seen).await,
        Need::Disc => disc(ctx, seen).await,
    };
    match answer {
        Err(ObserveError::Ironic(error)) => match outage_of(&error) {
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

async fn credentials(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let name = seen.host.spec.bmc.credentials_name.clone();
    seen.secret = match secret(ctx, &seen.host, &name).await? {
        None => SecretView::Missing,
        Some(secret) => read_credentials(secret, &seen.host),
    };
    Ok(())
}

async fn secret(ctx: &Context, host: &BareMetalHost, name: &str) -> Result<Option<Secret>, ObserveError> {
    let namespace = host.namespace().unwrap_or_default();
    let api: Api<Secret> = Api::namespaced(ctx.kube.clone(), &namespace);
    let found = api.get_opt(name).await?;
    let key = SecretKey {
        namespace,
        name: name.to_owned(),
    };
    ctx.secrets.learn(&key, found.as_ref().map(|s| &s.metadata));
    Ok(found)
}

/// Both keys, without surrounding blanks: files that people make Secrets from end with a newline.
pub fn read_credentials(secret: Secret, host: &BareMetalHost) -> SecretView {
    let metadata = &secret.metadata;
    let mut owners = metadata.owner_references.iter().flatten();
    let has_owner = owners.any(|o| Some(&o.uid) == host.metadata.uid.as_ref());
    let invalid = |problem: String| SecretView::Invalid {
        problem,
        claimed: has_owner,
    };
    let mut values = [String::new(), String::new()];
    for (value, key) in values.iter_mut().zip([secret_key::USERNAME, secret_key::PASSWORD]) {
        let Some(bytes) = secret.data.as_ref().and_then(|d| d.get(key)) else {
            return invalid(format!("key {key} is missing"));
        };
        let Ok(text) = std::str::from_utf8(&bytes.0) else {
            return invalid(format!("key {key} is not text"));
        };
        text.trim().clone_into(value);
        if value.is_empty() {
            return invalid(format!("key {key} is empty"));
        }
    }
    let [username, password] = values;
    SecretView::Found(SecretFound {
        digest: digest(&username, &password),
        username,
        password,
        version: metadata.resource_version.clone().unwrap_or_default(),
        claimed: is_claimed(metadata) && has_owner,
        object: Some(Arc::new(secret)),
    })
}

/// Tells whether credentials are the same; it never leaves the process.
fn digest(username: &str, password: &str) -> u64 {
    use sha2::{Digest, Sha256};
    let hash = Sha256::new()
        .chain_update(username)
        .chain_update([0])
        .chain_update(password)
        .finalize();
    hash.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// The node by identity, else by name. The name is asked only where the last list does not answer already.
fn slot(ctx: &Context, seen: &mut Observed) {
    let node = match &seen.node {
        NodeView::Live(node) | NodeView::Listed(node) => node.uuid.clone(),
        NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => seen
            .host
            .status
            .as_ref()
            .map(|s| s.provisioning.id.clone())
            .unwrap_or_default(),
    };
    let turn = queue::turn(&seen.host).unwrap_or_else(|| Turn::Wanted(whole_seconds(ctx.clock.now())));
    let slot = ctx.fleet.ask_for_slot(&key_of(&seen.host), &node, turn);
    seen.slot = Lookup::Found(slot);
}

async fn live_node(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let key = key_of(&seen.host);
    let id = seen
        .host
        .status
        .as_ref()
        .map(|s| s.provisioning.id.clone())
        .unwrap_or_default();
    let listed = match &seen.node {
        NodeView::Listed(node) | NodeView::Live(node) => node.uuid.clone(),
        NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => String::new(),
    };
    let name = super::draft::node_name(&seen.host);
    let mut asked: Vec<String> = Vec::new();
    for ident in [listed, id, name] {
        if ident.is_empty() || asked.contains(&ident) {
            continue;
        }
        let now = ctx.clock.elapsed();
        if let Some(node) = ctx.ironic.client()?.node(&ident).await? {
            ctx.fleet.learn(&node, &key, now);
            seen.node = NodeView::Live(Arc::new(node));
            return Ok(());
        }
        asked.push(ident);
    }
    seen.node = NodeView::Gone;
    seen.memory.ports_with = None;
    Ok(())
}

fn live_uuid(seen: &Observed) -> Option<String> {
    match &seen.node {
        NodeView::Live(node) | NodeView::Listed(node) => Some(node.uuid.clone()),
        NodeView::Unknown { .. } | NodeView::Unlisted | NodeView::Gone => None,
    }
}

async fn ports(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    seen.ports = match live_uuid(seen) {
        Some(node) => Lookup::Found(ctx.ironic.client()?.ports_of(&node).await?),
        None => Lookup::NotFound,
    };
    Ok(())
}

async fn boot_mac_owner(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let ports = ctx
        .ironic
        .client()?
        .ports_with_address(&seen.host.spec.boot_mac_address.to_ascii_lowercase())
        .await?;
    seen.boot_mac_owner = match ports.into_iter().next() {
        None => Lookup::NotFound,
        Some(port) => match ctx.ironic.client()?.node(&port.node_uuid).await? {
            None => Lookup::NotFound,
            Some(node) => Lookup::Found(MacOwner {
                node: node.uuid,
                name: node.name,
            }),
        },
    };
    Ok(())
}

async fn inventory(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    seen.inventory = match live_uuid(seen) {
        Some(node) => match ctx.ironic.client()?.inventory(&node).await? {
            Some(inventory) => Lookup::Found(Arc::new(hardware::details(&inventory))),
            None => Lookup::NotFound,
        },
        None => Lookup::NotFound,
    };
    Ok(())
}

async fn ramdisk(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let api: Api<PreprovisioningImage> = Api::namespaced(ctx.kube.clone(), &seen.host.namespace().unwrap_or_default());
    seen.ramdisk = match api.get_opt(&seen.host.name_any()).await? {
        Some(image) => Lookup::Found(Arc::new(image)),
        None => Lookup::NotFound,
    };
    Ok(())
}

async fn network_data(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let name = seen.host.spec.preprovisioning_network_data_name.clone();
    seen.network_data = match secret(ctx, &seen.host, &name).await? {
        None => NetworkDataView::Missing,
        Some(secret) => read_network_data(secret),
    };
    Ok(())
}

/// A Secret without the key is one without network data.
pub fn read_network_data(secret: Secret) -> NetworkDataView {
    let data = secret.data.as_ref();
    let bytes = data.and_then(|d| d.get(secret_key::NETWORK_DATA).or_else(|| d.get(secret_key::VALUE)));
    let text = bytes.map_or(Ok(""), |bytes| std::str::from_utf8(&bytes.0));
    let description = match text {
        Err(_) => Err("it is not text".to_owned()),
        Ok(text) if text.trim().is_empty() => Ok(serde_json::Map::new()),
        Ok(text) => config_drive::mapping("spec.preprovisioningNetworkDataName", text),
    };
    let metadata = &secret.metadata;
    match description {
        Err(why) => NetworkDataView::Unusable(why),
        Ok(description) => NetworkDataView::Found {
            description: Arc::new(description.into()),
            version: metadata.resource_version.clone().unwrap_or_default(),
            claimed: is_claimed(metadata),
            object: Some(Arc::new(secret)),
        },
    }
}

/// The versions of the hosts' Secrets, none of which is known yet.
pub fn secret_versions() -> SecretVersions<ObjectRef<BareMetalHost>> {
    SecretVersions::marked_by(is_claimed)
}

/// Label and finalizer are there.
fn is_claimed(secret: &ObjectMeta) -> bool {
    let label = secret.labels.as_ref().and_then(|l| l.get(label::ENVIRONMENT));
    let has_finalizer = secret.finalizers.iter().flatten().any(|f| f == finalizer::SECRET);
    has_finalizer && label.is_some_and(|v| v == label::ENVIRONMENT_BAREMETAL)
}

/// Only what speaks of the BMC is an answer; trouble with Ironic itself is told as such.
async fn bmc_access(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let Some(node) = live_uuid(seen) else {
        seen.bmc_access = Lookup::NotFound;
        return Ok(());
    };
    seen.bmc_access = match ctx.ironic.client()?.ask_bmc(&node).await {
        Ok(()) => Lookup::Found(Ok(())),
        Err(error) => match error.class() {
            ErrorClass::Server | ErrorClass::Timeout => Lookup::Found(Err(error.message())),
            // It cannot be asked this way: nothing is known, as before.
            ErrorClass::NotFound | ErrorClass::BadRequest => Lookup::NotFound,
            ErrorClass::Absent
            | ErrorClass::Unreachable
            | ErrorClass::Unauthorized
            | ErrorClass::Forbidden
            | ErrorClass::Locked
            | ErrorClass::Duplicate
            | ErrorClass::InvalidState
            | ErrorClass::Conflict
            | ErrorClass::VersionUnsupported
            | ErrorClass::Busy
            | ErrorClass::Protocol => return Err(error.into()),
        },
    };
    if !matches!(seen.bmc_access, Lookup::Found(Err(_))) {
        seen.memory.is_untried = false;
        seen.reconfigured = false;
    }
    Ok(())
}

/// An address that cannot be parsed is told by the decision.
async fn bmc_name(ctx: &Context, seen: &mut Observed) {
    seen.bmc_name = match BmcAddress::parse(&seen.host.spec.bmc.address) {
        Ok(address) => Lookup::Found(ctx.bmc_names.is_ipv6(address.host(), ctx.clock.elapsed()).await),
        Err(_) => Lookup::NotFound,
    };
}

async fn hardware_data(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let api: Api<HardwareData> = Api::namespaced(ctx.kube.clone(), &seen.host.namespace().unwrap_or_default());
    let found = api.get_opt(&seen.host.name_any()).await?;
    seen.hardware_data = match found.and_then(|data| data.spec.hardware) {
        Some(details) => Lookup::Found(Arc::new(*details)),
        None => Lookup::NotFound,
    };
    Ok(())
}

/// Read from the host itself: a HardwareData may be missing, or say something else.
async fn stored_hardware(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let api: Api<BareMetalHost> = Api::namespaced(ctx.kube.clone(), &seen.host.namespace().unwrap_or_default());
    let found = api.get_opt(&seen.host.name_any()).await?;
    seen.hardware = match found.and_then(|host| host.status).and_then(|status| status.hardware) {
        Some(details) => HardwareView::Known(Arc::new(*details)),
        None => HardwareView::None,
    };
    Ok(())
}

async fn data_image(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let api: Api<DataImage> = Api::namespaced(ctx.kube.clone(), &seen.host.namespace().unwrap_or_default());
    seen.data_image = match api.get_opt(&seen.host.name_any()).await? {
        Some(image) => Lookup::Found(Arc::new(image)),
        None => Lookup::NotFound,
    };
    Ok(())
}

/// What the BMC does not tell is told of the host; trouble with Ironic itself is told as such.
async fn disc(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let Some(node) = live_uuid(seen) else {
        seen.disc = Lookup::NotFound;
        return Ok(());
    };
    seen.disc = match ctx.ironic.client()?.virtual_media(&node).await {
        Ok(drives) => Lookup::Found(Ok(drives.iter().any(|drive| drive.is_disc_drive() && drive.inserted))),
        Err(error) if is_about_bmc(error.class()) || error.class() == ErrorClass::BadRequest => {
            Lookup::Found(Err(error.message()))
        }
        Err(error) => return Err(error.into()),
    };
    Ok(())
}

/// Whether a failure of a call that reaches the BMC is the BMC's.
fn is_about_bmc(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Server | ErrorClass::Timeout)
}

async fn validation(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let Some(node) = live_uuid(seen) else {
        seen.validation = Lookup::NotFound;
        return Ok(());
    };
    let found = ctx.ironic.client()?.validate(&node).await?;
    let problems = [("boot", found.boot), ("deploy", found.deploy)];
    seen.validation = Lookup::Found(
        problems
            .into_iter()
            .filter_map(|(what, why)| Some(format!("{what}: {}", why?)))
            .collect(),
    );
    Ok(())
}

/// One Secret after another; what is missing is named with its field.
async fn config_drive(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let spec = &seen.host.spec;
    let mut texts = Texts::default();
    let mut problem = None;
    // A host without network data of its own gets that of the ramdisk.
    let fallback = Some(SecretReference {
        name: spec.preprovisioning_network_data_name.clone(),
        ..SecretReference::default()
    });
    let (network_field, network_data) = match &spec.network_data {
        Some(own) if !own.name.is_empty() => ("spec.networkData", &spec.network_data),
        _ => ("spec.preprovisioningNetworkDataName", &fallback),
    };
    for (field, reference, key, must_have, text) in [
        (
            "spec.userData",
            &spec.user_data,
            secret_key::USER_DATA,
            true,
            &mut texts.user,
        ),
        (
            network_field,
            network_data,
            secret_key::NETWORK_DATA,
            false,
            &mut texts.network,
        ),
        (
            "spec.metaData",
            &spec.meta_data,
            secret_key::META_DATA,
            true,
            &mut texts.meta,
        ),
    ] {
        let Some(reference) = reference.as_ref().filter(|r| !r.name.is_empty()) else {
            continue;
        };
        match named_text(ctx, &seen.host, field, reference, key, must_have).await? {
            Ok(found) => *text = found,
            Err(why) => problem = problem.or(Some(why)),
        }
    }
    seen.config_drive = match problem.map_or_else(|| config_drive::build(&seen.host, &texts, network_field), Err) {
        Ok(drive) => ConfigDriveView::Ready(Arc::new(drive)),
        Err(why) => ConfigDriveView::Unusable(why),
    };
    Ok(())
}

async fn firmware_objects(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let name = seen.host.name_any();
    let namespace = seen.host.namespace().unwrap_or_default();
    let settings = Api::namespaced(ctx.kube.clone(), &namespace);
    let updates = Api::namespaced(ctx.kube.clone(), &namespace);
    // Where the kinds are not installed nobody can have asked for anything.
    seen.firmware_objects = Lookup::Found(Arc::new(firmware::Objects {
        settings: settings.get_opt(&name).await?,
        updates: updates.get_opt(&name).await?,
    }));
    Ok(())
}

async fn bios(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    seen.bios = match live_uuid(seen) {
        Some(node) => Lookup::Found(Arc::new(ctx.ironic.client()?.bios_settings(&node).await?)),
        None => Lookup::NotFound,
    };
    Ok(())
}

/// Only what the wanted image names is read.
async fn pull_secret(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let Some(deployment) = instance::Deployment::wanted(&seen.host.spec) else {
        return Ok(());
    };
    let (Some(name), Some(image)) = (deployment.pull_secret_name(), deployment.image()) else {
        return Ok(());
    };
    let namespace = seen.host.namespace().unwrap_or_default();
    let about = format!("Secret {namespace}/{name}, named by spec.image.ociAuthSecretName,");
    let found = match secret(ctx, &seen.host, name).await? {
        None => Err((
            EventReason::ImageAuthParseError,
            "does not exist: create it to go on".to_owned(),
        )),
        Some(secret) => pull_secret::credentials(
            secret.type_.as_deref().unwrap_or_default(),
            &secret.data.unwrap_or_default(),
            &image.url,
        ),
    };
    seen.pull_secret = match found {
        Ok(credentials) => PullSecretView::Ready(PullSecret {
            digest: digest(&credentials, ""),
            credentials,
        }),
        Err((event, why)) => PullSecretView::Unusable(event, format!("{about} {why}")),
    };
    Ok(())
}

async fn named_text(
    ctx: &Context,
    host: &BareMetalHost,
    field: &str,
    reference: &SecretReference,
    key: &str,
    must_have: bool,
) -> Result<Result<Option<String>, String>, ObserveError> {
    let namespace = host.namespace().unwrap_or_default();
    let name = &reference.name;
    if !reference.namespace.is_empty() && reference.namespace != namespace {
        return Ok(Err(format!(
            "{field}.namespace is {:?}: only Secrets of the host's own namespace {namespace} are read",
            reference.namespace
        )));
    }
    let Some(secret) = secret(ctx, host, name).await? else {
        return Ok(Err(format!(
            "Secret {namespace}/{name}, named by {field}, does not exist: create it to go on"
        )));
    };
    let data = secret.data.unwrap_or_default();
    let Some(bytes) = data.get(key).or_else(|| data.get(secret_key::VALUE)) else {
        return Ok(if must_have {
            Err(format!(
                "Secret {namespace}/{name}, named by {field}, has neither key {key} nor key value"
            ))
        } else {
            Ok(None)
        });
    };
    Ok(match String::from_utf8(bytes.0.clone()) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(format!(
            "Secret {namespace}/{name}, named by {field}, holds something that is not text"
        )),
    })
}
