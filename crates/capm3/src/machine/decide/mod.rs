//! What to do about a Metal3Machine. Pure.
//!
//! ```text
//!  paused? ─▶ deleted? ─▶ Cluster seen? ─▶ has its host? ──no──▶ waits ─▶ Secrets ─▶ choice ─▶ claim (with all it takes,
//!                                               │                                              where that is known)
//!                                               └─────yes─▶ data ─▶ Secrets ─▶ what to run ─▶ provisioned ─▶ provider ID
//! ```

mod associate;
mod data;
mod delete;
mod draft;
mod host_spec;
mod installed;
pub(crate) mod node;
mod pause;
pub(crate) mod plan;
pub(crate) mod preview;
pub(crate) mod provision;
mod refused;
mod waits;
mod words;

use jiff::Timestamp;

pub use self::associate::{CLAIM, wanted};
use self::draft::{Draft, has_finalizer};
pub use self::plan::{Decision, Effect, Need, Plan};
pub use self::refused::{Refused, refused};
use crate::machine::observed::{Host, Observed};

/// Decides on what was seen.
pub fn decide(seen: &Observed, now: Timestamp) -> Decision {
    let is_deleted = seen.machine.metadata.deletion_timestamp.is_some();
    if is_deleted && !has_finalizer(&seen.machine) {
        return Decision::Nothing;
    }
    let mut draft = Draft::new(seen, now);
    if let Some(why) = seen.paused() {
        draft.paused(Some(&why));
        pause::hold(&mut draft);
        return draft.plan();
    }
    draft.paused(None);
    if is_deleted {
        return delete::decide(draft);
    }
    // Nobody can tell whether it is paused: on its way to another management cluster, the Cluster may come later.
    if seen.cluster.found().is_none() {
        return waits::without_cluster(draft);
    }
    match &seen.host {
        Host::Ours(host) => provision::decide(draft, host),
        Host::None if seen.had_host() => associate::lost(draft),
        Host::Missing(_) | Host::Unclaimed(_) | Host::Foreign(..) if seen.had_host() => {
            if seen.looks.is_host_fresh {
                associate::lost(draft)
            } else {
                Decision::Look(Need::FreshHost)
            }
        }
        Host::None | Host::Missing(_) | Host::Unclaimed(_) | Host::Foreign(..) => associate::decide(draft),
    }
}
