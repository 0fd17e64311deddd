use super::*;
use crate::wire::{never, wire_enum};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// A kind with everything that the normaliser treats.
mod v1 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize, never, wire_enum};

    wire_enum! {
        /// A documented enum, in an order of its own.
        closed enum Size {
            /// Second in the alphabet.
            Small = "small",
            /// First in the alphabet.
            Large = "large",
        }
    }

    #[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    pub struct Part {
        pub always: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sometimes: Option<u64>,
    }

    #[derive(CustomResource, Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "example.org",
        version = "v1",
        kind = "Thing",
        namespaced,
        category = "all",
        shortname = "th",
        selectable = ".spec.size",
        doc = "A thing."
    )]
    #[serde(rename_all = "camelCase", default)]
    pub struct ThingSpec {
        /// One line
        /// and the next.
        ///
        /// Another paragraph.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub size: Option<Size>,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub part: Option<Part>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-metal3-nullable" = true))]
        pub list: Option<Vec<Part>>,
        #[serde(skip_serializing_if = "never")]
        #[schemars(extend("x-metal3-default" = 3))]
        pub count: i32,
        /// A property may have the name of a keyword.
        pub title: String,
        pub default: String,
    }
}

/// The same kind's older version, with a status.
mod v1beta1 {
    use super::{CustomResource, Deserialize, JsonSchema, Serialize};

    #[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
    pub struct ThingStatus {}

    #[derive(CustomResource, Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "example.org",
        version = "v1beta1",
        kind = "Thing",
        namespaced,
        category = "all",
        shortname = "th",
        status = "ThingStatus",
        storage = false,
        deprecated,
        doc = "A thing."
    )]
    pub struct ThingSpec {}
}

fn thing() -> Crd {
    Crd::of::<v1::Thing>().unwrap()
}

fn schema_of(crd: &Crd) -> &Value {
    &crd.manifest()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

#[test]
fn options_defaults_and_numbers_leave_no_trace_of_rust() {
    let crd = thing();
    let root = schema_of(&crd);
    assert_eq!(root["description"], "A thing.");
    assert_eq!(root.get("required"), None);
    assert_eq!(root["properties"]["metadata"], json!({ "type": "object" }));
    let part = json!({
        "type": "object",
        "properties": { "always": { "type": "integer" }, "sometimes": { "type": "integer" } },
        "required": ["always"],
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "size": {
                "type": "string",
                "enum": ["small", "large"],
                "description": "One line and the next.\n\nAnother paragraph.",
            },
            "part": part,
            "list": { "type": "array", "items": part, "nullable": true },
            "count": { "type": "integer", "format": "int32", "default": 3 },
            "title": { "type": "string", "description": "A property may have the name of a keyword." },
            "default": { "type": "string" },
        },
        "required": ["default", "title"],
    });
    assert_eq!(root["properties"]["spec"], expected);
}

#[test]
fn a_definition_carries_what_the_derive_was_told() {
    let crd = thing().label("a", "b");
    let manifest = crd.manifest();
    assert_eq!(crd.file_name(), "example.org_things.yaml");
    assert_eq!(manifest["metadata"]["labels"], json!({ "a": "b" }));
    assert_eq!(
        manifest["metadata"]["annotations"],
        json!({ "controller-gen.kubebuilder.io/version": "v0.16.5" })
    );
    let names = json!({
        "kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing",
        "categories": ["all"], "shortNames": ["th"],
    });
    assert_eq!(manifest["spec"]["names"], names);
    let version = &manifest["spec"]["versions"][0];
    assert_eq!(version["selectableFields"], json!([{ "jsonPath": ".spec.size" }]));
    assert_eq!(version["subresources"], json!({}));
    assert_eq!(manifest["spec"].get("preserveUnknownFields"), None);
    assert_eq!(manifest["spec"].get("conversion"), None);
}

#[test]
fn a_status_may_be_written_with_the_rest_or_apart_whether_there_is_one_or_not() {
    let apart = thing().status_subresource(true);
    assert_eq!(
        apart.manifest()["spec"]["versions"][0]["subresources"],
        json!({ "status": {} })
    );
    assert_eq!(schema_of(&apart)["properties"].get("status"), None);
    let together = Crd::of::<v1beta1::Thing>().unwrap().status_subresource(false);
    assert_eq!(together.manifest()["spec"]["versions"][0]["subresources"], json!({}));
    assert_eq!(schema_of(&together)["properties"]["status"]["type"], "object");
}

#[test]
fn versions_merge_into_one_definition() {
    let older = Crd::of::<v1beta1::Thing>().unwrap();
    let service = ConversionService {
        namespace: "ns",
        name: "webhook",
        path: "/convert",
    };
    let crd = thing().merge(older).unwrap().converted_by(service);
    let definition = crd.definition().unwrap();
    let versions: Vec<_> = definition
        .spec
        .versions
        .iter()
        .map(|v| (v.name.as_str(), v.storage))
        .collect();
    assert_eq!(versions, [("v1", true), ("v1beta1", false)]);
    assert_eq!(definition.spec.versions[1].deprecated, Some(true));
    assert!(
        definition.spec.versions[1]
            .subresources
            .as_ref()
            .is_some_and(|s| s.status.is_some())
    );
    let conversion = definition.spec.conversion.unwrap();
    assert_eq!(conversion.strategy, "Webhook");
    assert_eq!(conversion.webhook.unwrap().conversion_review_versions, ["v1"]);
}

#[test]
fn merging_refuses_other_kinds_and_a_second_storage_version() {
    let host = Crd::of::<crate::metal3::BareMetalHost>().unwrap();
    assert!(matches!(thing().merge(host), Err(CrdError::DifferentKinds(..))));
    let twice = thing().merge(thing()).unwrap();
    assert!(matches!(
        twice.definition(),
        Err(CrdError::StorageVersions { count: 2, .. })
    ));
    let none = Crd::of::<v1beta1::Thing>().unwrap();
    assert!(matches!(
        none.definition(),
        Err(CrdError::StorageVersions { count: 0, .. })
    ));
}

/// Calls `look` on every schema with its path.
fn walk(schema: &Value, path: &str, look: &mut dyn FnMut(&str, &Value)) {
    look(path, schema);
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        walk(below, &format!("{path}.{name}"), look);
    }
    for (keyword, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[keyword].is_object() {
            walk(&schema[keyword], &format!("{path}{suffix}"), look);
        }
    }
}

#[test]
fn every_kind_is_described_and_free_of_markers() {
    let known = [
        "type",
        "description",
        "properties",
        "required",
        "items",
        "enum",
        "format",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "additionalProperties",
        "default",
        "nullable",
        "additionalProperties",
        "anyOf",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-preserve-unknown-fields",
        // See `crate::rules`.
        "x-kubernetes-validations",
    ];
    for crd in all().unwrap() {
        for version in crd.manifest()["spec"]["versions"].as_array().unwrap() {
            walk(
                &version["schema"]["openAPIV3Schema"],
                crd.name(),
                &mut |path, schema| {
                    let schema = schema.as_object().unwrap();
                    let unknown: Vec<_> = schema.keys().filter(|key| !known.contains(&key.as_str())).collect();
                    assert!(unknown.is_empty(), "{path}: {unknown:?}");
                    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
                    let needed = !path.ends_with("[]") && !path.ends_with("{}") && !path.ends_with(".metadata");
                    assert!(
                        !needed || description.ends_with('.'),
                        "{path} has no description: {description:?}"
                    );
                    // Doc links are for rustdoc, not for kubectl explain.
                    assert!(
                        !description.contains('`') && !description.contains("]("),
                        "{path}: {description:?}"
                    );
                    // Shared types are explained in each version as they are there.
                    let itself = format!("in {}", version["name"].as_str().unwrap());
                    assert!(!description.to_lowercase().contains(&itself), "{path}: {description:?}");
                },
            );
        }
    }
}

#[test]
fn every_definition_is_sound_and_in_order() {
    let crds = all().unwrap();
    assert!(crds.is_sorted_by_key(|crd| crd.name().to_owned()));
    for crd in crds {
        crd.definition().unwrap();
    }
}

/// What `clusterctl move` goes by: hosts with all that they own, what nothing that it moves owns, and kinds whose objects it
/// looks at because of their owners.
#[test]
fn clusterctl_finds_what_it_has_to_move() {
    let mut labelled = Vec::new();
    for crd in all().unwrap() {
        let labels = crd.manifest()["metadata"]["labels"].as_object();
        for (label, value) in labels.into_iter().flatten() {
            if let Some(what) = label.strip_prefix("clusterctl.cluster.x-k8s.io") {
                assert_eq!(value, "", "{label}");
                let plural = crd.name().split('.').next().unwrap();
                labelled.push(format!("{plural}{what}"));
            }
        }
    }
    let expected = [
        "baremetalhosts",
        "baremetalhosts/move",
        "baremetalhosts/move-hierarchy",
        "baremetalswitches",
        "baremetalswitches/move",
        "bmceventsubscriptions",
        "bmceventsubscriptions/move",
        "dataimages",
        "dataimages/move",
        "hardwaredata",
        "hardwaredata/move",
        "hostclaims",
        "hostclaims/move",
        "hostdeploypolicies",
        "hostdeploypolicies/move",
        "hostfirmwarecomponents",
        "hostfirmwarecomponents/move",
        "hostfirmwaresettings",
        "hostfirmwaresettings/move",
        "hostnetworkattachments",
        "hostnetworkattachments/move",
        "hostupdatepolicies",
        "hostupdatepolicies/move",
        "ipaddresses",
        "ipclaims",
        "ippools",
        "metal3clusters",
        "metal3clustertemplates",
        "metal3dataclaims",
        "metal3datas",
        "metal3datatemplates",
        "metal3datatemplates/move",
        "metal3machines",
        "metal3machinetemplates",
        "metal3remediations",
        "metal3remediationtemplates",
        "metal3remediationtemplates/move",
    ];
    labelled.sort();
    assert_eq!(labelled, expected);
}
