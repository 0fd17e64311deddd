//! A conversion webhook in the test's own process, so that objects of kinds with two versions can be had in both.

use std::net::TcpListener;

use anyhow::{Context, Result};
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use k8s_openapi::ByteString;
use kube::api::DynamicObject;
use metal3_api::infra::convert;
use metal3_lab::pki::Authority;
use serde_json::{Value, json};

/// Where the API server finds the webhook: the `clientConfig` of a definition.
pub struct Webhook(Value);

impl Webhook {
    /// Starts it. It ends with the process.
    pub fn start(authority: &Authority) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port for the conversion webhook")?;
        listener
            .set_nonblocking(true)
            .context("cannot prepare the conversion webhook's port")?;
        let address = listener.local_addr().context("the conversion webhook has no address")?;
        let pair = authority.server("conversion", &[])?;
        // Tests have a runtime each, and it must outlive them all.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no runtime for the conversion webhook")?;
        std::thread::Builder::new()
            .name("conversion".to_owned())
            .spawn(move || {
                let served = runtime.block_on(async {
                    let tls = RustlsConfig::from_pem(pair.certificate.into_bytes(), pair.key.into_bytes()).await?;
                    let router = Router::new()
                        .route("/convert", post(review))
                        .layer(DefaultBodyLimit::disable());
                    axum_server::from_tcp_rustls(listener, tls)?
                        .serve(router.into_make_service())
                        .await
                });
                if let Err(error) = served {
                    tracing::error!(%error, "the conversion webhook has ended");
                }
            })
            .context("no thread for the conversion webhook")?;
        let authority = ByteString(authority.certificate().as_bytes().to_vec());
        Ok(Self(
            json!({ "url": format!("https://{address}/convert"), "caBundle": authority }),
        ))
    }

    /// Makes a definition that is converted by a webhook ask this one.
    pub fn put_into(&self, definition: &mut DynamicObject) {
        if let Some(config) = definition.data.pointer_mut("/spec/conversion/webhook/clientConfig") {
            *config = self.0.clone();
        }
    }
}

/// Answers a ConversionReview.
async fn review(Json(review): Json<Value>) -> Json<Value> {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().cloned().unwrap_or_default();
    let converted: Result<Vec<Value>, _> = objects.into_iter().map(|object| convert(object, wanted)).collect();
    let mut response = match converted {
        Ok(objects) => json!({ "convertedObjects": objects, "result": { "status": "Success" } }),
        Err(error) => {
            let message = format!("{:#}", anyhow::Error::from(error));
            json!({ "convertedObjects": [], "result": { "status": "Failure", "message": message } })
        }
    };
    response["uid"] = request["uid"].clone();
    Json(json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response }))
}
