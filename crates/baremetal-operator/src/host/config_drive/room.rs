//! The memory that the config drives of all hosts share: whoever may write many hosts and large Secrets must not use up that of
//! the process.

use metal3_ironic::{Share, Shares};
use serde_json::Value;

/// What is kept free for one drive until its size is known: three Secrets of 1 MiB, what two of them become when they are parsed, a
/// copy for the request, and its body, in which a character can take six bytes.
const MOST: usize = 48 << 20;
/// The same of all drives at a time. Drives of usual size take some kilobytes, so that thousands have room.
const MOST_OF_ALL: usize = 8 * MOST;

/// Room for config drives. Clones are the same.
#[derive(Clone, Debug)]
pub struct Room(Shares);

/// A config drive as Ironic gets it, which counts as long as it is there.
pub struct Drive {
    /// The value from which Ironic builds it.
    pub value: Value,
    _memory: Option<Share>,
}

impl Default for Room {
    fn default() -> Self {
        Self(Shares::new(MOST_OF_ALL))
    }
}

impl Room {
    /// Waits for room for one drive of any size. A namespace waits for its own drives before others wait for it.
    pub async fn reserve(&self, namespace: &str) -> Share {
        self.0.wait(namespace, MOST).await
    }
}

impl Drive {
    /// Keeps as much of the memory as the drive takes.
    pub fn new(value: Value, mut memory: Option<Share>) -> Self {
        if let Some(memory) = &mut memory {
            memory.keep(4 * weight(&value));
        }
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
    use tokio::time::{Duration, Instant, timeout};

    use super::*;

    fn large() -> Value {
        json!({"user_data": "x".repeat(3 << 20), "meta_data": {"list": vec![json!({"": 0}); 6_000]}})
    }

    /// The drive of a pass, if it gets its memory.
    async fn drive(room: &Room, namespace: &str, value: Value) -> Option<Drive> {
        let memory = timeout(Duration::from_secs(9), room.reserve(namespace)).await.ok()?;
        Some(Drive::new(value, Some(memory)))
    }

    // OWN 31we: a tenant with many hosts and large Secrets made the operator hold gigabytes.
    #[tokio::test(start_paused = true)]
    async fn the_drives_of_many_hosts_share_a_bounded_memory() {
        let room = Room::default();
        let mut drives = Vec::new();
        for namespace in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
            while let Some(drive) = drive(&room, namespace, large()).await {
                drives.push(drive);
                assert!(drives.len() < 10, "{} MiB are for all", MOST_OF_ALL >> 20);
            }
        }
        assert!(drives.len() >= 7, "{}", drives.len());
        drives.pop();
        drives.pop();
        assert!(drive(&room, "z", large()).await.is_some());
    }

    // OWN 31wk: drives got their memory in the order of arrival, whoever held how much of it.
    #[tokio::test(start_paused = true)]
    async fn the_drives_of_a_namespace_leave_memory_to_others() {
        let room = Room::default();
        let mut held = Vec::new();
        while let Some(drive) = drive(&room, "tarpit", large()).await {
            held.push(drive);
        }
        assert!(held.len() >= 4, "{}", held.len());
        // They wait as 64 passes would, before anybody else comes.
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..60 {
            let room = room.clone();
            waiting.spawn(async move { room.reserve("tarpit").await });
        }
        tokio::task::yield_now().await;
        let start = Instant::now();
        assert!(drive(&room, "other", large()).await.is_some());
        assert!(start.elapsed().is_zero());
        assert!(waiting.try_join_next().is_none());
        drop(held);
        tokio::task::yield_now().await;
        assert!(waiting.try_join_next().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn usual_drives_do_not_wait_for_each_other() {
        let room = Room::default();
        let usual =
            json!({"user_data": "x".repeat(16 << 10), "meta_data": {"name": "h"}, "network_data": {"links": []}});
        let mut drives = Vec::new();
        for _ in 0..1_000 {
            drives.push(drive(&room, "a", usual.clone()).await.unwrap());
        }
    }

    /// The estimate is one of what such values really take.
    #[test]
    fn no_drive_takes_more_than_is_reserved_for_it() {
        let maps = json!(vec![json!({"": 0}); metal3_api::carried::MOST_VALUES / 3]);
        let text = "\u{1}".repeat(1 << 20);
        let worst = json!({"user_data": text, "meta_data": {"a": maps.clone(), "b": "x".repeat(1 << 20)},
            "network_data": {"a": maps, "b": "x".repeat(1 << 20)}});
        let body = worst.to_string().len();
        assert!(2 * weight(&worst) + body < MOST, "{} and {body}", weight(&worst));
        assert!(4 * weight(&worst) < 2 * MOST);
    }
}
