//! Bounds on every request to the API server, whatever a user wrote into a name.
//!
//! kube puts a name into the path of a request without encoding it, and many names are texts that users write. With
//! `?watch=true` as the name of a Secret, a read of one object would be a watch of all Secrets, which does not end.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body as AnyBody, Bytes, HttpBody};
use axum::http::{Request, Response, StatusCode, Uri};
use http_body::Frame;
use kube::client::Body;
use serde_json::json;
use tokio::time::Sleep;
use tower::{Layer, Service};

use crate::BoxError;
use crate::timing::process::WHOLE_ANSWER;

/// Answers a request whose path no object can have with 404 and without the API server, and ends an answer that takes too
/// long. A watch may take as long as it likes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard;

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded(inner)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Guarded<S>(S);

impl<S, B> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Timed>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !request.uri().path().split('/').skip(1).all(is_segment) {
            return Box::pin(async { Ok(not_found()) });
        }
        let is_watch = is_watch(request.uri());
        let answer = self.0.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Timed::new(AnyBody::new(body), is_watch))) })
    }
}

/// Whether this may be one segment of a path: the name of an object, or what the API itself has in paths.
fn is_segment(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !matches!(text, "" | "." | "..") && text.bytes().all(is_allowed)
}

/// Whether this is a watch of a collection. A name with a query in it asks for a watch of one object, which we never do.
fn is_watch(uri: &Uri) -> bool {
    let is_asked = uri
        .query()
        .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
    let mut segments = uri.path().split('/').skip(1);
    let version = if segments.next() == Some("api") { 1 } else { 2 };
    let rest: Vec<_> = segments.skip(version).collect();
    is_asked && matches!(rest[..], [_] | ["namespaces", _, _])
}

/// What the API server answers for an object that does not exist: no object has such a name.
fn not_found() -> Response<Timed> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "reason": "NotFound",
        "message": "not found: no object can have this name", "code": StatusCode::NOT_FOUND.as_u16(),
    });
    let mut answer = Response::new(Timed::new(status.to_string().into(), false));
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}

/// The rest of an answer did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("the API server has not sent the whole answer within {} s", WHOLE_ANSWER.as_secs())]
struct TooSlow;

/// The body of an answer.
pub(super) struct Timed {
    inner: AnyBody,
    end: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    fn new(inner: AnyBody, is_watch: bool) -> Self {
        let end = (!is_watch).then(|| Box::pin(tokio::time::sleep(WHOLE_ANSWER)));
        Self { inner, end }
    }
}

impl HttpBody for Timed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(TooSlow.into())));
        }
        Pin::new(&mut self.inner).poll_frame(context).map_err(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_collection_can_be_watched() {
        let is_watch = |uri: &str| is_watch(&uri.parse().unwrap());
        for uri in [
            "/api/v1/nodes?&watch=true",
            "/api/v1/namespaces/n/secrets?&watch=true&timeoutSeconds=290",
            "/apis/metal3.io/v1alpha1/baremetalhosts?&watch=true",
            "/apis/metal3.io/v1alpha1/namespaces/n/baremetalhosts?&watch=true",
        ] {
            assert!(is_watch(uri), "{uri}");
        }
        for uri in [
            "/api/v1/namespaces/n/secrets?",
            "/api/v1/namespaces/n/secrets/s?watch=true",
            "/apis/metal3.io/v1alpha1/namespaces/n/baremetalhosts/h?watch=true?",
            "/api/v1/nodes/x?watch=true",
        ] {
            assert!(!is_watch(uri), "{uri}");
        }
    }

    #[test]
    fn only_what_an_object_can_be_called_is_a_segment() {
        for name in ["s", "a.b-c", "system:node", "2", "baremetalhosts.metal3.io", "v1"] {
            assert!(is_segment(name), "{name}");
        }
        for name in ["", ".", "..", "%2e%2e", "a%2fb", "a b", "ä", "a;b", "a\\b", "a@b"] {
            assert!(!is_segment(name), "{name}");
        }
    }
}
