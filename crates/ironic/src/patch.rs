//! JSON patches that carry differences only.
//!
//! Every patch costs Ironic a lock on the node and about ten times what a read does, so a patch without need is worth
//! avoiding. `add` also replaces, so `replace` is never used.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::fields::{MASK, Masked};

/// What a patch operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Set, whether or not it was there.
    Add,
    /// Take away what was there.
    Remove,
}

/// One operation of a patch. `Debug` hides values of secret keys.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct PatchOp {
    /// What to do.
    pub op: Op,
    /// JSON pointer such as `/driver_info/redfish_address`.
    pub path: String,
    /// The new value; absent for [`Op::Remove`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

impl PatchOp {
    /// Sets `path` to `value`.
    pub fn add(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            op: Op::Add,
            path: path.into(),
            value: Some(value.into()),
        }
    }

    /// Removes what is at `path`. Ironic refuses this with 400 when nothing is there.
    pub fn remove(path: impl Into<String>) -> Self {
        Self {
            op: Op::Remove,
            path: path.into(),
            value: None,
        }
    }
}

impl fmt::Debug for PatchOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(
                f,
                "{:?} {} = {:?}",
                self.op,
                self.path,
                Masked { key: &self.path, value }
            ),
            None => write!(f, "{:?} {}", self.op, self.path),
        }
    }
}

/// How to treat a current value that Ironic masks, and that therefore cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MaskedValues {
    /// Counts as unchanged: the caller knows by other means (such as a Secret's version) that it was sent before.
    #[default]
    Unchanged,
    /// Counts as different, and is sent again.
    Changed,
}

/// Collects the operations that turn the current state into the desired one.
#[derive(Debug, Clone, Default)]
pub struct Diff {
    masked: MaskedValues,
    ops: Vec<PatchOp>,
}

impl Diff {
    /// An empty difference with a rule for masked values.
    pub fn new(masked: MaskedValues) -> Self {
        Self {
            masked,
            ops: Vec::new(),
        }
    }

    /// Wants `key` of `section` to be `desired`, given its `current` value (none: the key is absent).
    ///
    /// `section` is `/driver_info`, `/instance_info`, `/properties` or, for the node's own fields, `/` or empty. There a
    /// current null counts as absent, because a node's own field always exists.
    pub fn set(&mut self, section: &str, key: &str, desired: Option<Value>, current: Option<&Value>) -> &mut Self {
        let section = section.trim_end_matches('/');
        let current = current.filter(|value| !(section.is_empty() && value.is_null()));
        let desired = desired.filter(|value| !value.is_null());
        let path = || format!("{section}/{}", key.replace('~', "~0").replace('/', "~1"));
        match (desired, current) {
            (Some(desired), Some(current)) if same(&desired, current, self.masked) => {}
            (Some(desired), _) => self.ops.push(PatchOp::add(path(), desired)),
            (None, Some(_)) => self.ops.push(PatchOp::remove(path())),
            (None, None) => {}
        }
        self
    }

    /// [`Diff::set`] for several keys of a section of which the whole current content is at hand. Keys that are not
    /// named stay as they are.
    pub fn set_all<'a>(
        &mut self,
        section: &str,
        desired: impl IntoIterator<Item = (&'a str, Option<Value>)>,
        current: &Map<String, Value>,
    ) -> &mut Self {
        for (key, value) in desired {
            self.set(section, key, value, current.get(key));
        }
        self
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// The operations, in the order in which they were added.
    pub fn into_ops(self) -> Vec<PatchOp> {
        self.ops
    }
}

/// Deep equality as Ironic would see it: 1 and 1.0 are the same, 1 and "1" are not.
fn same(desired: &Value, current: &Value, masked: MaskedValues) -> bool {
    match (desired, current) {
        (_, Value::String(text)) if text == MASK => masked == MaskedValues::Unchanged,
        (Value::String(whole), Value::String(shown)) if shown.contains(MASK) => {
            masked == MaskedValues::Unchanged && shows(shown, whole)
        }
        (Value::Number(a), Value::Number(b)) => a == b || (a.is_f64() != b.is_f64() && a.as_f64() == b.as_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, masked)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b, masked)))
        }
        (a, b) => a == b,
    }
}

/// Whether Ironic would show `whole` as `shown`. It hides what follows a word such as `token=` in a URL.
fn shows(shown: &str, whole: &str) -> bool {
    let (Some((head, _)), Some((_, tail))) = (shown.split_once(MASK), shown.rsplit_once(MASK)) else {
        return shown == whole;
    };
    whole.len() >= head.len() + tail.len() && whole.starts_with(head) && whole.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::same("/instance_info", Some(json!("a")), Some(json!("a")), None)]
    #[case::new("/instance_info", Some(json!("a")), None, Some(json!({"op": "add", "path": "/instance_info/k", "value": "a"})))]
    #[case::other("/instance_info", Some(json!("a")), Some(json!("b")), Some(json!({"op": "add", "path": "/instance_info/k", "value": "a"})))]
    #[case::gone("/instance_info", None, Some(json!("b")), Some(json!({"op": "remove", "path": "/instance_info/k"})))]
    #[case::never_there("/instance_info", None, None, None)]
    #[case::null_is_there("/instance_info", None, Some(json!(null)), Some(json!({"op": "remove", "path": "/instance_info/k"})))]
    #[case::null_is_wished_away("/instance_info", Some(json!(null)), None, None)]
    #[case::own_field_null("/", None, Some(json!(null)), None)]
    #[case::own_field("/", Some(json!(false)), Some(json!(null)), Some(json!({"op": "add", "path": "/k", "value": false})))]
    #[case::own_field_gone("", None, Some(json!("x")), Some(json!({"op": "remove", "path": "/k"})))]
    #[case::numbers("/properties/", Some(json!(1)), Some(json!(1.0)), None)]
    #[case::number_and_text("/properties/", Some(json!(1)), Some(json!("1")), Some(json!({"op": "add", "path": "/properties/k", "value": 1})))]
    #[case::deep("/properties", Some(json!({"a": [1, {"b": null}]})), Some(json!({"a": [1.0, {"b": null}]})), None)]
    #[case::deep_differs("/properties", Some(json!({"a": [1]})), Some(json!({"a": [1], "b": 2})),
        Some(json!({"op": "add", "path": "/properties/k", "value": {"a": [1]}})))]
    #[case::masked("/driver_info", Some(json!("secret")), Some(json!("******")), None)]
    #[case::masked_inside("/", Some(json!({"p": "secret", "a": 1})), Some(json!({"p": "******", "a": 1})), None)]
    fn differences(
        #[case] section: &str,
        #[case] desired: Option<Value>,
        #[case] current: Option<Value>,
        #[case] expected: Option<Value>,
    ) {
        let mut diff = Diff::default();
        diff.set(section, "k", desired, current.as_ref());
        assert_eq!(
            serde_json::to_value(diff.into_ops()).unwrap(),
            Value::from_iter(expected)
        );
    }

    #[rstest]
    #[case("http://h/a?token=abc", true)]
    #[case("http://h/b?token=abc", false)]
    #[case("http://h/a?token=", true)]
    #[case("http://h/a", false)]
    fn a_url_that_is_shown_in_part_is_compared_by_what_is_shown(#[case] desired: &str, #[case] same: bool) {
        // OWN 1c: it was patched again in every pass.
        let shown = json!("http://h/a?token=******");
        let mut diff = Diff::default();
        diff.set("/instance_info", "image_source", Some(json!(desired)), Some(&shown));
        assert_eq!(diff.is_empty(), same);
        let mut insisting = Diff::new(MaskedValues::Changed);
        insisting.set("/instance_info", "image_source", Some(json!(desired)), Some(&shown));
        assert!(!insisting.is_empty());
    }

    #[test]
    fn the_caller_may_insist_on_masked_values() {
        let mut diff = Diff::new(MaskedValues::Changed);
        diff.set(
            "/driver_info",
            "redfish_password",
            Some(json!("hunter2")),
            Some(&json!(MASK)),
        );
        let ops = diff.into_ops();
        assert_eq!(ops, [PatchOp::add("/driver_info/redfish_password", "hunter2")]);
        assert!(!format!("{ops:?}").contains("hunter2"));
        let whole = PatchOp::add(
            "/driver_info",
            json!({"redfish_password": "hunter2", "redfish_username": "admin"}),
        );
        let shown = format!("{whole:?}");
        assert!(!shown.contains("hunter2") && shown.contains("admin"), "{shown}");
    }

    #[test]
    fn keys_are_escaped() {
        let mut diff = Diff::default();
        diff.set("/properties", "a/b~c", Some(json!(1)), None);
        assert_eq!(diff.into_ops()[0].path, "/properties/a~1b~0c");
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z*]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{1,3}", inner, 0..4).prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        /// Applying the operations and asking again leaves nothing to do.
        #[test]
        fn a_second_look_finds_nothing(desired in prop::option::of(json_value()), current in prop::option::of(json_value())) {
            let mut diff = Diff::new(MaskedValues::Changed);
            diff.set("/properties", "k", desired.clone(), current.as_ref());
            let after = match diff.into_ops().pop() {
                Some(PatchOp { op: Op::Add, value, .. }) => value,
                Some(PatchOp { op: Op::Remove, .. }) => None,
                None => current,
            };
            let mut again = Diff::default();
            again.set("/properties", "k", desired, after.as_ref());
            prop_assert!(again.is_empty(), "{:?}", again);
        }
    }
}
