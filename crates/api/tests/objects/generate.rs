//! Objects that a kind's own schema admits, for property tests: a field that the schema has and a type loses is found
//! without anybody naming it.

use super::Kind;
use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::{Map, Value, json};

/// How texts are chosen: by the name of the field and its schema.
pub type Texts = fn(&str, &Value) -> BoxedStrategy<Value>;

/// Values that a schema admits.
fn values(name: &str, schema: &Value, fullness: f64, texts: Texts) -> BoxedStrategy<Value> {
    if let Some(texts) = schema["enum"].as_array() {
        return prop::sample::select(texts.clone()).boxed();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        let number = any::<i64>().prop_map(Value::from);
        return prop_oneof![number, "[ -~é]{0,12}".prop_map(Value::String)].boxed();
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return anything(schema["type"] == "object");
    }
    let bound = |keyword: &str, otherwise: i64| schema[keyword].as_i64().unwrap_or(otherwise);
    let filled = match schema["type"].as_str().unwrap() {
        "object" => objects(schema, fullness, texts),
        "array" => {
            let sizes =
                usize::try_from(bound("minItems", 0)).unwrap()..=usize::try_from(bound("maxItems", 2)).unwrap().min(2);
            prop::collection::vec(values("", &schema["items"], fullness, texts), sizes)
                .prop_map(Value::Array)
                .boxed()
        }
        "string" => texts(name, schema),
        "integer" => (bound("minimum", -9)..=bound("maximum", 1 << 20))
            .prop_map(Value::from)
            .boxed(),
        "number" => (0..5000_i32).prop_map(|n| json!(f64::from(n) / 4.0)).boxed(),
        "boolean" => any::<bool>().prop_map(Value::Bool).boxed(),
        other => panic!("no values of type {other}"),
    };
    let nullable = schema["nullable"] == true;
    if nullable {
        prop_oneof![1 => Just(Value::Null), 3 => filled].boxed()
    } else {
        filled
    }
}

/// Any JSON, or any structure.
fn anything(structure: bool) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        (-3..9).prop_map(Value::from),
        "[a-z]{1,3}".prop_map(Value::from)
    ];
    let any = leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]", inner, 1..3).prop_map(|map| json!(map)),
        ]
    });
    if structure {
        let fields = prop::collection::btree_map("[a-c]", any, 1..3);
        fields.prop_map(|map| json!(map)).boxed()
    } else {
        any.boxed()
    }
}

/// Texts that a schema admits, whatever the field.
pub fn texts(_: &str, schema: &Value) -> BoxedStrategy<Value> {
    if schema["format"] == "date-time" {
        let seconds = (0..60_u8, 2020..2040_u16);
        return seconds
            .prop_map(|(s, year)| json!(format!("{year}-02-03T04:05:{s:02}Z")))
            .boxed();
    }
    if schema["format"] == "uri" {
        return "http://[a-z]{1,8}/[a-z]{0,3}".prop_map(Value::String).boxed();
    }
    let length = |keyword: &str, otherwise: u64| schema[keyword].as_u64().unwrap_or(otherwise);
    let free = format!(
        r"[ -~é]{{{},{}}}",
        length("minLength", 0),
        length("maxLength", 12).min(12)
    );
    let pattern = schema["pattern"].as_str().unwrap_or(&free);
    // Generators know no anchors. Where they stand within a pattern, they are at the ends of its branches.
    let pattern = pattern.replace("(^", "(").replace("$)", ")");
    let pattern = pattern.trim_start_matches('^').trim_end_matches('$');
    // To the API server only the ten ASCII digits are digits.
    let pattern = pattern.replace(r"\d", "[0-9]");
    let longest = usize::try_from(length("maxLength", u64::from(u32::MAX))).unwrap();
    let texts = string_regex(&pattern).unwrap();
    let texts = texts.prop_filter("too long", move |text| text.len() <= longest);
    texts.prop_map(Value::String).boxed()
}

/// Structures and maps that a schema admits.
pub fn objects(schema: &Value, fullness: f64, texts: Texts) -> BoxedStrategy<Value> {
    if schema["additionalProperties"].is_object() {
        let value = values("", &schema["additionalProperties"], fullness, texts);
        let entries = prop::collection::vec(("[A-Za-z0-9.-]{0,12}", value), 0..3);
        return entries
            .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>()))
            .boxed();
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, schema)| {
            let (name, value) = (name.clone(), values(name, schema, fullness, texts));
            let value = if required.contains(&json!(name)) {
                value.prop_map(Some).boxed()
            } else {
                prop::option::weighted(fullness.clamp(0.001, 0.999), value).boxed()
            };
            value.prop_map(move |value| value.map(|value| (name.clone(), value)))
        })
        .collect();
    fields
        .prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
        .boxed()
}

/// Whole objects of a kind. `fullness` is how likely each optional field is there, from 0 to 1.
pub fn of(kind: &Kind, fullness: f64) -> impl Strategy<Value = Value> + use<'_> {
    whole(kind, fullness, &json!([]))
}

/// The same, of which none lacks the spec.
pub fn with_spec(kind: &Kind, fullness: f64) -> impl Strategy<Value = Value> + use<'_> {
    whole(kind, fullness, &json!(["spec"]))
}

fn whole<'a>(kind: &'a Kind, fullness: f64, required: &Value) -> impl Strategy<Value = Value> + use<'a> {
    let mut schema = kind.schema().clone();
    schema["required"] = required.clone();
    for property in ["apiVersion", "kind", "metadata"] {
        schema["properties"].as_object_mut().unwrap().remove(property);
    }
    let whole = objects(&schema, fullness, texts).prop_map(move |mut object| {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name());
        object["metadata"] = json!({ "name": "h", "namespace": "n" });
        object
    });
    whole.prop_filter("breaks a rule that the schema does not express", |object| {
        kind.is_valid(object)
    })
}

/// Changes an object so that the API server accepts it: it keeps the rules between fields, and those for what must be there. Neither
/// are read by the generator, nor kept by every written object.
pub fn obey(object: &mut Value) {
    let kind = object["kind"].as_str().unwrap().to_owned();
    let is_v1beta1 = object["apiVersion"].as_str().unwrap().ends_with("v1beta1");
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    match kind.as_str() {
        "BareMetalHost" => obey_as_host(spec),
        "HostClaim" => obey_in_image(spec),
        "BMCEventSubscription" => {
            fill(&mut spec["hostName"], "h");
            fill(&mut spec["destination"], "https://h/");
        }
        "HostNetworkAttachment" if spec["mode"] == "access" => {
            spec.as_object_mut().unwrap().remove("allowedVLANs");
        }
        "Metal3Cluster" => {
            let endpoint = &mut spec["controlPlaneEndpoint"];
            fill(&mut endpoint["host"], "h");
            if is_v1beta1 && endpoint["port"].is_null() {
                endpoint["port"] = json!(0);
            }
        }
        "Metal3ClusterTemplate" => {
            let endpoint = &mut spec["template"]["spec"]["controlPlaneEndpoint"];
            fill(&mut endpoint["host"], "h");
            if endpoint["port"].as_i64().unwrap_or_default() == 0 {
                endpoint["port"] = json!(6443);
            }
        }
        "Metal3Machine" => obey_as_machine(spec),
        "Metal3MachineTemplate" => obey_as_machine(&mut spec["template"]["spec"]),
        "Metal3DataTemplate" => obey_as_data_template(spec),
        "Metal3DataClaim" => fill(&mut spec["template"]["name"], "t"),
        "IPClaim" => fill(&mut spec["pool"]["name"], "p"),
        "IPAddress" => {
            fill(&mut spec["pool"]["name"], "p");
            fill(&mut spec["claim"]["name"], "c");
        }
        _ => {}
    }
}

/// Puts a text where there is none or an empty one.
fn fill(field: &mut Value, text: &str) {
    if field.as_str().is_none_or(str::is_empty) {
        *field = json!(text);
    }
}

fn obey_in_image(spec: &mut Value) {
    let Some(image) = spec.get_mut("image").and_then(Value::as_object_mut) else {
        return;
    };
    let url = image
        .get("url")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_ascii_lowercase();
    if url.starts_with("oci://") {
        image.remove("checksum");
    } else {
        fill(image.entry("checksum").or_insert(Value::Null), "a");
    }
}

fn obey_as_host(spec: &mut Value) {
    obey_in_image(spec);
    spec.as_object_mut().unwrap().remove("firmware");
    if spec["inspectionMode"] == "disabled" {
        fill(&mut spec["bootMACAddress"], "52:54:00:12:34:56");
    }
    let device = spec.pointer_mut("/rootDeviceHints/deviceName");
    if let Some(device) = device.filter(|device| device.as_str().is_some_and(|name| !name.starts_with("/dev/"))) {
        *device = json!("/dev/sda");
    }
    if spec["disablePowerOff"] == true {
        spec["online"] = json!(true);
    }
    let interfaces = spec.get_mut("networkInterfaces").and_then(Value::as_array_mut);
    let interfaces = interfaces.into_iter().flatten().filter_map(Value::as_object_mut);
    for interface in interfaces {
        if interface.contains_key("name") {
            interface.remove("macAddress");
        } else if !interface.contains_key("macAddress") {
            interface.insert("name".to_owned(), json!("eth0"));
        }
    }
}

fn obey_as_machine(spec: &mut Value) {
    let method = spec.pointer("/customDeploy/method").and_then(Value::as_str);
    if method.is_none_or(str::is_empty) {
        fill(&mut spec["image"]["url"], "http://h/i");
        fill(&mut spec["image"]["checksum"], "a");
    }
}

fn obey_as_data_template(spec: &mut Value) {
    let mut items = |pointer: &str| {
        let list = spec.pointer_mut(pointer).and_then(Value::as_array_mut);
        list.map(std::mem::take).unwrap_or_default()
    };
    let pointers = [
        "/metaData/fromHostInterfaces",
        "/networkData/networks/ipv4",
        "/networkData/networks/ipv6",
    ];
    let [mut interfaces, mut ipv4, mut ipv6] = pointers.map(&mut items);
    for from in &mut interfaces {
        if from["interface"].as_str().is_some_and(|name| !name.is_empty()) {
            from["fromBootMAC"] = json!(false);
        } else if from["fromBootMAC"] != true {
            from["interface"] = json!("eth0");
        }
    }
    for network in ipv4.iter_mut().chain(&mut ipv6) {
        fill(&mut network["ipAddressFromIPPool"], "p");
    }
    for (pointer, changed) in pointers.into_iter().zip([interfaces, ipv4, ipv6]) {
        if let Some(list) = spec.pointer_mut(pointer) {
            *list = Value::Array(changed);
        }
    }
}
