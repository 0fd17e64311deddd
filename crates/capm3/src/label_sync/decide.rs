//! Which labels of which Nodes are to be changed. Pure.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Value, json};

use super::Prefixes;
use super::observed::Observed;

/// Labels of one Node that change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Relabel {
    /// The name of the Node.
    pub(super) node: String,
    /// Its UID: another Node of its name may run on another host.
    pub(super) uid: Option<String>,
    /// What becomes of a label: its value, or nothing if it goes.
    pub(super) labels: BTreeMap<String, Option<String>>,
}

impl Relabel {
    /// The merge patch.
    pub(super) fn patch(&self) -> Value {
        json!({"metadata": {"uid": self.uid, "labels": self.labels}})
    }
}

/// One change for each Node that differs from its host.
pub(super) fn decide(seen: &Observed) -> Vec<Relabel> {
    let changes = seen.pairs.iter().map(|(host, node)| Relabel {
        node: node.name_any(),
        uid: node.uid(),
        labels: difference(&seen.prefixes, host.labels(), node.labels()),
    });
    changes.filter(|change| !change.labels.is_empty()).collect()
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
