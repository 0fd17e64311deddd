//! What makes a pass fail as a whole: a request that does.

use std::fmt;

use kube::core::Status;
use metal3_runtime::error::{Class, Classified, chain};
use metal3_runtime::store::ObjectKey;

use crate::conditions::cut;

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

/// What makes two failures the same one, however the words of the server differ: a message that has the time or the number
/// of the request in it would make each attempt a new failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    what: &'static str,
    subject: String,
    code: u16,
    reason: String,
}

impl PassError {
    /// What makes it the same failure as another.
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

    /// Says what was to be done with an object of this kind, for `map_err`.
    pub fn of(what: &'static str, kind: impl fmt::Display, key: &ObjectKey) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self {
            what,
            subject: format!("of {kind} {key}"),
            source,
        }
    }

    /// The same for one of the objects that it makes or uses, such as `BareMetalHost h`.
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

    /// What the API server has against it, in words, if it will not do it until somebody changes something: rights, a
    /// quota, a policy, a field that it does not accept, a kind that is not installed.
    ///
    /// What is gone (404, 410) or was written by somebody else first (409) the next look will show.
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

    /// What the API server says if it is the one that cannot do it now, in words. That may pass, or last: an admission webhook
    /// that does not answer, a store that has lost its leader.
    pub fn failure(&self) -> Option<String> {
        let kube::Error::Api(status) = &self.source else {
            return None;
        };
        if !(500..600).contains(&status.code) {
            return None;
        }
        // What a proxy says may be a whole page.
        let mut words = brief(&chain(self).to_string());
        cut(&mut words, LONGEST_FAILURE);
        Some(words)
    }
}

/// As many bytes of a failure are told.
const LONGEST_FAILURE: usize = 1_000;

/// Whether a 404 is about an object that is not there. That of a path which is not served, because the kind is not
/// installed, names none.
fn names_object(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

/// A word of a refusal that is longer is cut: what the server says of a name that is too long has it twice, and a message in
/// a status has no room for that.
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
        // Where the kind is not served the answer is this text, and no status.
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
