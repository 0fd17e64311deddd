//! Refusals: what they mean, and which are worth another try.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use metal3_ironic::{Client, ClientConfig, CreateNode, ErrorClass, PatchOp, Verb};
use rstest::rstest;
use serde_json::json;

use crate::server::{Counter, Server, fault, respond, status};

const LOCKED: &str = "Node u is locked by host lab, please retry after the current operation is completed.";

#[rstest]
#[case(
    409,
    "Node u can not be updated while a state transition is in progress.",
    ErrorClass::InvalidState
)]
#[case(
    409,
    "Cannot update node u while it is in state inspecting.",
    ErrorClass::InvalidState
)]
#[case(409, "A node with name n already exists.", ErrorClass::Duplicate)]
#[case(
    409,
    "Instance i is already associated with a node, it cannot be associated with this other node u",
    ErrorClass::Duplicate
)]
#[case(409, "Something new.", ErrorClass::Conflict)]
#[case(
    400,
    "The requested action \"provide\" can not be performed on node \"u\" while it is in state \"active\".",
    ErrorClass::InvalidState
)]
#[case(400, "Bad patch.", ErrorClass::BadRequest)]
#[case(403, "No.", ErrorClass::Forbidden)]
#[case(404, "Node u could not be found.", ErrorClass::NotFound)]
#[case(500, "Oh.", ErrorClass::Server)]
#[tokio::test]
async fn refusals_are_final_and_say_why(#[case] code: u16, #[case] text: &'static str, #[case] class: ErrorClass) {
    let server = Server::start(move |_, _| fault(code, text)).await;
    let error = server
        .client()
        .patch_node("ns~host", &[PatchOp::remove("/instance_uuid")])
        .await
        .unwrap_err();
    assert_eq!(error.class(), class);
    assert_eq!(error.label(), class.label());
    assert_eq!(error.status(), Some(code));
    assert_eq!(error.node(), Some("ns~host"));
    assert_eq!(
        error.to_string(),
        format!("Ironic: patching node ns~host failed: {text} (HTTP status {code})")
    );
    assert_eq!(server.seen().len(), 1);
}

/// Those that were refused without having been looked at are repeated, whatever the method.
#[rstest]
#[case(409, LOCKED)]
#[case(503, "Requested action cannot be performed due to lack of free conductor workers.")]
#[case(429, "")]
#[tokio::test]
async fn locked_and_busy_are_repeated(#[case] code: u16, #[case] text: &'static str) {
    let server = Server::start(move |seen, nth| match (seen.method.as_str(), nth) {
        (_, 0) => fault(code, text),
        ("PUT", _) => status(202),
        _ => respond(201, &json!({"uuid": "u"})),
    })
    .await;
    let counter = Arc::new(Counter::default());
    let client = Client::new(ClientConfig {
        observer: Some(counter.clone()),
        ..server.config()
    })
    .unwrap();
    client.provision("u", &Verb::Provide.into()).await.unwrap();
    client
        .create_node(&CreateNode {
            name: "n".to_owned(),
            ..CreateNode::default()
        })
        .await
        .unwrap();
    let expected = [
        &format!("provision {code}"),
        "provision 202",
        &format!("create_node {code}"),
        "create_node 201",
    ];
    assert_eq!(counter.lines(), expected);
}

#[rstest]
#[case(0, 1)]
#[case(3, 4)]
#[tokio::test]
async fn repeats_end(#[case] retries: usize, #[case] requests: usize) {
    let server = Server::start(|_, _| fault(409, LOCKED)).await;
    let client = Client::new(ClientConfig {
        retries,
        ..server.config()
    })
    .unwrap();
    let error = client.provision("u", &Verb::Provide.into()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Locked);
    assert_eq!(server.seen().len(), requests);
}

/// A long wait is for the caller to plan.
#[tokio::test]
async fn a_long_retry_after_is_handed_on() {
    let server = Server::start(|_, _| {
        let mut response = status(503);
        response
            .headers_mut()
            .insert("retry-after", HeaderValue::from_static("30"));
        response
    })
    .await;
    let error = server.client().node("u").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Busy);
    assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
    assert_eq!(error.message(), "HTTP status 503");
    assert_eq!(server.seen().len(), 1);
}

/// A redirect is not followed: that would turn a change into a read and call it a success.
#[tokio::test]
async fn redirects_are_reported() {
    let server = Server::start(|_, _| {
        let mut response = status(301);
        response.headers_mut().insert(
            "location",
            HeaderValue::from_static("https://ironic.example/v1/nodes/u"),
        );
        response
    })
    .await;
    let error = server.client().provision("u", &Verb::Provide.into()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Protocol);
    assert!(
        error
            .to_string()
            .contains("redirected to https://ironic.example/v1/nodes/u"),
        "{error}"
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn success_with_an_unreadable_body_is_an_error() {
    for (body, words) in [
        (json!([]), "not what was asked for"),
        (json!({"name": "no uuid"}), "not what was asked for"),
    ] {
        let server = Server::start(move |_, _| respond(200, &body)).await;
        let error = server.client().node("u").await.unwrap_err();
        assert_eq!((error.class(), error.status()), (ErrorClass::Protocol, Some(200)));
        assert!(error.to_string().contains(words), "{error}");
    }
    let server = Server::start(|_, _| status(200)).await;
    let error = server.client().node("u").await.unwrap_err();
    assert!(error.to_string().contains("not JSON"), "{error}");
}

// OWN 5a: a gateway's page with status 404 counted as the word of Ironic that there is no such node.
#[rstest]
#[case::page("<html><h1>404 Not Found</h1></html>")]
#[case::nothing("")]
#[case::other_json("{\"message\": \"no Route matched with those values\"}")]
#[tokio::test]
async fn only_ironic_can_say_that_there_is_no_node(
    #[case] body: &'static str,
    #[values(400, 404, 409, 410)] code: u16,
) {
    let server = Server::start(move |_, _| {
        let mut answer = status(code);
        *answer.body_mut() = body.into();
        answer
    })
    .await;
    let client = server.client();
    for error in [
        client.node("u").await.unwrap_err(),
        client.delete_node("u").await.unwrap_err(),
        client
            .patch_node("u", &[PatchOp::remove("/instance_uuid")])
            .await
            .unwrap_err(),
    ] {
        assert_eq!(
            (error.class(), error.status()),
            (ErrorClass::Protocol, Some(code)),
            "{error}"
        );
    }
    let server = Server::start(|_, _| fault(404, "Node u could not be found.")).await;
    assert!(server.client().node("u").await.unwrap().is_none());
}
