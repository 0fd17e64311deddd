//! Reads and changes for the subscriptions of one host.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use metal3_api::metal3::names::{label, secret_key};
use metal3_api::metal3::{BMCEventSubscription, BMCEventSubscriptionStatus};
use metal3_ironic::{Client, Error, ErrorClass, Subscription, on_behalf_of};
use metal3_runtime::error::is_not_found;
use metal3_runtime::find::find;
use metal3_runtime::patch::status_changed;
use metal3_runtime::store::Store;
use std::sync::Arc;

use super::decide::Effect;
use super::{Headers, HostNode, Known, Observed, Subject};
use crate::host::ObserveError;
use crate::host::context::Context;
use crate::host::read_own_node;
use crate::host::text::for_tenant;
use metal3_runtime::store::ObjectKey;

/// The most subscriptions of a BMC that are looked at: each costs a call.
const MOST: usize = 1000;

/// The host's node, if it is proven to be its own.
pub(super) async fn node(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let found = match seen.host.clone() {
        Some(host) => read_own_node(ctx, &host).await,
        None => Ok(None),
    };
    seen.node = match found {
        Ok(node) => node.map_or(HostNode::None, HostNode::Own),
        Err(ObserveError::Ironic(error)) => return unknown(seen, &error),
        Err(error) => return Err(error),
    };
    Ok(())
}

/// The subscriptions of the host's BMC that the objects may have made.
pub(super) async fn known(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let HostNode::Own(node) = &seen.node else {
        seen.known = Known::NoNode;
        return Ok(());
    };
    let all = match ctx.ironic.client() {
        Ok(client) => on_behalf_of(&seen.key.namespace, all(&client, node, &seen.subjects)).await,
        Err(error) => Err(error),
    };
    seen.known = match all {
        Ok(found) => Known::Found(found),
        Err(error) if error.class() == ErrorClass::NotFound => Known::NoNode,
        // The driver has no subscriptions.
        Err(error) if error.class() == ErrorClass::BadRequest => Known::Found(Vec::new()),
        Err(error) => return unknown(seen, &error),
    };
    Ok(())
}

/// No object that needs to know what the BMC has can go on. The others are as they were, and are looked at by the next
/// pass.
fn unknown(seen: &mut Observed, error: &Error) -> Result<(), ObserveError> {
    if is_passing(error) {
        return Err(error.clone().into());
    }
    let needs = |subject: &&Subject| {
        subject.status().subscription_id.is_empty() || subject.object.metadata.deletion_timestamp.is_some()
    };
    let names: Vec<_> = seen.subjects.iter().filter(needs).map(Subject::name).collect();
    for name in names {
        failed(seen, &name, "the subscriptions of the BMC are not known", error.clone())?;
    }
    for subject in &mut seen.subjects {
        subject.is_checked = true;
    }
    seen.failure.get_or_insert(error.clone().into());
    Ok(())
}

async fn all(client: &Client, node: &str, subjects: &[Subject]) -> Result<Vec<Subscription>, Error> {
    let mut found = Vec::new();
    for id in client.subscriptions(node).await?.into_iter().take(MOST) {
        let one = client.subscription(node, &id).await?;
        if subjects.iter().any(|subject| subject.is_for(&one)) {
            found.push(one);
        }
    }
    Ok(found)
}

/// The Secret is read from the API server: it is needed once.
pub(super) async fn headers(ctx: &Context, seen: &mut Observed, name: &str) -> Result<(), ObserveError> {
    let api: Api<Secret> = Api::namespaced(ctx.kube.clone(), &seen.key.namespace);
    let headers = match find(&api, name).await? {
        None => Headers::Missing,
        Some(secret) if is_of_credentials(&secret) => Headers::Refused,
        Some(secret) => {
            let data = secret.data.unwrap_or_default().into_iter();
            let headers: Option<Vec<_>> = data.map(|(name, value)| header(name, value)).collect();
            headers.map_or(Headers::Unusable, Headers::Found)
        }
    };
    seen.headers.insert(name.to_owned(), headers);
    Ok(())
}

/// Whether a Secret is one of credentials, or one that another program has made: its user may not be allowed to read it.
pub(super) fn is_of_credentials(secret: &Secret) -> bool {
    let is_labelled = secret.labels().contains_key(label::ENVIRONMENT);
    let data = secret.data.as_ref();
    let has_password = data.is_some_and(|data| data.contains_key(secret_key::PASSWORD));
    let type_ = secret.type_.as_deref().unwrap_or_default();
    is_labelled || has_password || !matches!(type_, "" | "Opaque")
}

/// A line end in a value would be another header.
fn header(name: String, ByteString(value): ByteString) -> Option<(String, String)> {
    let value = String::from_utf8(value).ok()?;
    let value = value.trim_end_matches(['\r', '\n']).to_owned();
    (!value.contains(char::is_control)).then_some((name, value))
}

pub(super) async fn apply(
    ctx: &Context,
    objects: &Store<BMCEventSubscription, ObjectKey>,
    seen: &mut Observed,
    effect: &Effect,
) -> Result<(), ObserveError> {
    seen.steps += 1;
    let api: Api<BMCEventSubscription> = Api::namespaced(ctx.kube.clone(), &seen.key.namespace);
    let params = PatchParams::default();
    match effect {
        Effect::Patch { name, patch } => {
            let written = api.patch(name, &params, &Patch::Merge(patch)).await;
            took(objects, seen, name, written)?;
            if let Some(subject) = subject(seen, name) {
                subject.is_new = true;
            }
        }
        Effect::Store { name, status } => store(&api, objects, seen, name, status).await?,
        Effect::Subscribe { name, node, wanted } => {
            let made = match ctx.ironic.client() {
                Ok(client) => on_behalf_of(&seen.key.namespace, client.subscribe(node, wanted)).await,
                Err(error) => Err(error),
            };
            match made {
                Ok(id) => {
                    tracing::info!(host = %seen.key, subscription = name, "the BMC sends its events");
                    if let Some(subject) = subject(seen, name) {
                        subject.made = Some(id);
                    }
                }
                Err(error) => failed(seen, name, "failed to create a subscription", error)?,
            }
        }
        Effect::Unsubscribe { name, node, id } => {
            let ended = match ctx.ironic.client() {
                Ok(client) => on_behalf_of(&seen.key.namespace, client.unsubscribe(node, id)).await,
                Err(error) => Err(error),
            };
            match ended {
                Ok(()) => {
                    tracing::info!(host = %seen.key, subscription = name, "the BMC sends its events no more");
                    if let Some(subject) = subject(seen, name) {
                        subject.is_ended = true;
                    }
                }
                // Ironic answers so to every failure of the BMC: what it has tells more.
                Err(error) if error.class() == ErrorClass::NotFound && refused_first(seen, name) => {
                    known(ctx, seen).await?;
                }
                Err(error) => failed(seen, name, "failed to delete a subscription", error)?,
            }
        }
        Effect::Conclude => return seen.failure.take().map_or(Ok(()), Err),
    }
    Ok(())
}

/// Stores a status on the version that was judged.
async fn store(
    api: &Api<BMCEventSubscription>,
    objects: &Store<BMCEventSubscription, ObjectKey>,
    seen: &mut Observed,
    name: &str,
    status: &BMCEventSubscriptionStatus,
) -> Result<(), ObserveError> {
    let Some(subject) = subject(seen, name) else {
        return Ok(());
    };
    let object = &subject.object;
    let patch = status_changed(&object.metadata, object.status.as_ref(), status);
    let Some(patch) = patch.map_err(kube::Error::SerdeError)? else {
        return Ok(());
    };
    let written = api
        .patch_status(name, &PatchParams::default(), &Patch::<()>::Json(patch))
        .await;
    took(objects, seen, name, written)
}

/// Takes the answer to a write. An object that is gone needs nothing more.
fn took(
    objects: &Store<BMCEventSubscription, ObjectKey>,
    seen: &mut Observed,
    name: &str,
    written: Result<BMCEventSubscription, kube::Error>,
) -> Result<(), ObserveError> {
    match written {
        Ok(written) => {
            objects.written(written.clone());
            if let Some(subject) = subject(seen, name) {
                subject.object = Arc::new(written);
            }
            Ok(())
        }
        Err(error) if is_not_found(&error) => {
            seen.subjects.retain(|subject| subject.name() != name);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// A failure of one object, which its status reports.
fn failed(seen: &mut Observed, name: &str, what: &str, error: Error) -> Result<(), ObserveError> {
    if is_passing(&error) {
        return Err(error.into());
    }
    let message = for_tenant(&format!("{what}: {}", error.message()), &seen.key.namespace);
    let error = ObserveError::from(error);
    tracing::warn!(host = %seen.key, subscription = name, message, "a subscription cannot be changed");
    if let Some(subject) = subject(seen, name) {
        subject.failure = Some(message);
    }
    seen.failure.get_or_insert(error);
    Ok(())
}

/// Whether Ironic has refused to end the subscription of this object for the first time in this pass.
fn refused_first(seen: &mut Observed, name: &str) -> bool {
    subject(seen, name).is_some_and(|subject| !std::mem::replace(&mut subject.is_refused, true))
}

/// A node that is locked, or an Ironic that is busy, is no failure.
fn is_passing(error: &Error) -> bool {
    matches!(error.class(), ErrorClass::Locked | ErrorClass::Busy)
}

fn subject<'a>(seen: &'a mut Observed, name: &str) -> Option<&'a mut Subject> {
    seen.subjects.iter_mut().find(|subject| subject.name() == name)
}
