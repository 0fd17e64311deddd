//! The end of a remediation: reverts its changes. Upstream does not do this once the retries are used up, and its remediations
//! stay for ever.

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_runtime::events::Event;

use super::node::{Restored, restore};
use super::plan::{Decision, Effect, Plan, Read, left, wait};
use crate::remediation::host;
use crate::remediation::observed::{Observed, Over};

pub fn decide(seen: &Observed, over: Over, now: Timestamp) -> Decision {
    if !seen.is_held() {
        return match seen.unknown_strategy() {
            Some(strategy) => {
                let message = format!("spec.strategy.type is {strategy:?}; only Reboot is known, and nothing is done");
                wait("UnknownStrategy", message, None).into()
            }
            None => Decision::idle(),
        };
    }
    for host in seen.own_host().into_iter().chain(&seen.strays) {
        if let Some(patch) = host::undo(host) {
            let effect = Effect::Host {
                what: "let the host be switched on",
                host: host.name_any(),
                patch,
            };
            return Plan::of(effect).into();
        }
    }
    if seen.is_node_leaving() {
        return let_go_without_node(seen, Plan::default());
    }
    match restore(seen, false) {
        Restored::Done => let_go(seen, Plan::default()),
        Restored::Step(plan) => plan.into(),
        Restored::Wait(reason, message) => match over {
            Over::Deleted(at) => {
                let end = at.saturating_add(seen.limits().timeout).unwrap_or(Timestamp::MAX);
                if now < end {
                    let message = format!("{message}; the remediation goes all the same at {end}");
                    return wait(reason, message, Some(left(now, end))).into();
                }
                let message = format!(
                    "{message}; if the Node has the taint node.kubernetes.io/out-of-service, take it off by hand"
                );
                let_go_without_node(seen, Plan::default().with(Event::warning("NodeNotRestored", message)))
            }
            // Nothing waits for its deletion.
            Over::MachineGone | Over::Ended => wait(reason, message, None).into(),
        },
    }
}

/// Nothing is left to revert. This is checked against fresh reads: with lagging watches, something could be left behind for ever.
pub fn let_go(seen: &Observed, plan: Plan) -> Decision {
    if !seen.looks.is_node_fresh {
        return Decision::Fetch(Read::FreshNode);
    }
    let_go_without_node(seen, plan)
}

fn let_go_without_node(seen: &Observed, plan: Plan) -> Decision {
    if !seen.looks.is_fresh {
        return Decision::Fetch(Read::Fresh);
    }
    let effects = vec![Effect::RemoveFinalizer];
    Plan { effects, ..plan }.into()
}
