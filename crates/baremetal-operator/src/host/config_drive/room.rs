//! The memory that the config drives of all hosts share: whoever may write many hosts and large Secrets must not use up that of
//! the process.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One unit of memory, because a permit counts in 32 bits.
const UNIT: usize = 1 << 10;
/// What is kept free for one drive until its size is known: three Secrets of 1 MiB, what two of them become when they are parsed, a
/// copy for the request, and its body, in which a character can take six bytes.
const MOST: usize = 48 << 20;
/// The same of all drives at a time. Drives of usual size take some kilobytes, so that thousands have room.
const MOST_OF_ALL: usize = 8 * MOST;

/// Room for config drives. Clones are the same.
#[derive(Clone, Debug)]
pub struct Room(Arc<Semaphore>);

/// Memory that counts until this is dropped.
#[derive(Debug)]
pub struct Memory(OwnedSemaphorePermit);

/// A config drive as Ironic gets it, which counts as long as it is there.
pub struct Drive {
    /// The value from which Ironic builds it.
    pub value: Value,
    _memory: Option<Memory>,
}

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_OF_ALL / UNIT)))
    }
}

impl Room {
    /// Waits for room for one drive of any size: first come, first served. None if the process ends.
    pub async fn reserve(&self) -> Option<Memory> {
        let most = u32::try_from(MOST / UNIT).unwrap_or(u32::MAX);
        self.0.clone().acquire_many_owned(most).await.ok().map(Memory)
    }
}

impl Drive {
    /// Keeps as much of the memory as the drive takes.
    pub fn new(value: Value, memory: Option<Memory>) -> Self {
        let needed = (4 * weight(&value)).div_ceil(UNIT);
        let memory = memory.map(|mut memory| {
            let spare = memory.0.num_permits().saturating_sub(needed);
            drop(memory.0.split(spare));
            memory
        });
        Self { value, _memory: memory }
    }
}

impl From<Value> for Drive {
    fn from(value: Value) -> Self {
        Self::new(value, None)
    }
}

impl PartialEq for Drive {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// An upper estimate of the memory of a value.
fn weight(value: &Value) -> usize {
    /// A map begins with room for eleven entries, and a list doubles its room.
    const MAP: usize = 1 << 10;
    const ENTRY: usize = 128;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => ENTRY,
        Value::String(text) => ENTRY + text.len(),
        Value::Array(list) => ENTRY + list.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            MAP + map
                .iter()
                .map(|(key, value)| key.len() + ENTRY + weight(value))
                .sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::{Duration, timeout};

    use super::*;

    // OWN 31we: a tenant with many hosts and large Secrets made the operator hold gigabytes.
    #[tokio::test(start_paused = true)]
    async fn the_drives_of_many_hosts_share_a_bounded_memory() {
        let room = Room::default();
        let large = json!({"user_data": "x".repeat(3 << 20), "meta_data": {"list": vec![json!({"": 0}); 6_000]}});
        let mut drives = Vec::new();
        while let Ok(memory) = timeout(Duration::from_secs(9), room.reserve()).await {
            drives.push(Drive::new(large.clone(), memory));
            assert!(drives.len() < 64, "as many as there are passes");
        }
        assert!(drives.len() >= 8, "{}", drives.len());
        drives.pop();
        drives.pop();
        assert!(timeout(Duration::from_secs(9), room.reserve()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn usual_drives_do_not_wait_for_each_other() {
        let room = Room::default();
        let usual =
            json!({"user_data": "x".repeat(16 << 10), "meta_data": {"name": "h"}, "network_data": {"links": []}});
        let mut drives = Vec::new();
        for _ in 0..1_000 {
            let memory = timeout(Duration::from_secs(9), room.reserve()).await.unwrap();
            drives.push(Drive::new(usual.clone(), memory));
        }
    }

    /// The estimate is one of what such values really take.
    #[test]
    fn no_drive_takes_more_than_is_reserved_for_it() {
        let maps = json!(vec![json!({"": 0}); super::super::NODES / 3]);
        let text = "\u{1}".repeat(1 << 20);
        let worst = json!({"user_data": text, "meta_data": {"a": maps.clone(), "b": "x".repeat(1 << 20)},
            "network_data": {"a": maps, "b": "x".repeat(1 << 20)}});
        let body = worst.to_string().len();
        assert!(2 * weight(&worst) + body < MOST, "{} and {body}", weight(&worst));
        assert!(4 * weight(&worst) < 2 * MOST);
    }
}
