//! The changes written to a host.

use kube::ResourceExt;
use metal3_api::capi::Machine;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::infra::names::annotation::INSTALLED;
use metal3_api::infra::names::{GROUP, label};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::{BareMetalHost, Image, ImageFormat};
use metal3_api::reference::{Elsewhere, SecretReference};
use metal3_runtime::store::ObjectKey;
use serde_json::{Value, json};

use super::builder::PlanBuilder;
use super::data::Sources;
use super::installed::{Given, Installed};
use super::waits::bootstrap_secret;
use crate::machine::decide::plan::HostPatch;

/// Why a machine is invalid for any host: the field and the error.
pub(super) fn check(machine: &Metal3Machine) -> Result<(), String> {
    let spec = &machine.spec;
    let own = machine.metadata.namespace.as_deref().unwrap_or_default();
    let references = [
        ("metaData", &spec.meta_data),
        ("networkData", &spec.network_data),
        ("userData", &spec.user_data),
    ];
    for (field, reference) in references {
        if let Some(Err(Elsewhere(namespace))) = reference.as_ref().map(|reference| reference.local(own)) {
            return Err(format!(
                "spec.{field}.namespace is {namespace}: only Secrets of the machine's namespace, {own}, are used"
            ));
        }
    }
    if let Err(Elsewhere(template)) = spec.data_template.local(own) {
        return Err(format!(
            "spec.dataTemplate.namespace is {template}: only templates of the machine's namespace, {own}, are used"
        ));
    }
    let image = image(machine);
    if image.is_none() && spec.custom_deploy.method.is_empty() {
        return Err("there is nothing to install: set spec.image or spec.customDeploy".to_owned());
    }
    if let Some(Err(error)) = image.as_ref().map(Image::resolve_checksum) {
        return Err(format!("spec.image: {error}"));
    }
    Ok(())
}

/// The machine's image as a host's image.
pub(super) fn image(machine: &Metal3Machine) -> Option<Image> {
    let image = machine.spec.image.as_ref().filter(|image| !image.url.is_empty())?;
    Some(Image {
        url: image.url.clone(),
        checksum: image.checksum.clone().unwrap_or_default(),
        checksum_type: image.checksum_type.as_ref().map(|kind| kind.as_str().into()),
        format: image
            .disk_format
            .as_ref()
            .map(|format| ImageFormat::from(format.as_str())),
        oci_auth_secret_name: String::new(),
    })
}

/// Claims the host for the machine.
pub(super) fn take(patch: &mut HostPatch, machine: &Metal3Machine, cluster: &str) {
    let key = ObjectKey::of(machine);
    let consumer = json!({
        "apiVersion": format!("{GROUP}/v1beta2"),
        "kind": "Metal3Machine",
        "name": key.name,
        "namespace": key.namespace,
        "uid": machine.metadata.uid,
    });
    patch.set("consumerRef", consumer);
    patch.label(CLUSTER_NAME, cluster);
    patch.label(label::NODE_REUSE, Value::Null);
    patch.annotate(BLOCK_MOVE, "");
    cleaning(patch, machine);
}

/// Removes the claim from a host without an image.
pub(super) fn release(host: &BareMetalHost) -> HostPatch {
    let mut patch = HostPatch::default();
    patch.set("consumerRef", Value::Null);
    if host.labels().contains_key(CLUSTER_NAME) {
        patch.label(CLUSTER_NAME, Value::Null);
    }
    if host.annotations().contains_key(BLOCK_MOVE) {
        patch.annotate(BLOCK_MOVE, Value::Null);
    }
    patch
}

/// A move to another management cluster changes the machine's UID. A reference that upstream wrote without a UID stays that way.
pub(super) fn identify(patch: &mut HostPatch, machine: &Metal3Machine, host: &BareMetalHost) {
    let stored = host.spec.consumer_ref.as_ref().map_or("", |consumer| &consumer.uid);
    if !stored.is_empty() && machine.metadata.uid.as_deref().is_some_and(|uid| uid != stored) {
        patch.set("consumerRef", json!({"uid": machine.metadata.uid}));
    }
}

/// The disk cleaning mode, if the machine sets it.
pub(super) fn cleaning(patch: &mut HostPatch, machine: &Metal3Machine) {
    if let Some(mode) = &machine.spec.automated_cleaning_mode {
        patch.set("automatedCleaningMode", mode.as_str());
    }
}

/// Sets what the host runs at its next boot. References set by the user stay where the machine has none.
pub(super) fn run(patch: &mut HostPatch, builder: &PlanBuilder<'_>, owner: &Machine, sources: &Sources) {
    let machine = &builder.seen.machine;
    let deploy = &machine.spec.custom_deploy.method;
    patch.set("image", json!(image(machine)));
    let deploy = if deploy.is_empty() {
        Value::Null
    } else {
        json!({"method": deploy})
    };
    patch.set("customDeploy", deploy);
    patch.set("userData", json!(builder.status.user_data));
    for (field, given) in [("metaData", &sources.meta_data), ("networkData", &sources.network_data)] {
        if let Some(given) = given {
            patch.set(field, json!(given));
        }
    }
    let given = Given::of(machine, Some(owner), Some(sources));
    patch.annotate(INSTALLED, Installed::of(machine).with(given).text());
    patch.set("online", true);
}

/// The Secret fields of a host's spec that this machine has written.
pub(super) fn written_references(builder: &PlanBuilder<'_>, host: &BareMetalHost) -> Vec<&'static str> {
    let (machine, status) = (&builder.seen.machine, &builder.status);
    let name = |reference: &Option<SecretReference>| reference.as_ref().map(|one| one.name.clone());
    let is_told = host.has_image();
    let data = builder.seen.data.as_deref().map(|data| &data.spec);
    let told = Installed::kept(host)
        .and_then(|installed| installed.given)
        .unwrap_or_default();
    let rendered = |what: &str| Some(format!("{}-{what}", machine.name_any()));
    let rows = [
        // Image and user data are set together: earlier references are removed.
        ("userData", &host.spec.user_data, is_told, vec![name(&status.user_data)]),
        (
            "metaData",
            &host.spec.meta_data,
            false,
            vec![
                name(&machine.spec.meta_data),
                name(&status.meta_data),
                data.and_then(|data| name(&data.meta_data)),
                Some(told.meta_data),
                rendered("metadata"),
            ],
        ),
        (
            "networkData",
            &host.spec.network_data,
            false,
            vec![
                name(&machine.spec.network_data),
                name(&status.network_data),
                data.and_then(|data| name(&data.network_data)),
                Some(told.network_data),
                rendered("networkdata"),
            ],
        ),
    ];
    let ours = rows.into_iter().filter(|(_, found, is_ours, own)| {
        found.is_some() && (*is_ours || own.iter().flatten().any(|own| Some(own) == name(found).as_ref()))
    });
    ours.map(|(field, ..)| field).collect()
}

/// The Secret with the user data of a machine.
pub(super) fn user_data(owner: &Machine, namespace: &str) -> Option<SecretReference> {
    bootstrap_secret(owner).map(|name| SecretReference {
        name: name.to_owned(),
        namespace: namespace.into(),
    })
}

/// The Secrets in use, according to the machine.
pub(super) fn remember(builder: &mut PlanBuilder<'_>, owner: &Machine, sources: &Sources) {
    let namespace = builder.seen.key().namespace;
    builder.status.user_data = user_data(owner, &namespace);
    builder.status.meta_data.clone_from(&sources.meta_data);
    builder.status.network_data.clone_from(&sources.network_data);
}

/// The Secrets in use, according to a provisioned host.
pub(super) fn remember_told(builder: &mut PlanBuilder<'_>, given: &Given) {
    let namespace = builder.seen.key().namespace;
    let reference = |name: &String| {
        (!name.is_empty()).then(|| SecretReference {
            name: name.clone(),
            namespace: namespace.clone().into(),
        })
    };
    builder.status.user_data = reference(&given.user_data);
    builder.status.meta_data = reference(&given.meta_data);
    builder.status.network_data = reference(&given.network_data);
}
