//! What makes a pass fail as a whole: a request that does.

use metal3_runtime::error::{Class, Classified, chain};
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

impl PassError {
    /// What the API server has against it, in words, if it will not do it until somebody changes something: rights, a
    /// quota, a policy, a field that it does not accept.
    ///
    /// What is gone (404, 410) or was written by somebody else first (409) the next look will show.
    pub fn refusal(&self) -> Option<String> {
        let kube::Error::Api(status) = &self.source else {
            return None;
        };
        let is_for_good = (400..500).contains(&status.code) && ![401, 404, 408, 409, 410, 429].contains(&status.code);
        is_for_good.then(|| chain(self).to_string())
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

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use rstest::rstest;

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
        let source = kube::Error::Api(Box::new(Status::failure("the words", "Reason").with_code(code)));
        let error = PassError::of("claim the host", "Metal3Machine", &ObjectKey::new("ns", "m"))(source);
        let words = format!("cannot claim the host of Metal3Machine ns/m: the words ({code} Reason)");
        assert_eq!(error.refusal(), is_refusal.then_some(words));
    }
}
