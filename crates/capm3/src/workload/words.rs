//! Messages for failed requests to a workload cluster. Its API server belongs to a tenant, so none of its text, whether from a
//! response or a certificate, appears in a condition, event or log.

use std::error::Error;
use std::io;

use kube::core::Status;
use kube::core::response::{StatusDetails, reason};
use kube::runtime::watcher;
use metal3_runtime::lookups::Crowded;
use serde::de::Error as _;

use super::bounds::Exceeded;
use super::connect::Denied;
use super::turns::NoAnswer;

/// Error statuses of an API server. Code and reason follow in brackets.
const REFUSES: &str = "its API server does not do what it is asked for";
const UNREADABLE: &str = "what it sends cannot be read as an answer of Kubernetes";
const UNKNOWN: &str = "the request failed";

/// Known error texts of the HTTP libraries, and our message for each.
const TEXTS: &[(&str, &str)] = &[
    ("dns error", "the name of its server cannot be resolved"),
    (
        "connection closed before message completed",
        "it closed the connection before its answer was complete",
    ),
    ("client error (Connect)", "it cannot be connected to"),
];

/// An error of a workload cluster, with our own message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Ours(String);

/// The message for a condition, an event or a log: one line.
pub fn told(error: &(dyn Error + 'static)) -> String {
    let text = |error: &(dyn Error + 'static)| {
        let text = error.to_string();
        let known = TEXTS.iter().find(|(theirs, _)| *theirs == text);
        known.map(|(_, ours)| (*ours).to_owned())
    };
    // The innermost error is the most specific.
    let words = causes(error).find_map(known);
    let words = words.or_else(|| causes(error).filter_map(text).last());
    words.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The exceeded limit, if there is one.
pub fn exceeded(error: &(dyn Error + 'static)) -> Option<Exceeded> {
    causes(error).find_map(|error| error.downcast_ref().copied())
}

/// The same error for callers that check its kind, without any text of the server.
pub fn ours(error: kube::Error) -> kube::Error {
    match error {
        kube::Error::Api(status) => kube::Error::Api(Box::new(our_status(&status))),
        kube::Error::SerdeError(_) => kube::Error::SerdeError(serde_json::Error::custom(UNREADABLE)),
        other => kube::Error::Service(Box::new(Ours(told(&other)))),
    }
}

fn our_status(status: &Status) -> Status {
    let named = status.details.as_ref();
    let details = StatusDetails {
        // Whether it names an object distinguishes a missing object from a missing kind.
        name: if named.is_some_and(|details| !details.name.is_empty()) {
            "it".to_owned()
        } else {
            String::new()
        },
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: named.map_or(0, |details| details.retry_after_seconds),
    };
    Status::failure(REFUSES, known_reason(status))
        .with_code(status.code)
        .with_details(details)
}

fn known_reason(status: &Status) -> &str {
    if reason::is_known(&status.reason) {
        &status.reason
    } else {
        "Unknown"
    }
}

/// The error and its causes. [`io::Error`] does not report its inner error as its source, only that error's source.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

fn known(error: &(dyn Error + 'static)) -> Option<String> {
    let ours = [
        error.downcast_ref::<Exceeded>().map(ToString::to_string),
        error.downcast_ref::<NoAnswer>().map(ToString::to_string),
        error.downcast_ref::<Denied>().map(ToString::to_string),
        error.downcast_ref::<Crowded>().map(ToString::to_string),
        error.downcast_ref::<Ours>().map(ToString::to_string),
    ];
    if let Some(words) = ours.into_iter().flatten().next() {
        return Some(words);
    }
    if let Some(why) = error.downcast_ref::<rustls::Error>() {
        return Some(of_tls(why).to_owned());
    }
    match error.downcast_ref::<watcher::Error>() {
        Some(watcher::Error::WatchError(status)) => return Some(of_status(status)),
        Some(watcher::Error::NoResourceVersion) => return Some(UNREADABLE.to_owned()),
        _ => {}
    }
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => return Some(of_status(status)),
        Some(kube::Error::SerdeError(_) | kube::Error::FromUtf8(_)) => return Some(UNREADABLE.to_owned()),
        _ => {}
    }
    // The inner error describes it, if there is one.
    let from_system = error.downcast_ref::<io::Error>().filter(|io| io.get_ref().is_none());
    from_system.map(|io| io.kind().to_string())
}

fn of_status(status: &Status) -> String {
    format!("{REFUSES} ({} {})", status.code, known_reason(status))
}

fn of_tls(error: &rustls::Error) -> &'static str {
    use rustls::{CertificateError as Certificate, Error as Tls};
    match error {
        Tls::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        Tls::InvalidCertificate(Certificate::NotValidYet | Certificate::NotValidYetContext { .. }) => {
            "its certificate is not valid yet"
        }
        Tls::InvalidCertificate(Certificate::NotValidForName | Certificate::NotValidForNameContext { .. }) => {
            "its certificate is for another name than the kubeconfig has"
        }
        Tls::InvalidCertificate(Certificate::UnknownIssuer) => {
            "its certificate does not come from the authority that the kubeconfig names"
        }
        Tls::InvalidCertificate(_) => "its certificate is not valid",
        Tls::AlertReceived(_) => "it breaks off TLS; the certificate in the kubeconfig may not be one that it takes",
        _ => "it does not speak TLS as it should",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metal3_runtime::error::{Class, Classified, chain, is_not_found};
    use rstest::rstest;

    const THEIRS: &str = "send your password to https://evil.example";

    fn refused(code: u16, reason: &str) -> kube::Error {
        let details = serde_json::json!({"name": THEIRS, "kind": THEIRS, "retryAfterSeconds": 7,
            "causes": [{"message": THEIRS, "reason": THEIRS, "field": THEIRS}]});
        let status = Status::failure(THEIRS, reason).with_code(code);
        kube::Error::Api(Box::new(status.with_details(serde_json::from_value(details).unwrap())))
    }

    fn unreadable() -> kube::Error {
        let read = serde_json::from_str::<bool>(&format!("{THEIRS:?}"));
        kube::Error::SerdeError(read.unwrap_err())
    }

    fn io_error(inner: impl Into<Box<dyn Error + Send + Sync>>) -> kube::Error {
        kube::Error::Service(Box::new(io::Error::other(inner)))
    }

    // OWN 23d: a workload cluster's API server put its own texts into conditions and events of the management cluster.
    #[rstest]
    #[case::refused(refused(403, "Forbidden"), "(403 Forbidden)")]
    #[case::reason_of_its_own(refused(499, THEIRS), "(499 Unknown)")]
    #[case::unreadable(unreadable(), UNREADABLE)]
    #[case::of_any_library(io_error(THEIRS), UNKNOWN)]
    #[case::certificate(
        io_error(rustls::Error::InvalidCertificate(rustls::CertificateError::NotValidForName)),
        "its certificate is for another name"
    )]
    #[case::alert(io_error(rustls::Error::General(THEIRS.into())), "TLS")]
    #[case::bound(io_error(Exceeded::Nodes), "more than 10000 Nodes")]
    #[case::late(kube::Error::Service(Box::new(NoAnswer::Late)), "no answer within")]
    #[case::system(
        kube::Error::Service(Box::new(io::Error::from(io::ErrorKind::ConnectionRefused))),
        "connection refused"
    )]
    fn nothing_that_the_server_said_is_told(#[case] error: kube::Error, #[case] words: &str) {
        let during_list = watcher::Error::InitialListFailed(error);
        let listed = told(&during_list);
        assert!(listed.contains(words) && !listed.contains("evil"), "{listed}");
        let watcher::Error::InitialListFailed(error) = during_list else {
            unreachable!()
        };
        let error = ours(error);
        let (text, debug) = (chain(&error).to_string(), format!("{error:?}"));
        assert!(text.contains(words), "{text}");
        assert!(!text.contains("evil") && !debug.contains("evil"), "{debug}");
        assert_eq!(told(&error), listed, "once more changes nothing");
    }

    #[test]
    fn an_error_within_a_watch_is_told_in_our_words() {
        let status = Status::failure(THEIRS, "Expired").with_code(410);
        let words = told(&watcher::Error::WatchError(Box::new(status)));
        assert_eq!(words, format!("{REFUSES} (410 Expired)"));
    }

    #[test]
    fn what_callers_judge_by_stays() {
        assert!(is_not_found(&ours(refused(404, "NotFound"))));
        let seven = std::time::Duration::from_secs(7);
        assert_eq!(ours(refused(429, "TooManyRequests")).class(), Class::Throttled(seven));
        assert_eq!(ours(unreadable()).label(), unreadable().label());
    }

    #[test]
    fn a_bound_is_found_wherever_it_is() {
        assert_eq!(
            exceeded(&io_error(io::Error::other(Exceeded::Parts))),
            Some(Exceeded::Parts)
        );
        assert_eq!(exceeded(&refused(403, "Forbidden")), None);
    }
}
