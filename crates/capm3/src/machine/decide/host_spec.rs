//! What is written to a host.

use metal3_api::capi::Machine;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::infra::names::{GROUP, label};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::{Image, ImageFormat};
use metal3_api::reference::SecretReference;
use metal3_runtime::store::ObjectKey;
use serde_json::{Value, json};

use super::HostPatch;
use super::data::Sources;
use super::draft::Draft;
use super::waits::bootstrap_secret;

/// Why a machine cannot be put on any host, whatever the host: the field, and what is wrong with it.
pub(super) fn check(machine: &Metal3Machine) -> Result<(), String> {
    let spec = &machine.spec;
    let own = machine.metadata.namespace.as_deref().unwrap_or_default();
    let references = [
        ("metaData", &spec.meta_data),
        ("networkData", &spec.network_data),
        ("userData", &spec.user_data),
    ];
    for (field, reference) in references {
        let namespace = reference.as_ref().map_or("", |reference| &reference.namespace);
        if !namespace.is_empty() && namespace != own {
            return Err(format!(
                "spec.{field}.namespace is {namespace}: only Secrets of the machine's namespace, {own}, are used"
            ));
        }
    }
    let template = &spec.data_template.namespace;
    if !template.is_empty() && template != own {
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

/// The machine's image in the words of a host.
fn image(machine: &Metal3Machine) -> Option<Image> {
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

/// Makes the host the machine's.
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

/// Whether disks are cleaned, where the machine says so.
pub(super) fn cleaning(patch: &mut HostPatch, machine: &Metal3Machine) {
    if let Some(mode) = &machine.spec.automated_cleaning_mode {
        patch.set("automatedCleaningMode", mode.as_str());
    }
}

/// Has the host run what the machine wants, at its next boot. What an earlier machine may have left is taken away.
pub(super) fn run(patch: &mut HostPatch, draft: &mut Draft<'_>, owner: &Machine, sources: &Sources) {
    let machine = &draft.seen.machine;
    let deploy = &machine.spec.custom_deploy.method;
    patch.set("image", json!(image(machine)));
    let deploy = if deploy.is_empty() {
        Value::Null
    } else {
        json!({"method": deploy})
    };
    patch.set("customDeploy", deploy);
    remember(draft, owner, sources);
    patch.set("userData", json!(draft.status.user_data));
    patch.set("metaData", json!(sources.meta_data));
    patch.set("networkData", json!(sources.network_data));
    patch.set("online", true);
}

/// The Secrets in use.
pub(super) fn remember(draft: &mut Draft<'_>, owner: &Machine, sources: &Sources) {
    let namespace = draft.seen.key().namespace;
    let user_data = bootstrap_secret(owner).map(|name| SecretReference {
        name: name.to_owned(),
        namespace,
    });
    draft.status.user_data = user_data;
    draft.status.meta_data.clone_from(&sources.meta_data);
    draft.status.network_data.clone_from(&sources.network_data);
}
