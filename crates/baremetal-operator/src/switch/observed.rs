//! What a decision about the switches of a namespace depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::core::ObjectMeta;
use metal3_api::metal3::BareMetalSwitch;
use metal3_api::metal3::names::secret_key::{ADMIN_PASSWORD, PASSWORD, SSH_PRIVATE_KEY, USERNAME};
use metal3_runtime::secrets::{Known, Outline};

use crate::args::SwitchSettings;

/// The switches of a namespace, and the Secrets as far as they were read.
pub struct Observed {
    pub settings: Arc<SwitchSettings>,
    pub namespace: String,
    /// Sorted by name.
    pub switches: Vec<Arc<BareMetalSwitch>>,
    /// By name; `None` for one that does not exist.
    pub secrets: BTreeMap<String, Option<Secret>>,
    /// The Secrets with credentials that are larger than those of a switch are.
    pub too_large: BTreeSet<String>,
    /// Why the API server refuses to let the operator read or write a Secret.
    pub refusal: Option<String>,
}

/// The versions of everything that a pass depends on. If they are those of the last pass, there is nothing to do.
#[derive(Debug, PartialEq)]
pub struct Seen {
    pub switches: Vec<(Option<String>, Option<String>)>,
    pub secrets: BTreeMap<String, Known>,
}

impl Observed {
    pub fn new(settings: Arc<SwitchSettings>, namespace: String, switches: Vec<Arc<BareMetalSwitch>>) -> Self {
        Self {
            settings,
            namespace,
            switches,
            secrets: BTreeMap::new(),
            too_large: BTreeSet::new(),
            refusal: None,
        }
    }

    /// The names of all Secrets that the pass needs.
    pub fn referenced(&self) -> BTreeSet<String> {
        let outputs = [&self.settings.configs, &self.settings.credentials];
        let named = self
            .switches
            .iter()
            .take(MOST_SWITCHES)
            .filter_map(|switch| credentials_of(switch).ok());
        outputs.into_iter().cloned().chain(named.map(str::to_owned)).collect()
    }

    /// Whether this is one of the two Secrets that are written.
    pub fn is_output(&self, name: &str) -> bool {
        [&self.settings.configs, &self.settings.credentials]
            .iter()
            .any(|output| *output == name)
    }

    /// The versions of the switches.
    pub fn versions(&self) -> Vec<(Option<String>, Option<String>)> {
        let metadata = self.switches.iter().map(|switch| &switch.metadata);
        metadata
            .map(|metadata| (metadata.uid.clone(), metadata.resource_version.clone()))
            .collect()
    }

    /// The versions after the pass, including its own writes.
    pub fn seen(&self) -> Seen {
        let known = |secret: &Option<Secret>| match secret {
            None => Known::Absent,
            Some(secret) => Known::Present(Arc::new(Outline {
                uid: secret.metadata.uid.clone(),
                resource_version: secret.metadata.resource_version.clone(),
                is_marked: false,
            })),
        };
        let secrets = self.secrets.iter();
        Seen {
            switches: self.versions(),
            secrets: secrets.map(|(name, secret)| (name.clone(), known(secret))).collect(),
        }
    }
}

/// Switches of a namespace that are written, the first by name: what a namespace may cost has an end.
pub const MOST_SWITCHES: usize = 1000;

/// The largest credentials of a switch, in bytes.
const LARGEST: usize = 16 << 10;

/// What is kept of a Secret with credentials; `None` if it is too large to be one.
pub fn reduced(mut secret: Secret) -> Option<Secret> {
    let keys = [USERNAME, PASSWORD, SSH_PRIVATE_KEY, ADMIN_PASSWORD];
    let mut data = secret.data.take().unwrap_or_default();
    data.retain(|key, _| keys.contains(&key.as_str()));
    let is_small = data.values().map(|value| value.0.len()).sum::<usize>() <= LARGEST;
    let metadata = ObjectMeta {
        name: secret.metadata.name,
        namespace: secret.metadata.namespace,
        uid: secret.metadata.uid,
        resource_version: secret.metadata.resource_version,
        ..ObjectMeta::default()
    };
    is_small.then_some(Secret {
        metadata,
        data: Some(data),
        ..Secret::default()
    })
}

/// The name of the Secret with a switch's credentials. Secrets of other namespaces are refused: a user who may create switches
/// may not read those.
pub fn credentials_of(switch: &BareMetalSwitch) -> Result<&str, String> {
    let reference = switch.spec.credentials.as_ref().filter(|one| !one.name.is_empty());
    let Some(reference) = reference else {
        return Err("spec.credentials is not set".to_owned());
    };
    let own = switch.metadata.namespace.as_deref().unwrap_or_default();
    let local = reference.local(own).map(|local| local.name());
    local.map_err(|_| {
        "spec.credentials names a Secret of another namespace: it must be in the namespace of the switch".to_owned()
    })
}
