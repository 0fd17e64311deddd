//! What all our HTTP servers have in common.

use std::time::Duration;

use axum_server::{Address, Server};
use hyper_util::rt::TokioTimer;

/// A client that has not sent its request headers within this time is disconnected; otherwise it could hold all
/// available connections.
pub const HEADERS_WITHIN: Duration = Duration::from_secs(10);

/// Bounds the cost of a client that sends nothing, or little at a time. Only HTTP/1 is served, as upstream does by
/// default: HTTP/2 gives clients more ways to keep a server busy, and the wait for its first bytes has no time-out.
pub fn bounded<A: Address, Acceptor>(server: Server<A, Acceptor>) -> Server<A, Acceptor> {
    let mut server = server.http1_only();
    server
        .http_builder()
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN);
    server
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinSet;

    // OWN 27b: a client that sent half a request held a connection forever.
    #[tokio::test(start_paused = true)]
    async fn who_sends_no_request_is_cut_off() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(|| async { "ok" }));
        let server = bounded(axum_server::from_tcp(listener).unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve(router.into_make_service()));
        for sent in ["", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "] {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            let end = tokio::time::timeout(3 * HEADERS_WITHIN, stream.read_to_end(&mut answer)).await;
            assert!(end.is_ok(), "{sent:?} holds its connection");
        }
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("ok"), "{answer}");
    }
}
