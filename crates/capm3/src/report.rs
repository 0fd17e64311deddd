//! The last step of a pass: stores the status if it differs, then publishes events.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::core::object::HasStatus;
use metal3_api::infra::v1beta2::{Metal3ClusterStatus, Metal3DataStatus, Metal3MachineStatus, Metal3RemediationStatus};
use metal3_runtime::conditions::whole_seconds;
use metal3_runtime::controller::Report;
use metal3_runtime::status;
use metal3_runtime::store::{ObjectKey, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::PassError;

/// Describes a failed status write, for errors.
pub const STORE_STATUS: &str = "store the status";

/// A status that may contain the time of its last update.
pub trait Status: Clone + Default + PartialEq {
    /// The time, for kinds that have one.
    fn last_updated(&mut self) -> Option<&mut Option<Time>> {
        None
    }
}

impl Status for Metal3ClusterStatus {
    fn last_updated(&mut self) -> Option<&mut Option<Time>> {
        Some(&mut self.last_updated)
    }
}

impl Status for Metal3MachineStatus {
    fn last_updated(&mut self) -> Option<&mut Option<Time>> {
        Some(&mut self.last_updated)
    }
}

impl Status for Metal3DataStatus {}

impl Status for Metal3RemediationStatus {
    fn last_updated(&mut self) -> Option<&mut Option<Time>> {
        None // that of the last attempt, which decisions are made on
    }
}

/// Stores the status if it differs from the object's (ignoring the time of the last update), publishes the events, and updates
/// the object.
pub async fn report<K, By>(
    ctx: &Context,
    store: &Store<K, By>,
    object: &mut Arc<K>,
    report: Report<K::Status>,
) -> Result<(), PassError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: HasStatus + Default + Clone + Debug + Serialize + DeserializeOwned,
    K::Status: Status,
    By: Eq + Hash + Clone,
{
    if let Some(status) = report.status.and_then(|status| changed(&**object, status)) {
        let status = stamped(status, ctx);
        let written = status::replace(&ctx.client, &**object, status).await.map_err(|error| {
            ctx.refusals.unreported(object.meta().uid.as_deref());
            PassError::of(STORE_STATUS, &K::kind(&()), &ObjectKey::of(&**object))(error)
        })?;
        store.written(written.clone());
        *object = Arc::new(written);
    }
    let regarding = object.object_ref(&());
    for event in &report.events {
        ctx.recorder.publish(&regarding, None, event).await;
    }
    Ok(())
}

/// The status, if it differs from the object's.
fn changed<K>(object: &K, mut status: K::Status) -> Option<K::Status>
where
    K: HasStatus,
    K::Status: Status,
{
    let mut before = object.status().cloned().unwrap_or_default();
    if let (Some(before), Some(time)) = (before.last_updated(), status.last_updated()) {
        time.clone_from(before);
    }
    (status != before).then_some(status)
}

fn stamped<S: Status>(mut status: S, ctx: &Context) -> S {
    if let Some(time) = status.last_updated() {
        *time = Some(Time(whole_seconds(ctx.clock.now())));
    }
    status
}
