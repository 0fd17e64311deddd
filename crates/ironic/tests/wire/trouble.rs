//! Connections that fail, break and stall.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::stream;
use metal3_ironic::{Client, ClientConfig, CreateNode, ErrorClass, Url, Verb};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::server::{Counter, Server, config, respond, v1};

/// What a server does with the nth request that is not discovery.
#[derive(Clone, Copy)]
enum Act {
    /// Closes without a byte of answer.
    Hang,
    /// Says these bytes, then closes.
    Say(&'static str),
}

const OK: Act = Act::Say("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"uuid\":\"u\"}");
const HALF: Act = Act::Say("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"uuid\": \"u\",");

/// One request per connection, answered in bytes.
async fn raw_server(acts: &'static [Act]) -> (Url, Arc<AtomicUsize>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut bytes = [0; 4096];
                match stream.read(&mut bytes).await {
                    Ok(0) | Err(_) => break,
                    Ok(n) => request.extend_from_slice(&bytes[..n]),
                }
            }
            if request.starts_with(b"GET / ") {
                let body = v1("1.115").to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all((head + &body).as_bytes()).await.unwrap();
                continue;
            }
            let nth = counted.fetch_add(1, Ordering::SeqCst);
            match acts.get(nth).unwrap_or(acts.last().unwrap()) {
                Act::Hang => {}
                Act::Say(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            }
        }
    });
    (url, count, tasks)
}

/// Answers that never end, and how many pieces of 64 KiB were taken of them.
async fn endless(status: u16) -> (Server, Arc<AtomicUsize>) {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = taken.clone();
    let server = Server::start(move |_, _| {
        let count = count.clone();
        let pieces = stream::repeat_with(move || {
            count.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Bytes::from(vec![b' '; 1 << 16]))
        });
        let body = Body::from_stream(pieces);
        Response::builder().status(status).body(body).unwrap()
    });
    (server.await, taken)
}

// OWN 30xc: answers of any size were kept in memory.
#[tokio::test]
async fn of_an_answer_without_an_end_a_part_is_read() {
    let (server, _) = endless(200).await;
    let error = server.client().node("u").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Protocol, "{error}");
    assert!(error.to_string().contains("the answer has more than 64 MiB"), "{error}");
    let (server, taken) = endless(400).await;
    let error = server.client().node("u").await.unwrap_err();
    assert!(error.to_string().contains("HTTP status 400"), "{error}");
    // What the sockets hold is taken, too.
    let taken = taken.load(Ordering::SeqCst);
    assert!(taken < 500, "{taken} pieces");
}

// OWN 31se: an inventory of 64 MiB took 6 GiB when it was parsed.
#[tokio::test]
async fn an_answer_that_would_take_much_memory_is_not_parsed() {
    let inventory = |count: usize| {
        let maps = vec![r#"{"":0}"#; count].join(",");
        Server::start(move |_, _| {
            let body = format!(r#"{{"inventory":{{"interfaces":[{maps}]}}}}"#);
            Response::new(Body::from(body))
        })
    };
    let found = inventory(1000).await.client().inventory("u").await.unwrap();
    assert_eq!(found.unwrap().interfaces.len(), 1000);
    let error = inventory(1 << 20).await.client().inventory("u").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Protocol, "{error}");
    assert!(error.to_string().contains("more than 192 MiB of memory"), "{error}");
}

#[tokio::test]
async fn a_refused_connection_says_so() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("http://{}", closed.local_addr().unwrap())).unwrap();
    drop(closed);
    let counter = Arc::new(Counter::default());
    let client = Client::new(ClientConfig {
        observer: Some(counter.clone()),
        ..config(&url)
    })
    .unwrap();
    let error = client.ready().await.unwrap_err();
    assert_eq!((error.class(), error.label()), (ErrorClass::Unreachable, "refused"));
    assert_eq!(
        error.to_string(),
        "Ironic: negotiating the API version failed: connection refused"
    );
    // Nothing can have been done, so that was tried again.
    let tries: Vec<_> = counter
        .0
        .lock()
        .iter()
        .map(|exchange| exchange.outcome.to_string())
        .collect();
    assert_eq!(tries, ["refused"; 3]);
}

#[tokio::test]
async fn an_unknown_name_says_so() {
    let url = Url::parse("http://no-such-host.invalid:6385").unwrap();
    let error = Client::new(config(&url)).unwrap().ready().await.unwrap_err();
    assert_eq!(error.label(), "dns", "{error}");
    assert!(error.to_string().contains("name resolution: "), "{error}");
}

/// A connection lost before any answer: reading again is safe, changing again is not.
#[tokio::test]
async fn only_reads_are_repeated_after_a_lost_connection() {
    let (url, count, _tasks) = raw_server(&[Act::Hang, OK]).await;
    let client = Client::new(config(&url)).unwrap();
    assert!(client.node("u").await.unwrap().is_some());
    assert_eq!(count.load(Ordering::SeqCst), 2);

    let (url, count, _tasks) = raw_server(&[Act::Hang, OK]).await;
    let client = Client::new(config(&url)).unwrap();
    let error = client.provision("u", &Verb::Manage.into()).await.unwrap_err();
    assert_eq!((error.class(), error.label()), (ErrorClass::Unreachable, "interrupted"));
    assert!(
        error
            .to_string()
            .contains("changing the provision state of node u failed: connection lost"),
        "{error}"
    );
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

/// Half an answer is none where the answer matters; where the status is all, it has come.
#[tokio::test]
async fn half_answers() {
    let (url, count, _tasks) = raw_server(&[HALF]).await;
    let client = Client::new(config(&url)).unwrap();
    let error = client.node("u").await.unwrap_err();
    assert_eq!((error.class(), error.status()), (ErrorClass::Unreachable, Some(200)));
    assert!(error.to_string().contains("(after HTTP status 200)"), "{error}");
    client.create_node(&CreateNode::default()).await.unwrap_err();
    client.provision("u", &Verb::Manage.into()).await.unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);
}

/// Of a refusal whose explanation is lost nobody knows whether it is Ironic's.
#[tokio::test]
async fn half_refusals() {
    const HALF_404: Act = Act::Say("HTTP/1.1 404 Not Found\r\nContent-Length: 500\r\n\r\n{\"error_mess");
    let (url, _, _tasks) = raw_server(&[HALF_404]).await;
    let error = Client::new(config(&url)).unwrap().node("u").await.unwrap_err();
    assert_eq!((error.class(), error.status()), (ErrorClass::Protocol, Some(404)));
}

#[tokio::test]
async fn nonsense_is_not_http() {
    let (url, _, _tasks) = raw_server(&[Act::Say("SSH-2.0-OpenSSH_9.9\r\n")]).await;
    let error = Client::new(config(&url))
        .unwrap()
        .provision("u", &Verb::Manage.into())
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unreachable);
    assert!(error.to_string().contains("invalid HTTP"), "{error}");
}

#[tokio::test]
async fn a_slow_server_times_out() {
    let server = Server::start_slow(|_, _| (Duration::from_secs(60), respond(200, &serde_json::json!({})))).await;
    let timeout = Duration::from_millis(200);
    let client = Client::new(ClientConfig {
        timeout,
        bmc_timeout: timeout * 2,
        ..server.config()
    })
    .unwrap();
    let error = client.provision("u", &Verb::Manage.into()).await.unwrap_err();
    assert_eq!((error.class(), error.label()), (ErrorClass::Timeout, "timeout"));
    assert!(
        error.to_string().ends_with("no complete answer within 200ms"),
        "{error}"
    );
    let error = client.validate("u").await.unwrap_err();
    assert!(
        error.to_string().ends_with("no complete answer within 400ms"),
        "{error}"
    );
    // Waiting once more would only double the wait.
    assert_eq!(server.seen().len(), 2);
}

/// Someone accepts the connection and says nothing, as overloaded proxies do.
#[tokio::test]
async fn a_silent_tls_peer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = Url::parse(&format!("https://{}", listener.local_addr().unwrap())).unwrap();
    let client = Client::new(ClientConfig {
        connect_timeout: Duration::from_millis(200),
        ..config(&url)
    })
    .unwrap();
    let error = client.ready().await.unwrap_err();
    assert_eq!(
        (error.class(), error.label()),
        (ErrorClass::Unreachable, "connect_timeout")
    );
    assert!(error.to_string().ends_with("no connection within 200ms"), "{error}");
}
