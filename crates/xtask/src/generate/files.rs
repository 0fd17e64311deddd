//! What is generated.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

/// Generated texts by their path from the root of the repository.
pub type Files = BTreeMap<PathBuf, String>;

/// A YAML file with one object, and its source in a comment.
pub fn document(source: &str, object: &Value) -> anyhow::Result<String> {
    documents(source, std::slice::from_ref(object))
}

/// A YAML file with several objects, and their source in a comment.
pub fn documents(source: &str, objects: &[Value]) -> anyhow::Result<String> {
    Ok(format!(
        "# Made by `cargo xtask generate` from {source}.\n{}",
        yaml(objects)?
    ))
}

/// Objects as YAML documents.
pub fn yaml(objects: &[Value]) -> anyhow::Result<String> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(serde_saphyr::to_string(object)?.trim_end());
        text.push('\n');
    }
    Ok(text)
}
