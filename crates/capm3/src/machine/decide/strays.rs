//! Leftovers of late processes and earlier machines: hosts that reference a machine that does not reference them or is gone, and
//! a data claim that only a deleted machine would release. Nothing runs on these hosts.

use metal3_runtime::controller::Next;

use super::builder::PlanBuilder;
use super::host_spec;
use super::plan::{Decision, Effect, Plan, Read};
use crate::machine::observed::Leftovers;

const RELEASE: &str = "release a host that was claimed too late";

/// Releases them if the machine is unchanged: it may have chosen one of the hosts in the meantime.
pub(super) fn release(mut builder: PlanBuilder<'_>) -> Decision {
    builder.effects = effects(&builder.seen.leftovers);
    builder.insist = true;
    builder.next = Next::Now;
    builder.plan()
}

/// Releases the leftovers of a machine that is gone: nothing else would.
pub(super) fn decide(leftovers: &Leftovers) -> Decision {
    match leftovers.is_gone {
        None => Decision::Fetch(Read::Owner),
        Some(false) => Decision::idle(),
        Some(true) => Plan {
            effects: effects(leftovers),
            ..Plan::default()
        }
        .into(),
    }
}

fn effects(leftovers: &Leftovers) -> Vec<Effect> {
    let hosts = leftovers.hosts.iter();
    let hosts = hosts.map(|host| Effect::host(host, &host_spec::release(host), RELEASE));
    let claim = leftovers.claim.iter().cloned().map(Effect::ReleaseClaim);
    hosts.chain(claim).collect()
}
