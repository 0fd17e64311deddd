//! Rendered values as YAML texts, and metadata back from one.

use metal3_api::carried::MOST_VALUES;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Metadata, NetworkData};

/// Why a value cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error("cannot write rendered data as YAML")]
pub struct YamlError(#[from] serde_saphyr::SerializeError);

impl Metadata {
    /// The text of the Secret's key `metaData`.
    pub fn to_yaml(&self) -> Result<String, YamlError> {
        emit(self)
    }
}

/// Why a text is no metadata. Nothing of it is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no map of at most {MOST_VALUES} keys and values, in YAML or JSON")]
pub struct NotMetadata;

impl Metadata {
    /// The metadata that a Secret has, ours or a user's. What is no text there is one here.
    pub fn from_yaml(text: &str) -> Result<Self, NotMetadata> {
        // As baremetal-operator reads them: the words `on` and `no` stay words, and an alias, which would make a text of any
        // size from a small one, is none.
        let options = serde_saphyr::options! {
            strict_booleans: true,
            budget: serde_saphyr::budget! { max_aliases: 0, max_nodes: MOST_VALUES },
        };
        let map: Map<String, Value> = serde_saphyr::from_str_with_options(text, options).map_err(|_| NotMetadata)?;
        let texts = map.into_iter().map(|(key, value)| match value {
            Value::String(text) => (key, text),
            other => (key, other.to_string()),
        });
        Ok(Self(texts.collect()))
    }
}

impl NetworkData {
    /// The text of the Secret's key `networkData`.
    pub fn to_yaml(&self) -> Result<String, YamlError> {
        emit(self)
    }
}

/// Texts that a YAML reader could take for something else are quoted. Those of several lines are quoted as well, because
/// readers differ over the blanks in block scalars.
fn emit(value: &impl Serialize) -> Result<String, YamlError> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    Ok(serde_saphyr::to_string_with_options(value, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[test]
    fn metadata_of_a_secret_is_read_as_it_was_written() {
        let written = Metadata(
            [
                ("a".to_owned(), "no".to_owned()),
                ("b: c".to_owned(), "1\n2".to_owned()),
            ]
            .into(),
        );
        assert_eq!(Metadata::from_yaml(&written.to_yaml().unwrap()), Ok(written));
        let of_user = Metadata::from_yaml(r#"{"rack": 7, "on": no, "list": [1]}"#).unwrap();
        let texts: Vec<_> = of_user
            .0
            .iter()
            .map(|(key, text)| (key.as_str(), text.as_str()))
            .collect();
        assert_eq!(texts, [("list", "[1]"), ("on", "no"), ("rack", "7")]);
    }

    // OWN 31xb: a text of some hundred kilobytes became fifty megabytes.
    #[test]
    fn a_text_of_many_values_is_not_read() {
        let text = |count| format!("a: [{}]", "{a: 1},".repeat(count));
        assert!(Metadata::from_yaml(&text(1_000)).is_ok());
        assert_eq!(Metadata::from_yaml(&text(20_000)), Err(NotMetadata));
    }

    #[rstest]
    #[case("- a")]
    #[case("a: [")]
    #[case("hunter2")]
    #[case::alias("a: &a x\nb: [*a]")]
    fn what_is_no_map_is_not_repeated(#[case] text: &str) {
        let error = Metadata::from_yaml(text).unwrap_err();
        assert!(!error.to_string().contains(text) && !format!("{error:?}").contains(text));
    }
}
