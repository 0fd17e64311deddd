//! What a node remembers of the work that it was asked for last, so that nothing is done twice and nothing is forgotten.
//!
//! Ironic does not tell which steps a cleaning had that is over, and the host's status cannot tell whether the call was made
//! that it announces. So the node is told before: which work, and when its state had changed last. A state that changed
//! since then says that the work was begun; a node at rest, that it is over.

use metal3_ironic::{Diff, Node, NodeDetail, PatchOp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

const KEY: &str = "metal3_preparation";

/// How far a node at rest has come with some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It was not asked for it.
    NotBegun,
    /// It has done it.
    Done,
    /// It tried.
    Failed,
}

/// A name for some work: the same for the same work only.
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

/// How far this work is on a node that stands in the state from which it is asked for. What was done together with other work
/// is done.
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

/// Writes down which work comes next.
pub fn set(diff: &mut Diff, node: &Node, detail: &NodeDetail, work: &Parts) {
    let work: Map<String, Value> = work
        .iter()
        .map(|(kind, name)| ((*kind).to_owned(), json!(name)))
        .collect();
    let mark = json!({"work": work, "since": since(node)});
    diff.set("/extra", KEY, Some(mark), detail.extra.get(KEY));
}

/// Forgets the work, so that it is begun anew; nothing where nothing is remembered.
pub fn removal(detail: &NodeDetail) -> Vec<PatchOp> {
    let mut diff = Diff::default();
    diff.set("/extra", KEY, None, detail.extra.get(KEY));
    diff.into_ops()
}

/// Whether the node was told of work of this kind last.
pub fn has(detail: &NodeDetail, kind: &str) -> bool {
    detail
        .extra
        .get(KEY)
        .is_some_and(|mark| mark["work"].get(kind).is_some())
}

/// Whether a patch writes or removes the mark.
pub fn is_in(ops: &[PatchOp]) -> bool {
    ops.iter().any(|op| op.path.strip_prefix("/extra/") == Some(KEY))
}

/// When the node's state had changed last.
pub fn since(node: &Node) -> Value {
    node.provision_updated_at.clone().unwrap_or_default().into()
}
