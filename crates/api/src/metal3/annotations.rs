//! Values of the annotations that carry arguments.

use super::names::annotation;
use crate::wire::wire_enum;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

wire_enum! {
    /// How a host is switched off for a reboot.
    open enum RebootMode {
        /// Immediately.
        Hard = "hard",
        /// By asking the operating system first. Any unknown text means this too.
        Soft = "soft",
    }
}

/// Arguments of a reboot annotation, such as `{"mode": "hard", "force": true}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RebootArguments {
    /// How to switch the host off.
    pub mode: RebootMode,

    /// Whether to interrupt what the host is doing: an inspection, a deployment, or waiting while available.
    pub force: bool,
}

impl Default for RebootArguments {
    fn default() -> Self {
        Self {
            mode: RebootMode::Soft,
            force: false,
        }
    }
}

impl RebootArguments {
    /// Reads an annotation's value; an empty one means the defaults.
    ///
    /// # Errors
    ///
    /// The value is not JSON of this shape. The request stands all the same, so callers report the error and go on with
    /// the defaults: older clients write arbitrary texts.
    pub fn parse(value: &str) -> Result<Self, serde_json::Error> {
        arguments(value, &["mode", "force"])
    }

    /// Whether the host loses power without its operating system being asked.
    pub fn is_hard(&self) -> bool {
        self.mode == RebootMode::Hard
    }
}

/// Reads arguments as Go does, in which upstream and many clients are written: keys in any case, and null for a field that is not
/// there.
fn arguments<T: DeserializeOwned + Default>(value: &str, fields: &[&str]) -> Result<T, serde_json::Error> {
    if value.is_empty() {
        return Ok(T::default());
    }
    let given: Option<Map<String, Value>> = serde_json::from_str(value)?;
    let known = given
        .unwrap_or_default()
        .into_iter()
        .filter(|(_, value)| !value.is_null());
    let known = known.map(|(key, value)| {
        let field = fields.iter().find(|field| field.eq_ignore_ascii_case(&key));
        (field.map_or(key, |field| (*field).to_owned()), value)
    });
    serde_json::from_value(Value::Object(known.collect()))
}

/// One reboot annotation of a host.
#[derive(Debug)]
pub struct RebootRequest<'a> {
    /// The annotation's key.
    pub key: &'a str,

    /// What it asks for, or why the value cannot be read.
    pub arguments: Result<RebootArguments, serde_json::Error>,
}

impl RebootRequest<'_> {
    /// Whether the host stays off until the client removes the annotation, instead of until it was seen off.
    pub fn is_held(&self) -> bool {
        self.key != annotation::REBOOT
    }
}

/// All reboot annotations among `annotations`, in the order of their keys.
pub fn reboot_requests(annotations: &BTreeMap<String, String>) -> impl Iterator<Item = RebootRequest<'_>> {
    annotations
        .iter()
        .filter(|(key, _)| *key == annotation::REBOOT || key.starts_with(annotation::REBOOT_PREFIX))
        .map(|(key, value)| RebootRequest {
            key,
            arguments: RebootArguments::parse(value),
        })
}

wire_enum! {
    /// What deletion of a detached host does.
    open enum DeleteAction {
        /// Waits until the host is no longer detached.
        Delay = "delay",
        /// Forgets the host without powering it off or cleaning it. Any unknown text means this too.
        Delete = "delete",
    }
}

/// Arguments of the detached annotation, such as `{"deleteAction": "delay", "force": true}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DetachedArguments {
    /// What deletion does while the annotation is there.
    pub delete_action: DeleteAction,

    /// Whether to detach in every state, even in the middle of an operation, rather than only where the host rests.
    pub force: bool,
}

impl Default for DetachedArguments {
    fn default() -> Self {
        Self {
            delete_action: DeleteAction::Delete,
            force: false,
        }
    }
}

impl DetachedArguments {
    /// Reads the annotation's value; an empty one means the defaults.
    ///
    /// # Errors
    ///
    /// The value is not JSON of this shape. The host counts as detached all the same, so callers report the error and go
    /// on with the defaults.
    pub fn parse(value: &str) -> Result<Self, serde_json::Error> {
        arguments(value, &["deleteAction", "force"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::empty("", Some((false, false)))]
    #[case::empty_object("{}", Some((false, false)))]
    #[case::hard(r#"{"mode":"hard"}"#, Some((true, false)))]
    #[case::soft_forced(r#"{"mode":"soft","force":true}"#, Some((false, true)))]
    #[case::empty_mode(r#"{"mode":"","force":true}"#, Some((false, true)))]
    #[case::unknown_mode(r#"{"mode":"gentle"}"#, Some((false, false)))]
    // OWN 31tc: what Go reads as a hard reboot was a soft one.
    #[case::another_case(r#"{"Mode":"hard","FORCE":true}"#, Some((true, true)))]
    #[case::null_field(r#"{"mode":"hard","force":null}"#, Some((true, false)))]
    #[case::null("null", Some((false, false)))]
    #[case::list("[]", None)]
    #[case::other_fields(r#"{"mode":"hard","why":"x"}"#, Some((true, false)))]
    #[case::text("please", None)]
    #[case::wrong_type(r#"{"force":"yes"}"#, None)]
    fn reboot_values(#[case] value: &str, #[case] hard_and_force: Option<(bool, bool)>) {
        let parsed = RebootArguments::parse(value).ok();
        assert_eq!(parsed.map(|a| (a.is_hard(), a.force)), hard_and_force);
    }

    #[test]
    fn reboot_keys_are_told_from_their_neighbours() {
        let annotations = [
            "reboot.metal3.io",
            "reboot.metal3.io/a",
            "reboot.metal3.io.example",
            "inspect.metal3.io",
        ]
        .map(|key| (key.to_owned(), String::new()));
        let annotations = BTreeMap::from(annotations);
        let found: Vec<_> = reboot_requests(&annotations).map(|r| (r.key, r.is_held())).collect();
        assert_eq!(found, [("reboot.metal3.io", false), ("reboot.metal3.io/a", true)]);
    }

    #[rstest]
    #[case::empty("", Some((DeleteAction::Delete, false)))]
    #[case::delay(r#"{"deleteAction":"delay"}"#, Some((DeleteAction::Delay, false)))]
    #[case::another_case(r#"{"DeleteAction":"delay"}"#, Some((DeleteAction::Delay, false)))]
    #[case::delete_forced(r#"{"deleteAction":"delete","force":true}"#, Some((DeleteAction::Delete, true)))]
    #[case::text("true detachment", None)]
    fn detached_values(#[case] value: &str, #[case] expected: Option<(DeleteAction, bool)>) {
        let parsed = DetachedArguments::parse(value).ok();
        assert_eq!(parsed.map(|a| (a.delete_action, a.force)), expected);
    }
}
