//! Compares what was installed on a host with what its spec and its machine request now.
//!
//! An annotation of the host records it, in the write that sets the image. This distinguishes an edit of the host from one of the
//! machine, which Cluster API may update in place and which does not change what runs.

use kube::ResourceExt;
use metal3_api::capi::Machine;
use metal3_api::infra::names::annotation::INSTALLED;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::{BareMetalHost, Image};
use metal3_api::reference::SecretReference;
use metal3_runtime::store::ObjectKey;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::data::Sources;
use super::host_spec::{image, user_data};

/// The image, and the data given to the installed system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Installed {
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Image>,
    #[serde(skip_serializing_if = "String::is_empty")]
    custom_deploy: String,
    /// None if an earlier version set the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

/// The data that the installed system gets at its first boot: names of Secrets, and the template they are rendered from. Empty
/// for none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Given {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub meta_data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub network_data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub data_template: String,
}

impl Given {
    /// What the machine requests now. Unknown values are empty.
    pub fn of(machine: &Metal3Machine, owner: Option<&Machine>, data: Option<&Sources>) -> Self {
        let name = |reference: Option<&SecretReference>| reference.map_or_else(String::new, |one| one.name.clone());
        let user_data = owner.and_then(|owner| user_data(owner, &ObjectKey::of(machine).namespace));
        Self {
            user_data: name(user_data.as_ref()),
            meta_data: name(data.and_then(|data| data.meta_data.as_ref())),
            network_data: name(data.and_then(|data| data.network_data.as_ref())),
            data_template: machine.spec.data_template.name.clone(),
        }
    }

    /// What the host's spec requests now.
    fn on(host: &BareMetalHost) -> Self {
        let name =
            |reference: &Option<SecretReference>| reference.as_ref().map_or_else(String::new, |one| one.name.clone());
        Self {
            user_data: name(&host.spec.user_data),
            meta_data: name(&host.spec.meta_data),
            network_data: name(&host.spec.network_data),
            data_template: String::new(),
        }
    }

    fn secrets(&self) -> [(&'static str, &str); 3] {
        [
            ("userData", &self.user_data),
            ("metaData", &self.meta_data),
            ("networkData", &self.network_data),
        ]
    }

    /// How this differs from the desired Secrets. A Secret that is no longer desired is ignored.
    fn edits(&self, wanted: &Self) -> Vec<String> {
        let pairs = self.secrets().into_iter().zip(wanted.secrets());
        let pairs = pairs.filter(|(_, (_, wanted))| !wanted.is_empty());
        pairs
            .filter_map(|((field, found), (_, wanted))| difference(field, found, wanted))
            .collect()
    }
}

impl Installed {
    /// The image that the machine requests now.
    pub fn of(machine: &Metal3Machine) -> Self {
        Self {
            image: image(machine),
            custom_deploy: machine.spec.custom_deploy.method.clone(),
            given: None,
        }
    }

    /// The image and the data.
    pub fn with(self, given: Given) -> Self {
        Self {
            given: Some(given),
            ..self
        }
    }

    /// The image in the host's spec.
    fn on(host: &BareMetalHost) -> Self {
        let deploy = host.spec.custom_deploy.as_ref();
        Self {
            image: host.spec.wanted_image().cloned(),
            custom_deploy: deploy.map_or_else(String::new, |deploy| deploy.method.clone()),
            given: None,
        }
    }

    /// The contents of the annotation.
    pub fn kept(host: &BareMetalHost) -> Option<Self> {
        let kept = host.annotations().get(INSTALLED)?;
        serde_json::from_str(kept).ok()
    }

    /// What was set on the host. Without the annotation, upstream or an earlier version set it: then the deployed image counts if
    /// the host's spec requests it, otherwise what the machine requests.
    fn told(host: &BareMetalHost, machine: &Metal3Machine) -> Self {
        if let Some(kept) = Self::kept(host) {
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

    /// The differences to what is installed, as text.
    fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = parts(self.image.as_ref()).into_iter().zip(parts(other.image.as_ref()));
        let image = pairs.filter_map(|((field, found), (_, wanted))| difference(field, found, wanted));
        let deploy = difference("customDeploy.method", &self.custom_deploy, &other.custom_deploy);
        image.chain(deploy).collect()
    }

    /// The value of the annotation.
    pub fn text(&self) -> String {
        json!(self).to_string()
    }
}

/// Whether a machine set the host up: by the annotation, or, where upstream did it, by the bootstrap data.
pub(super) fn is_by(host: &BareMetalHost, machine: &Metal3Machine, owner: Option<&Machine>) -> bool {
    let given = Given::on(host).user_data;
    host.annotations().contains_key(INSTALLED)
        || !given.is_empty() && given == Given::of(machine, owner, None).user_data
}

/// Whether a host uses data rendered for its machine.
pub(super) fn had_data(host: &BareMetalHost, machine: &Metal3Machine) -> bool {
    let status = machine.status.as_ref();
    if let Some(given) = Installed::kept(host).and_then(|kept| kept.given) {
        return !given.data_template.is_empty();
    }
    let name = machine.name_any();
    let given = Given::on(host);
    status.is_some_and(|status| !status.rendered_data.name.is_empty())
        || given.meta_data == format!("{name}-metadata")
        || given.network_data == format!("{name}-networkdata")
}

/// How the machine was changed after its host was provisioned, as text.
pub(super) fn drift(
    host: &BareMetalHost,
    machine: &Metal3Machine,
    owner: Option<&Machine>,
    data: Option<&Sources>,
) -> Vec<String> {
    let told = Installed::told(host, machine);
    let mut drift = Installed::of(machine).differences(&told);
    if let Some(told) = told.given {
        let now = Given::of(machine, owner, data);
        drift.extend(difference("dataTemplate.name", &now.data_template, &told.data_template));
        let pairs = now.secrets().into_iter().zip(told.secrets());
        let known = pairs.filter(|((field, _), _)| {
            let is_of_owner = *field == "userData";
            if is_of_owner { owner.is_some() } else { data.is_some() }
        });
        drift.extend(known.filter_map(|((field, now), (_, told))| difference(field, now, told)));
    }
    drift
}

/// Changes by another client to a provisioned host, as text.
#[derive(Debug, Default)]
pub(super) struct Edits {
    /// Changes to the image: these reinstall the host.
    pub installed: Vec<String>,
    /// Changes to first-boot data: no effect once the system runs.
    pub given: Vec<String>,
}

impl Edits {
    /// No changes.
    pub fn is_empty(&self) -> bool {
        self.installed.is_empty() && self.given.is_empty()
    }
}

/// How the host's spec differs from what was set. If that is unknown, compares with what would be set now, as far as the Machine
/// and the data exist.
pub(super) fn edits(
    host: &BareMetalHost,
    machine: &Metal3Machine,
    owner: Option<&Machine>,
    data: Option<&Sources>,
) -> Edits {
    let told = Installed::told(host, machine);
    let installed = Installed::on(host).differences(&told);
    let given = told.given.unwrap_or_else(|| Given::of(machine, owner, data));
    Edits {
        installed,
        given: Given::on(host).edits(&given),
    }
}

/// As text, if there is a difference.
fn difference(field: &str, found: &str, wanted: &str) -> Option<String> {
    let word = |text: &str| if text.is_empty() { "nothing" } else { text }.to_owned();
    (found != wanted).then(|| format!("spec.{field} is {} instead of {}", word(found), word(wanted)))
}

/// The fields of an image. Go clients may write a missing value as an empty string.
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
