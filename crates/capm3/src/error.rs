//! Errors that fail a whole pass: failed requests.

use std::fmt;

use kube::core::Status;
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::store::ObjectKey;

use crate::conditions::cut;

/// A failed request and its purpose.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {subject}")]
pub struct PassError {
    /// The purpose, such as `store the status`.
    pub what: &'static str,
    /// The object, such as `of Metal3Machine metal3/m`.
    pub subject: String,
    /// The client's error.
    #[source]
    pub source: kube::Error,
}

/// Identifies a failure independently of the server's wording: a message that contains a time or a request number would make each
/// attempt look new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    what: &'static str,
    subject: String,
    code: u16,
    reason: String,
}

impl PassError {
    /// The key that identifies the failure.
    pub fn identity(&self) -> Identity {
        let (code, reason) = match &self.source {
            kube::Error::Api(status) => (status.code, status.reason.clone()),
            _ => (0, String::new()),
        };
        Identity {
            what: self.what,
            subject: self.subject.clone(),
            code,
            reason,
        }
    }

    /// Adds the purpose and the object, for `map_err`.
    pub fn of(what: &'static str, kind: impl fmt::Display, key: &ObjectKey) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self {
            what,
            subject: format!("of {kind} {key}"),
            source,
        }
    }

    /// The same for an object that it creates or uses, such as `BareMetalHost h`.
    pub fn with(
        what: &'static str,
        object: Option<String>,
        kind: impl fmt::Display,
        key: &ObjectKey,
    ) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self {
            what,
            subject: match object {
                Some(object) => format!("of {kind} {key}, {object}"),
                None => format!("of {kind} {key}"),
            },
            source,
        }
    }

    /// The API server's message, if the rejection lasts until a user changes something: permissions, a quota, a policy, an
    /// invalid field, a kind that is not installed.
    ///
    /// Not found (404, 410) and conflicts (409) are excluded: the next read shows them.
    pub fn refusal(&self) -> Option<String> {
        let kube::Error::Api(status) = &self.source else {
            return None;
        };
        let words = || brief(&chain(self).to_string());
        if status.code == 404 && !names_object(status) {
            return Some(format!("{}: is its kind installed?", words()));
        }
        let is_for_good = (400..500).contains(&status.code) && ![401, 404, 408, 409, 410, 429].contains(&status.code);
        is_for_good.then(words)
    }

    /// The API server's message, if the server itself fails. This may be temporary or last: an admission webhook that does not
    /// respond, an etcd without a leader.
    pub fn failure(&self) -> Option<String> {
        let kube::Error::Api(status) = &self.source else {
            return None;
        };
        if !(500..600).contains(&status.code) {
            return None;
        }
        // A proxy's message may be a whole page.
        let mut words = brief(&chain(self).to_string());
        cut(&mut words, LONGEST_FAILURE);
        Some(words)
    }
}

/// Maximum bytes of a failure message.
const LONGEST_FAILURE: usize = 1_000;

/// Whether a 404 is about a missing object. If the path is not served because the kind is not installed, the response names no
/// object.
fn names_object(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

/// Longer words of a rejection are truncated: the server repeats an overlong name twice, which would not fit a status message.
const LONGEST_WORD: usize = 80;

fn brief(words: &str) -> String {
    let short = words.split_whitespace().map(|word| {
        let mut short = word.to_owned();
        if word.len() > LONGEST_WORD {
            cut(&mut short, LONGEST_WORD);
            short.push('…');
        }
        short
    });
    short.collect::<Vec<_>>().join(" ")
}

impl Classified for PassError {
    fn class(&self) -> Class {
        self.source.class()
    }

    fn label(&self) -> &'static str {
        self.source.label()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::StatusDetails;
    use rstest::rstest;

    fn refused(status: Status) -> Option<String> {
        let source = kube::Error::Api(Box::new(status));
        PassError::of("claim the host", "Metal3Machine", &ObjectKey::new("ns", "m"))(source).refusal()
    }

    #[rstest]
    #[case(400, true)]
    #[case(401, false)]
    #[case(403, true)]
    #[case(404, false)]
    #[case(409, false)]
    #[case(422, true)]
    #[case(429, false)]
    #[case(500, false)]
    fn a_refusal_is_what_trying_again_does_not_mend(#[case] code: u16, #[case] is_refusal: bool) {
        let named: StatusDetails = serde_json::from_value(serde_json::json!({"name": "m"})).unwrap();
        let status = Status::failure("the words", "Reason")
            .with_code(code)
            .with_details(named);
        let words = format!("cannot claim the host of Metal3Machine ns/m: the words ({code} Reason)");
        assert_eq!(refused(status), is_refusal.then_some(words));
    }

    #[test]
    fn a_kind_that_is_not_installed_is_a_refusal() {
        // If the kind is not served, the response is this text instead of a Status.
        let status = Status::failure("404 page not found", "Failed to parse error data").with_code(404);
        let words = refused(status).unwrap();
        assert!(words.ends_with("is its kind installed?"), "{words}");
    }

    #[test]
    fn what_the_server_cannot_do_is_a_failure_however_long_its_words_are() {
        let failed = |code: u16, words: &str| {
            let source = kube::Error::Api(Box::new(Status::failure(words, "InternalError").with_code(code)));
            PassError::of("claim the host", "Metal3Machine", &ObjectKey::new("ns", "m"))(source).failure()
        };
        let words = "failed calling webhook \"hosts.example.org\": no endpoints available";
        assert!(failed(500, words).unwrap().contains(words));
        assert!(failed(504, "<p> page </p> ".repeat(500).as_str()).unwrap().len() <= LONGEST_FAILURE);
        assert_eq!(failed(403, words), None);
    }

    #[test]
    fn what_is_said_of_a_long_name_leaves_room_for_what_is_wrong_with_it() {
        let name = "x".repeat(300);
        let words = format!("IPClaim \"{name}\" is invalid: metadata.name: Invalid value: \"{name}\": must be no more");
        let said = refused(Status::failure(&words, "Invalid").with_code(422)).unwrap();
        assert!(said.len() < 400 && said.contains("must be no more"), "{said}");
    }
}
