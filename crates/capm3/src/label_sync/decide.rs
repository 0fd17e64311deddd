//! Decides which labels of which Nodes to change. Pure.

use std::collections::BTreeMap;
use std::convert::Infallible;

use kube::ResourceExt;
use metal3_runtime::controller::{Decision, Plan};
use serde_json::{Value, json};

use super::Prefixes;
use super::observed::Observed;

/// Label changes for one Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relabel {
    /// The name of the Node.
    pub node: String,
    /// Its UID: a Node of the same name may run on another host.
    pub uid: Option<String>,
    /// The new value of each label, or none to remove it.
    pub labels: BTreeMap<String, Option<String>>,
}

impl Relabel {
    /// The merge patch.
    pub fn patch(&self) -> Value {
        json!({"metadata": {"uid": self.uid, "labels": self.labels}})
    }
}

/// An effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes the labels of a Node.
    Relabel(Relabel),
    /// Fails the pass if a Node was rejected, after all Nodes were tried.
    Conclude,
}

/// One change for each Node that differs from its host.
pub fn decide(seen: &Observed) -> Decision<Infallible, Effect, ()> {
    let changes = seen.pairs.iter().map(|(host, node)| Relabel {
        node: node.name_any(),
        uid: node.uid(),
        labels: difference(&seen.prefixes, host.labels(), node.labels()),
    });
    let changes = changes.filter(|change| !change.labels.is_empty());
    let mut effects: Vec<Effect> = changes.map(Effect::Relabel).collect();
    if !effects.is_empty() {
        effects.push(Effect::Conclude);
    }
    Plan {
        effects,
        ..Plan::default()
    }
    .into()
}

/// The changes that make a Node's labels equal to its host's, for labels with these prefixes.
fn difference(
    prefixes: &Prefixes,
    host: &BTreeMap<String, String>,
    node: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let gone = node
        .keys()
        .filter(|key| !host.contains_key(*key))
        .map(|key| (key, None));
    let new = host.iter().filter(|(key, value)| node.get(*key) != Some(value));
    let new = new.map(|(key, value)| (key, Some(value.clone())));
    gone.chain(new)
        .filter(|(key, _)| prefixes.cover(key))
        .map(|(key, value)| (key.clone(), value))
        .collect()
}
