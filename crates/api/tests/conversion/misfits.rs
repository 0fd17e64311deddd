//! What the API server would prune, refuse or miss in an object that it has not checked.

use regex::Regex;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

/// All that does not fit a schema in an object that was made from `given`. A text that is in `given` was written by the user,
/// who may write in one version what the other does not admit; but one that says nothing is left out where it can be.
pub fn of(schema: &Value, object: &Value, given: &Value) -> Vec<String> {
    let mut texts = BTreeSet::new();
    texts_of(given, &mut texts);
    let mut misfits = Misfits {
        given: texts,
        found: Vec::new(),
    };
    misfits.look(schema, object, "", false);
    misfits.found
}

struct Misfits<'a> {
    given: BTreeSet<&'a str>,
    found: Vec<String>,
}

impl Misfits<'_> {
    fn look(&mut self, schema: &Value, value: &Value, path: &str, is_optional: bool) {
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            return;
        }
        match (schema["type"].as_str().unwrap_or_default(), value) {
            ("object", Value::Object(fields)) => {
                let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
                for (key, value) in fields {
                    let path = format!("{path}.{key}");
                    if let Some(schema) = schema["properties"].get(key) {
                        self.look(schema, value, &path, !required.iter().any(|name| name == key));
                    } else if schema["additionalProperties"].is_object() {
                        self.look(&schema["additionalProperties"], value, &path, false);
                    } else {
                        self.found.push(format!("{path} is unknown"));
                    }
                }
                for required in required.iter().filter_map(Value::as_str) {
                    if !fields.contains_key(required) {
                        self.found.push(format!("{path} lacks {required}"));
                    }
                }
            }
            ("array", Value::Array(items)) => {
                for item in items {
                    self.look(&schema["items"], item, &format!("{path}[]"), false);
                }
            }
            ("string", Value::String(text)) => self.look_at_text(schema, text, path, is_optional),
            ("integer", Value::Number(_)) | ("boolean", Value::Bool(_)) => {}
            (wanted, value) => self.found.push(format!("{path} is {value}, not a {wanted}")),
        }
    }

    fn look_at_text(&mut self, schema: &Value, text: &str, path: &str, is_optional: bool) {
        let texts = schema["enum"].as_array();
        if texts.is_some_and(|texts| !texts.iter().any(|known| known == text)) {
            self.found.push(format!("{path} is {text:?}"));
        }
        let least = schema["minLength"].as_u64().unwrap_or_default();
        let is_short = u64::try_from(text.chars().count()).unwrap() < least;
        let breaks_pattern = schema["pattern"]
            .as_str()
            .is_some_and(|pattern| !is_match(pattern, text));
        // An empty text that must be there stands for what the other version does not have.
        let is_ours = if text.is_empty() {
            is_optional
        } else {
            !self.given.contains(text)
        };
        if (is_short || breaks_pattern) && is_ours {
            self.found.push(format!("{path} is {text:?}, which is not admitted"));
        }
    }
}

/// All texts in a value.
fn texts_of<'a>(value: &'a Value, texts: &mut BTreeSet<&'a str>) {
    match value {
        Value::String(text) => {
            texts.insert(text);
        }
        Value::Array(items) => items.iter().for_each(|item| texts_of(item, texts)),
        Value::Object(fields) => {
            for (key, value) in fields {
                texts.insert(key); // a map's keys become names in a list
                texts_of(value, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_match(pattern: &str, text: &str) -> bool {
    thread_local! {
        static KNOWN: RefCell<HashMap<String, Regex>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        let regex = known
            .entry(pattern.to_owned())
            .or_insert_with(|| Regex::new(pattern).unwrap());
        regex.is_match(text)
    })
}
