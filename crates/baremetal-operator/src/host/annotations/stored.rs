//! What the API server would refuse to store in a host's status.
//!
//! The types accept texts that they do not know, so that one odd object does not keep all the others from being read. What is
//! written has to pass the schema: a status that somebody brings along is held against it before it is taken over, because
//! the refusal of the write would come too late to be told.

use std::sync::LazyLock;

use metal3_api::crd::Crd;
use metal3_api::metal3::{BareMetalHost, BareMetalHostStatus, HardwareDetails};
use serde::Serialize;
use serde_json::Value;

/// The schema of `status`; nothing where it cannot be had, which the tests exclude.
static STATUS: LazyLock<Value> = LazyLock::new(|| {
    let crd = Crd::of::<BareMetalHost>().ok();
    let schema = crd.as_ref().and_then(|crd| {
        crd.manifest()
            .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/status")
    });
    schema.cloned().unwrap_or_default()
});

/// What of a status would be refused: where it stands and why.
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

/// What the types do not see to: words, limits and patterns.
fn wrong(value: &Value, schema: &Value) -> Option<String> {
    let limit = |name: &str| schema[name].as_f64();
    let length = match value {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        _ => None,
    };
    let count = |name: &str| schema[name].as_u64().and_then(|n| usize::try_from(n).ok());
    let is_long = |name: &str| length.zip(count(name)).is_some_and(|(length, most)| length > most);
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
    if length
        .zip(count("minLength"))
        .is_some_and(|(length, least)| length < least)
    {
        return Some("is too short".to_owned());
    }
    let pattern = schema["pattern"].as_str()?;
    let is_match =
        regex::Regex::new(pattern).is_ok_and(|pattern| value.as_str().is_some_and(|text| pattern.is_match(text)));
    (!is_match).then(|| format!("does not match {pattern}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

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
    #[case(json!({"conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}), Some("conditions.0.reason: "))]
    fn what_the_schema_refuses_is_named(#[case] status: Value, #[case] expected: Option<&str>) {
        let status: BareMetalHostStatus = serde_json::from_value(status).unwrap();
        let found = refused_status(&status);
        match (&found, expected) {
            (Some(found), Some(words)) => assert!(found.contains(words), "{found}"),
            (found, expected) => assert_eq!(found.as_deref(), expected),
        }
    }
}
