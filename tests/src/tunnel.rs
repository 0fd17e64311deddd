//! A proxy that leads every connection to one address, whatever the requested name: Service names do not resolve on this machine.

use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// An HTTP proxy for `CONNECT`, which clients use for https. It ends with this value.
#[derive(Debug)]
pub struct Tunnel {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Tunnel {
    /// To this port of 127.0.0.1.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let mut tasks = JoinSet::new();
        let names = asked.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let names = names.clone();
                // The client notices a broken connection.
                connections.spawn(async move { lead(client, port, &names).await.ok() });
            }
        });
        Self {
            url: format!("http://{address}"),
            asked,
            _tasks: tasks,
        }
    }

    /// The proxy's address.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The requested targets, `name:port`, without duplicates.
    pub fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().clone();
        asked.sort();
        asked.dedup();
        asked
    }
}

async fn lead(client: TcpStream, port: u16, asked: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if client.read_line(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let Some((name, _)) = head.strip_prefix("CONNECT ").and_then(|rest| rest.split_once(' ')) else {
        return client.write_all(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n").await;
    };
    asked.lock().push(name.to_owned());
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    copy_bidirectional(&mut client, &mut server).await.map(|_| ())
}
