//! When objects reach a state. Uses watches, because lists would cost the server more than the measured program does.

use std::collections::BTreeMap;
use std::fmt::Debug;

use anyhow::bail;
use futures::{StreamExt, TryStreamExt};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// What an object has to come to.
#[derive(Clone, Copy)]
pub enum Goal<F> {
    /// A state that it shows.
    State(F),
    /// Its end.
    Gone,
}

/// The times, by `clock`, at which each of so many objects was first seen at its goal; by name.
pub async fn arrivals<K>(
    api: Api<K>,
    wanted: usize,
    clock: impl Fn() -> f64,
    goal: Goal<impl Fn(&K) -> bool>,
) -> anyhow::Result<BTreeMap<String, f64>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut ends = BTreeMap::new();
    while let Some(event) = events.try_next().await? {
        let arrived = match (event, &goal) {
            (Event::Apply(object) | Event::InitApply(object), Goal::State(is_there)) => {
                is_there(&object).then_some(object)
            }
            (Event::Delete(object), Goal::Gone) => Some(object),
            _ => None,
        };
        if let Some(object) = arrived {
            ends.entry(object.name_any()).or_insert_with(&clock);
        }
        if ends.len() == wanted {
            return Ok(ends);
        }
    }
    let kind = K::kind(&());
    bail!("the watch ended with {} of {wanted} objects of kind {kind}", ends.len())
}

/// Times in the order of arrival.
pub fn in_order(ends: BTreeMap<String, f64>) -> Vec<f64> {
    let mut ends: Vec<f64> = ends.into_values().collect();
    ends.sort_by(f64::total_cmp);
    ends
}
