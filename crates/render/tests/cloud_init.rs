//! What the real cloud-init, an old and a new one, makes of every golden network data: `golden/CASE/cloud-init.yaml` says
//! which interfaces, addresses, bonds, VLANs, routes and name servers were meant.

#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

mod fixture;

use fixture::templates::{FATAL, TEMPLATES, UNJUDGED};
use fixture::{Case, metadata, parse};
use metal3_lab::cloud_init::{self, CloudInit};
use metal3_render::Metadata;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use similar::TextDiff;

/// The interfaces of the machine as its kernel names them.
const MACS: &[(&str, &str)] = &[
    ("52:54:00:00:00:01", "eno1"),
    ("52:54:00:00:00:02", "eno2"),
    ("52:54:00:12:34:56", "eno3"),
    ("aa:bb:cc:dd:ee:0f", "eno4"),
];

fn macs() -> Map<String, Value> {
    let more = (0..9).map(|n| (format!("52:54:00:00:01:{n:02x}"), json!(format!("nic{n}"))));
    let known = MACS.iter().map(|(mac, name)| ((*mac).to_owned(), json!(name)));
    known.chain(more).collect()
}

/// What was meant, as far as a version can do it.
fn meant(case: &Case, cloud_init: &CloudInit) -> Value {
    let mut meant = parse(&case.text("cloud-init.yaml").unwrap());
    // The old version gives the name servers of routes to nobody, the new one to the interface.
    if cloud_init.version.starts_with("22.") {
        for interface in meant["interfaces"].as_object_mut().unwrap().values_mut() {
            interface.as_object_mut().unwrap().remove("dns");
        }
    }
    let meant = meant.as_object_mut().unwrap();
    meant.entry("dns").or_insert_with(|| json!([]));
    meant.insert("warnings".to_owned(), json!([]));
    Value::Object(meant.clone())
}

#[test]
fn cloud_init_sets_up_the_network_that_was_meant() {
    let cases: Vec<Case> = Case::all()
        .into_iter()
        .filter(|case| case.text("network_data.yaml").is_some())
        .collect();
    assert!(!cases.is_empty());
    let networks: Map<String, Value> = cases
        .iter()
        .map(|case| (case.name.clone(), json!(case.text("network_data.yaml"))))
        .collect();
    for cloud_init in cloud_init::ensure().unwrap() {
        let mut read = cloud_init
            .ask(&json!({ "networks": networks, "macs": macs() }))
            .unwrap();
        for case in &cases {
            let read = read[case.name.as_str()].take();
            let meant = meant(case, &cloud_init);
            let [meant, read] = [meant, read].map(|value| serde_json::to_string_pretty(&value).unwrap());
            let diff = TextDiff::from_lines(&meant, &read).unified_diff().to_string();
            assert!(
                diff.is_empty(),
                "{}, cloud-init {}:\n{diff}",
                case.name,
                cloud_init.version
            );
        }
    }
}

#[test]
fn python_reads_the_same_texts() {
    let mut texts: Vec<String> = Case::all()
        .iter()
        .filter_map(|case| case.text("metadata.yaml"))
        .collect();
    let mut meant: Vec<Value> = texts.iter().map(|text| parse(text)).collect();
    // And many more, of whatever characters there are.
    let strategy = proptest::collection::btree_map(text(), text(), 0..12);
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..300 {
        let data = Metadata(strategy.new_tree(&mut runner).unwrap().current());
        texts.push(data.to_yaml().unwrap());
        meant.push(serde_json::to_value(&data).unwrap());
    }
    let cloud_init = cloud_init::ensure().unwrap().pop().unwrap();
    let read = cloud_init.ask(&json!({ "yaml": texts })).unwrap();
    for ((read, meant), text) in read.as_array().unwrap().iter().zip(&meant).zip(&texts) {
        assert_eq!(read, meant, "{text}");
    }
}

/// What cloud-init finds on a machine beside our metadata.
fn instance_data() -> Value {
    let mut data = serde_json::to_value(metadata()).unwrap();
    for key in [
        "uuid",
        "metal3-namespace",
        "metal3-name",
        "name",
        "instance-id",
        "dsmode",
    ] {
        data[key] = json!("given");
    }
    json!({
        "ds": {"meta_data": data},
        "v1": {"local_hostname": "workers-7d9f", "instance_id": "i", "distro": "debian", "kernel_release": "6.1.0-13"},
    })
}

#[test]
fn cloud_init_lacks_the_same_keys() {
    let all: Vec<_> = TEMPLATES.iter().chain(UNJUDGED).chain(FATAL).collect();
    let requests: Vec<Value> = all
        .iter()
        .map(|(template, _)| json!({"user_data": format!("## template: jinja\n{template}"), "instance_data": instance_data()}))
        .collect();
    for cloud_init in cloud_init::ensure().unwrap() {
        let answers = cloud_init.ask(&json!({ "templates": requests })).unwrap();
        for (at, ((template, lacks), answer)) in all.iter().zip(answers.as_array().unwrap()).enumerate() {
            let told = format!("{template}: cloud-init {} says {answer}", cloud_init.version);
            if at >= TEMPLATES.len() + UNJUDGED.len() {
                assert!(answer["rendered"].is_null(), "{told}");
                continue;
            }
            let rendered = answer["rendered"].as_str().expect(&told);
            for key in *lacks {
                assert!(
                    rendered.contains(&format!("CI_MISSING_JINJA_VAR/{key}")),
                    "{key} in {told}"
                );
            }
            assert_eq!(rendered.contains("CI_MISSING_JINJA_VAR/"), !lacks.is_empty(), "{told}");
        }
    }
}

/// Any text, and texts of the characters that mean something in YAML.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-0-9a-fxoeE_.:+~=<>|?&*!%@`'\"#,\\[\\]{} \t\n]{0,12}",
        "[0-5]?[0-9](:[0-5]?[0-9]){1,5}",
        "(?i)(y|yes|n|no|on|off|true|false|null|nan|[.]inf)",
        "20[0-9]{2}-[01]?[0-9]-[0-3]?[0-9]([T ][0-9]{1,2}:[0-9]{2}:[0-9]{2}(Z|[+][0-9]{1,2})?)?",
    ]
}
