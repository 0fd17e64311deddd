//! What a host was told to run, beside what it is asked for now and what its machine asks for now.
//!
//! An annotation of the host keeps it, in the write that tells the host. So an edit of the host is told from one of the machine,
//! which Cluster API may update in place and which changes nothing of what runs.

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

/// What is installed, and what the installed system is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Installed {
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Image>,
    #[serde(skip_serializing_if = "String::is_empty")]
    custom_deploy: String,
    /// Nothing where an earlier version told the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<Given>,
}

/// What the installed system is given at its first boot: names of Secrets, and the template that they are rendered from. Empty
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
    /// What the machine asks for now. What is not known is empty.
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

    /// What the host is asked for now.
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

    /// How this differs from the Secrets that are wanted. One that is wanted by nobody is of no harm.
    fn edits(&self, wanted: &Self) -> Vec<String> {
        let pairs = self.secrets().into_iter().zip(wanted.secrets());
        let pairs = pairs.filter(|(_, (_, wanted))| !wanted.is_empty());
        pairs
            .filter_map(|((field, found), (_, wanted))| difference(field, found, wanted))
            .collect()
    }
}

impl Installed {
    /// What the machine asks to be installed now.
    pub fn of(machine: &Metal3Machine) -> Self {
        Self {
            image: image(machine),
            custom_deploy: machine.spec.custom_deploy.method.clone(),
            given: None,
        }
    }

    /// The same, and what is given to it.
    pub fn with(self, given: Given) -> Self {
        Self {
            given: Some(given),
            ..self
        }
    }

    /// What the host is asked to install now.
    fn on(host: &BareMetalHost) -> Self {
        let deploy = host.spec.custom_deploy.as_ref();
        Self {
            image: host.spec.wanted_image().cloned(),
            custom_deploy: deploy.map_or_else(String::new, |deploy| deploy.method.clone()),
            given: None,
        }
    }

    /// What the annotation says that the host was told for its machine.
    pub fn kept(host: &BareMetalHost) -> Option<Self> {
        let kept = host.annotations().get(INSTALLED)?;
        serde_json::from_str(kept).ok()
    }

    /// What the host was told. Where no annotation says so, the host was told by upstream or by an earlier version: then what is
    /// deployed on it, if that is what it is asked for, or else what the machine asks for.
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

    /// How what is installed differs, in words.
    fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = parts(self.image.as_ref()).into_iter().zip(parts(other.image.as_ref()));
        let image = pairs.filter_map(|((field, found), (_, wanted))| difference(field, found, wanted));
        let deploy = difference("customDeploy.method", &self.custom_deploy, &other.custom_deploy);
        image.chain(deploy).collect()
    }

    /// For the annotation.
    pub fn text(&self) -> String {
        json!(self).to_string()
    }
}

/// Whether a host was given data that was rendered for its machine.
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

/// How the machine was changed after its host was told what to run, in words.
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
}

/// How the host differs from what it was told. Where that is not known, from what it would be told now, as far as the Machine
/// and the data are there.
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
