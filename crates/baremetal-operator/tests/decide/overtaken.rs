//! What happens while a pass is under way is not taken for something that it has seen.

use std::time::Duration;

use baremetal_operator::host::firmware::{AtHand, Edit, Seen, Wish};
use baremetal_operator::host::memory::{Begin, Memories};
use baremetal_operator::host::observed::{
    DataImageAtHand, Memory, NetworkDataView, NodeView, Observed, Outage, OutageKind, SecretView,
};
use metal3_runtime::store::ObjectKey;

use crate::world::World;

const DUE: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::from_secs(20);

fn key() -> ObjectKey {
    ObjectKey::new("n", "h")
}

/// A pass that has begun.
fn begin(memories: &Memories, seen: &Observed) -> Begin {
    let begin = memories.begin(&key());
    assert_eq!(memories.idle(&key(), &begin, seen, DUE), None, "its time has come");
    begin
}

fn end(memories: &Memories, seen: &Observed) {
    memories.end(&key(), seen, 0, Some((DUE, seen.node.clone())));
}

fn idle(memories: &Memories, seen: &Observed) -> Option<Duration> {
    memories.idle(&key(), &memories.begin(&key()), seen, NOW)
}

#[test]
fn a_host_that_is_created_anew_inherits_no_memory() {
    let (memories, mut seen) = (Memories::default(), World::at("available", "manageable").seen());
    memories.keep_only(&key(), Some("first"));
    begin(&memories, &seen);
    seen.memory.network_data = Some("7".to_owned());
    end(&memories, &seen);
    memories.keep_only(&key(), Some("first"));
    assert_eq!(memories.begin(&key()).memory, seen.memory);
    memories.keep_only(&key(), Some("second"));
    assert_eq!(memories.begin(&key()).memory, Memory::default());
    assert_eq!(idle(&memories, &seen), None);
}

#[test]
fn a_wake_during_a_pass_is_not_swallowed_by_its_end() {
    let (memories, seen) = (Memories::default(), World::at("available", "manageable").seen());
    begin(&memories, &seen);
    end(&memories, &seen);
    assert_eq!(idle(&memories, &seen), Some(DUE.abs_diff(NOW)), "nothing happened");

    // Between its first question and its beginning.
    let first = memories.begin(&key());
    memories.wake(&key());
    assert_eq!(memories.idle(&key(), &first, &seen, NOW), None);
    end(&memories, &seen);
    assert_eq!(idle(&memories, &seen), None, "woken before it began");

    // While it writes.
    begin(&memories, &seen);
    memories.wake(&key());
    end(&memories, &seen);
    assert_eq!(idle(&memories, &seen), None, "woken before it ended");

    begin(&memories, &seen);
    end(&memories, &seen);
    assert!(idle(&memories, &seen).is_some(), "the wake was heard");
    memories.wake(&key());
    assert_eq!(idle(&memories, &seen), None, "woken at rest");
}

/// Whatever is at hand and differs ends the rest of a host.
#[test]
fn any_change_at_hand_wakes() {
    let cause = Outage {
        kind: OutageKind::Absent,
        cause: "no".into(),
    };
    let changes: [&dyn Fn(&mut Observed); 11] = [
        &|seen| std::sync::Arc::make_mut(&mut seen.host).metadata.resource_version = Some("another".into()),
        &|seen| std::sync::Arc::make_mut(&mut seen.host).metadata.uid = Some("another".into()),
        &|seen| seen.secret = SecretView::Missing,
        &|seen| seen.may_claim_unread = !seen.may_claim_unread,
        &|seen| seen.node = NodeView::Unlisted,
        &|seen| {
            seen.network_data = NetworkDataView::NotLooked {
                version: Some("another".into()),
                claimed: false,
            };
        },
        &|seen| seen.deployment_secrets = [("user-data".to_owned(), None)].into_iter().collect(),
        &|seen| seen.hardware_data_edit = Some(7),
        &|seen| seen.data_image_at_hand = DataImageAtHand::Unknown,
        &|seen| {
            seen.firmware = AtHand {
                settings: Seen {
                    wish: Wish::Nothing,
                    edit: Some(Edit {
                        object: 1,
                        generation: 7,
                    }),
                },
                ..seen.firmware
            };
        },
        &|seen| seen.outage = Some(cause.clone()),
    ];
    for (number, change) in changes.iter().enumerate() {
        let (memories, mut seen) = (Memories::default(), World::at("available", "manageable").seen());
        begin(&memories, &seen);
        end(&memories, &seen);
        change(&mut seen);
        assert_eq!(idle(&memories, &seen), None, "change {number}");
    }
}

#[test]
fn a_ramdisk_that_changes_during_a_pass_is_looked_at() {
    let (memories, mut seen) = (Memories::default(), World::at("available", "manageable").seen());
    begin(&memories, &seen);
    seen.memory = Memory {
        ramdisk: Some("labels and network data".into()),
        ..Memory::default()
    };
    memories.ramdisk_changed(&key());
    end(&memories, &seen);
    assert_eq!(memories.begin(&key()).memory.ramdisk, None);
    end(&memories, &seen);
    assert_eq!(memories.begin(&key()).memory, seen.memory, "it was looked at");
}
