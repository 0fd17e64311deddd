//! Marks Secrets as ours, so that they are not lost while the host needs them, and removes the marks.
//!
//! A new host needs the content of its Secret and our marks on it. One patch does both, because its response is the
//! Secret. If that fails, or if the role does not allow patches, the Secret is read, and then updated.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use metal3_api::capi;
use metal3_api::metal3::names::{finalizer, label, secret_key};
use metal3_api::metal3::{BareMetalHost, PreprovisioningImage};
use metal3_runtime::error::{is_forbidden, is_not_found};
use metal3_runtime::find::find;
use metal3_runtime::patch::{self, Marks};
use metal3_runtime::secrets::SecretKey;
use metal3_runtime::store::ObjectKey;

use super::apply::host::{changed_meanwhile, note_secrets};
use super::context::Context;
use super::held;
use super::observe::{read_credentials, read_network_data};
use super::observed::{NetworkDataView, Observed, SecretFound, SecretView};
use super::secret_marks::secrets;

/// A failed operation on a Secret.
#[derive(Debug)]
pub struct Failed {
    /// Its namespace and name.
    pub secret: SecretKey,
    /// Why.
    pub source: kube::Error,
}

fn key_of(host: &BareMetalHost, name: &str) -> SecretKey {
    SecretKey {
        namespace: host.namespace().unwrap_or_default(),
        name: name.to_owned(),
    }
}

fn about(host: &BareMetalHost, name: &str) -> impl FnOnce(kube::Error) -> Failed + use<> {
    let secret = key_of(host, name);
    |source| Failed { secret, source }
}

/// Puts labels and a finalizer on the host's credentials. A Secret that was not read yet is read by this, or is known
/// to need a read first.
///
/// Unlike upstream, the host does not become the owner of its Secret: the garbage collector would delete a Secret that
/// a user created. `clusterctl move` finds the Secret by its label instead.
pub(super) async fn secret(ctx: &Context, seen: &mut Observed) -> Result<(), Failed> {
    let failed = about(&seen.host, &seen.host.spec.bmc.credentials_name);
    let marked = match &seen.secret {
        SecretView::Found(SecretFound {
            object: Some(secret), ..
        }) => {
            let secret = (**secret).clone();
            read(ctx, seen, secret).await
        }
        SecretView::NotLooked { .. } => unread(ctx, seen).await,
        SecretView::Found(_) | SecretView::Missing | SecretView::Invalid { .. } => Ok(()),
    };
    marked.map_err(failed)
}

async fn unread(ctx: &Context, seen: &mut Observed) -> Result<(), kube::Error> {
    let host = seen.host.clone();
    let key = key_of(&host, &host.spec.bmc.credentials_name);
    let marks = Marks {
        labels: &LABELS,
        finalizer: finalizer::SECRET,
    };
    // A Secret without these keys was named by mistake and gets no marks. A patch cannot test the values: the response
    // shows them, and the marks are removed again if the values are not usable.
    let patch = patch::unmarked_marked(
        &marks,
        &[&["data", secret_key::USERNAME], &["data", secret_key::PASSWORD]],
    );
    let patch: Patch<()> = Patch::Json(patch);
    match secrets(&ctx.kube, &host)
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
            ctx.rights.patches_of_secrets_are_refused();
            seen.may_claim_unread = false;
        }
        // It already has some of the marks, or lacks a key.
        Err(kube::Error::Api(status)) if status.is_invalid() => seen.may_claim_unread = false,
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Updates the Secret that was read in one write.
async fn read(ctx: &Context, seen: &mut Observed, mut secret: Secret) -> Result<(), kube::Error> {
    let host = seen.host.clone();
    put(&mut secret, &LABELS);
    disown(&mut secret, &host);
    let secret = secrets(&ctx.kube, &host)
        .replace(&host.spec.bmc.credentials_name, &PostParams::default(), &secret)
        .await?;
    seen.secret = read_credentials(secret, &host);
    Ok(())
}

/// Puts labels and a finalizer on the network data of the host's ramdisk.
pub(super) async fn network_data(ctx: &Context, seen: &mut Observed) -> Result<(), Failed> {
    let NetworkDataView::Found {
        object: Some(secret), ..
    } = &seen.network_data
    else {
        return Ok(());
    };
    let mut secret = (**secret).clone();
    // Without the label for BMC credentials: otherwise a user who may not read the Secret could have it sent to a BMC
    // of their own.
    put(&mut secret, &LABELS[1..]);
    disown(&mut secret, &seen.host);
    let name = secret.name_any();
    let written = secrets(&ctx.kube, &seen.host)
        .replace(&name, &PostParams::default(), &secret)
        .await;
    seen.network_data = read_network_data(written.map_err(about(&seen.host, &name))?, &ctx.settings);
    Ok(())
}

/// The purpose of a Secret, and the label that makes `clusterctl move` include it.
const LABELS: [(&str, &str); 2] = [
    (label::ENVIRONMENT, label::ENVIRONMENT_BAREMETAL),
    (capi::names::label::MOVE, ""),
];

/// Removes the host as an owner of its Secret, as set by upstream's operator and by earlier versions of this one, and the
/// host's PreprovisioningImage, which upstream's makes an owner of network data and which goes with the host.
fn disown(secret: &mut Secret, host: &BareMetalHost) {
    let is_image = |owner: &OwnerReference| {
        let is_of_kind = owner.kind == PreprovisioningImage::kind(&())
            && owner.api_version == PreprovisioningImage::api_version(&());
        is_of_kind && Some(&owner.name) == host.metadata.name.as_ref()
    };
    if let Some(owners) = &mut secret.metadata.owner_references {
        owners.retain(|owner| Some(&owner.uid) != host.metadata.uid.as_ref() && !is_image(owner));
    }
}

/// Adds these labels and the finalizer.
fn put(secret: &mut Secret, marks: &[(&str, &str)]) {
    let metadata = &mut secret.metadata;
    let labels = metadata.labels.get_or_insert_default();
    for (label, value) in marks {
        labels.insert((*label).to_owned(), (*value).to_owned());
    }
    let finalizers = metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|f| f == finalizer::SECRET) {
        finalizers.push(finalizer::SECRET.to_owned());
    }
}

/// Releases every Secret that the host marked: those in its note, those that it names, and those that an earlier
/// operator marked and left in the status. A failure for one does not keep the others.
pub(super) async fn release_all(ctx: &Context, seen: &Observed) -> Result<(), Failed> {
    let host = &seen.host;
    let mut first = Ok(());
    for name in &held::all(host) {
        first = first.and(unmark(ctx, host, name, Parting::NoUse).await);
    }
    first
}

/// Releases a Secret that the host no longer uses, and removes it from the host's note.
pub(super) async fn release(ctx: &Context, seen: &mut Observed, name: &str) -> Result<(), Failed> {
    unmark(ctx, &seen.host, name, Parting::NoUse).await?;
    let mut names = held::names(&seen.host);
    names.remove(name);
    let failed = about(&seen.host, name);
    note_secrets(ctx, seen, &names).await.map_err(failed)
}

/// The Secret was marked before it was read, and is not usable: restores it as it was found.
pub(super) async fn undo(ctx: &Context, seen: &mut Observed) -> Result<(), Failed> {
    let name = &seen.host.spec.bmc.credentials_name;
    unmark(ctx, &seen.host, name, Parting::Mistaken).await?;
    if let SecretView::Invalid { claimed, .. } = &mut seen.secret {
        *claimed = false;
    }
    Ok(())
}

/// Why a Secret is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parting {
    /// The host names a different one, or is deleted. Upstream deletes the Secret with its host, so that anyone who may
    /// name a Secret could have it deleted.
    NoUse,
    /// It is no Secret with credentials, or stopped being one before Ironic was given any: everything that was added is
    /// removed, including the label even if another client had set it before.
    Mistaken,
}

async fn unmark(ctx: &Context, host: &BareMetalHost, name: &str, parting: Parting) -> Result<(), Failed> {
    let unmarked = try_to_unmark(ctx, host, name, parting).await;
    unmarked.map_err(about(host, name))
}

/// Removes our finalizer, unless another host also uses the Secret: the last of them removes it.
async fn try_to_unmark(ctx: &Context, host: &BareMetalHost, name: &str, parting: Parting) -> Result<(), kube::Error> {
    let key = key_of(host, name);
    let users = ctx.hosts.names(&key);
    let own = ObjectKey::of(host);
    // As long as the store does not show this host's new state, another host that is also being deleted may rely on it.
    if users.contains(&own) && !held::used(host).contains(&key) {
        return Err(changed_meanwhile());
    }
    let api = secrets(&ctx.kube, host);
    let Some(mut secret) = find(&api, name).await? else {
        return Ok(());
    };
    let before = secret.metadata.clone();
    let metadata = &mut secret.metadata;
    // A host that names the Secret in another field still uses it.
    let is_shared = users.iter().any(|user| *user != own || parting == Parting::NoUse);
    if let Some(finalizers) = &mut metadata.finalizers
        && !is_shared
    {
        finalizers.retain(|f| f != finalizer::SECRET);
    }
    if let Some(labels) = &mut metadata.labels
        && !is_shared
        && parting == Parting::Mistaken
    {
        for (label, _) in LABELS {
            labels.remove(label);
        }
    }
    disown(&mut secret, host);
    let metadata = &secret.metadata;
    if *metadata == before {
        return Ok(());
    }
    match api.replace(name, &PostParams::default(), &secret).await {
        Err(error) if !is_not_found(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // OWN 31fc: the network data of a host's ramdisk went with the host, whose PreprovisioningImage upstream makes an owner.
    #[test]
    fn a_secret_loses_the_owners_that_go_with_the_host() {
        let owner = |kind: &str, name: &str, uid: &str| json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "name": name, "uid": uid});
        let owners = [
            owner("BareMetalHost", "h", "u"),
            owner("PreprovisioningImage", "h", "i"),
            owner("PreprovisioningImage", "other", "j"),
            owner("BareMetalHost", "other", "v"),
        ];
        let secret = json!({"metadata": {"name": "net", "ownerReferences": owners}});
        let mut secret: Secret = serde_json::from_value(secret).unwrap();
        let host = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "h", "uid": "u"},
            "spec": {"online": true}});
        disown(&mut secret, &serde_json::from_value(host).unwrap());
        let left = secret.metadata.owner_references.unwrap();
        let left: Vec<_> = left.iter().map(|owner| owner.uid.as_str()).collect();
        assert_eq!(left, ["j", "v"], "those of others are not ours to remove");
    }
}
