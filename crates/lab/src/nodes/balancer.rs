//! The load balancer in front of a control plane, as sites have one: it passes connections on to the first server that takes
//! them, and ends those to a server that is off, so that clients need not find out.

use std::net::IpAddr;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long a server may take to answer; one that is off never does.
const PATIENCE: Duration = Duration::from_secs(1);

/// The addresses of the servers that run.
pub type Servers = watch::Receiver<Vec<IpAddr>>;

/// Serves until it is dropped. Connections go to the servers' port `port`.
pub async fn serve(listener: TcpListener, servers: Servers, port: u16) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((client, _)) = accepted {
                    connections.spawn(pass(client, servers.clone(), port));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Ends the connection where no server takes it.
async fn pass(mut client: TcpStream, mut servers: Servers, port: u16) {
    let addresses = servers.borrow().clone();
    for address in addresses {
        if let Ok(Ok(mut server)) = timeout(PATIENCE, TcpStream::connect((address, port))).await {
            tokio::select! {
                _ = copy_bidirectional(&mut client, &mut server) => {} // either side may end it at any time
                _ = servers.wait_for(|servers| !servers.contains(&address)) => {}
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_connection_goes_to_the_first_server_that_takes_it_and_ends_when_it_is_off() {
        let behind = TcpListener::bind("127.0.0.3:0").await.unwrap();
        let port = behind.local_addr().unwrap().port();
        let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = front.local_addr().unwrap();
        let (running, servers) = watch::channel(Vec::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(front, servers, port));

        let mut nobody = TcpStream::connect(address).await.unwrap();
        assert_eq!(nobody.read(&mut [0]).await.unwrap_or(0), 0, "no server takes it");
        let addresses = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().unwrap());
        running.send_replace(addresses.into());
        let mut client = TcpStream::connect(address).await.unwrap();
        let (mut server, _) = behind.accept().await.unwrap();
        server.write_all(b"x").await.unwrap();
        let mut byte = [0];
        client.read_exact(&mut byte).await.unwrap();
        assert_eq!(&byte, b"x");
        running.send_replace(vec![addresses[0]]);
        assert_eq!(client.read(&mut byte).await.unwrap_or(0), 0, "its server is off");
    }
}
