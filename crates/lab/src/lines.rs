//! Logs with one JSON object per line, read while other programs write them.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

/// A place in such a log, to read on from there; the default is its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark(pub(crate) u64);

/// The whole lines after `since`, and the mark after the last of them. A log that does not exist yet has none.
pub(crate) fn text(log: &Path, since: Mark) -> Result<(String, Mark)> {
    let mut file = match File::open(log) {
        Ok(file) => file,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok((String::new(), since)),
        Err(err) => return Err(err).with_context(|| format!("cannot open {}", log.display())),
    };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(since.0))
        .and_then(|_| file.read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", log.display()))?;
    // What follows the last line's end is being written.
    bytes.truncate(bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1));
    let text = String::from_utf8(bytes).with_context(|| format!("{} is not text", log.display()))?;
    let end = Mark(since.0 + text.len() as u64);
    Ok((text, end))
}

/// The same, read.
pub(crate) fn read<T: DeserializeOwned>(log: &Path, since: Mark) -> Result<(Vec<T>, Mark)> {
    let (text, end) = text(log, since)?;
    let entry = |line| serde_json::from_str(line).with_context(|| format!("an odd line in {}: {line}", log.display()));
    Ok((text.lines().map(entry).collect::<Result<_>>()?, end))
}
