//! Requests answered by Ironic's API, for benchmarks that count them by client.

use std::collections::BTreeMap;

use serde::Deserialize;

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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::lines::{Mark, read};

    #[test]
    fn requests_are_read_from_a_mark_on_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("requests.jsonl");
        let none: (Vec<Request>, Mark) = read(&log, Mark::default()).unwrap();
        assert_eq!(none, (Vec::new(), Mark::default()), "no log yet");
        let line = |path: &str, agent: &str| {
            format!(
                r#"{{"time":1.5,"method":"GET","path":"{path}","query":false,"status":200,"user":"","agent":"{agent}","ms":2.0}}"#
            ) + "\n"
        };
        let begin = line("/v1/nodes", "x") + &line("/v1/nodes", "y");
        fs::write(&log, format!("{begin}{{\"time\":")).unwrap();
        let (first, mark): (Vec<Request>, _) = read(&log, Mark::default()).unwrap();
        assert_eq!(count(&first), BTreeMap::from([("GET /v1/nodes".to_owned(), 2)]));
        assert!(!first[0].is_of_a_ramdisk());

        fs::write(&log, begin + &line("/v1/lookup", AGENT)).unwrap();
        let (second, end): (Vec<Request>, _) = read(&log, mark).unwrap();
        assert_eq!(second.len(), 1, "only the new one");
        assert!(second[0].is_of_a_ramdisk());
        assert_eq!(read::<Request>(&log, end).unwrap(), (Vec::new(), end));
    }
}
