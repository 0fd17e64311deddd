//! Ironic's rejections: the text from its various error bodies, and its meaning.

use std::time::Duration;

use serde_json::Value;

use crate::fields::MASK;
use crate::foreign::without_answers;
use crate::redact::without_url_secrets;
use crate::view::View;

/// The maximum length of an error body in a message. Proxies answer with whole web pages.
const LONGEST: usize = 600;

/// The meaning of a rejection. Ironic uses 409 and 400 for very different things, so the text counts as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Unauthorized,
    Forbidden,
    NotFound,
    Locked,
    Duplicate,
    InvalidState,
    Conflict,
    BadRequest,
    VersionUnsupported,
    Busy,
    Server,
    Unexpected,
}

impl Refusal {
    /// Classifies a status and its text. Only Ironic knows what a status means for a node: a gateway in front of it has
    /// its own reasons for a 404, a 409 or a 400, and knows no nodes.
    pub fn sort(status: u16, text: &str, is_ironics: bool) -> Self {
        if !is_ironics && matches!(status, 400 | 404 | 405 | 409 | 410 | 422) {
            return Self::Unexpected;
        }
        let text = text.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        match status {
            400 if says(&["while it is in state", "in maintenance mode", "state transition"]) => Self::InvalidState,
            400 | 405 | 411 | 413..=415 | 422 => Self::BadRequest,
            401 | 407 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 | 410 => Self::NotFound,
            406 => Self::VersionUnsupported,
            409 if says(&["is locked by host", "node is locked", "currently locked"]) => Self::Locked,
            409 if says(&["already exists", "is already associated with a node"]) => Self::Duplicate,
            409 if says(&[
                "while it is in state",
                "state transition",
                "is associated with instance",
                "resource state",
            ]) =>
            {
                Self::InvalidState
            }
            409 => Self::Conflict,
            429 | 503 => Self::Busy,
            500..=599 => Self::Server,
            _ => Self::Unexpected,
        }
    }
}

/// The readable text in an error body of Ironic, on one line. Of another body, such as that of a gateway, only the kind is told.
///
/// `secrets` of the request are masked, and those in URLs: Ironic quotes a patch that it cannot apply in full. What Ironic repeats of
/// other servers is left out.
pub(crate) fn message(body: &[u8], secrets: &[String]) -> String {
    let text = match text_of(body) {
        Some(text) => without_answers(&text),
        None if body.trim_ascii().is_empty() => String::new(),
        None if body.trim_ascii_start().starts_with(b"<") => "(a web page, not an answer of Ironic)".to_owned(),
        None => format!("({} bytes that are no answer of Ironic)", body.len()),
    };
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for secret in secrets {
        let secret = secret.split_whitespace().collect::<Vec<_>>().join(" ");
        if !secret.is_empty() {
            text = text.replace(&secret, MASK);
        }
    }
    shorten(without_url_secrets(&text))
}

/// The text of Ironic's own errors, and of those of its authentication middleware: `{"error": …}`.
fn text_of(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    (is_ironics(body) || value.get("error").is_some())
        .then(|| unwrap(&value, 0))
        .flatten()
}

/// Whether a body has the shape of Ironic's own errors.
pub(crate) fn is_ironics(body: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    ["error_message", "faultstring", "errors"]
        .iter()
        .any(|key| value.get(key).is_some())
}

/// `{"error_message": "<text, usually JSON again>"}`, `{"faultstring"}`, `{"error": {"message"}}`, in any nesting.
fn unwrap(value: &Value, depth: usize) -> Option<String> {
    if depth > 4 {
        return None;
    }
    if let Value::String(text) = value {
        let inner = serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
        return Some(
            inner
                .and_then(|inner| unwrap(&inner, depth + 1))
                .unwrap_or_else(|| text.clone()),
        );
    }
    let view = View::of(value);
    if let Some(text) = view.text("faultstring").or_else(|| view.text("message")) {
        return Some(text);
    }
    ["error_message", "error", "errors"].iter().find_map(|key| {
        let inner = value.get(key)?;
        unwrap(inner.get(0).unwrap_or(inner), depth + 1)
    })
}

fn shorten(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

/// `Retry-After` in its form of seconds. The form of a date is not used by Ironic.
pub(crate) fn retry_after(value: Option<&str>) -> Option<Duration> {
    value?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::usual(r#"{"error_message": "{\"faultcode\": \"Client\", \"faultstring\": \"Node x is locked.\", \"debuginfo\": null}"}"#, "Node x is locked.")]
    #[case::object(r#"{"error_message": {"faultcode": "Client", "faultstring": "No."}}"#, "No.")]
    #[case::plain(r#"{"error_message": "plain words"}"#, "plain words")]
    #[case::flat(r#"{"faultcode": "Server", "faultstring": "It broke."}"#, "It broke.")]
    #[case::basic_auth(
        r#"{"error": {"message": "Authorization required", "code": 401}}"#,
        "Authorization required"
    )]
    #[case::placement(r#"{"errors": [{"status": 500, "message": "Oh."}]}"#, "Oh.")]
    #[case::lines("{\"faultstring\": \"first\\n   second\"}", "first second")]
    #[case::words("bad gateway", "(11 bytes that are no answer of Ironic)")]
    #[case::page("<html><h1>502</h1></html>", "(a web page, not an answer of Ironic)")]
    #[case::other_json(r#"{"answer": 42}"#, "(14 bytes that are no answer of Ironic)")]
    #[case::gateway(r#"{"message": "no Route"}"#, "(23 bytes that are no answer of Ironic)")]
    #[case::nothing("", "")]
    fn texts_are_found(#[case] body: &str, #[case] expected: &str) {
        assert_eq!(message(body.as_bytes(), &[]), expected);
    }

    // OWN 31wd: see foreign.rs.
    #[test]
    fn an_error_has_nothing_of_a_foreign_answer() {
        let body = json!({"error_message": {"faultstring": "Validation of image href http://internal/ failed, reason: \
            ('Connection aborted.', BadStatusLine('SSH-2.0-secret'))"}});
        let text = message(body.to_string().as_bytes(), &[]);
        assert!(
            text.starts_with("Validation of image href http://internal/") && !text.contains("secret"),
            "{text}"
        );
    }

    #[test]
    fn secrets_and_long_texts_do_not_pass() {
        let body = json!({"faultstring": format!("Couldn't apply patch 'hunter2'. {}", "ä".repeat(2000))}).to_string();
        let text = message(body.as_bytes(), &["hunter2".to_owned()]);
        assert!(text.starts_with("Couldn't apply patch '******'."), "{text}");
        assert!(text.len() < 610 && text.ends_with('…'), "{}", text.len());
    }

    #[rstest]
    #[case(
        409,
        "Node ns~a is locked by host lab, please retry after the current operation is completed.",
        Refusal::Locked
    )]
    #[case(
        409,
        "Node a can not be updated while a state transition is in progress.",
        Refusal::InvalidState
    )]
    #[case(409, "Cannot update node a while it is in state inspecting.", Refusal::InvalidState)]
    #[case(409, "Node a is associated with instance b.", Refusal::InvalidState)]
    #[case(409, "A node with name a already exists.", Refusal::Duplicate)]
    #[case(409, "A node with UUID a already exists.", Refusal::Duplicate)]
    #[case(409, "A port with MAC address 52:54:00:00:00:01 already exists.", Refusal::Duplicate)]
    #[case(
        409,
        "Instance a is already associated with a node, it cannot be associated with this other node b",
        Refusal::Duplicate
    )]
    #[case(409, "Something else.", Refusal::Conflict)]
    #[case(
        400,
        "The requested action \"provide\" can not be performed on node \"a\" while it is in state \"active\".",
        Refusal::InvalidState
    )]
    #[case(
        400,
        "The deploy operation can't be performed on node a because it's in maintenance mode.",
        Refusal::InvalidState
    )]
    #[case(400, "No valid host was found. Reason: x", Refusal::BadRequest)]
    #[case(401, "Authorization required", Refusal::Unauthorized)]
    #[case(403, "", Refusal::Forbidden)]
    #[case(404, "Node a could not be found.", Refusal::NotFound)]
    #[case(406, "Request not acceptable.", Refusal::VersionUnsupported)]
    #[case(429, "", Refusal::Busy)]
    #[case(503, "lack of free conductor workers", Refusal::Busy)]
    #[case(500, "", Refusal::Server)]
    #[case(502, "", Refusal::Server)]
    #[case(418, "", Refusal::Unexpected)]
    #[case(301, "", Refusal::Unexpected)]
    fn refusals_are_sorted(#[case] status: u16, #[case] text: &str, #[case] expected: Refusal) {
        assert_eq!(Refusal::sort(status, text, true), expected);
    }

    #[rstest]
    #[case::page(b"<html><h1>404 Not Found</h1></html>")]
    #[case::nothing(b"")]
    #[case::words(b"default backend - 404")]
    #[case::other_json(b"{\"message\": \"no Route matched with those values\"}")]
    #[case::list(b"[404]")]
    fn a_gateway_knows_no_nodes(#[case] body: &[u8]) {
        assert!(!is_ironics(body));
        for status in [400, 404, 405, 409, 410, 422] {
            assert_eq!(
                Refusal::sort(status, &message(body, &[]), false),
                Refusal::Unexpected,
                "{status}"
            );
        }
        // A gateway's own answers with these meanings count like Ironic's.
        for (status, refusal) in [
            (401, Refusal::Unauthorized),
            (413, Refusal::BadRequest),
            (429, Refusal::Busy),
            (502, Refusal::Server),
        ] {
            assert_eq!(Refusal::sort(status, "", false), refusal, "{status}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds() {
        assert_eq!(retry_after(Some(" 3 ")), Some(Duration::from_secs(3)));
        assert_eq!(retry_after(Some("Fri, 31 Dec 1999 23:59:59 GMT")), None);
        assert_eq!(retry_after(None), None);
    }

    proptest! {
        #[test]
        fn any_body_gives_one_short_line(body in prop::collection::vec(any::<u8>(), 0..2000)) {
            let text = message(&body, &[]);
            prop_assert!(!text.contains('\n') && text.len() <= LONGEST + '…'.len_utf8());
        }
    }
}
