//! Requests that carry JSON as it is, so that no type of ours can hide what the API server does.

use crate::objects::{Kind, plain};
use http::{Method, Request};
use metal3_testkit::TestNamespace;
use serde_json::Value;

/// One kind in one namespace. Requests are refused if the body has a field that the definition does not know, or has one
/// twice. An answer is the object, or the message of the refusal.
pub struct Server<'a> {
    namespace: &'a TestNamespace,
    kind: &'a Kind,
}

/// Whether the API server does what it is asked, or only answers as if.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Run {
    Wet,
    Dry,
}

impl<'a> Server<'a> {
    pub fn new(namespace: &'a TestNamespace, kind: &'a Kind) -> Self {
        Self { namespace, kind }
    }

    /// Makes an object.
    pub async fn create(&self, object: &Value, run: Run) -> Result<Value, String> {
        self.send(Method::POST, "", object, run).await
    }

    /// Replaces an object's status, by way of the subresource.
    pub async fn replace_status(&self, object: &Value, run: Run) -> Result<Value, String> {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.send(Method::PUT, &format!("/{name}/status"), object, run).await
    }

    async fn send(&self, method: Method, below: &str, object: &Value, run: Run) -> Result<Value, String> {
        let (api, plural, namespace) = (self.kind.api_version(), self.kind.plural(), &self.namespace.name);
        let dry = if run == Run::Dry { "&dryRun=All" } else { "" };
        let uri = format!("/apis/{api}/namespaces/{namespace}/{plural}{below}?fieldValidation=Strict{dry}");
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(object).unwrap())
            .unwrap();
        let answer = self.namespace.client.request::<Value>(request).await;
        answer.map(plain).map_err(|error| match error {
            kube::Error::Api(status) => status.message,
            other => other.to_string(),
        })
    }
}
