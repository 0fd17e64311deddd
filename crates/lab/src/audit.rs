//! Reads the API server's audit log: requests by user, with their results.
//!
//! Give every program under test its own identity (a service account) to distinguish its requests. The API server writes an entry
//! once it has the response. For a long response that can be slightly after the client has it, so a test that counts requests
//! polls for the expected number.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::lines;
pub use crate::lines::Mark as Position;

/// The audit log of one API server.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
}

/// One request, as far as counting needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// The user, such as `system:serviceaccount:baremetal:operator`; the impersonated user if there is one.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or an HTTP method in lower
    /// case for what is no resource.
    pub verb: String,
    /// `RESOURCE[.GROUP][/SUBRESOURCE]`, such as `baremetalhosts.metal3.io/status`; the path for what is no resource.
    pub resource: String,
    /// The object's namespace, if any.
    pub namespace: String,
    /// The object's name; empty for lists, watches and most creations.
    pub name: String,
    /// The HTTP status of the answer.
    pub status: u16,
}

/// An attempted use of a permission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// See [`Request::user`].
    pub user: String,
    /// See [`Request::verb`].
    pub verb: String,
    /// See [`Request::resource`].
    pub resource: String,
    /// The role that allowed it; empty if none did, or no role was needed.
    pub role: String,
    /// Whether no role allowed it.
    pub is_forbidden: bool,
    /// The object's namespace, where no role allowed it: a role may be about one namespace.
    pub namespace: String,
    /// The object's name, where no role allowed it: a role may name the objects that it is about.
    pub name: String,
}

/// Requests that are the same but for the object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// See [`Request::user`].
    pub user: String,
    /// See [`Request::verb`].
    pub verb: String,
    /// See [`Request::resource`].
    pub resource: String,
    /// See [`Request::status`].
    pub status: u16,
}

impl AuditLog {
    /// The log in this file, which need not exist yet.
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The end of the log as it is now.
    pub fn end(&self) -> Result<Position> {
        Ok(lines::text(&self.path, Position::default())?.1)
    }

    /// The requests answered since `from`, in the order of their answers, and the place to go on from. A watch counts
    /// when it begins.
    pub fn since(&self, from: Position) -> Result<(Vec<Request>, Position)> {
        let (entries, end) = lines::read::<Entry>(&self.path, from)?;
        Ok((entries.into_iter().filter_map(Entry::request).collect(), end))
    }

    /// Each right that anybody asked to use, once. The log may be too long to be held in memory.
    pub fn rights(&self) -> Result<BTreeSet<Asked>> {
        let odd = || format!("cannot read {}", self.path.display());
        let mut rights = BTreeSet::new();
        for line in BufReader::new(File::open(&self.path).with_context(odd)?).lines() {
            // A server that was killed may have left half a line.
            let Ok(entry) = serde_json::from_str::<Entry>(&line.with_context(odd)?) else {
                continue;
            };
            let is_forbidden = entry.annotations.decision == "forbid";
            let role = role_in(&entry.annotations.reason).to_owned();
            let Some(request) = entry.request() else { continue };
            let of_refusal = |text: String| if is_forbidden { text } else { String::new() };
            rights.insert(Asked {
                user: request.user,
                verb: request.verb,
                resource: request.resource,
                role,
                is_forbidden,
                namespace: of_refusal(request.namespace),
                name: of_refusal(request.name),
            });
        }
        Ok(rights)
    }
}

/// The role in the API server's reason: `RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "a/ns"`.
fn role_in(reason: &str) -> &str {
    let named = reason.split_once("Role \"").map(|(_, rest)| rest);
    named.and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

/// How many requests there are of each kind.
pub fn count<'a>(requests: impl IntoIterator<Item = &'a Request>) -> BTreeMap<Kind, usize> {
    let mut counts = BTreeMap::new();
    for Request {
        user,
        verb,
        resource,
        status,
        ..
    } in requests
    {
        let kind = Kind {
            user: user.clone(),
            verb: verb.clone(),
            resource: resource.clone(),
            status: *status,
        };
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

/// What we read of an entry of `audit.k8s.io/v1`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    uri: String,
    user: User,
    impersonated_user: Option<User>,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Deserialize, Default)]
struct Annotations {
    #[serde(rename = "authorization.k8s.io/decision", default)]
    decision: String,
    #[serde(rename = "authorization.k8s.io/reason", default)]
    reason: String,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    api_group: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

impl Entry {
    /// The request, if this entry is the one of its entries that counts: a watch is logged when it begins and when it
    /// ends, everything else once.
    fn request(self) -> Option<Request> {
        let begins = self.stage == "ResponseStarted";
        let watches = self.verb == "watch";
        if begins != watches && !(watches && self.failed()) {
            return None;
        }
        let status = self.response_status.map_or(0, |status| status.code);
        let (resource, object) = match self.object_ref {
            Some(object) => {
                let dot = if object.api_group.is_empty() { "" } else { "." };
                let slash = if object.subresource.is_empty() { "" } else { "/" };
                let (kind, group, sub) = (&object.resource, &object.api_group, &object.subresource);
                (format!("{kind}{dot}{group}{slash}{sub}"), object)
            }
            None => (
                self.uri.split('?').next().unwrap_or_default().to_owned(),
                ObjectRef::default(),
            ),
        };
        Some(Request {
            user: self.impersonated_user.unwrap_or(self.user).username,
            verb: self.verb,
            resource,
            namespace: object.namespace,
            name: object.name,
            status,
        })
    }

    /// A watch that is refused never begins.
    fn failed(&self) -> bool {
        self.response_status.as_ref().is_some_and(|status| status.code >= 400)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"stage":"ResponseComplete","verb":"patch","requestURI":"/apis/metal3.io/v1alpha1/namespaces/a/baremetalhosts/h/status?x=y","user":{"username":"op"},"objectRef":{"resource":"baremetalhosts","namespace":"a","name":"h","apiGroup":"metal3.io","apiVersion":"v1alpha1","subresource":"status"},"responseStatus":{"metadata":{},"code":409}}
{"stage":"ResponseStarted","verb":"watch","requestURI":"/api/v1/pods?watch=1","user":{"username":"op"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200}}
{"stage":"ResponseComplete","verb":"watch","requestURI":"/api/v1/pods?watch=1","user":{"username":"op"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200}}
{"stage":"ResponseComplete","verb":"watch","requestURI":"/api/v1/pods?watch=1","user":{"username":"op"},"objectRef":{"resource":"pods","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":403}}
{"stage":"ResponseComplete","verb":"get","requestURI":"/readyz?verbose","user":{"username":"admin"},"impersonatedUser":{"username":"jo"},"responseStatus":{"metadata":{},"code":200}}
"#;

    #[test]
    fn every_request_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let log = AuditLog::at(folder.path().join("audit.log"));
        assert_eq!(
            log.since(Position::default()).unwrap(),
            (vec![], Position(0)),
            "no file yet"
        );
        std::fs::write(log.path(), format!("{LINES}{{\"half\":")).unwrap();
        let (requests, end) = log.since(Position::default()).unwrap();
        let seen: Vec<String> = count(&requests)
            .into_iter()
            .map(
                |(
                    Kind {
                        user,
                        verb,
                        resource,
                        status,
                    },
                    n,
                )| format!("{user} {verb} {resource} {status} {n}"),
            )
            .collect();
        assert_eq!(
            seen,
            [
                "jo get /readyz 200 1",
                "op patch baremetalhosts.metal3.io/status 409 1",
                "op watch pods 200 1",
                "op watch pods 403 1"
            ]
        );
        assert_eq!(
            end,
            Position(LINES.len() as u64),
            "half a line is left for the next time"
        );
        assert_eq!(log.end().unwrap(), end);
    }
}
