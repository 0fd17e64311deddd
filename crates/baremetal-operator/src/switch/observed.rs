//! What a decision about the switches of a namespace depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use metal3_api::metal3::BareMetalSwitch;
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
            refusal: None,
        }
    }

    /// The names of all Secrets that the pass needs.
    pub fn referenced(&self) -> BTreeSet<String> {
        let outputs = [&self.settings.configs, &self.settings.credentials];
        let named = self.switches.iter().filter_map(|switch| credentials_of(switch).ok());
        outputs.into_iter().cloned().chain(named.map(str::to_owned)).collect()
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
