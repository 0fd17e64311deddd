//! How a controller should react to an error.

use std::{error::Error, fmt, time::Duration};

use kube::runtime::watcher;

/// The reaction to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Likely to go away by itself (5xx, timeouts, a locked node): retry with per-object back-off, no event.
    Transient,
    /// The server, or our own limit, gave a time: retry after it; does not count as a failure.
    Throttled(Duration),
    /// We acted on stale data (409): retry immediately, log at debug level.
    Stale,
    /// The user has to change something: condition and one warning event, then wait for a change.
    User,
    /// The hardware or Ironic reports a failure: status error and upstream's back-off curve.
    Fault,
    /// Should not be possible: error log, condition, slow retry.
    Bug,
}

impl Class {
    /// Short name for logs and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Throttled(_) => "throttled",
            Self::Stale => "stale",
            Self::User => "user",
            Self::Fault => "fault",
            Self::Bug => "bug",
        }
    }
}

/// An error that says how to react to it.
pub trait Classified: Error {
    /// How to react to it.
    fn class(&self) -> Class;
    /// A bounded name for metrics and logs, such as `kube_conflict`.
    fn label(&self) -> &'static str;
}

/// For operations that cannot fail.
impl Classified for std::convert::Infallible {
    fn class(&self) -> Class {
        match *self {}
    }

    fn label(&self) -> &'static str {
        match *self {}
    }
}

/// How long to hold back when a server says "too many requests" without giving a time.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

impl Classified for kube::Error {
    fn class(&self) -> Class {
        let Self::Api(status) = self else {
            return match self {
                // The response does not fit our types, or we could not even build the request.
                Self::SerdeError(_) | Self::BuildRequest(_) | Self::HttpError(_) => Class::Bug,
                _ => Class::Transient,
            };
        };
        if status.code == 429 {
            let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            Class::Throttled(if seconds == 0 {
                DEFAULT_RETRY_AFTER
            } else {
                Duration::from_secs(seconds.into())
            })
        } else if status.is_conflict() || status.is_already_exists() {
            Class::Stale
        } else if status.is_invalid() || status.code == 400 {
            Class::Bug
        } else {
            // 401 and 403 too: permissions get repaired, and a namespace being deleted answers 403. Callers that expect
            // a 404 handle it themselves; for the others the object is gone and the next pass will notice.
            Class::Transient
        }
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Api(status) => match status.code {
                400 => "kube_bad_request",
                401 => "kube_unauthorized",
                403 => "kube_forbidden",
                404 => "kube_not_found",
                409 => "kube_conflict",
                422 => "kube_invalid",
                429 => "kube_throttled",
                500..=599 => "kube_server",
                _ => "kube_api",
            },
            Self::SerdeError(_) => "kube_decode",
            Self::Auth(_) => "kube_auth",
            Self::BuildRequest(_) | Self::HttpError(_) => "kube_request",
            _ => "kube_connection",
        }
    }
}

/// Whether an API call failed because the object does not exist.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

/// Whether the role does not allow an API call.
pub fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}

/// Whether the role does not allow a watch, or its list.
pub fn is_forbidden_watch(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => is_forbidden(error),
        watcher::Error::WatchError(status) => status.is_forbidden(),
        watcher::Error::NoResourceVersion => false,
    }
}

/// Whether a write lost against another writer, or a create met an existing object.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict() || status.is_already_exists())
}

/// An error and its causes in one line, each text once.
///
/// Some libraries print the cause inside their own text *and* offer it as `source()`; such repetitions are dropped. A
/// [`kube::Error`] prints the server's message instead of a dump of the status object.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> Chain<'a> {
    Chain(error)
}

/// See [`chain`].
#[derive(Clone, Copy)]
pub struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = String::new();
        let mut next = Some(self.0);
        while let Some(error) = next {
            next = error.source();
            let text = match error.downcast_ref::<kube::Error>() {
                Some(kube::Error::Api(status)) => {
                    next = None; // the source is the same status again
                    format!("{} ({} {})", status.message, status.code, status.reason)
                }
                _ => error.to_string(),
            };
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            if text.is_empty() || printed.ends_with(&text) {
                continue;
            }
            if !printed.is_empty() {
                printed.push_str(": ");
            }
            printed.push_str(&text);
        }
        out.write_str(&printed)
    }
}

impl fmt::Debug for Chain<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use rstest::rstest;

    fn api(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("the words", reason).with_code(code)))
    }

    #[rstest]
    #[case(api(409, "Conflict"), Class::Stale, "kube_conflict")]
    #[case(api(409, "AlreadyExists"), Class::Stale, "kube_conflict")]
    #[case(api(404, "NotFound"), Class::Transient, "kube_not_found")]
    #[case(api(403, "Forbidden"), Class::Transient, "kube_forbidden")]
    #[case(api(422, "Invalid"), Class::Bug, "kube_invalid")]
    #[case(api(429, "TooManyRequests"), Class::Throttled(DEFAULT_RETRY_AFTER), "kube_throttled")]
    #[case(api(500, "InternalError"), Class::Transient, "kube_server")]
    #[case(kube::Error::LinesCodecMaxLineLengthExceeded, Class::Transient, "kube_connection")]
    fn api_errors_have_a_class(#[case] error: kube::Error, #[case] class: Class, #[case] label: &str) {
        assert_eq!(error.class(), class);
        assert_eq!(error.label(), label);
    }

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write the status")]
    struct Outer(#[source] kube::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("outer: {0}")]
    struct Repeating(#[source] std::io::Error);

    #[test]
    fn a_chain_is_one_line_and_says_everything_once() {
        assert_eq!(
            chain(&Outer(api(409, "Conflict"))).to_string(),
            "cannot write the status: the words (409 Conflict)"
        );
        let repeating = Repeating(std::io::Error::other("two\nlines"));
        assert_eq!(chain(&repeating).to_string(), "outer: two lines");
    }
}
