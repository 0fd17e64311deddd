//! What happens while a reconciliation is under way is not taken for something that it has seen.

use std::time::Duration;

use baremetal_operator::host::context::Memories;
use baremetal_operator::host::observed::Memory;
use baremetal_operator::host::quiet::Quiet;

use crate::world::World;
use metal3_runtime::store::ObjectKey;

fn key() -> ObjectKey {
    ObjectKey {
        namespace: "n".into(),
        name: "h".into(),
    }
}

const DUE: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::from_secs(20);

#[test]
fn a_call_during_a_reconciliation_is_not_swallowed_by_its_end() {
    let (quiet, key) = (Quiet::default(), key());
    let seen = World::at("available", "manageable").seen();
    let end = || quiet.left(&key, &seen, &seen.node, DUE);
    let remaining = || quiet.remaining(&key, &seen, NOW);

    quiet.begin(&key, quiet.calls(&key));
    end();
    assert_eq!(remaining(), Some(DUE.abs_diff(NOW)), "nothing happened");

    // Between its first question and its beginning.
    let heard = quiet.calls(&key);
    quiet.call(&key);
    quiet.begin(&key, heard);
    end();
    assert_eq!(remaining(), None, "called before it began");

    // While it writes.
    quiet.begin(&key, quiet.calls(&key));
    quiet.call(&key);
    end();
    assert_eq!(remaining(), None, "called before it ended");

    quiet.begin(&key, quiet.calls(&key));
    end();
    assert!(remaining().is_some(), "the call was heard");
    quiet.call(&key);
    assert_eq!(remaining(), None, "called at rest");
}

#[test]
fn a_ramdisk_that_changes_during_a_reconciliation_is_looked_at() {
    let (memories, key) = (Memories::default(), key());
    let known = Memory {
        ramdisk: Some("labels and network data".into()),
        ..Memory::default()
    };
    memories.set(&key, known.clone());
    let under_way = memories.get(&key);
    memories.ramdisk_changed(&key);
    memories.set(&key, under_way);
    assert_eq!(memories.get(&key).ramdisk, None);
    memories.set(&key, known.clone());
    assert_eq!(memories.get(&key), known, "it was looked at");
}
