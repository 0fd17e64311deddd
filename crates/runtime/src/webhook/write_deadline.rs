//! A deadline for sending: a caller that does not read would keep the memory of its answer for ever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::timing::webhooks::SENT_WITHIN;

/// A stream that fails if what is written to it is not sent in time. The time runs from the first write that has to wait until
/// everything is sent, so a caller that reads a byte now and then does not extend it.
#[derive(Debug)]
pub(super) struct WriteDeadline<I> {
    inner: I,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<I> WriteDeadline<I> {
    pub const fn new(inner: I) -> Self {
        Self { inner, deadline: None }
    }

    /// Passes on what a write came to, unless it has to wait and the time is over.
    fn limit<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_pending() {
            let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(SENT_WITHIN)));
            ready!(deadline.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        written
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WriteDeadline<I> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.limit(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bytes);
        self.limit(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// TLS and HTTP flush once they have written all that they hold.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        if flushed.is_ready() {
            self.deadline = None;
        }
        self.limit(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.limit(shut_down, cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_a_byte_now_and_then_does_not_extend_the_time() {
        let (mut reader, writer) = duplex(16);
        let mut writer = WriteDeadline::new(writer);
        let start = Instant::now();
        let reading = async {
            while reader.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let writing = async move {
            let error = writer.write_all(&[0; 1000]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(start.elapsed(), SENT_WITHIN);
        };
        tokio::join!(reading, writing);
    }

    #[tokio::test(start_paused = true)]
    async fn each_answer_has_its_own_time() {
        let (mut reader, writer) = duplex(16);
        let mut writer = WriteDeadline::new(writer);
        for _ in 0..3 {
            let reading = async {
                tokio::time::sleep(SENT_WITHIN / 2).await;
                reader.read_exact(&mut [0; 100]).await.unwrap();
            };
            let writing = async {
                writer.write_all(&[0; 100]).await.unwrap();
                writer.flush().await.unwrap();
            };
            tokio::join!(reading, writing);
        }
    }
}
