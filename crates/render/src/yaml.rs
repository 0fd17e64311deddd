//! Rendered values as YAML texts.

use serde::Serialize;

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
