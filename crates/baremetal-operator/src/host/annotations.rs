//! Annotations with values written by users: parsing them, and reporting what is wrong with them.
//!
//! An unreadable value is never dropped silently: the condition [`ANNOTATIONS_VALID`] names the key and the mistake
//! until it is fixed, and an event reports it once.

mod stored;

use std::collections::BTreeMap;

use jiff::Timestamp;
use metal3_api::carried::is_light;
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::names::annotation;
use metal3_api::metal3::{
    BareMetalHost, BareMetalHostStatus, DeleteAction, DetachedArguments, HardwareDetails, InspectionMode,
    ProvisioningState, reboot_requests,
};
use metal3_runtime::conditions::{self, Claim};
use serde::Serialize;
use serde_json::Value;

use super::text::for_people;

/// Our own condition, which exists only while something is wrong: `False` with a message that names each unusable
/// annotation, and why.
pub const ANNOTATIONS_VALID: &str = "AnnotationsValid";

/// The value of an annotation.
pub fn value<'h>(host: &'h BareMetalHost, key: &str) -> Option<&'h str> {
    host.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The arguments of the detached annotation; the defaults if its value cannot be parsed.
pub fn detached(host: &BareMetalHost) -> Option<DetachedArguments> {
    value(host, annotation::DETACHED).map(|text| DetachedArguments::parse(text).unwrap_or_default())
}

/// Whether the detached annotation requests that a deletion of the host waits.
pub fn delays_deletion(host: &BareMetalHost) -> bool {
    detached(host).is_some_and(|arguments| arguments.delete_action == DeleteAction::Delay)
}

/// Whether the specification or an annotation disables inspection.
pub fn is_inspection_disabled(host: &BareMetalHost) -> bool {
    host.spec.inspection_mode == Some(InspectionMode::Disabled)
        || value(host, annotation::INSPECT) == Some(annotation::INSPECT_DISABLED)
}

/// The value of an annotation that requests a new inspection. One that contradicts the specification is ignored: it
/// would send the host in a circle.
pub fn wanted_inspection(host: &BareMetalHost) -> Option<&str> {
    value(host, annotation::INSPECT).filter(|_| !is_inspection_disabled(host))
}

/// Parses the status in an annotation. An empty value means none.
///
/// # Errors
///
/// The value is no JSON of a status, or has a value that the API server would reject.
pub fn status(text: &str) -> Result<Option<BareMetalHostStatus>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let status: BareMetalHostStatus = serde_json::from_value(object(text)?).map_err(|e| e.to_string())?;
    // The schema has no list of states, like upstream's.
    if matches!(status.provisioning.state, ProvisioningState::Other(_)) {
        return Err("provisioning.state: it is no state that this operator knows".to_owned());
    }
    match stored::refused_status(&status) {
        Some(problem) => Err(problem),
        None => Ok(Some(status)),
    }
}

/// Checks the status in an annotation as admission does: an unknown field is an error, too, because it would be lost.
///
/// # Errors
///
/// See [`status`].
pub fn strict_status(text: &str) -> Result<(), String> {
    match status(text)? {
        Some(status) => reject_unknown(text, &status),
        None => Ok(()),
    }
}

/// Parses the hardware in an annotation.
///
/// # Errors
///
/// The value is no JSON of hardware details, has a value that the API server would reject, or has an unknown field: a
/// misspelt field would be lost.
pub fn hardware_details(text: &str) -> Result<HardwareDetails, String> {
    let details: HardwareDetails = serde_json::from_value(object(text)?).map_err(|e| e.to_string())?;
    reject_unknown(text, &details)?;
    match stored::refused_hardware(&details) {
        Some(problem) => Err(problem),
        None => Ok(details),
    }
}

/// # Errors
///
/// The text has a field that was not kept.
fn reject_unknown(text: &str, kept: &impl Serialize) -> Result<(), String> {
    let kept = serde_json::to_value(kept).map_err(|e| e.to_string())?;
    match lost(&object(text)?, &kept) {
        Some(path) => Err(format!("unknown field {path:?}")),
        None => Ok(()),
    }
}

/// serde would accept a list as the fields in order. What would take much memory is not parsed: admission counts on no more.
fn object(text: &str) -> Result<Value, String> {
    if !is_light(text) {
        return Err("it has too many objects, lists and entries".to_owned());
    }
    let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if value.is_object() {
        Ok(value)
    } else {
        Err("it is no JSON object".to_owned())
    }
}

/// The path of a given field that was not kept. Empty values are omitted when details are written.
fn lost(given: &Value, kept: &Value) -> Option<String> {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    };
    let inside = |name: String, given: &Value, kept: &Value| {
        lost(given, kept).map(|path| {
            if path.is_empty() {
                name.clone()
            } else {
                format!("{name}.{path}")
            }
        })
    };
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => given.iter().find_map(|(name, value)| match kept.get(name) {
            Some(kept) => inside(name.clone(), value, kept),
            None if is_empty(value) => None,
            None => match value {
                // An object with only empty fields is omitted as well.
                Value::Object(_) => inside(name.clone(), value, &Value::Object(serde_json::Map::new())),
                _ => Some(name.clone()),
            },
        }),
        (Value::Array(given), Value::Array(kept)) => given
            .iter()
            .zip(kept)
            .enumerate()
            .find_map(|(i, (given, kept))| inside(i.to_string(), given, kept)),
        _ => None,
    }
}

/// What is wrong with a host's annotations, one sentence for each.
pub fn complaints(host: &BareMetalHost) -> Vec<String> {
    let none = BTreeMap::new();
    let annotations = host.metadata.annotations.as_ref().unwrap_or(&none);
    let mut found = Vec::new();
    if let Some(text) = annotations.get(annotation::DETACHED)
        && let Err(error) = DetachedArguments::parse(text)
    {
        found.push(format!(
            "{}: {error}; it counts as given without arguments (neither deleteAction nor force)",
            annotation::DETACHED
        ));
    }
    for request in reboot_requests(annotations) {
        if let Err(error) = &request.arguments {
            found.push(format!(
                "{}: {error}; it counts as a request for a soft reboot",
                request.key
            ));
        }
    }
    if let Some(text) = annotations.get(annotation::STATUS)
        && let Err(error) = status(text)
    {
        found.push(format!("{}: {error}", annotation::STATUS));
    }
    if let Some(text) = annotations.get(annotation::HARDWARE_DETAILS)
        && let Err(error) = hardware_details(text)
    {
        found.push(format!(
            "{}: {error}; it is not used until it is mended",
            annotation::HARDWARE_DETAILS
        ));
    }
    if value(host, annotation::INSPECT).is_some_and(|v| v != annotation::INSPECT_DISABLED)
        && host.spec.inspection_mode == Some(InspectionMode::Disabled)
    {
        found.push(format!(
            "{}: it asks for an inspection, which spec.inspectionMode forbids",
            annotation::INSPECT
        ));
    }
    found
}

/// Writes the complaints to the conditions; returns the message for an event if they are new.
pub fn tell(status: &mut BareMetalHostStatus, host: &BareMetalHost, now: Timestamp) -> Option<String> {
    let complaints = complaints(host);
    if complaints.is_empty() {
        conditions::remove(&mut status.conditions, ANNOTATIONS_VALID);
        return None;
    }
    let message = for_people(&complaints.join("; "));
    let is_new = conditions::get(&status.conditions, ANNOTATIONS_VALID).is_none_or(|c| c.message != message);
    let claim = Claim {
        type_: ANNOTATIONS_VALID,
        status: ConditionStatus::False,
        reason: "InvalidValue",
        message: &message,
    };
    conditions::set(&mut status.conditions, &claim, host.metadata.generation, now);
    is_new.then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case::empty("{}", None)]
    #[case::full(
        r#"{"hostname":"a","cpu":{"arch":"x86_64","count":0},"nics":[{"name":"eth0","mac":"52:54:00:12:34:56"}]}"#,
        None
    )]
    #[case::empty_unknown(r#"{"colour":""}"#, None)]
    #[case::empty_object(r#"{"cpu":{"arch":""},"firmware":{"bios":{}}}"#, None)]
    #[case::misspelt(r#"{"hostnam":"a"}"#, Some("hostnam"))]
    #[case::misspelt_inside(r#"{"nics":[{"name":"eth0","macc":"x"}]}"#, Some("nics.0.macc"))]
    #[case::misspelt_in_empty(r#"{"systemVendor":{"serial":"x"}}"#, Some("systemVendor.serial"))]
    #[case::unknown_word(r#"{"storage":[{"name":"/dev/sda","type":"FLOPPY"}]}"#, Some("storage.0.type"))]
    #[case::text("eth0", Some("expected"))]
    #[case::wrong_type(r#"{"ramMebibytes":"many"}"#, Some("invalid type"))]
    fn hardware_is_read_strictly(#[case] text: &str, #[case] problem: Option<&str>) {
        match (hardware_details(text), problem) {
            (Ok(_), None) => {}
            (Err(error), Some(words)) => assert!(error.contains(words), "{error}"),
            other => panic!("{other:?}"),
        }
    }

    #[rstest]
    #[case::empty("", Ok(false))]
    #[case::partial(r#"{"provisioning":{"state":"provisioned"}}"#, Ok(true))]
    #[case::unknown_field(r#"{"provisioning":{"state":"provisioned"},"colour":"red"}"#, Ok(true))]
    #[case::half(r#"{"provisioning":{"state":"provi"#, Err(()))]
    #[case::text("provisioned", Err(()))]
    #[case::list("[]", Err(()))]
    #[case::unknown_word(r#"{"operationalStatus":"splendid"}"#, Err(()))]
    #[case::unknown_state(r#"{"provisioning":{"state":"levitating"}}"#, Err(()))]
    fn statuses_are_read_as_far_as_they_go(#[case] text: &str, #[case] expected: Result<bool, ()>) {
        assert_eq!(status(text).map(|s| s.is_some()).map_err(drop), expected);
    }

    #[rstest]
    #[case::empty("", None)]
    #[case::full(
        r#"{"operationalStatus":"servicing","errorCount":0,"provisioning":{"state":"provisioned","ID":"a"}}"#,
        None
    )]
    #[case::unknown_field(r#"{"provisioning":{"state":"provisioned"},"colour":"red"}"#, Some("\"colour\""))]
    #[case::text("provisioned", Some("expected"))]
    fn admission_reads_statuses_strictly(#[case] text: &str, #[case] problem: Option<&str>) {
        let found = strict_status(text).err();
        assert_eq!(found.is_some(), problem.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().contains(problem.unwrap_or_default()));
    }

    // OWN 31st: such a value took some gigabytes of the webhooks' memory, and only its text counted.
    #[test]
    fn what_would_take_much_memory_is_not_parsed() {
        let heavy = format!(r#"{{"x":[{}{{}}]}}"#, r#"{"":0},"#.repeat(5_000));
        for found in [
            hardware_details(&heavy).map(drop),
            status(&heavy).map(drop),
            strict_status(&heavy),
        ] {
            let error = found.unwrap_err();
            assert!(error.contains("too many objects, lists and entries"), "{error}");
        }
    }

    #[test]
    fn the_hardware_of_a_large_server_is_read() {
        let nic = |n| {
            json!({"name": format!("enp{n}s0f0"), "model": "0x8086 0x1572", "mac": "52:54:00:12:34:56", "ip": "192.0.2.1",
            "speedGbps": 25, "vlans": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}], "vlanId": 1, "pxe": false,
            "lldp": {"switchID": "a", "portID": "b", "switchSystemName": "c"}})
        };
        let disk = |n| {
            json!({"name": format!("/dev/disk/by-path/{n}"), "alternateNames": ["/dev/a", "/dev/b"], "rotational": true,
            "type": "HDD", "sizeBytes": 1, "vendor": "v", "model": "m", "serialNumber": "s", "wwn": "w", "wwnVendorExtension": "e",
            "wwnWithExtension": "we", "hctl": "0:0:0:0"})
        };
        let details = json!({"hostname": "a", "ramMebibytes": 1,
            "cpu": {"arch": "x86_64", "count": 256, "flags": (0..250).map(|n| format!("flag{n}")).collect::<Vec<_>>()},
            "nics": (0..128).map(nic).collect::<Vec<_>>(), "storage": (0..512).map(disk).collect::<Vec<_>>()});
        let text = details.to_string();
        let found = hardware_details(&text);
        assert!(found.is_ok(), "{} bytes: {:?}", text.len(), found.err());
    }

    #[test]
    fn what_is_wrong_is_told_once_and_forgotten_when_mended() {
        let mut host = BareMetalHost::default();
        host.metadata.annotations = Some(BTreeMap::from([
            (annotation::REBOOT.to_owned(), "please".to_owned()),
            (annotation::DETACHED.to_owned(), "{\"force\":1}".to_owned()),
        ]));
        let mut status: BareMetalHostStatus = serde_json::from_value(json!({})).unwrap();
        let now = "2026-01-02T12:00:00Z".parse().unwrap();
        let message = tell(&mut status, &host, now).unwrap();
        assert!(
            message.contains("reboot.metal3.io: ") && message.contains("metal3.io/detached: "),
            "{message}"
        );
        assert_eq!(tell(&mut status, &host, now), None);
        host.metadata.annotations = None;
        assert_eq!(tell(&mut status, &host, now), None);
        assert!(status.conditions.is_empty());
    }
}
