//! What is generated.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Generated texts by their path from the root of the repository.
pub type Files = BTreeMap<PathBuf, String>;
