//! Reads and changes for the subscriptions of one host.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use metal3_api::metal3::names::secret_key;
use metal3_api::metal3::{BMCEventSubscription, BMCEventSubscriptionStatus};
use metal3_ironic::{Client, Error, ErrorClass, Subscription, on_behalf_of};
use metal3_runtime::error::is_not_found;
use metal3_runtime::find::find;
use metal3_runtime::patch::status_changed;
use metal3_runtime::store::Store;
use metal3_runtime::timing::operator::LATE;
use std::sync::Arc;

use super::decide::{Effect, left_surplus};
use super::{Doubt, Headers, HostNode, Known, Observed, Subject};
use crate::host::ObserveError;
use crate::host::context::Context;
use crate::host::text::for_tenant;
use crate::host::{OwnNode, read_own_node};
use metal3_runtime::store::ObjectKey;

/// The most subscriptions of a BMC that are looked at: each costs a call.
const MOST: usize = 1000;

/// The host's node.
pub(super) async fn node(ctx: &Context, seen: &mut Observed) -> Result<(), ObserveError> {
    let found = match seen.host.clone() {
        Some(host) => read_own_node(ctx, &host).await,
        None => Ok(OwnNode::None),
    };
    seen.node = match found {
        Ok(OwnNode::Own(node)) => HostNode::Own(node),
        Ok(OwnNode::Unproven(why)) => HostNode::Unproven(why),
        Ok(OwnNode::None) => HostNode::None,
        Err(ObserveError::Ironic(error)) => {
            HostNode::Unknown(trouble(seen, "the node of the host cannot be read", error)?)
        }
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
        Err(error) => Known::Unknown(trouble(seen, "the subscriptions of the BMC cannot be listed", error)?),
    };
    Ok(())
}

async fn all(client: &Client, node: &str, subjects: &[Subject]) -> Result<Vec<Subscription>, Error> {
    let mut found = Vec::new();
    for id in client.subscriptions(node).await?.into_iter().take(MOST) {
        match client.subscription(node, &id).await {
            Ok(one) if subjects.iter().any(|subject| subject.is_for(&one)) => found.push(one),
            Ok(_) => {}
            Err(error) if is_of_one(&error) => {
                tracing::debug!(node, id, %error, "a subscription of the BMC cannot be read, and is left alone");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Whether only this subscription cannot be read: Ironic answers so if the BMC does not show it, or shows something else.
fn is_of_one(error: &Error) -> bool {
    use ErrorClass::{BadRequest, NotFound, Protocol, Server};
    matches!(error.class(), Server | NotFound | Protocol | BadRequest)
}

/// Whether the BMC may make what was asked for all the same, or has made it.
fn may_be_made(error: &Error) -> bool {
    use ErrorClass::{Protocol, Server, Timeout, Unreachable};
    matches!(error.class(), Unreachable | Timeout | Server | Protocol)
}

/// Ends a subscription; it may be gone.
async fn unsubscribe(client: &Client, node: &str, id: &str) -> Result<(), Error> {
    // So Ironic answers if the node is gone, or its driver has no subscriptions.
    let has_none = |error: &Error| matches!(error.class(), ErrorClass::NotFound | ErrorClass::BadRequest);
    let refused = match client.unsubscribe(node, id).await {
        Err(error) if has_none(&error) => error,
        ended => return ended,
    };
    // And to every failure of the BMC: what the BMC has tells more.
    match client.subscriptions(node).await {
        Ok(left) if left.iter().any(|left| left == id) => Err(refused),
        Ok(_) => Ok(()),
        Err(error) if has_none(&error) => Ok(()),
        Err(error) => Err(error),
    }
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

/// Keys of what a server is deployed with, which no header is named after.
const OF_A_SERVER: [&str; 4] = ["metaData", "networkData", "userData", "value"];

/// Whether a Secret is one of credentials or of a server's data, or one that another program has made: its user may not be allowed
/// to read it. The label `environment.metal3.io` says nothing: upstream sends only Secrets that have it.
pub(super) fn is_of_credentials(secret: &Secret) -> bool {
    let has = |key: &str| secret.data.as_ref().is_some_and(|data| data.contains_key(key));
    let type_ = secret.type_.as_deref().unwrap_or_default();
    has(secret_key::PASSWORD) || OF_A_SERVER.into_iter().any(has) || !matches!(type_, "" | "Opaque")
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
        }
        Effect::Store { name, status } => {
            store(&api, objects, seen, name, status).await?;
            // One that was taken over from what the BMC has may be the first of two that were asked for.
            if !status.subscription_id.is_empty() {
                seen.doubt = seen.doubt.map(|_| Doubt::Until(ctx.clock.now() + LATE));
            }
        }
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
                    // What the BMC had when it was asked does not show what has come since.
                    seen.doubt = seen.doubt.map(|_| Doubt::Until(ctx.clock.now() + LATE));
                }
                Err(error) => {
                    if may_be_made(&error) {
                        seen.doubt = Some(Doubt::Unanswered);
                    }
                    failed(seen, name, "failed to create a subscription", error)?;
                }
            }
        }
        Effect::Unsubscribe { name, node, id } => {
            let ended = match ctx.ironic.client() {
                Ok(client) => on_behalf_of(&seen.key.namespace, unsubscribe(&client, node, id)).await,
                Err(error) => Err(error),
            };
            match ended {
                Ok(()) => {
                    tracing::info!(host = %seen.key, subscription = name, "the BMC sends its events no more");
                    if let Some(subject) = subject(seen, name) {
                        subject.is_ended = true;
                    }
                    if let Known::Found(found) = &mut seen.known {
                        found.retain(|one| one.id != *id);
                    }
                }
                Err(error) => failed(seen, name, "failed to delete a subscription", error)?,
            }
        }
        Effect::EndSurplus { name, node, id } => {
            let ended = match ctx.ironic.client() {
                Ok(client) => on_behalf_of(&seen.key.namespace, unsubscribe(&client, node, id)).await,
                Err(error) => Err(error),
            };
            match ended {
                Ok(()) => tracing::info!(host = %seen.key, id, "a subscription that the BMC had made late is ended"),
                // Its words. Asked again and again, it would say the same.
                Err(error) if is_of_one(&error) => {
                    let why = for_tenant(&error.message(), &seen.key.namespace);
                    let event = left_surplus(&seen.key, id, &why);
                    if let Some(subject) = subject(seen, name) {
                        ctx.recorder
                            .publish(&subject.object.object_ref(&()), None, &event)
                            .await;
                    }
                }
                Err(error) => drop(trouble(
                    seen,
                    "failed to delete a subscription that the BMC had made late",
                    error,
                )?),
            }
            if let Known::Found(found) = &mut seen.known {
                found.retain(|one| one.id != *id);
            }
        }
        Effect::Settle => seen.doubt = None,
        Effect::Publish { name, event } => {
            if let Some(subject) = subject(seen, name) {
                let regarding = subject.object.object_ref(&());
                ctx.recorder.publish(&regarding, None, event).await;
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
    let message = trouble(seen, what, error)?;
    if let Some(subject) = subject(seen, name) {
        subject.failure = Some(message);
    }
    Ok(())
}

/// Says for a status what Ironic's failure keeps from being done; the pass fails with it in the end. One that passes by
/// itself ends the pass at once.
fn trouble(seen: &mut Observed, what: &str, error: Error) -> Result<String, ObserveError> {
    // A node that is locked, or an Ironic that is busy, is no failure.
    if matches!(error.class(), ErrorClass::Locked | ErrorClass::Busy) {
        return Err(error.into());
    }
    let message = for_tenant(&format!("{what}: {}", error.message()), &seen.key.namespace);
    tracing::warn!(host = %seen.key, message, "the subscriptions of a host wait for Ironic or the BMC");
    seen.failure.get_or_insert(error.into());
    Ok(message)
}

fn subject<'a>(seen: &'a mut Observed, name: &str) -> Option<&'a mut Subject> {
    seen.subjects.iter_mut().find(|subject| subject.name() == name)
}
