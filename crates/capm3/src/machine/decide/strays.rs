//! What late processes and earlier machines have left: hosts that name a machine which does not name them, or which is gone,
//! and a claim on data that only a machine that is gone would let go. Nothing runs on these hosts.

use metal3_runtime::controller::Next;

use super::builder::PlanBuilder;
use super::host_spec;
use super::plan::{Decision, Effect, Plan, Read};
use crate::machine::observed::Leftovers;

const RELEASE: &str = "release a host that was claimed too late";

/// Releases them if the machine is still as it was seen: meanwhile it may have chosen one of the hosts.
pub(super) fn release(mut builder: PlanBuilder<'_>) -> Decision {
    builder.effects = effects(&builder.seen.leftovers);
    builder.insist = true;
    builder.next = Next::Now;
    builder.plan()
}

/// Releases what a machine that is gone has left: nobody else would.
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
