//! One row of the table.

use kube::CustomResourceExt;
use metal3_api::crd::{self, Crd};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// One version of a kind, with what sets it apart from others.
pub struct Kind {
    spec: Value,
    version: Value,
    rewrite: fn(Value) -> serde_json::Result<Value>,
    default: fn() -> serde_json::Result<Value>,
    defaults: Vec<(&'static str, Value)>,
    keeps_empty: Vec<&'static str>,
    stores: fn(&mut Value),
    reads_as: fn(&mut Value),
    is_valid: fn(&Value) -> bool,
    refusals: Vec<Refusal>,
}

/// A change of the object `full` that the API server refuses.
#[derive(Clone)]
pub struct Refusal {
    /// Where, as a JSON pointer.
    pub at: &'static str,
    /// What is put there. Null takes away what is there.
    pub value: Value,
    /// What the message contains: the field's path, and what is wrong with it.
    pub because: &'static str,
}

impl Kind {
    /// A row for a type.
    pub fn of<K>() -> Self
    where
        K: CustomResourceExt + DeserializeOwned + Serialize + Default,
    {
        // Making them all for each row would take most of a test's time.
        static CRDS: LazyLock<Vec<Crd>> = LazyLock::new(|| crd::all().unwrap());
        let own = K::crd();
        let crd = CRDS.iter().find(|crd| crd.name() == K::crd_name());
        let crd = crd.unwrap_or_else(|| panic!("{} is not listed among the definitions", K::crd_name()));
        let spec = crd.manifest()["spec"].clone();
        let versions = spec["versions"].as_array().unwrap();
        let version = versions
            .iter()
            .find(|version| version["name"] == own.spec.versions[0].name);
        Self {
            version: version.unwrap().clone(),
            spec,
            rewrite: |object| serde_json::to_value(serde_json::from_value::<K>(object)?),
            default: || serde_json::to_value(K::default()),
            defaults: Vec::new(),
            keeps_empty: Vec::new(),
            stores: |_| {},
            reads_as: |_| {},
            is_valid: |_| true,
            refusals: Vec::new(),
        }
    }

    /// What the API server stores where a field is missing: all defaults of the schema, as JSON pointers in which `*`
    /// stands for every item or key.
    pub fn with_defaults(mut self, defaults: &[(&'static str, Value)]) -> Self {
        self.defaults = defaults.to_vec();
        self
    }

    /// Fields, as pointers, in which an empty list, zero or false is something else than their absence.
    pub fn that_keeps_empty(mut self, fields: &[&'static str]) -> Self {
        self.keeps_empty = fields.to_vec();
        self
    }

    /// What the API server makes of an object in addition, where another version is stored and has other defaults.
    pub fn that_stores(mut self, change: fn(&mut Value)) -> Self {
        self.stores = change;
        self
    }

    /// What reading makes of an object, where that is not what was written.
    pub fn that_reads_as(mut self, change: fn(&mut Value)) -> Self {
        self.reads_as = change;
        self
    }

    /// What rules demand of an object in addition to its schema. Generated objects that break them are not used.
    pub fn that_is_valid_if(mut self, is_valid: fn(&Value) -> bool) -> Self {
        self.is_valid = is_valid;
        self
    }

    /// Adds a change of `full` that is refused; see [`Refusal`].
    pub fn that_refuses(mut self, at: &'static str, value: Value, because: &'static str) -> Self {
        self.refusals.push(Refusal { at, value, because });
        self
    }

    /// Such as `BareMetalHost`.
    pub fn name(&self) -> &str {
        self.spec["names"]["kind"].as_str().unwrap()
    }

    /// Such as `baremetalhosts`.
    pub fn plural(&self) -> &str {
        self.spec["names"]["plural"].as_str().unwrap()
    }

    /// Such as `metal3.io`.
    pub fn group(&self) -> &str {
        self.spec["group"].as_str().unwrap()
    }

    /// Such as `v1alpha1`.
    pub fn version(&self) -> &str {
        self.version["name"].as_str().unwrap()
    }

    /// Such as `metal3.io/v1alpha1`.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group(), self.version())
    }

    /// The whole schema.
    pub fn schema(&self) -> &Value {
        &self.version["schema"]["openAPIV3Schema"]
    }

    /// Whether another version is stored, so that objects are converted on the way.
    pub fn is_converted(&self) -> bool {
        self.version["storage"] == false
    }

    /// Whether there must be a spec.
    pub fn requires_spec(&self) -> bool {
        let required = self.schema()["required"].as_array();
        required.is_some_and(|required| required.contains(&json!("spec")))
    }

    /// An object as the API server keeps it.
    pub fn stored(&self, object: &Value) -> Value {
        let mut object = self.defaulted(object);
        (self.stores)(&mut object);
        object
    }

    /// Whether the status is written apart from the rest.
    pub fn has_status_subresource(&self) -> bool {
        self.version["subresources"]["status"].is_object()
    }

    /// Whether an object satisfies the rules that its schema cannot express.
    pub fn is_valid(&self, object: &Value) -> bool {
        (self.is_valid)(object)
    }

    /// Changes of `full` that are refused.
    pub fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    /// The defaults, by pointers.
    pub fn defaults(&self) -> &[(&'static str, Value)] {
        &self.defaults
    }

    /// An object, read into the type and written again.
    pub fn rewrite(&self, object: &Value) -> Value {
        let written = (self.rewrite)(object.clone());
        plain(written.unwrap_or_else(|error| panic!("{}: {error}: {object:#}", self.name())))
    }

    /// The type's default, written.
    pub fn default_object(&self) -> Value {
        (self.default)().unwrap()
    }

    /// An object with the defaults that the API server stores.
    pub fn defaulted(&self, object: &Value) -> Value {
        let mut object = object.clone();
        for (pointer, value) in &self.defaults {
            let path: Vec<_> = pointer.split('/').skip(1).collect();
            set_missing(&mut object, &path, value);
        }
        object
    }

    /// What an object says: without what means the same as its absence, with the defaults, and as it is read. No spec is
    /// an empty spec.
    pub fn meaning(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if object.get("spec").is_none() {
            object["spec"] = json!({});
        }
        let mut object = plain(self.defaulted(&object));
        (self.reads_as)(&mut object);
        self.without_empty(&object, &mut Vec::new())
    }

    /// Without empty texts, lists and structures, zero, false and null, unless they mean something.
    fn without_empty(&self, value: &Value, path: &mut Vec<String>) -> Value {
        match value {
            Value::Object(fields) => {
                let mut kept = Map::new();
                for (key, value) in fields {
                    path.push(key.clone());
                    let value = self.without_empty(value, path);
                    let is_kept = !value.is_null() && self.keeps_empty.iter().any(|pointer| matches(pointer, path));
                    if is_kept || !is_empty(&value) {
                        kept.insert(key.clone(), value);
                    }
                    path.pop();
                }
                Value::Object(kept)
            }
            Value::Array(items) => {
                path.push("*".to_owned());
                let items = items.iter().map(|item| self.without_empty(item, path)).collect();
                path.pop();
                Value::Array(items)
            }
            _ => value.clone(),
        }
    }
}

/// With whole numbers written as such: 2600.0 and 2600 are one number, of which writers choose one form or the other.
pub fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0);
            let whole = whole.and_then(|n| format!("{n:.0}").parse::<i64>().ok());
            whole.map_or(Value::Number(number), Value::from)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(key, value)| (key, plain(value))).collect()),
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

/// Whether a value is what Go leaves out.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

fn matches(pointer: &str, path: &[String]) -> bool {
    let pattern: Vec<_> = pointer.split('/').skip(1).collect();
    pattern.len() == path.len() && pattern.iter().zip(path).all(|(p, name)| *p == "*" || p == name)
}

/// Sets what is missing where the structure around it is there.
fn set_missing(value: &mut Value, path: &[&str], default: &Value) {
    match (value, path) {
        (Value::Object(fields), [name]) => {
            let present = fields.get(*name).is_some_and(|value| !value.is_null());
            if !present {
                fields.insert((*name).to_owned(), default.clone());
            }
        }
        (Value::Array(items), ["*", rest @ ..]) => items.iter_mut().for_each(|item| set_missing(item, rest, default)),
        (Value::Object(fields), ["*", rest @ ..]) => {
            fields.values_mut().for_each(|value| set_missing(value, rest, default));
        }
        (Value::Object(fields), [name, rest @ ..]) => {
            if let Some(below) = fields.get_mut(*name) {
                set_missing(below, rest, default);
            }
        }
        _ => {}
    }
}

/// Calls `look` with every schema below one and its path, as a pointer in which `*` stands for items and keys.
pub fn walk(schema: &Value, path: &str, look: &mut dyn FnMut(&str, &Value)) {
    look(path, schema);
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        if !(path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str())) {
            walk(below, &format!("{path}/{name}"), look);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if schema[keyword].is_object() {
            walk(&schema[keyword], &format!("{path}/*"), look);
        }
    }
}

/// Everything that an object has at a pointer in which `*` stands for items and keys, by pointers without.
pub fn at(object: &Value, pointer: &str) -> Vec<(String, Value)> {
    let mut found = vec![(String::new(), object.clone())];
    for name in pointer.split('/').skip(1) {
        let below = found.into_iter().flat_map(|(path, value)| match (name, value) {
            ("*", Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                items.map(|(n, item)| (format!("{path}/{n}"), item)).collect()
            }
            ("*", Value::Object(fields)) => {
                let fields = fields.into_iter();
                fields.map(|(key, value)| (format!("{path}/{key}"), value)).collect()
            }
            (name, value) => {
                let value = value.get(name).cloned();
                value.map_or_else(Vec::new, |value| vec![(format!("{path}/{name}"), value)])
            }
        });
        found = below.collect();
    }
    found
}
