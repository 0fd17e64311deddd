//! The envelope that both kinds of reviews have.

use axum::http::StatusCode;
use kube::core::TypeMeta;
use serde::Deserialize;

use super::answer::Answer;

/// A kind of review.
pub(super) struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its group and versions, which have the same fields.
    pub versions: [&'static str; 2],
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review<R> {
    api_version: String,
    kind: String,
    request: Option<R>,
}

/// Reads the request of a review, and the type of the review for the response. Otherwise the answer is what is wrong.
pub(super) fn read<'a, R: Deserialize<'a>>(body: &'a [u8], of: &Kind) -> Result<(TypeMeta, R), Answer> {
    let Kind { name, versions } = of;
    let refused = |message: String| Answer::failed(StatusCode::BAD_REQUEST, message);
    let Review {
        api_version,
        kind,
        request,
    } = serde_json::from_slice(body).map_err(|error| refused(format!("this is no {name}: {error}")))?;
    if kind != *name || !versions.contains(&api_version.as_str()) {
        let expected = versions[0];
        return Err(refused(format!(
            "this is {api_version} {kind}, where {name} of {expected} is expected"
        )));
    }
    let request = request.ok_or_else(|| refused(format!("the {name} has no request")))?;
    Ok((TypeMeta { api_version, kind }, request))
}
