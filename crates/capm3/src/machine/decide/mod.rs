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
mod node;
mod pause;
mod plan;
mod preview;
mod provision;
mod refused;
mod waits;
mod words;

use jiff::Timestamp;
use metal3_api::infra::names::finalizer;
use metal3_api::infra::v1beta2::Metal3Machine;

pub use self::associate::{CLAIM, wanted};
use self::draft::Draft;
pub use self::node::NODE;
pub use self::plan::{Decision, Effect, HostPatch, Need, Plan};
pub use self::preview::BOOTSTRAP_DATA;
pub use self::provision::MOST_ADDRESSES;
pub use self::refused::{Refused, refused};
use super::{Host, Observed};

/// Whether the machine has its host.
pub const ASSOCIATED: &str = "AssociateBareMetalHost";
/// Whether its wish for metadata and network data is there, if it needs one.
pub const METADATA: &str = "AssociateMetal3MachineMetaData";
/// Whether those are there.
pub const DATA_READY: &str = "Metal3DataReady";

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

fn has_finalizer(machine: &Metal3Machine) -> bool {
    let finalizers = machine.metadata.finalizers.iter().flatten();
    finalizers.into_iter().any(|present| present == finalizer::MACHINE)
}
