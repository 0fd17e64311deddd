//! Connections to a workload cluster that are read at its [`Pace`]. Counting the data of answers would not suffice: the lengths of
//! chunks and informational responses are read as well, and may be any number of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::bounds::{Pause, pause};
use super::pace::Pace;

/// A connection whose reads pause.
pub struct Metered {
    inner: TcpStream,
    pace: Pace,
    pause: Option<Pause>,
}

impl Metered {
    /// What a connector has connected, read at this pace.
    pub fn over(connected: TokioIo<TcpStream>, pace: Pace) -> TokioIo<Self> {
        TokioIo::new(Self {
            inner: connected.into_inner(),
            pace,
            pause: None,
        })
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let before = buffer.filled().len();
        std::task::ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.pause = pause(self.pace.received(buffer.filled().len() - before));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl Connection for Metered {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metal3_runtime::store::ObjectKey;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::workload::pace::Paces;

    // OWN 31sd: what is neither data nor a change was read as fast as the network carries it.
    #[tokio::test(start_paused = true)]
    async fn all_that_a_connection_carries_is_read_at_the_pace() {
        const SENT: usize = 8 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let pace = Paces::default().of(ObjectKey::new("ns", "c"));
        let owed = pace.received(300 << 20);
        let start = tokio::time::Instant::now();
        let mut metered = Metered::over(TokioIo::new(connected), pace.clone()).into_inner();
        let sent = async {
            server.write_all(&vec![b'x'; SENT]).await.unwrap();
            drop(server);
        };
        let read = async {
            let mut all = Vec::new();
            metered.read_to_end(&mut all).await.unwrap()
        };
        let ((), read) = tokio::join!(sent, read);
        assert_eq!(read, SENT);
        let elapsed = start.elapsed();
        assert!(elapsed >= owed + Duration::from_secs(1), "{elapsed:?}");
        assert!(pace.is_slowed());
    }
}
