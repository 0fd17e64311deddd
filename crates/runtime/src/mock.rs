//! An API server of a few lines, for tests of single requests.

use std::sync::{Arc, Mutex};

use kube::{
    Client,
    client::Body,
    core::{Status, response::StatusSummary},
};
use serde_json::Value;

/// What was asked of the server.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub body: Value,
}

pub type Log = Arc<Mutex<Vec<Asked>>>;

/// A server that answers every request with its own body.
pub fn echo() -> (Client, Log) {
    answering(|request| (200, request.body.clone()))
}

/// A status answer for [`answering`].
pub fn failure(code: u16, reason: &str) -> (u16, Value) {
    let mut status = Status::failure("mock", reason).with_code(code);
    status.status = Some(StatusSummary::Failure);
    (code, serde_json::to_value(status).unwrap())
}

/// A server that answers as the function says.
pub fn answering(answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> (Client, Log) {
    let log = Log::default();
    let (answer, requests) = (Arc::new(answer), log.clone());
    let service = tower::service_fn(move |request: axum::http::Request<Body>| {
        let (answer, requests) = (answer.clone(), requests.clone());
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await?;
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let asked = Asked {
                method: parts.method.to_string(),
                path: parts.uri.path().to_owned(),
                body,
            };
            let (code, body) = answer(&asked);
            requests.lock().unwrap().push(asked);
            let response = axum::http::Response::builder()
                .status(code)
                .body(Body::from(body.to_string().into_bytes()));
            Ok::<_, kube::Error>(response.unwrap())
        }
    });
    (Client::new(service, "default"), log)
}
