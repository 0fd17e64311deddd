//! A bound on the number of connections, and on the time that an answer takes to be sent.

use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::Accept;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::Layer;

use super::write_deadline::WriteDeadline;

/// An API server sends at most 600 requests at once by default, and there are three of them as a rule. A connection takes
/// about 40 KiB.
const MOST: usize = 2048;

/// Closes each connection beyond the bound before its TLS handshake. The API server then says so in its answer to the
/// user.
#[derive(Clone, Debug)]
pub(super) struct Bounded {
    free: Arc<Semaphore>,
    is_full: Arc<AtomicBool>,
}

impl Bounded {
    pub fn new() -> Self {
        Self::at(MOST)
    }

    fn at(most: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(most)),
            is_full: Arc::default(),
        }
    }
}

/// Counts a connection for as long as its service lives.
type Counted<S> = AddExtension<S, Arc<OwnedSemaphorePermit>>;

impl<I, S> Accept<I, S> for Bounded {
    type Stream = WriteDeadline<I>;
    type Service = Counted<S>;
    type Future = Ready<io::Result<(Self::Stream, Counted<S>)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let permit = self.free.clone().try_acquire_owned();
        let was_full = self.is_full.swap(permit.is_err(), Ordering::Relaxed);
        ready(match permit {
            Ok(permit) => Ok((WriteDeadline::new(stream), Extension(Arc::new(permit)).layer(service))),
            Err(full) => {
                if !was_full {
                    tracing::warn!(
                        most = MOST,
                        "closing connections to the webhooks: too many are open, more than API servers need"
                    );
                }
                Err(io::Error::other(full))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 30b: the number of connections had no bound.
    #[tokio::test]
    async fn a_connection_beyond_the_bound_is_closed_until_another_ends() {
        let bounded = Bounded::at(2);
        let accept = || bounded.accept((), ());
        let (_first, second) = (accept().await.unwrap(), accept().await.unwrap());
        assert!(accept().await.is_err());
        drop(second);
        assert!(accept().await.is_ok());
    }
}
