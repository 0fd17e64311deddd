//! Which address a claim gets. Pure: no Kubernetes, no clock, no randomness of its own.
//!
//! ```text
//!  texts of the spec ─▶ Plan (ranges, reservations, problems) ─┐
//!                                                              ├─▶ Allocator ─▶ Grant | Refusal
//!  addresses in use ──▶ Blocked (merged intervals) ────────────┘
//! ```
//!
//! Neither the size of a pool nor the number of addresses in use matters to an allocation: whether an address belongs to
//! a range is arithmetic, and the next free one is found by one look-up among the intervals of blocked addresses, which
//! are kept merged. A pool of `::/0` costs what one of four addresses costs.
//! What does matter is the number of entries in the specification: they are asked in their order until one has room, so a
//! pool should be a few ranges, not thousands of single addresses.

mod address;
mod allocator;
mod blocked;
mod entry;
mod fit;
mod grant;
mod plan;
mod read;

#[cfg(test)]
mod claims;
#[cfg(test)]
mod model;
#[cfg(test)]
mod problems;
#[cfg(test)]
mod vectors;

pub use self::{
    address::{AddressError, Line, Subnet, SubnetError, Version, parse, parse_as_held},
    allocator::Allocator,
    blocked::Blocked,
    entry::{Entry, EntryText, Range, Size},
    grant::{Grant, Refusal, Usage},
    plan::{Plan, PoolText, Problem, Settings, Severity, Strategy},
};
