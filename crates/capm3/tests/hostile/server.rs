//! API servers of a few lines on loopback, some of which attack. One of them plays the management cluster, for the Secrets.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use kube::Client;
use metal3_testkit::leaks::CANARY;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What a server answers.
pub enum Reply {
    /// This and no more.
    Whole(u16, String),
    /// Nothing after the head.
    Nothing,
    /// This status, and then this text for ever, as fast as it is read.
    Endless(u16, &'static str),
    /// One byte each time, in chunks of their own, as fast as they are read.
    SingleBytes,
    /// The same, each in a packet of its own.
    SingleWrites,
    /// A byte now and then, for ever.
    Trickle,
}

impl Reply {
    /// This object.
    pub fn of(object: &Value) -> Self {
        Self::Whole(200, object.to_string())
    }
}

/// Servers that run until this is dropped.
#[derive(Default)]
pub struct Servers(JoinSet<()>);

impl Servers {
    /// One more, which answers as the function says of path and query. Returns its URL.
    pub async fn add(&mut self, answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(answer);
        self.0.spawn(async move {
            let mut callers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answer.clone();
                callers.spawn(async move { serve(stream, &*answer).await.ok() });
            }
        });
        url
    }

    /// A management cluster in which each of these clusters has a kubeconfig that leads to its URL.
    pub async fn management(&mut self, clusters: Vec<(String, String)>) -> Client {
        let url = self.add(move |path| {
            if path.contains("watch=true") {
                return Reply::Nothing;
            }
            let asked = clusters
                .iter()
                .find(|(name, _)| path.contains(&format!("metadata.name%3D{name}-kubeconfig")));
            let secrets: Vec<Value> = asked.into_iter().map(|(name, url)| secret(name, url)).collect();
            Reply::of(&json!({"metadata": {"resourceVersion": "1"}, "items": secrets}))
        });
        let config = kube::Config::new(url.await.parse().unwrap());
        Client::try_from(config).unwrap()
    }
}

fn secret(cluster: &str, url: &str) -> Value {
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "admin",
        "contexts": [{"name": "admin", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": format!("{CANARY}{cluster}")}}]});
    json!({"metadata": {"name": format!("{cluster}-kubeconfig"), "namespace": "ns", "uid": cluster},
        "data": {"value": ByteString(kubeconfig.to_string().into_bytes())}})
}

async fn serve(mut stream: TcpStream, answer: &impl Fn(&str) -> Reply) -> std::io::Result<()> {
    loop {
        let path = request(&mut stream).await?;
        let open = |code: u16| format!("HTTP/1.1 {code} Status\r\nconnection: close\r\n\r\n");
        match answer(&path) {
            Reply::Whole(code, body) => {
                let head = format!("HTTP/1.1 {code} Status\r\ncontent-length: {}\r\n\r\n", body.len());
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(body.as_bytes()).await?;
            }
            Reply::Nothing => {
                stream.write_all(open(200).as_bytes()).await?;
                std::future::pending::<()>().await;
            }
            Reply::Endless(code, text) => {
                stream.write_all(open(code).as_bytes()).await?;
                for_ever(&mut stream, text).await?;
            }
            Reply::SingleBytes => {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                for_ever(&mut stream, "1\r\n \r\n").await?;
            }
            Reply::SingleWrites => {
                stream.set_nodelay(true)?;
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                loop {
                    stream.write_all(b"1\r\n \r\n").await?;
                    tokio::task::yield_now().await;
                }
            }
            Reply::Trickle => {
                stream.write_all(open(200).as_bytes()).await?;
                loop {
                    stream.write_all(b" ").await?;
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
    }
}

async fn for_ever(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    let text = text.repeat(10_000);
    loop {
        stream.write_all(text.as_bytes()).await?;
    }
}

/// Path and query of the next request.
async fn request(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    Ok(head.split(' ').nth(1).unwrap_or_default().to_owned())
}
