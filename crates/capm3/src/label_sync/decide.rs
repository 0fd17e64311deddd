//! Which labels of which Nodes are to be changed. Pure.

use std::collections::BTreeMap;
use std::convert::Infallible;

use kube::ResourceExt;
use metal3_runtime::controller::{Decision, Plan};
use serde_json::{Value, json};

use super::Prefixes;
use super::observed::Observed;

/// Labels of one Node that change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relabel {
    /// The name of the Node.
    pub node: String,
    /// Its UID: another Node of its name may run on another host.
    pub uid: Option<String>,
    /// What becomes of a label: its value, or nothing if it goes.
    pub labels: BTreeMap<String, Option<String>>,
}

impl Relabel {
    /// The merge patch.
    pub fn patch(&self) -> Value {
        json!({"metadata": {"uid": self.uid, "labels": self.labels}})
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes the labels of a Node.
    Relabel(Relabel),
    /// The pass fails if a Node was refused, after all have had their turn.
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

/// What makes the labels of a Node the same as those of its host, as far as the prefixes go.
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
