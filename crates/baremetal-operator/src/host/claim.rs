//! Marking the Secret with the BMC credentials as ours, so that it is not lost while the host needs it, and taking the marks off.
//!
//! A host that comes new needs the content of its Secret and our marks on it. Both come with one patch, whose answer is the
//! Secret: only otherwise, and under a role that does not allow patches, the Secret is read, and written as it was read.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use metal3_api::metal3::BareMetalHost;
use metal3_api::metal3::names::{finalizer, label, secret_key};
use metal3_runtime::error::{is_forbidden, is_not_found};
use metal3_runtime::patch::{self, Marks};
use metal3_runtime::secrets::SecretKey;

use super::apply::secrets;
use super::context::Context;
use super::observe::read_credentials;
use super::observed::{Observed, SecretFound, SecretView};

/// What the API server was seen to refuse us. The role that upstream ships does not allow patches of Secrets, and this operator
/// should run under it: then one patch is refused in the life of a process.
#[derive(Debug, Default)]
pub struct Rights {
    no_secret_patches: AtomicBool,
}

impl Rights {
    /// Whether Secrets may be patched, as far as is known.
    pub fn may_patch_secrets(&self) -> bool {
        !self.no_secret_patches.load(Ordering::Relaxed)
    }
}

/// Label, owner reference and finalizer on the credentials of the host. One that was not read yet is at hand afterwards, or is
/// known to have to be read first.
pub(super) async fn secret(ctx: &Context, seen: &mut Observed) -> Result<(), kube::Error> {
    match &seen.secret {
        SecretView::Found(SecretFound {
            object: Some(secret), ..
        }) => {
            let secret = (**secret).clone();
            read(ctx, seen, secret).await
        }
        SecretView::NotLooked { .. } => unread(ctx, seen).await,
        SecretView::Found(_) | SecretView::Missing | SecretView::Invalid { .. } => Ok(()),
    }
}

async fn unread(ctx: &Context, seen: &mut Observed) -> Result<(), kube::Error> {
    let host = seen.host.clone();
    let key = SecretKey {
        namespace: host.namespace().unwrap_or_default(),
        name: host.spec.bmc.credentials_name.clone(),
    };
    let marks = Marks {
        label: (label::ENVIRONMENT, label::ENVIRONMENT_BAREMETAL),
        owner: host.owner_ref(&()),
        finalizer: finalizer::SECRET,
    };
    // What is no Secret with credentials was named by mistake: marked as ours, it would go with the host. What its values are
    // cannot be asked for: the answer tells, and the marks come off again where they are of no use.
    let patch = patch::unmarked_marked(
        &marks,
        &[&["data", secret_key::USERNAME], &["data", secret_key::PASSWORD]],
    );
    let patch: Patch<()> = Patch::Json(patch);
    match secrets(ctx, &host)
        .patch(&key.name, &PatchParams::default(), &patch)
        .await
    {
        Ok(secret) => {
            ctx.secrets.learn(&key, Some(&secret.metadata));
            seen.secret = read_credentials(secret, &host);
        }
        Err(error) if is_not_found(&error) => {
            ctx.secrets.learn(&key, None);
            seen.secret = SecretView::Missing;
        }
        Err(error) if is_forbidden(&error) => {
            tracing::info!("the role does not allow patches of Secrets: they are read before they are written");
            ctx.rights.no_secret_patches.store(true, Ordering::Relaxed);
            seen.may_claim_unread = false;
        }
        // It has marks of somebody, or lacks a key.
        Err(kube::Error::Api(status)) if status.is_invalid() => seen.may_claim_unread = false,
        Err(error) => return Err(error),
    }
    Ok(())
}

/// In one write of the Secret that was read.
async fn read(ctx: &Context, seen: &mut Observed, mut secret: Secret) -> Result<(), kube::Error> {
    let host = seen.host.clone();
    let metadata = &mut secret.metadata;
    metadata
        .labels
        .get_or_insert_default()
        .insert(label::ENVIRONMENT.to_owned(), label::ENVIRONMENT_BAREMETAL.to_owned());
    let owners = metadata.owner_references.get_or_insert_default();
    if let Some(owner) = host.owner_ref(&())
        && !owners.iter().any(|o| o.uid == owner.uid)
    {
        owners.push(owner);
    }
    let finalizers = metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|f| f == finalizer::SECRET) {
        finalizers.push(finalizer::SECRET.to_owned());
    }
    let secret = secrets(ctx, &host)
        .replace(&host.spec.bmc.credentials_name, &PostParams::default(), &secret)
        .await?;
    seen.secret = read_credentials(secret, &host);
    Ok(())
}

/// Every Secret that the host marked goes with it, or is let go: the present one, and those that it named before.
pub(super) async fn release_all(ctx: &Context, seen: &Observed) -> Result<(), kube::Error> {
    let host = &seen.host;
    let former = host
        .status
        .iter()
        .flat_map(|status| [&status.good_credentials, &status.tried_credentials]);
    let mut names: Vec<&str> = former
        .filter_map(|given| Some(given.credentials.as_ref()?.name.as_str()))
        .collect();
    let present = host.spec.bmc.credentials_name.as_str();
    names.extend([present, &host.spec.preprovisioning_network_data_name]);
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        let parting = if name == present {
            Parting::HostGoes
        } else {
            Parting::NamedNoMore
        };
        unmark(ctx, host, name, parting).await?;
    }
    Ok(())
}

/// A Secret that the host no longer names is let go.
pub(super) async fn release(ctx: &Context, host: &BareMetalHost, name: &str) -> Result<(), kube::Error> {
    unmark(ctx, host, name, Parting::NamedNoMore).await
}

/// The Secret was marked before it was read, and is of no use: it is left as it was found.
pub(super) async fn undo(ctx: &Context, seen: &mut Observed) -> Result<(), kube::Error> {
    let name = &seen.host.spec.bmc.credentials_name;
    unmark(ctx, &seen.host, name, Parting::Mistaken).await?;
    if let SecretView::Invalid { claimed, .. } = &mut seen.secret {
        *claimed = false;
    }
    Ok(())
}

/// Why a Secret is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parting {
    /// Its host goes, and it goes with it, as with upstream: it stays the host's own.
    HostGoes,
    /// The host names another one.
    NamedNoMore,
    /// It is no Secret with credentials, and had no label when it was marked.
    Mistaken,
}

/// Off with our finalizer. While another host uses the Secret as well, the finalizer is that one's: only the owner reference
/// goes, so that the last of them finds itself alone.
async fn unmark(ctx: &Context, host: &BareMetalHost, name: &str, parting: Parting) -> Result<(), kube::Error> {
    let api = secrets(ctx, host);
    let Some(mut secret) = api.get_opt(name).await? else {
        return Ok(());
    };
    let before = secret.metadata.clone();
    let metadata = &mut secret.metadata;
    let is_mine = |o: &OwnerReference| Some(&o.uid) == host.metadata.uid.as_ref();
    let is_anothers = |o: &OwnerReference| o.kind == BareMetalHost::kind(&()) && !is_mine(o);
    let is_shared = metadata.owner_references.iter().flatten().any(is_anothers);
    if let Some(owners) = &mut metadata.owner_references
        && (is_shared || parting != Parting::HostGoes)
    {
        owners.retain(|o| !is_mine(o));
    }
    if let Some(finalizers) = &mut metadata.finalizers
        && !is_shared
    {
        finalizers.retain(|f| f != finalizer::SECRET);
    }
    if let Some(labels) = &mut metadata.labels
        && !is_shared
        && parting == Parting::Mistaken
    {
        labels.remove(label::ENVIRONMENT);
    }
    if *metadata == before {
        return Ok(());
    }
    match api.replace(name, &PostParams::default(), &secret).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}
