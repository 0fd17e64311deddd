//! One pool: its state, its decisions, and its requests.
//!
//! ```text
//!  watches ────────────────▶ PoolState ──▶ decide (pure) ──▶ Round of effects ──▶ apply ──┐
//!            absorb ──▶──────────▲                                                        │
//!  answers ──────────────────────┴────────────────────── report: events ◀─────────────────┘
//! ```
//!
//! Each round derives everything from the observed objects: which claim holds which address, which claims wait, and what to
//! write. Its cost is proportional to the objects of the pool; one round serves up to [`Policy::batch`] claims.
//!
//! # Invariants
//!
//! The simulation in `tests` checks exactly these, with several managers at once, stale caches, lost responses and crashes
//! between any two requests:
//!
//! 1. No address is the address of two living claims, of whichever family.
//! 2. A claim keeps its address: a status that names an address never names another one afterwards.
//! 3. A status names an address only if its object exists and the claim owns it.
//! 4. A claim gets an address of the pool's ranges that is not reserved for another claim in `preAllocations`.
//! 5. In the end every claim is served or says why not, every deleted claim is gone, no object is left over, and the
//!    pool's status says what is so.
//!
//! # How they are kept
//!
//! - The API server holds two locks. An object's *name* follows from its address, so two claims of one family cannot both
//!   have an object for it. Across the families the *pool* is the lock: an address is reserved for one claim (by UID) in
//!   `status.allocating`, in a write that fails if anything has written the pool since it was read.
//! - An object is created only for a reserved address. The reservation ends when the claim's status names the address,
//!   or the claim is gone.
//! - A pool written by anything else, or an object that the known claims do not explain, makes the view incomplete:
//!   everything is then read from the API server before anything is decided ([`Effect::Refresh`]).
//! - What is left of a crash is healed: an object without a living claim is removed, a missing object of a claim is
//!   made again with the same address, a finalizer is taken off last.

mod answer;
mod apply;
mod decide;
pub mod effect;
mod event;
mod failures;
mod lists;
pub mod objects;
mod report;
mod reservation;
mod state;
#[cfg(test)]
mod tests;

pub use self::answer::{Answer, judge};
pub use self::apply::Server;
pub use self::decide::{CONSISTENT, Round, SPEC_VALID, decide};
pub use self::effect::Effect;
pub use self::event::{ClusterSeen, Event, Removal, Tombstone};
pub use self::lists::Lists;
pub use self::report::{UserEvent, events, gathered};
pub use self::state::{Policy, PoolState};
