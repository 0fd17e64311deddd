//! The bodies of reviews: bounded in size, in memory and in time.
//!
//! Memory is counted by what has arrived, not by what a caller announces, and a body must keep arriving at a least rate. So
//! slow callers hold neither memory nor a turn that others need: what they keep, they have paid for in bytes. What a body takes
//! once it is parsed is estimated as it arrives, but counts only when it is complete: a few bytes may stand for much memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures::StreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::answer::Answer;
use super::weight::Weight;
use crate::timing::webhooks::BODY_PATIENCE;

/// Larger reviews are processed two at a time, so that memory is bounded. Admissions and the usual pages of 500 objects
/// are smaller as a rule, and never wait.
const LARGE: usize = 8 << 20;
const LARGE_AT_ONCE: usize = 2;

/// Bytes that may be in memory at once for small and for large bodies, as text and parsed. Apart, so that neither takes the
/// other's place.
const SMALL_BYTES: usize = 128 << 20;
const LARGE_BYTES: usize = 512 << 20;

/// Bytes per second below which a body is given up; a network of one gigabit carries seven times as much.
const SLOWEST: usize = 16 << 20;

/// What a path reads, and what an answer on it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    /// The largest review, in bytes.
    pub limit: usize,
    /// The depth below which values are parsed one at a time.
    pub apart_below: usize,
}

/// The memory and the turns that all bodies share. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Room {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

/// A complete body. What it takes counts until the answer is there, even if the caller has gone. As much as the answer takes counts
/// until that is sent.
pub(super) struct Received {
    bytes: Bytes,
    memory: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
}

impl Received {
    pub fn answer(self, answer: impl FnOnce(Bytes) -> Answer) -> Answer {
        let Self { bytes, memory, turn } = self;
        let mut answer = answer(bytes);
        drop(turn);
        answer.memory = memory.and_then(|mut memory| memory.split(memory.num_permits().min(answer.body.len())));
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
    #[error("its objects, lists and texts would take more than {0} bytes of memory")]
    TooHeavy(usize),
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
            Refused::TooLarge { .. } | Refused::TooHeavy(_) => StatusCode::PAYLOAD_TOO_LARGE,
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

    /// The memory for small bodies that is free.
    #[cfg(test)]
    pub fn free(&self) -> usize {
        self.small.available_permits()
    }

    /// Receives a body of this announced length, and waits for the turn of a large one.
    pub async fn receive(&self, body: Body, length: Option<usize>, reads: Reads) -> Result<Received, Refused> {
        let (length, limit) = (length.ok_or(Refused::NoLength)?, reads.limit);
        if length > limit {
            return Err(Refused::TooLarge { length, limit });
        }
        let is_large = length > LARGE;
        let (room, most) = if is_large {
            (&self.large, LARGE_BYTES)
        } else {
            (&self.small, SMALL_BYTES)
        };
        let mut memory = None;
        let (bytes, parsed) = collect(body, length, reads.apart_below, most, |more| {
            charge(room, &mut memory, more)
        })
        .await?;
        let turn = if is_large {
            self.turns.clone().acquire_owned().await.ok()
        } else {
            None
        };
        charge(room, &mut memory, parsed)?;
        Ok(Received {
            bytes: bytes.into(),
            memory,
            turn,
        })
    }
}

/// A complete body, and the memory that it takes once it is parsed. `keep` is called for all that stays in memory.
async fn collect(
    body: Body,
    length: usize,
    apart_below: usize,
    most: usize,
    mut keep: impl FnMut(usize) -> Result<(), Refused>,
) -> Result<(Vec<u8>, usize), Refused> {
    let (mut bytes, mut weight) = (Vec::new(), Weight::new(apart_below));
    let (start, mut frames) = (Instant::now(), body.into_data_stream());
    loop {
        let frame = timeout_at(start + allowed(bytes.len()), frames.next()).await;
        let Some(frame) = frame.map_err(|_| Refused::Slow)?.transpose()? else {
            return Ok((bytes, weight.bytes()));
        };
        keep(frame.len())?;
        grow(&mut bytes, frame.len(), length);
        bytes.extend_from_slice(&frame);
        weight.count(&frame);
        if bytes.len() + weight.bytes() > most {
            return Err(Refused::TooHeavy(most));
        }
    }
}

fn charge(room: &Arc<Semaphore>, memory: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), Refused> {
    let more = u32::try_from(bytes).map_err(|_| Refused::Busy)?;
    let more = room.clone().try_acquire_many_owned(more).map_err(|_| Refused::Busy)?;
    match memory {
        Some(memory) => memory.merge(more),
        None => *memory = Some(more),
    }
    Ok(())
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

    const fn reads(limit: usize) -> Reads {
        Reads { limit, apart_below: 0 }
    }

    fn zeros(length: usize) -> Bytes {
        vec![0; length].into()
    }

    async fn code(room: &Room, body: Body, length: usize) -> u16 {
        match room.receive(body, Some(length), reads(256 * MIB)).await {
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
            let received = room
                .receive(Body::from(zeros(8 * MIB)), Some(8 * MIB), reads(8 * MIB))
                .await;
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

    /// Seven bytes of text for each object.
    fn text(bytes: usize) -> String {
        format!("[{}0]", r#"{"":0},"#.repeat(bytes / 7))
    }

    fn objects(bytes: usize) -> Body {
        Body::from(text(bytes))
    }

    // OWN 30g: reviews counted by their text, which took a hundredth of what their objects took.
    #[tokio::test]
    async fn a_review_counts_by_what_it_takes_when_it_is_parsed() {
        let room = Room::new();
        let length = MIB / 2;
        assert_eq!(
            code(&room, objects(2 * MIB), 2 * MIB).await,
            413,
            "it alone is too much"
        );
        let held = room.receive(objects(length), Some(length), reads(8 * MIB)).await;
        assert!(held.is_ok());
        assert_eq!(code(&room, objects(length), length).await, 429, "the first is there");
        drop(held);
        assert_eq!(code(&room, objects(length), length).await, 200);
        assert_eq!(room.small.available_permits(), SMALL_BYTES, "nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_callers_hold_no_more_memory_than_they_have_sent() {
        let room = Room::new();
        let (sender, body) = sent();
        let mut waiting = std::pin::pin!(code(&room, body, MIB));
        sender.send(text(MIB / 2).into()).unwrap();
        assert!(futures::poll!(&mut waiting).is_pending());
        assert_eq!(code(&room, objects(MIB / 2), MIB / 2).await, 200);
        assert_eq!(waiting.await, 408);
    }

    #[tokio::test]
    async fn at_most_two_large_bodies_are_processed_at_once() {
        let room = Room::new();
        let receive = || room.receive(Body::from(zeros(9 * MIB)), Some(9 * MIB), reads(256 * MIB));
        let held = (receive().await.unwrap(), receive().await.unwrap());
        let mut third = std::pin::pin!(receive());
        assert!(futures::poll!(&mut third).is_pending());
        drop(held);
        assert!(third.await.is_ok());
    }

    #[tokio::test]
    async fn the_length_must_be_announced_and_within_the_limit() {
        let room = Room::new();
        let refused = room.receive(Body::empty(), None, reads(1)).await.err().unwrap();
        assert_eq!(Answer::from(refused).status.as_u16(), 411);
        assert_eq!(code(&room, Body::empty(), 257 * MIB).await, 413);
    }
}
