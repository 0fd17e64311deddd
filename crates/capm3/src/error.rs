//! What makes a pass fail as a whole: a request that does.

use metal3_runtime::error::{Class, Classified};
use metal3_runtime::store::ObjectKey;

/// A request that failed, and what it was for.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {subject}")]
pub struct PassError {
    /// What was to be done, such as `store the status`.
    pub what: &'static str,
    /// With what, such as `of Metal3Machine metal3/m`.
    pub subject: String,
    /// What came of the request.
    #[source]
    pub source: kube::Error,
}

impl PassError {
    /// Says what was to be done with an object of this kind, for `map_err`.
    pub fn of(what: &'static str, kind: &'static str, key: &ObjectKey) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self {
            what,
            subject: format!("of {kind} {key}"),
            source,
        }
    }
}

impl Classified for PassError {
    fn class(&self) -> Class {
        self.source.class()
    }

    fn label(&self) -> &'static str {
        self.source.label()
    }
}
