//! Decides what to do about a Metal3Machine. Pure.
//!
//! ```text
//!  paused? ─▶ named host read? ─▶ leftovers? ─▶ deleted? ─▶ Cluster seen? ─▶ has its host?
//!                                                                              │       │
//!             waits ─▶ Secrets ─▶ choice ─▶ name and claim ◀──────── no ───────┘       yes
//!             data ─▶ Secrets ─▶ what to run ─▶ provisioned ─▶ provider ID ◀───────────┘
//! ```

mod associate;
mod builder;
mod data;
mod delete;
mod host_spec;
mod installed;
pub(crate) mod node;
mod pause;
pub(crate) mod plan;
pub(crate) mod preview;
pub(crate) mod provision;
mod refused;
mod strays;
mod waits;
mod words;

use jiff::Timestamp;

pub use self::associate::wanted;
use self::builder::{PlanBuilder, has_finalizer};
#[cfg(test)]
pub use self::plan::Plan;
pub use self::plan::{Decision, Effect, Read, SET_PROVIDER_ID};
pub use self::refused::{Refused, refused};
use crate::machine::observed::{Host, Observed, Subject};

/// Decides on what was observed under one key.
pub fn decide(seen: &Subject, now: Timestamp) -> Decision {
    match seen {
        Subject::Machine(seen) => machine(seen, now),
        Subject::Gone(leftovers) => strays::decide(leftovers),
    }
}

/// Decides on a machine.
pub fn machine(seen: &Observed, now: Timestamp) -> Decision {
    let is_deleted = seen.machine.metadata.deletion_timestamp.is_some();
    if is_deleted && !has_finalizer(&seen.machine) {
        return Decision::idle();
    }
    let mut builder = PlanBuilder::new(seen, now);
    if let Some(why) = seen.paused() {
        builder.paused(Some(&why));
        pause::hold(&mut builder);
        return builder.plan();
    }
    builder.paused(None);
    // The watch may lag: the host may have been claimed in the meantime.
    if let Host::Missing(_) | Host::Unclaimed(_) | Host::Foreign(..) = &seen.host
        && !seen.reads.is_host_fresh
    {
        return Decision::Fetch(Read::NamedHost);
    }
    if !seen.leftovers.is_empty() {
        return strays::release(builder);
    }
    if is_deleted {
        return delete::decide(builder);
    }
    // It is unknown whether the machine is paused: in a move to another management cluster, the Cluster may arrive later.
    if seen.cluster.found().is_none() {
        return waits::without_cluster(builder);
    }
    match &seen.host {
        Host::Ours(host) => provision::decide(builder, host),
        Host::None | Host::Missing(_) | Host::Unclaimed(_) | Host::Foreign(..) if seen.was_associated() => {
            associate::lost(builder)
        }
        Host::None | Host::Missing(_) | Host::Unclaimed(_) | Host::Foreign(..) => associate::decide(builder),
    }
}
