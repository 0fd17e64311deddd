//! A mark on the node that records its last requested work, so that nothing is done twice or forgotten.
//!
//! Ironic does not report the steps of a completed cleaning, and the host's status does not show whether the announced
//! call was made. So the mark is written to the node first: the work, and when the node's state last changed. If the
//! state has changed since, the work was started; if the node is also at rest, the work is over.

use metal3_ironic::{Diff, Node, NodeDetail, PatchOp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

const KEY: &str = "metal3_preparation";

/// The progress of some work on a node at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The work was not requested.
    NotBegun,
    /// The work is done.
    Done,
    /// The work was tried.
    Failed,
}

/// A name for some work: equal only for the same work.
pub fn name(work: &impl Serialize) -> String {
    let text = serde_json::to_vec(work).unwrap_or_default();
    let digest = Sha256::digest(text);
    digest
        .iter()
        .take(8)
        .fold(String::new(), |name, byte| format!("{name}{byte:02x}"))
}

/// Kinds of work with the names of what is to be done of each.
pub type Parts = [(&'static str, String)];

/// The progress of this work on a node in the state from which it is requested. Work done together with other work
/// counts as done.
pub fn progress(node: &Node, detail: &NodeDetail, work: &Parts) -> Progress {
    let Some(mark) = detail.extra.get(KEY) else {
        return Progress::NotBegun;
    };
    let is_in = |(kind, name): &(&str, String)| mark["work"][kind].as_str() == Some(name);
    if !work.iter().all(is_in) || mark.get("since") == Some(&since(node)) {
        return Progress::NotBegun;
    }
    if node.last_error.is_some() {
        Progress::Failed
    } else {
        Progress::Done
    }
}

/// Records the next work.
pub fn set(diff: &mut Diff, node: &Node, detail: &NodeDetail, work: &Parts) {
    let work: Map<String, Value> = work
        .iter()
        .map(|(kind, name)| ((*kind).to_owned(), json!(name)))
        .collect();
    let mark = json!({"work": work, "since": since(node)});
    diff.set("/extra", KEY, Some(mark), detail.extra.get(KEY));
}

/// Whether the last recorded work has one of these kinds, and is other work.
pub fn differs(detail: &NodeDetail, work: &Parts, kinds: &[&str]) -> bool {
    let Some(recorded) = detail.extra.get(KEY).map(|mark| &mark["work"]) else {
        return false;
    };
    let mut recorded = kinds
        .iter()
        .filter_map(|kind| Some((*kind, recorded.get(*kind)?.as_str())))
        .peekable();
    let is_same = |(kind, name): (&str, Option<&str>)| {
        work.iter()
            .any(|(other, wanted)| *other == kind && Some(wanted.as_str()) == name)
    };
    // More work than before is other work, too, and so is a part of it.
    recorded.peek().is_some() && {
        let recorded: Vec<_> = recorded.collect();
        recorded.len() != work.len() || !recorded.into_iter().all(is_same)
    }
}

/// Forgets the work, so that it is started again; empty if nothing is recorded.
pub fn removal(detail: &NodeDetail) -> Vec<PatchOp> {
    let mut diff = Diff::default();
    diff.set("/extra", KEY, None, detail.extra.get(KEY));
    diff.into_ops()
}

/// Whether the last recorded work includes this kind.
pub fn has(detail: &NodeDetail, kind: &str) -> bool {
    detail
        .extra
        .get(KEY)
        .is_some_and(|mark| mark["work"].get(kind).is_some())
}

/// Whether the last recorded work includes this kind, and was begun.
pub fn was_tried(node: &Node, detail: &NodeDetail, kind: &str) -> bool {
    let is_pending = |mark: &Value| mark.get("since") == Some(&since(node));
    has(detail, kind) && !detail.extra.get(KEY).is_some_and(is_pending)
}

/// Whether a patch writes or removes the mark.
pub fn is_in(ops: &[PatchOp]) -> bool {
    ops.iter().any(|op| op.path.strip_prefix("/extra/") == Some(KEY))
}

/// When the node's state last changed.
pub fn since(node: &Node) -> Value {
    node.provision_updated_at.clone().unwrap_or_default().into()
}
