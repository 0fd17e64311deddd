//! Bounds on every request to the API server, whatever a user wrote into a name.
//!
//! kube puts a name into the path of a request without encoding it, and many names are texts that users write. With
//! `?watch=true` as the name of a Secret, a read of one object would be a watch of all Secrets, which does not end. What follows
//! a `#` is cut off before a request is seen here: [`find`](crate::find::find) reads by a name that a user wrote.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body as AnyBody, Bytes, HttpBody};
use axum::http::{Method, Request, Response, StatusCode, Uri};
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
        let target = Target::of(request.uri());
        if !target.is_of_kube(request.method(), request.uri()) {
            return Box::pin(async { Ok(not_found()) });
        }
        let is_watch = target == Target::Collection && is_watch(request.uri());
        let answer = self.0.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Timed::new(AnyBody::new(body), is_watch))) })
    }
}

/// What a request is about, by the number of segments of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// What the server can do: `/version`, `/apis/metal3.io/v1alpha1`.
    Server,
    /// All objects of a kind, or those of a namespace. Namespaces themselves are such objects.
    Collection,
    Object,
    /// The status of an object, which we write and never read by itself.
    Status,
    /// Nothing that we have a request for.
    Other,
}

impl Target {
    fn of(uri: &Uri) -> Self {
        let segments: Vec<_> = uri.path().split('/').skip(1).collect();
        if !segments.iter().all(|segment| is_segment(segment)) {
            return Self::Other;
        }
        let (["api", _, of_group @ ..] | ["apis", _, _, of_group @ ..]) = &segments[..] else {
            return Self::Server;
        };
        match of_group {
            [] => Self::Server,
            ["namespaces", _, _] | [_] => Self::Collection,
            ["namespaces", _, _, _] | [_, _] => Self::Object,
            ["namespaces", _, _, _, "status"] | [_, _, "status"] => Self::Status,
            _ => Self::Other,
        }
    }

    /// Whether kube makes this request from a name that an object can have. It reads an object without a query. In other requests
    /// for objects, lists included, it puts a `?` after the path, then pairs that begin with `&`, in which a `?` of our own would be
    /// encoded.
    fn is_of_kube(self, method: &Method, uri: &Uri) -> bool {
        let is_read = matches!(*method, Method::GET | Method::DELETE);
        match (self, uri.query()) {
            (Self::Object, query) if method == Method::GET => query.is_none(),
            (Self::Status, _) if is_read => false,
            (Self::Other, _) | (Self::Collection | Self::Object | Self::Status, None) => false,
            (_, query) => query.is_none_or(|query| !query.contains('?') && matches!(query.as_bytes(), [] | [b'&', ..])),
        }
    }
}

/// Whether this may be one segment of a path: the name of an object, or what the API itself has in paths.
fn is_segment(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    !matches!(text, "" | "." | "..") && text.bytes().all(is_allowed)
}

/// Whether this asks for a watch, if it is about a collection. A name with a query in it asks for a watch of one object, which we
/// never do.
fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|pair| pair == "watch=true")
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

    fn is_sent(method: &Method, uri: &str) -> bool {
        let uri = uri.parse().unwrap();
        Target::of(&uri).is_of_kube(method, &uri)
    }

    #[test]
    fn only_a_collection_can_be_watched() {
        let is_watch = |uri: &str| {
            let uri: Uri = uri.parse().unwrap();
            Target::of(&uri) == Target::Collection && is_watch(&uri)
        };
        for uri in [
            "/api/v1/nodes?&watch=true",
            "/api/v1/namespaces/n/secrets?&watch=true&timeoutSeconds=290",
            "/apis/metal3.io/v1alpha1/baremetalhosts?&watch=true",
            "/apis/metal3.io/v1alpha1/namespaces/n/baremetalhosts?&watch=true",
        ] {
            assert!(is_watch(uri) && is_sent(&Method::GET, uri), "{uri}");
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

    // OWN 31wb: the name `s?x=1` read the Secret `s`, and `a/status` the host `a`.
    #[test]
    fn a_name_is_one_segment_and_nothing_else() {
        const ALL: [Method; 4] = [Method::GET, Method::PUT, Method::PATCH, Method::DELETE];
        let secrets = "/api/v1/namespaces/n/secrets";
        let hosts = "/apis/metal3.io/v1alpha1/namespaces/n/baremetalhosts";
        for (method, uri) in [
            (Method::GET, "/version".to_owned()),
            (Method::GET, "/apis/metal3.io/v1alpha1".to_owned()),
            (Method::GET, format!("{secrets}/s")),
            (Method::GET, format!("{secrets}?")),
            (Method::GET, format!("{secrets}?&limit=500")),
            (Method::GET, "/api/v1/namespaces/n".to_owned()),
            (Method::POST, format!("{secrets}?")),
            (Method::POST, "/apis/authentication.k8s.io/v1/tokenreviews?".to_owned()),
            (Method::PUT, format!("{hosts}/h?&fieldManager=a%3F")),
            (Method::PATCH, format!("{hosts}/h/status?&fieldManager=a")),
            (Method::PUT, format!("{hosts}/h/status?")),
            (Method::DELETE, format!("{secrets}/s?")),
        ] {
            assert!(is_sent(&method, &uri), "{method} {uri}");
        }
        for method in ALL {
            let end = if method == Method::GET { "" } else { "?&fieldManager=a" };
            for name in [
                "s?x=1",
                "s?watch=true",
                "s/x",
                "a/status/status",
                "a/b/c",
                "s?x=1#",
                "?x=1",
            ] {
                let uri = format!("{secrets}/{name}{end}");
                assert!(!is_sent(&method, &uri), "{method} {uri}");
            }
        }
        for method in [Method::GET, Method::DELETE] {
            assert!(!is_sent(&method, &format!("{hosts}/a/status")), "{method}");
        }
    }

    // OWN 31wm: a read of the Namespace `n/secrets` was a list of Secrets.
    #[test]
    fn the_name_of_an_object_of_the_cluster_leads_to_no_list() {
        let read = kube::core::Request::new("/api/v1/namespaces").get("n/secrets", &kube::api::GetParams::default());
        assert!(!is_sent(&Method::GET, &read.unwrap().uri().to_string()));
        let list = kube::core::Request::new("/api/v1/namespaces/n/secrets").list(&kube::api::ListParams::default());
        assert!(is_sent(&Method::GET, &list.unwrap().uri().to_string()));
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
