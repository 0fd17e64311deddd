//! Chooses a claim's address. Pure: no client, no clock, no randomness of its own.
//!
//! ```text
//!  IPPool.spec ──────▶ Plan (ranges, reservations, problems) ─┐
//!                                                             ├─▶ Allocator ─▶ Grant | Refusal
//!  addresses in use ─▶ Blocked (merged intervals) ────────────┘
//! ```
//!
//! The cost of an allocation depends neither on the size of a pool nor on the number of addresses in use: arithmetic decides
//! whether an address is in a range, and one look-up in the merged intervals finds the next free one. The number of entries does
//! matter: they are tried in order until one has room, so a pool should have a few ranges rather than thousands of single
//! addresses.

mod address;
mod allocator;
mod blocked;
mod bounds;
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
    bounds::Bounds,
    entry::{Entry, Range, Size},
    grant::{Grant, Refusal, Usage},
    plan::{Plan, Problem, Settings, Severity, Strategy},
};
