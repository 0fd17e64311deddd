//! The config drive: the data for cloud-init or Ignition on the host's first boot.

use metal3_api::carried::MOST_VALUES;
use metal3_api::metal3::BareMetalHost;
use serde_json::{Map, Value};
use serde_saphyr::options::DuplicateKeyPolicy;

mod image;
mod room;

pub use self::room::{Drive, Room};

/// The texts from the user's Secrets; absent if the specification names none.
#[derive(Default)]
pub struct Texts {
    /// `userData`, passed on unchanged: a script, cloud-config, an Ignition document, or one of these in a gzip
    /// archive.
    pub user: Option<Vec<u8>>,
    /// YAML or JSON, merged over the generated values.
    pub meta: Option<String>,
    /// YAML or JSON, in the format of OpenStack's `network_data.json`.
    pub network: Option<String>,
}

/// The value from which Ironic builds the drive. Errors name the field whose Secret holds the text; network data can
/// come from either of two.
pub fn build(host: &BareMetalHost, texts: &Texts, network_field: &str) -> Result<Value, String> {
    let mut drive = Map::new();
    let user_data = texts.user.as_ref().filter(|data| !data.is_empty());
    if let Some(text) = texts.network.as_ref().filter(|t| !t.trim().is_empty()) {
        drive.insert("network_data".to_owned(), Value::Object(mapping(network_field, text)?));
    }
    let mut meta_data = default_meta_data(host);
    if let Some(text) = texts.meta.as_ref().filter(|t| !t.trim().is_empty()) {
        meta_data.extend(mapping("spec.metaData", text)?);
    }
    drive.insert("meta_data".to_owned(), Value::Object(meta_data));
    match user_data.map(|data| (data, std::str::from_utf8(data))) {
        None => {}
        Some((_, Ok(text))) => {
            drive.insert("user_data".to_owned(), text.into());
        }
        Some((bytes, Err(_))) => return image::build(&drive, bytes),
    }
    Ok(Value::Object(drive))
}

/// The default metadata of a host.
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

/// JSON is YAML, so one parser serves both. The words `on`, `off`, `yes` and `no` stay strings: in network data and
/// metadata they are names, and YAML 1.1 would turn a host called `on` into `true`. Aliases are rejected, because they
/// could expand a small text to any size. Of a key that is given twice the last value counts, as upstream reads it.
pub fn mapping(field: &str, text: &str) -> Result<Map<String, Value>, String> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! { max_aliases: 0, max_nodes: MOST_VALUES },
    };
    match serde_saphyr::from_str_with_options::<Value>(text, options) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(format!(
            "the text that {field} names is not a mapping of keys to values"
        )),
        Err(error) if matches!(error.without_snippet(), serde_saphyr::Error::Budget { .. }) => Err(format!(
            "the text that {field} names has an alias (*name), or more than {MOST_VALUES} keys and values: write out what it stands for, or \
             name less"
        )),
        // The parser quotes the text around the error, which may be a secret: only the position is passed on.
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
    use std::io::{Cursor, Read};

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use flate2::read::GzDecoder;
    use hadris_iso::read::IsoImage;
    use serde_json::json;

    use super::*;

    fn host() -> BareMetalHost {
        serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"name": "host-0", "namespace": "metal3", "uid": "11111111-2222-3333-4444-555555555555"},
            "spec": {"online": true},
        }))
        .unwrap()
    }

    // OWN 31th: templates that append to a text leave such keys.
    #[rstest::rstest]
    #[case::yaml("local-hostname: a\nlocal-hostname: b\n")]
    #[case::json(r#"{"local-hostname": "a", "local-hostname": "b"}"#)]
    fn of_a_key_that_is_given_twice_the_last_value_counts(#[case] text: &str) {
        let map = mapping("spec.metaData", text).unwrap();
        assert_eq!(json!(map), json!({"local-hostname": "b"}));
    }

    // OWN 27a: a text of a few hundred kilobytes that repeats itself by aliases became hundreds of megabytes.
    #[test]
    fn a_text_cannot_become_larger_than_it_is() {
        let large = "x".repeat(100_000);
        let text = format!("a: &a {large}\nb: [{}]", "*a, ".repeat(10_000));
        let error = mapping("spec.networkData", &text).unwrap_err();
        assert!(
            error.starts_with("the text that spec.networkData names has an alias"),
            "{error}"
        );
        assert!(error.len() < 200);
        assert!(mapping("spec.networkData", "a: &unused x").is_ok());
    }

    #[test]
    fn metadata_of_the_user_wins_over_the_defaults() {
        let texts = Texts {
            user: Some(b"#cloud-config\n".to_vec()),
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

    // OWN 18b: binary user data was rejected.
    #[test]
    fn user_data_that_are_not_text_are_on_the_drive_byte_by_byte() {
        let user: Vec<u8> = [0x1f, 0x8b].into_iter().chain((0..=255).cycle().take(70_000)).collect();
        let texts = Texts {
            user: Some(user.clone()),
            meta: Some("rack: b\n".to_owned()),
            network: Some("links: []\n".to_owned()),
        };
        let drive = build(&host(), &texts, "spec.networkData").unwrap();
        let packed = STANDARD.decode(drive.as_str().unwrap()).unwrap();
        let mut image = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut image).unwrap();
        let image = IsoImage::open(Cursor::new(image)).unwrap();
        for version in ["latest", "2012-08-10"] {
            let read = |name: &str| {
                let entry = image
                    .find_path(&format!("openstack/{version}/{name}"))
                    .unwrap()
                    .unwrap();
                image.read_file(&entry).unwrap()
            };
            assert_eq!(read("user_data"), user);
            let meta: Value = serde_json::from_slice(&read("meta_data.json")).unwrap();
            assert_eq!((&meta["rack"], &meta["name"]), (&json!("b"), &json!("host-0")));
            assert_eq!(read("network_data.json"), b"{\"links\":[]}");
        }
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
