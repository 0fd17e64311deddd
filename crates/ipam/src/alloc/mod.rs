//! Which address a claim gets. Pure: no client, no clock, no randomness of its own.
//!
//! ```text
//!  IPPool.spec ──────▶ Plan (ranges, reservations, problems) ─┐
//!                                                             ├─▶ Allocator ─▶ Grant | Refusal
//!  addresses in use ─▶ Blocked (merged intervals) ────────────┘
//! ```
//!
//! Neither the size of a pool nor the number of addresses in use matters to an allocation: whether an address belongs to
//! a range is arithmetic, and one look-up among the merged intervals of blocked addresses finds the next free one.
//! The number of entries in the specification does matter: they are tried in order until one has room, so a pool should be
//! a few ranges, not thousands of single addresses.

mod address;
mod allocator;
mod blocked;
mod entry;
mod fit;
mod grant;
mod plan;
mod read;
#[cfg(test)]
mod tests;

pub use self::{
    address::{AddressError, Version, number, parse, parse_as_held, parse_subnet},
    allocator::Allocator,
    entry::{Entry, Range, Size},
    grant::{Grant, Refusal, Usage},
    plan::{Plan, Problem, Settings, Severity, Strategy},
};
