//! The requests that Ironic's API answered: who asks how much of it is what benchmarks want to know.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// How the lab's agents call themselves.
const AGENT: &str = "ironic-lab-agent";

/// A request to Ironic's API.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Request {
    /// When it was answered, in seconds since 1970.
    pub time: f64,
    /// The HTTP method.
    pub method: String,
    /// The path, with `{id}` for members of collections: `/v1/nodes/{id}/states/provision`.
    pub path: String,
    /// The first member of a collection that the path names, such as a node's UUID; empty where it names none.
    #[serde(default)]
    pub member: String,
    /// Whether it had a query.
    pub query: bool,
    /// The HTTP status of the answer.
    pub status: u16,
    /// The user that it was made as; empty for requests without credentials, as ramdisks make them.
    pub user: String,
    /// The client's `User-Agent`.
    pub agent: String,
    /// How long the answer took, in milliseconds.
    pub ms: f64,
}

impl Request {
    /// Whether a ramdisk made it, and not an operator's client.
    pub fn is_of_a_ramdisk(&self) -> bool {
        self.agent == AGENT
    }
}

/// A point in the log of requests; the default is its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// How many of the requests were of each method and path.
pub fn count<'a>(requests: impl IntoIterator<Item = &'a Request>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts
            .entry(format!("{} {}", request.method, request.path))
            .or_default() += 1;
    }
    counts
}

/// The requests after `since`, and the mark after the last of them.
pub(super) fn read(log: &Path, since: Mark) -> Result<(Vec<Request>, Mark)> {
    read_lines(log, since)
}

/// The complete JSON lines of a log after `since`, and the mark after the last of them.
pub(super) fn read_lines<T: DeserializeOwned>(log: &Path, since: Mark) -> Result<(Vec<T>, Mark)> {
    let mut file = match File::open(log) {
        Ok(file) => file,
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok((Vec::new(), since)),
        Err(err) => return Err(err).with_context(|| format!("cannot open {}", log.display())),
    };
    let mut text = String::new();
    file.seek(SeekFrom::Start(since.0))
        .and_then(|_| file.read_to_string(&mut text))
        .with_context(|| format!("cannot read {}", log.display()))?;
    // What follows the last line's end is being written.
    let complete = text.rfind('\n').map_or(0, |end| end + 1);
    let requests = text[..complete]
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not an entry of {}: {line}", log.display())))
        .collect::<Result<_>>()?;
    Ok((requests, Mark(since.0 + complete as u64)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn requests_are_read_from_a_mark_on_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("requests.jsonl");
        assert_eq!(
            read(&log, Mark::default()).unwrap(),
            (Vec::new(), Mark::default()),
            "no log yet"
        );
        let line = |path: &str, agent: &str| {
            format!(
                r#"{{"time":1.5,"method":"GET","path":"{path}","query":false,"status":200,"user":"","agent":"{agent}","ms":2.0}}"#
            ) + "\n"
        };
        let begin = line("/v1/nodes", "x") + &line("/v1/nodes", "y");
        fs::write(&log, format!("{begin}{{\"time\":")).unwrap();
        let (first, mark) = read(&log, Mark::default()).unwrap();
        assert_eq!(count(&first), BTreeMap::from([("GET /v1/nodes".to_owned(), 2)]));
        assert!(!first[0].is_of_a_ramdisk());

        fs::write(&log, begin + &line("/v1/lookup", AGENT)).unwrap();
        let (second, end) = read(&log, mark).unwrap();
        assert_eq!(second.len(), 1, "only the new one");
        assert!(second[0].is_of_a_ramdisk());
        assert_eq!(read(&log, end).unwrap(), (Vec::new(), end));
    }
}
