//! The config drive: what cloud-init or Ignition finds on the host's first boot.

use metal3_api::metal3::BareMetalHost;
use serde_json::{Map, Value};

/// The texts from the user's Secrets; absent where the specification names none.
#[derive(Default)]
pub struct Texts {
    /// `userData`, passed on untouched: a script, cloud-config or an Ignition document.
    pub user: Option<String>,
    /// YAML or JSON, merged over the generated values.
    pub meta: Option<String>,
    /// YAML or JSON, in the format of OpenStack's `network_data.json`.
    pub network: Option<String>,
}

/// The value that Ironic makes the drive from. Errors name the field whose Secret holds the text; network data can come by
/// one of two.
pub fn build(host: &BareMetalHost, texts: &Texts, network_field: &str) -> Result<Value, String> {
    let mut drive = Map::new();
    if let Some(text) = texts.user.as_ref().filter(|t| !t.is_empty()) {
        drive.insert("user_data".to_owned(), text.clone().into());
    }
    if let Some(text) = texts.network.as_ref().filter(|t| !t.trim().is_empty()) {
        drive.insert("network_data".to_owned(), Value::Object(mapping(network_field, text)?));
    }
    let mut meta_data = default_meta_data(host);
    if let Some(text) = texts.meta.as_ref().filter(|t| !t.trim().is_empty()) {
        meta_data.extend(mapping("spec.metaData", text)?);
    }
    drive.insert("meta_data".to_owned(), Value::Object(meta_data));
    Ok(Value::Object(drive))
}

/// What a host knows of itself when the user says nothing.
fn default_meta_data(host: &BareMetalHost) -> Map<String, Value> {
    let name = host.metadata.name.as_deref().unwrap_or_default();
    [
        ("uuid", host.metadata.uid.as_deref().unwrap_or_default()),
        (
            "metal3-namespace",
            host.metadata.namespace.as_deref().unwrap_or_default(),
        ),
        ("metal3-name", name),
        ("local-hostname", name),
        ("local_hostname", name),
        ("name", name),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), Value::from(value)))
    .collect()
}

/// JSON is YAML, so one parser serves both. The words `on`, `off`, `yes` and `no` stay words: in network data and
/// metadata they are names, and the other reading would turn a host called `on` into `true`.
pub fn mapping(field: &str, text: &str) -> Result<Map<String, Value>, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    match serde_saphyr::from_str_with_options::<Value>(text, options) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(format!(
            "the text that {field} names is not a mapping of keys to values"
        )),
        // The parser quotes the text around the fault, which may be a secret: only the place is passed on.
        Err(error) => Err(format!(
            "the text that {field} names is not YAML or JSON{}",
            place(&error)
        )),
    }
}

fn place(error: &serde_saphyr::Error) -> String {
    error.location().map_or_else(String::new, |at| {
        format!(" (line {}, column {})", at.line(), at.column())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn host() -> BareMetalHost {
        serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "host-0", "namespace": "metal3", "uid": "11111111-2222-3333-4444-555555555555"},
            "spec": {"online": true},
        }))
        .unwrap()
    }

    #[test]
    fn metadata_of_the_user_wins_over_the_defaults() {
        let texts = Texts {
            user: Some("#cloud-config\n".to_owned()),
            meta: Some("name: other\nrack: b\nanswer: on\nmac: 52:54:00:12:34:56\n".to_owned()),
            network: Some(r#"{"links": [], "networks": [], "services": []}"#.to_owned()),
        };
        let drive = build(&host(), &texts, "spec.networkData").unwrap();
        assert_eq!(drive["user_data"], "#cloud-config\n");
        assert_eq!(
            drive["network_data"],
            json!({"links": [], "networks": [], "services": []})
        );
        let meta = &drive["meta_data"];
        assert_eq!(meta["name"], "other");
        assert_eq!(meta["local-hostname"], "host-0");
        assert_eq!(meta["uuid"], "11111111-2222-3333-4444-555555555555");
        assert_eq!(meta["metal3-namespace"], "metal3");
        assert_eq!(meta["answer"], "on");
        assert_eq!(meta["mac"], "52:54:00:12:34:56");
    }

    #[test]
    fn nothing_given_still_names_the_host() {
        let drive = build(&host(), &Texts::default(), "spec.networkData").unwrap();
        assert_eq!(drive.as_object().unwrap().keys().collect::<Vec<_>>(), ["meta_data"]);
    }

    #[test]
    fn broken_text_is_refused_with_its_field_and_without_its_content() {
        for text in ["[1, 2]", "hunter2", "a: [hunter2", "a: b: hunter2"] {
            let texts = Texts {
                network: Some(text.to_owned()),
                ..Texts::default()
            };
            let error = build(&host(), &texts, "spec.networkData").unwrap_err();
            assert!(
                error.contains("spec.networkData") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
