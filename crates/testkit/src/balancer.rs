//! What a Service does, without kube-proxy: spreads connections over the replicas that are ready.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Runs until it is dropped.
pub struct Balancer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    _task: JoinSet<()>,
}

#[derive(Default)]
struct State {
    ready: Vec<SocketAddr>,
    next: usize,
    /// Connections to each.
    open: HashMap<SocketAddr, usize>,
    /// Whether a replica that accepts no connections is still chosen.
    is_behind: bool,
}

impl Balancer {
    /// Without replicas, which refuses connections.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("no port for the balancer")?;
        let state = Arc::new(Mutex::new(State::default()));
        let mut task = JoinSet::new();
        let address = listener.local_addr().context("the balancer has no address")?;
        task.spawn(accept(listener, state.clone()));
        Ok(Self {
            address,
            state,
            _task: task,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends new connections here as well.
    pub fn add(&self, replica: SocketAddr) {
        self.state.lock().ready.push(replica);
    }

    /// Sends no new connections here. Old ones stay.
    pub fn remove(&self, replica: SocketAddr) {
        self.state.lock().ready.retain(|ready| *ready != replica);
    }

    /// From now on a replica is chosen until it is removed, even if it accepts no connections: as by a node that does not know yet.
    pub fn is_behind(&self, is_behind: bool) {
        self.state.lock().is_behind = is_behind;
    }

    /// The number of connections to this replica.
    pub fn open(&self, replica: SocketAddr) -> usize {
        self.state.lock().open.get(&replica).copied().unwrap_or_default()
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(connect(client, state.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// A replica that accepts no connections is called no more, as one that has lost its endpoint.
async fn connect(mut client: TcpStream, state: Arc<Mutex<State>>) {
    while let Some(replica) = choose(&state) {
        let connected = TcpStream::connect(replica).await;
        let is_there = connected.is_ok();
        if let Ok(mut server) = connected {
            tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
        }
        // Before the API server can see that the connection has ended.
        state.lock().close(replica, is_there);
        if is_there || state.lock().is_behind {
            return;
        }
    }
}

fn choose(state: &Mutex<State>) -> Option<SocketAddr> {
    state.lock().choose()
}

impl State {
    fn choose(&mut self) -> Option<SocketAddr> {
        self.next += 1;
        let replica = *self.ready.get(self.next % self.ready.len().max(1))?;
        *self.open.entry(replica).or_default() += 1;
        Some(replica)
    }

    fn close(&mut self, replica: SocketAddr, is_there: bool) {
        if let Some(open) = self.open.get_mut(&replica) {
            *open -= 1;
        }
        if !is_there && !self.is_behind {
            self.ready.retain(|ready| *ready != replica);
        }
    }
}
