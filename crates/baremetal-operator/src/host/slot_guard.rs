//! What a pass leaves of its slot, whatever ends the pass.

use std::sync::Arc;

use metal3_runtime::store::ObjectKey;

use super::context::Context;
use super::queue;

/// Gives back what a pass was granted and has not used, when the pass ends, also where it breaks down or is cut off: the slot
/// would be taken for good otherwise, and a host that was called would keep the others waiting.
pub struct SlotGuard {
    ctx: Arc<Context>,
    key: ObjectKey,
}

impl SlotGuard {
    /// For a pass over this host.
    pub fn of(ctx: Arc<Context>, key: ObjectKey) -> Self {
        Self { ctx, key }
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let Self { ctx, key } = self;
        let is_waiting = || ctx.hosts.get(key).is_some_and(|host| queue::is_waiting(&host));
        let keeps_place = ctx.fleet.is_queued(key) && is_waiting();
        ctx.fleet.reconciled(key, keeps_place, ctx.clock.elapsed());
        ctx.metrics.slots(ctx.fleet.occupancy());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use jiff::Timestamp;

    use super::super::context::out_of_reach;
    use super::*;
    use crate::fleet::{Slot, Turn};

    #[tokio::test]
    async fn a_pass_that_breaks_down_leaves_its_slot_to_others() {
        let (ctx, _registry) = out_of_reach(1);
        let ctx = Arc::new(ctx);
        ctx.fleet.was_listed(Vec::new());
        let (broken, other) = (ObjectKey::new("n", "broken"), ObjectKey::new("n", "other"));
        let ask = |host: &ObjectKey, second: i64| {
            let turn = Turn::Wanted(Timestamp::from_second(second).unwrap());
            ctx.fleet.ask_for_slot(host, &second.to_string(), turn)
        };
        let pass = catch_unwind(AssertUnwindSafe(|| {
            let _slot = SlotGuard::of(ctx.clone(), broken.clone());
            assert_eq!(ask(&broken, 1), Slot::Granted);
            assert!(matches!(ask(&other, 2), Slot::Queued(_)));
            panic!("a bug");
        }));
        assert!(pass.is_err());
        assert_eq!(ask(&other, 2), Slot::Granted);
    }
}
