//! The end of a reconciliation, whatever ends it.

use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::ObjectKey;

use super::context::Context;
use super::queue;

/// Closes the books of a reconciliation when it is dropped, also where the reconciliation breaks down or is cut off: a slot
/// that was granted and not used would be taken for good otherwise, and a host that was called would keep the others waiting.
pub struct Ending<'a> {
    ctx: &'a Context,
    key: &'a ObjectKey,
    cached: &'a BareMetalHost,
}

impl<'a> Ending<'a> {
    /// Of the reconciliation of this host.
    pub fn of(ctx: &'a Context, key: &'a ObjectKey, cached: &'a BareMetalHost) -> Self {
        Self { ctx, key, cached }
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let Self { ctx, key, cached } = self;
        let is_told = ctx.fleet.is_queued(key) && queue::is_waiting(&ctx.written.newest(cached));
        ctx.fleet.reconciled(key, is_told, ctx.clock.elapsed());
        ctx.metrics.slots(ctx.fleet.occupancy());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use jiff::Timestamp;
    use serde_json::json;

    use super::super::context::out_of_reach;
    use super::*;
    use crate::fleet::{Slot, Turn};

    #[tokio::test]
    async fn a_pass_that_breaks_down_leaves_its_slot_to_others() {
        let (ctx, _registry) = out_of_reach(1);
        ctx.fleet.was_listed(Vec::new());
        let host = |name: &str| -> BareMetalHost {
            serde_json::from_value(json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
                "metadata": {"name": name, "namespace": "n"}, "spec": {"online": true}}))
            .unwrap()
        };
        let (broken, other) = (host("broken"), host("other"));
        let ask = |host: &BareMetalHost, hour: i64| {
            let turn = Turn::Wanted(Timestamp::from_second(hour).unwrap());
            ctx.fleet
                .ask_for_slot(&super::super::key_of(host), &hour.to_string(), turn)
        };
        let pass = catch_unwind(AssertUnwindSafe(|| {
            let key = super::super::key_of(&broken);
            let _end = Ending::of(&ctx, &key, &broken);
            assert_eq!(ask(&broken, 1), Slot::Granted);
            assert!(matches!(ask(&other, 2), Slot::Queued(_)));
            panic!("a bug");
        }));
        assert!(pass.is_err());
        assert_eq!(ask(&other, 2), Slot::Granted);
    }
}
