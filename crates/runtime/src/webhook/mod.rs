//! Webhooks: an HTTPS server on every replica that answers the API server's reviews.
//!
//! ```text
//!  API server ──POST /validate-…──▶ server ──bytes──▶ admission  ──objects──▶ Rules (pure)
//!             ──POST /convert────▶   TLS,  ──bytes──▶ conversion ──objects──▶ a function (pure)
//!                                   limits
//! ```
//!
//! Reading a review and answering it is pure as well: the server adds the port, TLS, limits on size and time, and metrics.
//! [`Webhooks`] is the list of what a program answers; the configurations to install are made from the same list.
//!
//! ```text
//!  Secret ──watch──▶ keeper ──certificate──▶ server
//!  files ──poll──▶ tls  └──authorities──▶ calls ──caBundle──▶ configurations and definitions
//!                    └──────────────────────▲└─▶ report of calls into the void, and of those that do not trust us
//! ```

mod admission;
mod answer;
mod authority;
mod body;
mod called;
mod calls;
mod connections;
mod conversion;
mod keeper;
mod lookups;
mod manifests;
mod metrics;
mod ratchet;
mod review;
mod server;
mod trust;
mod weight;
mod write_deadline;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::{self, Debug};

use axum::body::Bytes;
use axum::http::StatusCode;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::admission::{FieldError, InUse, Lookup, Refusal, Rules};
use self::answer::Answer;
use self::body::Reads;
pub use self::keeper::SelfManaged;
use self::lookups::Lookups;
pub use self::manifests::Installed;
pub use self::metrics::rows;
pub use self::server::{Endpoint, WebhookError};

/// The webhooks of a program, by path.
#[derive(Debug, Default)]
pub struct Webhooks(BTreeMap<String, Webhook>);

/// One path.
struct Webhook {
    reads: Reads,
    /// The kind that it admits; `None` for conversion.
    admits: Option<Admits>,
    answer: Box<dyn Fn(Bytes) -> Answer + Send + Sync>,
}

/// The kind that a path is for.
#[derive(Debug)]
struct Admits {
    is_mutating: bool,
    /// Whether deletions are reviewed, too.
    of_deletions: bool,
    group: String,
    version: String,
    plural: String,
    /// In lower case.
    kind: String,
}

/// About the limit of controller-runtime: a review holds two objects, and etcd accepts none above 1.5 MiB.
const ADMISSION_LIMIT: usize = 8 << 20;

/// The API server converts up to 10,000 objects at once when it fills its own cache.
const CONVERSION_LIMIT: usize = 256 << 20;

impl Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("reads", &self.reads)
            .finish_non_exhaustive()
    }
}

impl Webhooks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers ConversionReviews on `/convert`. The function gets an object and the wanted apiVersion.
    #[must_use]
    pub fn convert<E>(mut self, convert: fn(Value, &str) -> Result<Value, E>) -> Self
    where
        E: std::error::Error + 'static,
    {
        let webhook = Webhook {
            reads: Reads {
                limit: CONVERSION_LIMIT,
                apart_below: conversion::OBJECTS_BELOW,
            },
            admits: None,
            answer: Box::new(move |body| conversion::answer(convert, body)),
        };
        self.0.insert("/convert".to_owned(), webhook);
        self
    }

    /// Answers AdmissionReviews of a kind on upstream's paths: `/validate-…`, and `/mutate-…` where the rules have defaults.
    #[must_use]
    pub fn admit<K>(mut self, rules: Rules<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Clone + 'static,
    {
        if let Some(defaults) = rules.defaults {
            self.add::<K>(true, false, move |body| admission::default(defaults, &body));
        }
        self.add::<K>(false, false, move |body| admission::validate(&rules, None, &body));
        self
    }

    /// The same for a kind whose objects can neither change nor be deleted while others use them.
    #[must_use]
    pub fn admit_unless_used<K>(mut self, rules: Rules<K>, in_use: InUse<K>) -> Self
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + 'static,
    {
        let lookups = Lookups::default();
        self.add::<K>(false, true, move |body| {
            admission::validate(&rules, Some((&in_use, &lookups)), &body)
        });
        self
    }

    /// The paths that are served.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The answer to a review without a server, for tests: status and body. `None` if the path is not served.
    pub fn answer(&self, path: &str, review: Bytes) -> Option<(StatusCode, Vec<u8>)> {
        let answer = (self.0.get(path)?.answer)(review);
        Some((answer.status, answer.body))
    }

    /// The path on which controller-runtime serves a kind: `/validate-ipam-metal3-io-v1alpha1-ippool`.
    fn add<K: Resource<DynamicType = ()>>(
        &mut self,
        is_mutating: bool,
        of_deletions: bool,
        answer: impl Fn(Bytes) -> Answer + Send + Sync + 'static,
    ) {
        let admits = Admits {
            is_mutating,
            of_deletions,
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            kind: K::kind(&()).to_lowercase(),
        };
        let verb = if is_mutating { "mutate" } else { "validate" };
        let group = admits.group.replace('.', "-");
        let path = format!("/{verb}-{group}-{}-{}", admits.version, admits.kind);
        let webhook = Webhook {
            reads: Reads {
                limit: ADMISSION_LIMIT,
                apart_below: 0,
            },
            admits: Some(admits),
            answer: Box::new(answer),
        };
        self.0.insert(path, webhook);
    }
}
