//! Hosts that are no more.

use kube::runtime::reflector::ObjectRef;

use super::context::Context;
use metal3_runtime::store::ObjectKey;

/// The host is gone from our side: so is everything remembered of it, but that our finalizer is off. A cache that lags
/// behind would have the host enrolled again otherwise; [`vanished`] forgets that as well.
pub fn forget(ctx: &Context, key: &ObjectKey) {
    ctx.fleet.forget(key);
    ctx.memory.forget(key);
    ctx.quiet.forget(key);
    ctx.attempts.reset(key);
    ctx.conflicts.reset(key);
    ctx.secrets
        .remove_owner(&ObjectRef::new(&key.name).within(&key.namespace));
    ctx.metrics.forget(key);
}

/// The cache does not show the host any more: it may also have gone without us, with its finalizer taken off by hand.
pub fn vanished(ctx: &Context, namespace: &str, name: &str) {
    let key = ObjectKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    forget(ctx, &key);
    ctx.written.forget(namespace, name);
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::fleet::Turn;
    use crate::host::context::out_of_reach;
    use crate::host::observed::Memory;

    #[tokio::test]
    async fn a_host_that_goes_without_us_leaves_nothing_behind() {
        let (ctx, registry) = out_of_reach(0);
        let key = ObjectKey {
            namespace: "n".into(),
            name: "h".into(),
        };
        let status = serde_json::from_value(
            json!({"operationalStatus": "OK", "errorMessage": "", "poweredOn": false,
            "provisioning": {"state": "available", "ID": "u"}, "conditions": [{"type": "Waiting", "status": "True",
                "reason": "Queued", "message": "", "lastTransitionTime": "2026-01-02T11:00:00Z"}]}),
        );
        ctx.metrics.see(&key, Some(&status.unwrap()));
        ctx.fleet.ask_for_slot(&key, "u", Turn::Wanted(Timestamp::UNIX_EPOCH));
        ctx.attempts.failed(&key);
        let memory = Memory {
            is_untried: true,
            ..Memory::default()
        };
        ctx.memory.set(&key, memory);
        let count = |series: &str, number: u8| {
            let text = registry.text().unwrap();
            assert!(
                text.contains(&format!("{series} {number}\n")),
                "{series} {number}:\n{text}"
            );
        };
        let series = [
            r#"metal3_hosts{state="available"}"#,
            r#"metal3_hosts_waiting{reason="Queued"}"#,
        ];
        for series in series {
            count(series, 1);
        }

        vanished(&ctx, "n", "h");
        for series in series {
            count(series, 0);
        }
        assert_eq!(ctx.fleet.occupancy()[2], 0, "nobody waits for a slot");
        assert!(ctx.attempts.is_empty());
        assert_eq!(ctx.memory.get(&key), Memory::default());
    }
}
