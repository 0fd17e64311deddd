//! What is written to a host.

use kube::ResourceExt;
use metal3_api::capi::Machine;
use metal3_api::capi::names::annotation::BLOCK_MOVE;
use metal3_api::capi::names::label::CLUSTER_NAME;
use metal3_api::infra::names::annotation::INSTALLED;
use metal3_api::infra::names::{GROUP, label};
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::{BareMetalHost, Image, ImageFormat};
use metal3_api::reference::SecretReference;
use metal3_runtime::store::ObjectKey;
use serde::{Deserialize, Serialize};
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

/// Has the host run what the machine wants, at its next boot. Data of the user's that the machine has none for stay.
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
    for (field, given) in [("metaData", &sources.meta_data), ("networkData", &sources.network_data)] {
        if let Some(given) = given {
            patch.set(field, json!(given));
        }
    }
    patch.annotate(INSTALLED, Installed::of(&draft.seen.machine).text());
    patch.set("online", true);
}

/// The fields of a host's spec that name Secrets which this machine has written there.
pub(super) fn written_references(draft: &Draft<'_>, host: &BareMetalHost) -> Vec<&'static str> {
    let (machine, status) = (&draft.seen.machine, &draft.status);
    let name = |reference: &Option<SecretReference>| reference.as_ref().map(|one| one.name.clone());
    let is_told = host.spec.wanted_image().is_some() || host.spec.custom_deploy.is_some();
    let data = draft.seen.data.as_deref().map(|data| &data.spec);
    let rendered = |what: &str| Some(format!("{}-{what}", machine.name_any()));
    let rows = [
        // Whoever says what to run says with which user data: those of before are gone.
        ("userData", &host.spec.user_data, is_told, vec![name(&status.user_data)]),
        (
            "metaData",
            &host.spec.meta_data,
            false,
            vec![
                name(&machine.spec.meta_data),
                name(&status.meta_data),
                data.and_then(|data| name(&data.meta_data)),
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
                rendered("networkdata"),
            ],
        ),
    ];
    let ours = rows.into_iter().filter(|(_, found, is_ours, own)| {
        found.is_some() && (*is_ours || own.iter().flatten().any(|own| Some(own) == name(found).as_ref()))
    });
    ours.map(|(field, ..)| field).collect()
}

/// What a host was told to install. An annotation of the host keeps it, in the write that tells the host: the machine may be
/// changed later, which changes nothing of what runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Installed {
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Image>,
    #[serde(skip_serializing_if = "String::is_empty")]
    custom_deploy: String,
}

impl Installed {
    /// What the machine asks for now.
    fn of(machine: &Metal3Machine) -> Self {
        Self {
            image: image(machine),
            custom_deploy: machine.spec.custom_deploy.method.clone(),
        }
    }

    /// What the host is asked for now.
    fn on(host: &BareMetalHost) -> Self {
        let deploy = host.spec.custom_deploy.as_ref();
        Self {
            image: host.spec.wanted_image().cloned(),
            custom_deploy: deploy.map_or_else(String::new, |deploy| deploy.method.clone()),
        }
    }

    /// What the host was told for this machine. Where no annotation says so, the host was told by upstream or by an earlier
    /// version: then what is deployed on it, if that is what it is asked for, or else what the machine asks for.
    fn told(host: &BareMetalHost, machine: &Metal3Machine) -> Self {
        let kept = host.annotations().get(INSTALLED);
        if let Some(kept) = kept.and_then(|text| serde_json::from_str(text).ok()) {
            return kept;
        }
        let asked = Self::on(host);
        let deployed = host.status.as_ref().map(|status| &status.provisioning);
        let deployed = deployed
            .and_then(|it| it.image.as_ref())
            .filter(|image| !image.url.is_empty());
        let is_deployed = deployed.is_some() && parts(deployed) == parts(asked.image.as_ref());
        if is_deployed { asked } else { Self::of(machine) }
    }

    /// How this differs from that, in words.
    fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = parts(self.image.as_ref()).into_iter().zip(parts(other.image.as_ref()));
        let image = pairs.filter_map(|((field, found), (_, wanted))| difference(field, found, wanted));
        let deploy = difference("customDeploy.method", &self.custom_deploy, &other.custom_deploy);
        image.chain(deploy).collect()
    }

    fn text(&self) -> String {
        json!(self).to_string()
    }
}

/// How the machine was changed after its host was told what to install, in words.
pub(super) fn drift(host: &BareMetalHost, machine: &Metal3Machine) -> Vec<String> {
    Installed::of(machine).differences(&Installed::told(host, machine))
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

/// How the host differs from what [`run`] has written; as far as that is known, if the Machine or the data is not there.
pub(super) fn edits(
    host: &BareMetalHost,
    machine: &Metal3Machine,
    owner: Option<&Machine>,
    data: Option<&Sources>,
) -> Edits {
    let mut edits = Edits {
        installed: Installed::on(host).differences(&Installed::told(host, machine)),
        given: Vec::new(),
    };
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
