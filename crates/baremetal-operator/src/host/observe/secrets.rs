//! Secrets: which are known, and reads of those for the BMC and the ramdisk.

use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::{Api, ResourceExt};
use metal3_api::capi;
use metal3_api::capi::names::SECRET_TYPE;
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::{label, secret_key};
use metal3_runtime::find::find;
use metal3_runtime::secrets::SecretKey;

use crate::host::config_drive;
use crate::host::context::Context;
use crate::host::error::ObserveError;
use crate::host::held;
use crate::host::observed::{NetworkDataView, Observed, SecretFound, SecretView};
use crate::host::secret_marks::{is_claimed, is_held};
use crate::settings::HostSettings;

pub(super) async fn credentials(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let name = seen.host.spec.bmc.credentials_name.clone();
    seen.secret = match secret(ctx, &seen.host, &name).await? {
        None => SecretView::Missing,
        Some(secret) if ctx.settings.requires_credentials_label && !is_meant_for(&secret.metadata, &seen.host) => {
            SecretView::Invalid {
                problem: not_meant(&secret.metadata),
                claimed: false,
            }
        }
        Some(secret) => read_credentials(secret, &seen.host),
    };
    Ok(())
}

pub(super) async fn secret(ctx: &Context, host: &BareMetalHost, name: &str) -> Result<Option<Secret>, ObserveError> {
    let namespace = host.namespace().unwrap_or_default();
    let api: Api<Secret> = Api::namespaced(ctx.kube.clone(), &namespace);
    let found = find(&api, name).await?;
    let key = SecretKey {
        namespace,
        name: name.to_owned(),
    };
    ctx.secrets.learn(&key, found.as_ref().map(|s| &s.metadata));
    Ok(found)
}

/// Whether a Secret is meant for a BMC, by its label, or for this host, by its owner.
fn is_meant_for(secret: &ObjectMeta, host: &BareMetalHost) -> bool {
    let label = secret.labels.as_ref().and_then(|labels| labels.get(label::ENVIRONMENT));
    let mut owners = secret.owner_references.iter().flatten();
    label.is_some_and(|value| value == label::ENVIRONMENT_BAREMETAL)
        || owners.any(|owner| owner.kind == "BareMetalHost" && Some(&owner.uid) == host.metadata.uid.as_ref())
}

fn not_meant(secret: &ObjectMeta) -> String {
    let (namespace, name) = (
        secret.namespace.as_deref().unwrap_or_default(),
        secret.name.as_deref().unwrap_or_default(),
    );
    let (key, value) = (label::ENVIRONMENT, label::ENVIRONMENT_BAREMETAL);
    format!(
        "it does not say that it is for a BMC, and this operator runs with --require-credentials-label. If it is: kubectl label \
         secret -n {namespace} {name} {key}={value}"
    )
}

/// Both keys, without surrounding white space: files that Secrets are created from often end with a newline.
pub fn read_credentials(secret: Secret, host: &BareMetalHost) -> SecretView {
    let metadata = &secret.metadata;
    let mut owners = metadata.owner_references.iter().flatten();
    let has_owner = owners.any(|o| Some(&o.uid) == host.metadata.uid.as_ref());
    let moves = metadata
        .labels
        .as_ref()
        .is_some_and(|labels| labels.contains_key(capi::names::label::MOVE));
    let invalid = |problem: String| SecretView::Invalid {
        problem,
        claimed: has_owner || is_claimed(metadata) && held::names(host).contains(&host.spec.bmc.credentials_name),
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
        claimed: is_claimed(metadata) && moves && !has_owner,
        object: Some(Arc::new(secret)),
    })
}

/// Identifies equal credentials; it never leaves the process.
pub(super) fn digest(username: &str, password: &str) -> u64 {
    use sha2::{Digest, Sha256};
    let hash = Sha256::new()
        .chain_update(username)
        .chain_update([0])
        .chain_update(password)
        .finalize();
    hash.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

pub(super) async fn network_data(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let name = seen.host.spec.preprovisioning_network_data_name.clone();
    seen.network_data = match secret(ctx, &seen.host, &name).await? {
        None => NetworkDataView::Missing,
        Some(secret) => read_network_data(secret, &ctx.settings),
    };
    Ok(())
}

/// How much of one Secret a server gets, in bytes: as much as Kubernetes stores in one. Ironic takes 64 MiB in a request, and a config
/// drive of 64 MiB, so that three such texts always fit. OpenStack's 64 KiB of user data are a limit of Nova, not of Ironic.
const MOST: usize = 1 << 20;

/// What a Secret has for a server, under this key, or under the one that data for a first boot have.
///
/// # Errors
///
/// It has that one, and its type or its name says that it is for something else, such as a kubeconfig: whoever may name Secrets need
/// not be one who may read them. Or there is more than [`MOST`] of it.
pub(crate) fn for_a_server<'a>(
    secret: &'a Secret,
    key: &str,
    settings: &HostSettings,
) -> Result<Option<&'a ByteString>, String> {
    let Some(data) = &secret.data else { return Ok(None) };
    let of_size = |key: &str, bytes: &'a ByteString| {
        if bytes.0.len() <= MOST {
            return Ok(Some(bytes));
        }
        let size = bytes.0.len();
        Err(format!(
            "has {size} bytes under the key {key}, and no more than {MOST} are given to a server: let it fetch the rest itself"
        ))
    };
    if let Some(bytes) = data.get(key) {
        return of_size(key, bytes);
    }
    let Some(bytes) = data.get(secret_key::VALUE) else {
        return Ok(None);
    };
    let kind = secret.type_.as_deref().unwrap_or_default();
    if settings.requires_bootstrap_type && kind != SECRET_TYPE {
        return Err(format!(
            "has no key {key}, and its key value is not given to a server: its type is {kind:?}, and this operator runs with \
             --require-bootstrap-type. Make a Secret of type {SECRET_TYPE}, or use the key {key}"
        ));
    }
    // Users supply bootstrap data of their own, for which Cluster API does not require its type.
    let is_of_boot = matches!(kind, "" | "Opaque" | SECRET_TYPE);
    // By Cluster API's contract, which gives a kubeconfig the same type.
    let is_kubeconfig = secret.name_any().ends_with("-kubeconfig");
    if is_of_boot && !is_kubeconfig {
        return of_size(secret_key::VALUE, bytes);
    }
    Err(format!(
        "has no key {key}, and its key value is not given to a server: its type is {kind:?}, and it may be something else. Make a \
         Secret of type {SECRET_TYPE} or Opaque, or use the key {key}"
    ))
}

/// A Secret without the key is not one with network data, and gets no marks: it may be anything that the host names by mistake, or on
/// purpose. The key may be empty.
pub fn read_network_data(secret: Secret, settings: &HostSettings) -> NetworkDataView {
    let version = secret.metadata.resource_version.clone().unwrap_or_default();
    let text = for_a_server(&secret, secret_key::NETWORK_DATA, settings)
        .map(|bytes| bytes.map(|bytes| std::str::from_utf8(&bytes.0)));
    let description = match text {
        Ok(None) => return NetworkDataView::WithoutKey { version },
        Err(why) => Err(format!("it {why}")),
        Ok(Some(Err(_))) => Err("it is not text".to_owned()),
        Ok(Some(Ok(text))) if text.trim().is_empty() => Ok(serde_json::Map::new()),
        Ok(Some(Ok(text))) => config_drive::mapping("spec.preprovisioningNetworkDataName", text),
    };
    match description {
        Err(why) => NetworkDataView::Unusable { why, version },
        Ok(description) => NetworkDataView::Found {
            description: Arc::new(description.into()),
            version,
            claimed: is_held(&secret.metadata),
            object: Some(Arc::new(secret)),
        },
    }
}
