//! What is written to a host.

use metal3_api::capi::Machine;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::infra::names::{GROUP, label};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::{BareMetalHost, Image, ImageFormat};
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

/// After a move to another management cluster the machine has another UID. One that upstream wrote without stays without.
pub(super) fn identify(patch: &mut HostPatch, machine: &Metal3Machine, host: &BareMetalHost) {
    let stored = host.spec.consumer_ref.as_ref().map_or("", |consumer| &consumer.uid);
    if !stored.is_empty() && machine.metadata.uid.as_deref().is_some_and(|uid| uid != stored) {
        patch.set("consumerRef", json!({"uid": machine.metadata.uid}));
    }
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

/// What somebody else has made of a host that was told what to run, in words.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// What is installed: with another of these, the host is installed anew.
    pub installed: Vec<String>,
    /// What the installed system is given at its first boot: of no consequence once it runs.
    pub given: Vec<String>,
}

impl Edits {
    /// None.
    pub fn is_empty(&self) -> bool {
        self.installed.is_empty() && self.given.is_empty()
    }

    /// A Secret that the machine does not want is of no harm.
    fn given(&mut self, field: &str, found: Option<&SecretReference>, wanted: Option<&SecretReference>) {
        if let Some(wanted) = wanted {
            let found = found.map_or("", |found| &found.name);
            self.given.extend(difference(field, found, &wanted.name));
        }
    }
}

/// In words, if there is one.
fn difference(field: &str, found: &str, wanted: &str) -> Option<String> {
    let word = |text: &str| if text.is_empty() { "nothing" } else { text }.to_owned();
    (found != wanted).then(|| format!("spec.{field} is {} instead of {}", word(found), word(wanted)))
}

/// What an image is by field. Go clients may write what is not there as an empty text.
fn parts(image: Option<&Image>) -> [(&'static str, &str); 4] {
    let Some(image) = image else {
        return ["image.url", "image.checksum", "image.checksumType", "image.format"].map(|field| (field, ""));
    };
    let kind = image.checksum_type.as_ref().map_or("", |kind| kind.as_str());
    let format = image.format.as_ref().map_or("", |format| format.as_str());
    [
        ("image.url", &image.url),
        ("image.checksum", &image.checksum),
        ("image.checksumType", kind),
        ("image.format", format),
    ]
}

/// How the host differs from what [`run`] writes; as far as that is known, if the Machine or the data is not there.
pub(super) fn edits(
    host: &BareMetalHost,
    machine: &Metal3Machine,
    owner: Option<&Machine>,
    data: Option<&Sources>,
) -> Edits {
    let mut edits = Edits::default();
    let wanted = image(machine);
    let pairs = parts(host.spec.wanted_image()).into_iter().zip(parts(wanted.as_ref()));
    for ((field, found), (_, wanted)) in pairs {
        edits.installed.extend(difference(field, found, wanted));
    }
    let deploy = host.spec.custom_deploy.as_ref();
    let (deploy, wanted) = (
        deploy.map_or("", |deploy| &deploy.method),
        &machine.spec.custom_deploy.method,
    );
    edits
        .installed
        .extend(difference("customDeploy.method", deploy, wanted));
    if let Some(owner) = owner {
        let wanted = user_data(owner, &ObjectKey::of(machine).namespace);
        edits.given("userData", host.spec.user_data.as_ref(), wanted.as_ref());
    }
    if let Some(data) = data {
        edits.given("metaData", host.spec.meta_data.as_ref(), data.meta_data.as_ref());
        edits.given(
            "networkData",
            host.spec.network_data.as_ref(),
            data.network_data.as_ref(),
        );
    }
    edits
}

fn user_data(owner: &Machine, namespace: &str) -> Option<SecretReference> {
    bootstrap_secret(owner).map(|name| SecretReference {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
    })
}

/// The Secrets in use.
pub(super) fn remember(draft: &mut Draft<'_>, owner: &Machine, sources: &Sources) {
    let namespace = draft.seen.key().namespace;
    draft.status.user_data = user_data(owner, &namespace);
    draft.status.meta_data.clone_from(&sources.meta_data);
    draft.status.network_data.clone_from(&sources.network_data);
}
