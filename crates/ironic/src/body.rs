//! Reading of bodies, in bounded memory. Nothing is decompressed: reqwest's features for that are off.

use std::sync::Arc;

use reqwest::Response;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::weight::weight;

/// Maximum body of a success: a page of a thousand nodes with all fields, or the inventory of one, has a few MiB.
pub(crate) const MOST: usize = 64 << 20;
/// Maximum part of an error that is read.
pub(crate) const MOST_REFUSAL: usize = 64 << 10;
/// Maximum memory of one success, as text and parsed. A page of a thousand nodes with the usual fields takes a tenth of it.
const MOST_MEMORY: usize = 192 << 20;
/// The same of all at a time.
const MOST_OF_ALL: usize = 256 << 20;

/// The memory that the answers of one Ironic share. What it sends is partly what the ramdisk on a tenant's server sent to it.
#[derive(Clone)]
pub(crate) struct Room(Arc<Semaphore>);

/// A body that is too large.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TooLarge {
    #[error("the answer has more than {} MiB", MOST >> 20)]
    Bytes,
    #[error("the objects and texts of the answer would take more than {} MiB of memory", MOST_MEMORY >> 20)]
    Memory,
}

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    #[error(transparent)]
    Lost(#[from] reqwest::Error),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("all answers that are being read would take more than {} MiB of memory", MOST_OF_ALL >> 20)]
    Crowded,
}

/// A whole body. Its memory counts until this is dropped.
pub(crate) struct Whole {
    pub bytes: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Room {
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(MOST_OF_ALL)))
    }

    /// The whole body of a success.
    pub async fn read(&self, response: &mut Response) -> Result<Whole, Unread> {
        let (mut bytes, mut memory) = (Vec::new(), None);
        while let Some(chunk) = response.chunk().await? {
            if bytes.len() + chunk.len() > MOST {
                return Err(TooLarge::Bytes.into());
            }
            self.charge(&mut memory, weight(&chunk))?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(Whole { bytes, _memory: memory })
    }

    fn charge(&self, held: &mut Option<OwnedSemaphorePermit>, more: usize) -> Result<(), Unread> {
        let before = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(more).map_err(|_| TooLarge::Memory)?;
        if before + more as usize > MOST_MEMORY {
            return Err(TooLarge::Memory.into());
        }
        let more = self
            .0
            .clone()
            .try_acquire_many_owned(more)
            .map_err(|_| Unread::Crowded)?;
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

/// The beginning of the body of an error.
pub(crate) async fn begin(response: &mut Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = MOST_REFUSAL - bytes.len();
        bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if bytes.len() == MOST_REFUSAL {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_share_the_memory_and_give_it_back() {
        let room = Room::new();
        let (mut first, mut second, mut third) = (None, None, None);
        room.charge(&mut first, MOST_MEMORY).unwrap();
        let more = room.charge(&mut first, 1);
        assert!(matches!(more, Err(Unread::TooLarge(TooLarge::Memory))), "{more:?}");
        room.charge(&mut second, MOST_OF_ALL - MOST_MEMORY - 1).unwrap();
        room.charge(&mut second, 1).unwrap();
        let crowded = room.charge(&mut third, 1);
        assert!(matches!(crowded, Err(Unread::Crowded)), "{crowded:?}");
        drop(first);
        room.charge(&mut third, MOST_MEMORY).unwrap();
    }
}
