//! The response to a review.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::Serialize;

/// The response to the API server.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    /// JSON where the status is 200, plain text otherwise.
    pub body: Vec<u8>,
    pub verdict: Verdict,
    /// The number of converted objects of each kind.
    pub converted: BTreeMap<String, u64>,
}

/// The result of a review, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Admitted, or converted.
    Done,
    /// An object breaks a rule.
    Refused,
    /// The review, or an object in it, is not usable.
    Failed,
}

impl Verdict {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl Answer {
    pub fn review(review: &impl Serialize, verdict: Verdict) -> Self {
        match serde_json::to_vec(review) {
            Ok(body) => Self {
                status: StatusCode::OK,
                body,
                verdict,
                converted: BTreeMap::new(),
            },
            Err(error) => Self::failed(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("cannot write the review: {error}"),
            ),
        }
    }

    /// The response to an invalid review, or one that cannot be answered.
    pub fn failed(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            body: message.into().into_bytes(),
            verdict: Verdict::Failed,
            converted: BTreeMap::new(),
        }
    }
}
