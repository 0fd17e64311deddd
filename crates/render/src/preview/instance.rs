//! What templates find on the machine: cloud-init's instance data.

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, State};

use super::Found;
use super::stand_in::{Missing, Unknown};
use crate::Metadata;

/// Metadata that is always there: what baremetal-operator adds, and what cloud-init makes of it on a config drive.
const ALWAYS: &[&str] = &[
    "uuid",
    "metal3-namespace",
    "metal3-name",
    "local-hostname",
    "local_hostname",
    "name",
    "instance-id",
    "dsmode",
];

/// What else cloud-init offers. The members of `v1` stand at the top as well.
const ELSEWHERE: &[&str] = &[
    "v1",
    "sys_info",
    "merged_cfg",
    "merged_system_cfg",
    "base64_encoded_keys",
    "sensitive_keys",
    "availability_zone",
    "cloud_id",
    "cloud_name",
    "distro",
    "distro_release",
    "distro_version",
    "instance_id",
    "kernel_release",
    "local_hostname",
    "machine",
    "platform",
    "public_ssh_keys",
    "python_version",
    "region",
    "subplatform",
    "system_platform",
    "variant",
];

/// Everything, with the metadata as `ds.meta_data`.
pub fn data(metadata: &Metadata, found: &Found) -> Value {
    let mut top: BTreeMap<&str, Value> = ELSEWHERE.iter().map(|name| (*name, Unknown::value())).collect();
    top.insert("ds", Value::from_object(Source(MetaData::new(metadata, found))));
    Value::from_object(top)
}

/// `ds`. What it has besides the metadata is the machine's affair.
#[derive(Debug)]
struct Source(Arc<MetaData>);

impl Object for Source {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(match key.as_str() {
            Some("meta_data") => Value::from_dyn_object(self.0.clone()),
            _ => Unknown::value(),
        })
    }
}

/// `ds.meta_data`.
#[derive(Debug)]
struct MetaData {
    values: BTreeMap<String, Value>,
    found: Found,
}

impl MetaData {
    fn new(metadata: &Metadata, found: &Found) -> Arc<Self> {
        let always = ALWAYS.iter().map(|key| ((*key).to_owned(), Unknown::value()));
        let given = metadata.0.iter().map(|(key, text)| (key.clone(), Value::from(text)));
        let mut values = BTreeMap::new();
        for (key, value) in always.chain(given) {
            if let Some(alias) = alias(&key) {
                values.insert(alias, value.clone());
            }
            values.insert(key, value);
        }
        let found = found.clone();
        Arc::new(Self { values, found })
    }
}

impl Object for MetaData {
    /// Not a map: the operator `in` would ask a map for the value of the key, and every key has one here.
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.values.keys().map(Value::from).collect())
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        let known = self.values.get(key).cloned();
        Some(known.unwrap_or_else(|| Missing::value(key, &self.found)))
    }

    /// The methods of Python's dictionaries. A `get` without a default yields none, which is no fault.
    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, args: &[Value]) -> Result<Value, Error> {
        let pairs = || self.values.iter();
        Ok(match (method, args) {
            ("get", [key, default @ ..]) => {
                let known = key.as_str().and_then(|key| self.values.get(key)).cloned();
                known.unwrap_or_else(|| default.first().cloned().unwrap_or_else(|| Value::from(())))
            }
            ("keys", _) => pairs().map(|(key, _)| Value::from(key)).collect(),
            ("values", _) => pairs().map(|(_, value)| value.clone()).collect(),
            ("items", _) => pairs()
                .map(|(key, value)| Value::from(vec![Value::from(key), value.clone()]))
                .collect(),
            _ => Unknown::value(),
        })
    }
}

/// The second name of a key that has an operator of Jinja in it: each operator becomes an underscore.
fn alias(key: &str) -> Option<String> {
    const OF_TWO: [&str; 6] = ["//", "**", "==", "!=", ">=", "<="];
    const OF_ONE: &str = "+-/*%~[](){}=<>.:|,;";
    let (mut alias, mut rest) = (String::new(), key);
    while let Some(next) = rest.chars().next() {
        let length = if OF_TWO.iter().any(|operator| rest.starts_with(operator)) {
            2
        } else {
            next.len_utf8()
        };
        alias.push(if length == 2 && next.is_ascii() || OF_ONE.contains(next) {
            '_'
        } else {
            next
        });
        rest = &rest[length..];
    }
    (alias != key).then_some(alias)
}

#[cfg(test)]
mod tests {
    use super::alias;
    use rstest::rstest;

    #[rstest]
    #[case("rack", None)]
    #[case("rack_1", None)]
    #[case("local-hostname", Some("local_hostname"))]
    #[case("topology.kubernetes.io/zone", Some("topology_kubernetes_io_zone"))]
    #[case("a//b==c!d", Some("a_b_c!d"))]
    #[case("é-é", Some("é_é"))]
    fn second_names(#[case] key: &str, #[case] second: Option<&str>) {
        assert_eq!(alias(key).as_deref(), second);
    }
}
