//! The bodies of reviews: bounded in size, in memory and in time.
//!
//! Memory is counted by what has arrived, not by what a caller announces, and a body must keep arriving at a least rate. So
//! slow callers hold neither memory nor a turn that others need: what they keep, they have paid for in bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::Answer;
use crate::timing::webhooks::BODY_PATIENCE;

/// Larger reviews are processed two at a time, so that memory is bounded. Admissions and the usual pages of 500 objects
/// are smaller as a rule, and never wait.
const LARGE: usize = 8 << 20;
const LARGE_AT_ONCE: usize = 2;

/// Bytes that may be in memory at once, of small and of large bodies. Apart, so that neither takes the other's place.
const SMALL_BYTES: usize = 128 << 20;
const LARGE_BYTES: usize = 512 << 20;

/// Bytes per second below which a body is given up; a network of one gigabit carries seven times as much.
const SLOWEST: usize = 16 << 20;

/// The memory and the turns that all bodies share. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Room {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

/// A complete body. Its memory counts until it is answered.
pub(super) struct Received {
    bytes: Bytes,
    memory: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
}

impl Received {
    pub fn answer(self, answer: impl FnOnce(Bytes) -> Answer) -> Answer {
        let Self { bytes, memory, turn } = self;
        let answer = answer(bytes);
        drop((memory, turn));
        answer
    }
}

/// Why there is no complete body.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    // The API server always says how much it sends.
    #[error("Content-Length is missing")]
    NoLength,
    #[error("{length} bytes are more than the limit of {limit}")]
    TooLarge { length: usize, limit: usize },
    #[error("too many reviews at once: try again")]
    Busy,
    #[error("the body arrived too slowly")]
    Slow,
    #[error("the body was cut off: {0}")]
    Cut(#[from] axum::Error),
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        let status = match &refused {
            Refused::NoLength => StatusCode::LENGTH_REQUIRED,
            Refused::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Refused::Busy => StatusCode::TOO_MANY_REQUESTS,
            Refused::Slow => StatusCode::REQUEST_TIMEOUT,
            Refused::Cut(_) => StatusCode::BAD_REQUEST,
        };
        Self::failed(status, refused.to_string())
    }
}

impl Room {
    pub fn new() -> Self {
        Self {
            small: Arc::new(Semaphore::new(SMALL_BYTES)),
            large: Arc::new(Semaphore::new(LARGE_BYTES)),
            turns: Arc::new(Semaphore::new(LARGE_AT_ONCE)),
        }
    }

    /// Receives a body of this announced length, and waits for the turn of a large one.
    pub async fn receive(&self, body: Body, length: Option<usize>, limit: usize) -> Result<Received, Refused> {
        let length = length.ok_or(Refused::NoLength)?;
        if length > limit {
            return Err(Refused::TooLarge { length, limit });
        }
        let is_large = length > LARGE;
        let (bytes, memory) = self.collect(body, length, is_large).await?;
        let turn = if is_large {
            self.turns.clone().acquire_owned().await.ok()
        } else {
            None
        };
        Ok(Received {
            bytes: bytes.into(),
            memory,
            turn,
        })
    }

    async fn collect(
        &self,
        body: Body,
        length: usize,
        is_large: bool,
    ) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Refused> {
        let room = if is_large { &self.large } else { &self.small };
        let (mut bytes, mut memory) = (Vec::new(), None::<OwnedSemaphorePermit>);
        let (start, mut frames) = (Instant::now(), body.into_data_stream());
        loop {
            let frame = timeout_at(start + allowed(bytes.len()), frames.next()).await;
            let Some(frame) = frame.map_err(|_| Refused::Slow)?.transpose()? else {
                return Ok((bytes, memory));
            };
            let more = u32::try_from(frame.len()).map_err(|_| Refused::Busy)?;
            let more = room.clone().try_acquire_many_owned(more).map_err(|_| Refused::Busy)?;
            match &mut memory {
                Some(memory) => memory.merge(more),
                None => memory = Some(more),
            }
            grow(&mut bytes, frame.len(), length);
            bytes.extend_from_slice(&frame);
        }
    }
}

/// The time within which more than this must have arrived.
fn allowed(received: usize) -> Duration {
    let millis = received.saturating_mul(1000) / SLOWEST;
    BODY_PATIENCE + Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Doubles the buffer as usual, but never beyond what was announced.
fn grow(bytes: &mut Vec<u8>, by: usize, length: usize) {
    let needed = bytes.len() + by;
    if needed > bytes.capacity() {
        let wanted = (bytes.capacity() * 2).min(length).max(needed);
        bytes.reserve_exact(wanted - bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use tokio::sync::mpsc;

    use super::*;

    const MIB: usize = 1 << 20;

    /// A body that comes as it is sent.
    fn sent() -> (mpsc::UnboundedSender<Bytes>, Body) {
        let (sender, receiver) = mpsc::unbounded_channel::<Bytes>();
        let frames = stream::unfold(receiver, |mut receiver| async {
            let frame = receiver.recv().await?;
            Some((Ok::<_, Infallible>(frame), receiver))
        });
        (sender, Body::from_stream(frames))
    }

    fn zeros(length: usize) -> Bytes {
        vec![0; length].into()
    }

    async fn code(room: &Room, body: Body, length: usize) -> u16 {
        match room.receive(body, Some(length), 256 * MIB).await {
            Ok(_) => 200,
            Err(refused) => Answer::from(refused).status.as_u16(),
        }
    }

    // OWN 30a: two callers that announced much and sent little held both turns for large bodies.
    #[tokio::test(start_paused = true)]
    async fn callers_that_announce_much_and_send_little_hold_nobody_up() {
        let room = Room::new();
        let slow: Vec<_> = (0..100).map(|_| sent()).collect();
        let (senders, bodies): (Vec<_>, Vec<_>) = slow.into_iter().unzip();
        let waiting = bodies.into_iter().map(|body| code(&room, body, 256 * MIB));
        let mut waiting = std::pin::pin!(futures::future::join_all(waiting));
        for sender in &senders {
            sender.send(zeros(1)).unwrap();
        }
        assert!(futures::poll!(&mut waiting).is_pending());
        let start = Instant::now();
        assert_eq!(code(&room, Body::from(zeros(9 * MIB)), 9 * MIB).await, 200);
        assert_eq!(start.elapsed(), Duration::ZERO);

        assert_eq!(waiting.await, vec![408; 100]);
        assert_eq!(start.elapsed().as_secs(), BODY_PATIENCE.as_secs());
        assert_eq!(room.large.available_permits(), LARGE_BYTES, "nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_keeps_arriving_may_take_long() {
        let room = Room::new();
        let (sender, body) = sent();
        let sending = async move {
            for _ in 0..16 {
                sender.send(zeros(16 * MIB)).unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        assert_eq!(tokio::join!(code(&room, body, 256 * MIB), sending).0, 200);
    }

    // OWN 30b: memory for bodies had no bound.
    #[tokio::test]
    async fn bodies_beyond_the_memory_for_all_are_refused_until_others_are_done() {
        let room = Room::new();
        let mut held = Vec::new();
        for _ in 0..SMALL_BYTES / (8 * MIB) {
            let received = room.receive(Body::from(zeros(8 * MIB)), Some(8 * MIB), 8 * MIB).await;
            held.push(received.unwrap());
        }
        assert_eq!(code(&room, Body::from(zeros(1)), 1).await, 429);
        assert_eq!(
            code(&room, Body::from(zeros(9 * MIB)), 9 * MIB).await,
            200,
            "large ones have memory of their own"
        );
        held.pop();
        assert_eq!(code(&room, Body::from(zeros(1)), 1).await, 200);
    }

    #[tokio::test]
    async fn at_most_two_large_bodies_are_processed_at_once() {
        let room = Room::new();
        let receive = || room.receive(Body::from(zeros(9 * MIB)), Some(9 * MIB), 256 * MIB);
        let held = (receive().await.unwrap(), receive().await.unwrap());
        let mut third = std::pin::pin!(receive());
        assert!(futures::poll!(&mut third).is_pending());
        drop(held);
        assert!(third.await.is_ok());
    }

    #[tokio::test]
    async fn the_length_must_be_announced_and_within_the_limit() {
        let room = Room::new();
        let refused = room.receive(Body::empty(), None, 1).await.err().unwrap();
        assert_eq!(Answer::from(refused).status.as_u16(), 411);
        assert_eq!(code(&room, Body::empty(), 257 * MIB).await, 413);
    }
}
