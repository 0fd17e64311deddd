//! Marking the Secret with the BMC credentials as ours, so that it is not lost while the host needs it.
//!
//! A host that comes new needs the content of its Secret and our marks on it. Both come with one patch, whose answer is the
//! Secret: only otherwise, and under a role that does not allow patches, the Secret is read, and written as it was read.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
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
        SecretView::Found(_) | SecretView::Missing | SecretView::Invalid(_) => Ok(()),
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
    // What is no Secret with credentials was named by mistake: marked as ours, it would go with the host.
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
