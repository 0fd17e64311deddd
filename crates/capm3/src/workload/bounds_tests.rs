//! Servers on loopback that attack.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, WatchParams};
use metal3_runtime::error::chain;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

/// Answers every request with this head, and then with this text for ever.
async fn endless(head: &'static str, text: &'static str) -> (Client, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut callers = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            callers.spawn(async move {
                let mut request = [0; 4096];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                stream.write_all(head.as_bytes()).await.unwrap();
                let text = text.repeat(64 << 10);
                while !text.is_empty() && stream.write_all(text.as_bytes()).await.is_ok() {}
            });
        }
    });
    let config = kube::Config::new(url.parse().unwrap());
    (bounded(Client::try_from(config).unwrap()), server)
}

const OK: &str = "HTTP/1.1 200 OK\r\n\r\n";

async fn within<T>(request: impl Future<Output = Result<T, kube::Error>>) -> String {
    let answer = tokio::time::timeout(Duration::from_secs(20), request).await;
    let error = answer.expect("the body is bounded").err().unwrap();
    chain(&error).to_string()
}

// OWN 23a: a workload cluster that streams for ever filled the memory of all.
#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    for (head, text, told) in [
        (OK, " ", "more than 16777216 bytes"),
        (OK, "{},", "100000 JSON objects"),
        ("HTTP/1.1 500 No\r\n\r\n", "x", "more than 65536 bytes"),
    ] {
        let (client, _server) = endless(head, text).await;
        let nodes: Api<Node> = Api::all(client);
        let error = within(nodes.list(&ListParams::default())).await;
        assert!(error.contains(told), "{error}");
    }
}

#[tokio::test]
async fn an_endless_line_of_a_watch_is_cut_off() {
    use futures::TryStreamExt;
    let (client, _server) = endless(OK, "x").await;
    let nodes: Api<Node> = Api::all(client);
    let error = within(async {
        let events = nodes.watch(&WatchParams::default(), "0").await?;
        std::pin::pin!(events).try_next().await
    })
    .await;
    assert!(error.contains("more than 4194304 bytes"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let head = format!("HTTP/1.1 307 Elsewhere\r\nlocation: http://{to}/\r\ncontent-length: 0\r\n\r\n");
    let (client, _server) = endless(head.leak(), "").await;
    let nodes: Api<Node> = Api::all(client);
    assert!(
        tokio::time::timeout(Duration::from_secs(2), nodes.get("n"))
            .await
            .is_ok_and(|n| n.is_err())
    );
    let asked = tokio::time::timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(asked.is_err(), "the credentials went to another host");
}

#[test]
fn a_text_of_the_server_is_short_and_in_one_line() {
    let text = told(&format!("a\n\u{1b}[31m{}", "ß".repeat(1 << 20)));
    assert!(text.len() <= MOST_TEXT && text.starts_with("a  [31m"), "{text}");
}
