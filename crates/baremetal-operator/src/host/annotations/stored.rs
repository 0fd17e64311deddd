//! What the API server would reject in a host's status.
//!
//! The types accept unknown values, so that one odd object does not keep all the others from being read. What is
//! written has to pass the schema. A status supplied by a user is therefore validated before it is restored, because it
//! would be too late to report the rejected write.
//!
//! This is implemented by hand because that is short. A library for JSON Schema (`jsonschema`) brings some twenty
//! crates, supports neither keyed lists nor other Kubernetes extensions, and words its errors differently; kube's check
//! (its feature `cel`) evaluates rules, and nothing else of a schema. A test ensures that no keyword is missed.

use std::collections::HashMap;
use std::sync::LazyLock;

use metal3_api::crd::Crd;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, HardwareDetails};
use parking_lot::Mutex;
use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use crate::host::text::{cut, for_people};

/// The most bytes to quote of a value, so that the reason behind it is told, too.
const QUOTED: usize = 200;

/// The schema of `status`; none if it is not available, which the tests exclude.
static STATUS: LazyLock<Value> = LazyLock::new(|| {
    let crd = Crd::of::<BareMetalHost>().ok();
    let schema = crd.as_ref().and_then(|crd| {
        crd.manifest()
            .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/status")
    });
    schema.cloned().unwrap_or_default()
});

/// What of a status would be rejected: the path and the reason.
pub fn refused_status(status: &BareMetalHostStatus) -> Option<String> {
    refused(status, &STATUS)
}

/// The same for hardware, which is stored in a status.
pub fn refused_hardware(hardware: &HardwareDetails) -> Option<String> {
    refused(hardware, &STATUS["properties"]["hardware"])
}

fn refused(part: &impl Serialize, schema: &Value) -> Option<String> {
    let value = serde_json::to_value(part).ok()?;
    problem(&value, schema, "")
}

fn problem(value: &Value, schema: &Value, path: &str) -> Option<String> {
    let inside = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    if let Some(why) = wrong(value, schema) {
        let value = cut(&for_people(&value.to_string()), QUOTED);
        return Some(format!("{path}: {value} {why}"));
    }
    match value {
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, value)| problem(value, &schema["properties"][name], &inside(name))),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(i, item)| problem(item, &schema["items"], &inside(&i.to_string()))),
        _ => None,
    }
}

/// What the types do not check: enums, limits, patterns, and unique entries.
fn wrong(value: &Value, schema: &Value) -> Option<String> {
    let limit = |name: &str| schema[name].as_f64();
    let length = match value {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        _ => None,
    };
    let count = |name: &str| schema[name].as_u64().and_then(|n| usize::try_from(n).ok());
    let is_long = |name: &str| length.zip(count(name)).is_some_and(|(length, most)| length > most);
    let is_short = |name: &str| length.zip(count(name)).is_some_and(|(length, least)| length < least);
    if let Some(words) = schema["enum"].as_array().filter(|words| !words.contains(value)) {
        let words: Vec<String> = words.iter().map(Value::to_string).collect();
        return Some(format!("is none of {}", words.join(", ")));
    }
    if let (Some(number), Some(least)) = (value.as_f64(), limit("minimum"))
        && number < least
    {
        return Some(format!("is less than {least}"));
    }
    if let (Some(number), Some(most)) = (value.as_f64(), limit("maximum"))
        && number > most
    {
        return Some(format!("is more than {most}"));
    }
    if is_long("maxLength") || is_long("maxItems") {
        return Some("is too long".to_owned());
    }
    if is_short("minLength") || is_short("minItems") {
        return Some("is too short".to_owned());
    }
    if let (Some(items), Some(keys)) = (value.as_array(), schema["x-kubernetes-list-map-keys"].as_array()) {
        let key = |item: &Value| -> Value { keys.iter().filter_map(|k| item.get(k.as_str()?).cloned()).collect() };
        let taken: Vec<Value> = items.iter().map(key).collect();
        let again = taken.iter().enumerate().find(|(i, key)| taken[..*i].contains(key));
        if let Some((_, key)) = again {
            return Some(format!("has two entries with the key {key}"));
        }
    }
    let pattern = schema["pattern"].as_str()?;
    let is_match = value.as_str().is_some_and(|text| matches(pattern, text));
    (!is_match).then(|| format!("does not match {pattern}"))
}

/// Whether a text matches a pattern of the schema. Each is compiled once: an annotation may have thousands of values.
fn matches(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<HashMap<String, Option<Regex>>>> = LazyLock::new(Mutex::default);
    let compiled = {
        let mut all = COMPILED.lock();
        match all.get(pattern) {
            Some(compiled) => compiled.clone(),
            None => all
                .entry(pattern.to_owned())
                .or_insert(Regex::new(pattern).ok())
                .clone(),
        }
    };
    compiled.is_some_and(|compiled| compiled.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn condition(type_: &str) -> Value {
        json!({"type": type_, "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[rstest]
    #[case(json!({}), None)]
    #[case(json!({"operationalStatus": "splendid"}), Some("operationalStatus: \"splendid\" is none of"))]
    #[case(json!({"provisioning": {"state": "provisioned", "image": {"url": "http://i", "format": "bogus"}}}), Some("provisioning.image.format: "))]
    #[case(json!({"provisioning": {"state": "", "raid": {"softwareRAIDVolumes": [{"level": "1"}, {"level": "7"}]}}}), Some("provisioning.raid.softwareRAIDVolumes.1.level: "))]
    #[case(json!({"provisioning": {"state": "", "raid": {"softwareRAIDVolumes": [{"level": "1"}, {"level": "1"}, {"level": "1"}]}}}), Some("is too long"))]
    #[case(json!({"lastAttemptedImage": {"url": "http://i", "checksumType": "crc32"}}), Some("lastAttemptedImage.checksumType: "))]
    #[case(json!({"hardware": {"storage": [{"type": "FLOPPY"}]}}), Some("hardware.storage.0.type: "))]
    #[case(json!({"hardware": {"nics": [{"mac": "eth0"}]}}), Some("hardware.nics.0.mac: "))]
    #[case(json!({"hardware": {"nics": [{"mac": "52:54:00:12:34:56", "vlanId": 4095}]}}), Some("hardware.nics.0.vlanId: 4095 is more than 4094"))]
    #[case(json!({"provisioning": {"state": "", "raid": {"softwareRAIDVolumes": [{"level": "1", "physicalDisks": [{"deviceName": "/dev/sda"}]}]}}}), Some("is too short"))]
    #[case(json!({"conditions": [condition("Ready"), condition("Healthy"), condition("Ready")]}), Some("has two entries with the key [\"Ready\"]"))]
    #[case(json!({"conditions": [condition("Ready"), condition("Healthy")]}), None)]
    #[case(json!({"conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}), Some("conditions.0.reason: "))]
    fn what_the_schema_refuses_is_named(#[case] status: Value, #[case] expected: Option<&str>) {
        let status: BareMetalHostStatus = serde_json::from_value(status).unwrap();
        let found = refused_status(&status);
        match (&found, expected) {
            (Some(found), Some(words)) => assert!(found.contains(words), "{found}"),
            (found, expected) => assert_eq!(found.as_deref(), expected),
        }
    }

    #[test]
    fn a_value_that_is_refused_is_quoted_in_part() {
        let volumes: Vec<Value> = (0..1_000).map(|_| json!({"level": "1"})).collect();
        let status = json!({"provisioning": {"state": "", "raid": {"softwareRAIDVolumes": volumes}}});
        let found = refused_status(&serde_json::from_value(status).unwrap()).unwrap();
        assert!(found.ends_with("… is too long") && found.len() < 400, "{found}");
    }

    /// The keywords that are checked; then those that the types check, or that reject nothing.
    const KEYWORDS: &str = "enum items maxItems maxLength maximum minItems minLength minimum pattern properties \
        x-kubernetes-list-map-keys \
        default description format nullable required type x-kubernetes-list-type \
        x-kubernetes-map-type";

    fn expect_known(schema: &Value, path: &str) {
        for (keyword, inside) in schema.as_object().unwrap() {
            assert!(KEYWORDS.split(' ').any(|known| known == keyword), "{path}: {keyword}");
            match keyword.as_str() {
                "properties" => {
                    for (name, schema) in inside.as_object().unwrap() {
                        expect_known(schema, &format!("{path}.{name}"));
                    }
                }
                "items" => expect_known(inside, &format!("{path}[]")),
                _ => {}
            }
        }
    }

    #[test]
    fn no_keyword_of_the_schema_is_passed_over() {
        assert!(STATUS["properties"].is_object());
        expect_known(&STATUS, "status");
    }
}
