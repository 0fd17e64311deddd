//! Files with secrets, readable only by their owner.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes such a file. Its folder is made if it is missing.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| options.open(path))
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
