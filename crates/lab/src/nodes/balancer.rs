//! The load balancer in front of a control plane, as sites have one: it passes connections on to the first server whose API server
//! is ready, and ends those to a server that is off, so that clients need not find out.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a server may take to answer; one that is off never does.
const PATIENCE: Duration = Duration::from_secs(1);

/// The addresses of the servers that run.
pub type Servers = watch::Receiver<Vec<IpAddr>>;

/// The API servers behind it.
#[derive(Clone)]
pub struct Api {
    client: reqwest::Client,
    scheme: &'static str,
    port: u16,
}

impl Api {
    /// API servers at this port, by TLS. Their certificates are not checked: each cluster makes an authority of its own.
    pub fn new(port: u16) -> Result<Self> {
        // A kept connection would still answer for a server that has since lost its place.
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(true)
            .pool_max_idle_per_host(0);
        let client = client
            .timeout(PATIENCE)
            .build()
            .context("cannot make a client for API servers")?;
        Ok(Self {
            client,
            scheme: "https",
            port,
        })
    }

    /// Whether an API server has its etcd and its rights. One that just starts, or whose etcd has left the others, answers too,
    /// but with errors that `kubeadm join` gives up at.
    async fn is_ready(&self, server: SocketAddr) -> bool {
        let answer = self
            .client
            .get(format!("{}://{server}/readyz", self.scheme))
            .send()
            .await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// A connection to the first server that is ready; where none is, to the first that takes it, whose own errors say most.
    async fn connect(&self, servers: Vec<IpAddr>) -> Option<(IpAddr, TcpStream)> {
        let mut first = None;
        for address in servers {
            let server = SocketAddr::from((address, self.port));
            if let Ok(Ok(stream)) = timeout(PATIENCE, TcpStream::connect(server)).await {
                if self.is_ready(server).await {
                    return Some((address, stream));
                }
                first = first.or(Some((address, stream)));
            }
        }
        first
    }
}

/// Serves until it is dropped.
pub async fn serve(listener: TcpListener, servers: Servers, api: Api) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(pass(client, servers.clone(), api.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Ends the connection where no server takes it.
async fn pass(mut client: TcpStream, mut servers: Servers, api: Api) {
    let addresses = servers.borrow().clone();
    if let Some((address, mut server)) = api.connect(addresses).await {
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => {} // either side may end it at any time
            _ = servers.wait_for(|servers| !servers.contains(&address)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A server at this address that says whether it is ready, and answers everything else with the last part of its address.
    async fn server(tasks: &mut JoinSet<()>, address: &str, port: u16, readiness: watch::Receiver<u16>) -> SocketAddr {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let own = listener.local_addr().unwrap();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let readiness = readiness.clone();
                connections.spawn(async move {
                    let mut request = [0; 1024];
                    while let Ok(count @ 1..) = stream.read(&mut request).await {
                        let is_probe = request[..count].starts_with(b"GET /readyz");
                        let status = *readiness.borrow();
                        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n");
                        let own = own.to_string().into_bytes();
                        let answer = if is_probe { answer.into_bytes() } else { own };
                        stream.write_all(&answer).await.unwrap();
                    }
                });
            }
        });
        own
    }

    async fn ask(client: &mut TcpStream) -> String {
        client.write_all(b"who?").await.unwrap();
        let mut answer = [0; 64];
        let count = client.read(&mut answer).await.unwrap_or(0);
        String::from_utf8_lossy(&answer[..count]).into_owned()
    }

    #[tokio::test]
    async fn a_connection_goes_to_the_first_server_that_is_ready_and_ends_when_it_is_off() {
        rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
        let mut tasks = JoinSet::new();
        let ((make_second, second), (make_third, third)) = (watch::channel(500), watch::channel(200));
        let third = server(&mut tasks, "127.0.0.3", 0, third).await;
        let second = server(&mut tasks, "127.0.0.2", third.port(), second).await;
        let mut api = Api::new(third.port()).unwrap();
        api.scheme = "http";
        let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = front.local_addr().unwrap();
        let (running, servers) = watch::channel(Vec::new());
        tasks.spawn(serve(front, servers, api));
        let connect = async || TcpStream::connect(address).await.unwrap();

        assert_eq!(
            connect().await.read(&mut [0]).await.unwrap_or(0),
            0,
            "no server takes it"
        );
        let off = "127.0.0.4".parse().unwrap();
        running.send_replace(vec![off, second.ip(), third.ip()]);
        let mut client = connect().await;
        assert_eq!(ask(&mut client).await, third.to_string(), "the second is not ready");
        make_second.send_replace(200);
        assert_eq!(ask(&mut connect().await).await, second.to_string());
        assert_eq!(
            ask(&mut client).await,
            third.to_string(),
            "a connection stays where it is"
        );
        make_second.send_replace(500);
        make_third.send_replace(500);
        assert_eq!(
            ask(&mut connect().await).await,
            second.to_string(),
            "the first, as none is ready"
        );
        running.send_replace(vec![second.ip()]);
        assert_eq!(ask(&mut client).await, "", "its server is off");
    }
}
