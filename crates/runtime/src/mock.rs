//! A minimal API server for tests of single requests.

use parking_lot::Mutex;
use std::sync::Arc;

use kube::Client;
use metal3_testkit::played::{self, Answer, Request};

pub use metal3_testkit::played::failure;

pub type Log = Arc<Mutex<Vec<Request>>>;

/// A server that answers every request with its own body.
pub fn echo() -> (Client, Log) {
    answering(|request| (200, request.body.clone()))
}

/// A server that answers as the function says.
pub fn answering(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> (Client, Log) {
    answering_with_text(move |request| {
        let (code, body) = answer(request);
        (code, body.to_string())
    })
}

/// The same with texts, which may be JSON that is nested too deeply for a value.
pub fn answering_with_text(answer: impl Fn(&Request) -> (u16, String) + Send + Sync + 'static) -> (Client, Log) {
    let log = Log::default();
    let (answer, requests) = (Arc::new(answer), log.clone());
    let client = played::client_of_text("default", move |request| {
        let reply = answer(&request);
        requests.lock().push(request);
        std::future::ready(reply)
    });
    (client, log)
}
