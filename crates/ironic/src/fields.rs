//! Free-form JSON objects of a node (`driver_info`, `instance_info`, …) whose `Debug` output hides secrets.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::redact::without_url_secrets;

/// The mask that Ironic, and this client, show in place of a secret.
pub const MASK: &str = "******";

/// A JSON object with a `Debug` output that is safe to log.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fields(pub Map<String, Value>);

impl Deref for Fields {
    type Target = Map<String, Value>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Fields {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl From<BTreeMap<String, Value>> for Fields {
    fn from(map: BTreeMap<String, Value>) -> Self {
        Self(map.into_iter().collect())
    }
}

impl From<Fields> for Value {
    fn from(fields: Fields) -> Self {
        Self::Object(fields.0)
    }
}

impl<K: Into<String>> FromIterator<(K, Value)> for Fields {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(items: I) -> Self {
        Self(items.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.0.iter().map(|(key, value)| (key, Masked { key, value })))
            .finish()
    }
}

/// Whether a value under this key must stay out of logs. A configuration drive counts as a whole: its user data is
/// where people put tokens and password hashes. Network data and the headers of events come from Secrets too.
pub(crate) fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    [
        "password",
        "secret",
        "token",
        "configdrive",
        "user_data",
        "network_data",
        "httpheaders",
    ]
    .iter()
    .any(|word| key.contains(word))
}

/// `Debug` of one value with everything secret in it masked.
pub(crate) struct Masked<'a> {
    /// The key, or the JSON pointer, under which the value stands.
    pub key: &'a str,
    /// The value itself.
    pub value: &'a Value,
}

impl fmt::Debug for Masked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            _ if is_secret(self.key) => f.write_str(MASK),
            Value::Object(map) => f
                .debug_map()
                .entries(map.iter().map(|(key, value)| (key, Masked { key, value })))
                .finish(),
            Value::Array(items) => f
                .debug_list()
                .entries(items.iter().map(|value| Masked { key: self.key, value }))
                .finish(),
            Value::String(text) => write!(f, "{}", Value::from(without_url_secrets(text))),
            scalar => write!(f, "{scalar}"),
        }
    }
}

/// Every secret text in a request body. It must not appear in an error message, because Ironic quotes parts of a
/// request that it rejects.
pub(crate) fn secrets_in(body: &Value) -> Vec<String> {
    fn walk(value: &Value, secret: bool, found: &mut Vec<String>) {
        match value {
            // Replacing one or two letters would only make the message unreadable.
            // Line by line, because a quotation escapes the line ends.
            Value::String(text) if secret => {
                found.extend(
                    text.lines()
                        .filter(|line| line.len() > 2 && *line != MASK)
                        .map(str::to_owned),
                );
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, secret, found)),
            Value::Object(map) => {
                // A patch operation names its key in `path` and carries the value beside it.
                let named = map.get("path").and_then(Value::as_str).is_some_and(is_secret);
                for (key, item) in map {
                    // In a configuration drive only parts are secret; hiding the host's name would help nobody.
                    let drive = key == "configdrive" && item.is_object();
                    let here = (is_secret(key) && !drive) || (named && key == "value");
                    walk(item, secret || here, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(body, false, &mut found);
    // Longest first, so that a secret containing another is replaced whole.
    found.sort_by_key(|text| std::cmp::Reverse(text.len()));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn debug_hides_secrets_at_any_depth() {
        let fields: Fields = [
            ("redfish_password", json!("hunter2")),
            ("image_pull_secret", json!("hunter2")),
            ("nested", json!({"a": [{"agent_secret_token": "hunter2"}]})),
            ("configdrive", json!({"user_data": "hunter2"})),
            ("network_data", json!({"services": [{"address": "hunter2"}]})),
            ("redfish_username", json!("admin")),
        ]
        .into_iter()
        .collect();
        let shown = format!("{fields:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("admin"), "{shown}");
    }

    #[test]
    fn secrets_of_bodies_and_patches_are_found() {
        let body = json!([
            {"op": "add", "path": "/driver_info/ipmi_password", "value": "first"},
            {"op": "add", "path": "/driver_info", "value": {"redfish_password": "second", "redfish_username": "admin"}},
        ]);
        assert_eq!(secrets_in(&body), ["second", "first"]);
        let body = json!([{"op": "add", "path": "/network_data", "value": {"links": [{"id": "eth0", "mtu": 1500}]}}]);
        assert_eq!(secrets_in(&body), ["eth0"]);
        let body =
            json!({"target": "active", "configdrive": {"user_data": "third\nsixth!", "meta_data": {"name": "fourth"}}});
        assert_eq!(secrets_in(&body), ["sixth!", "third"]);
    }
}
