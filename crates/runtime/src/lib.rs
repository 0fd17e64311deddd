//! What every Metal3 controller shares: flags, logging, time, leader election, shutdown, metrics, probes, events,
//! conditions, secondary indexes, error classes and back-off.
//!
//! The crate knows Kubernetes but no Metal3 kind: nothing in here decides what happens to a host, a claim or a pool.
//! Whatever can be pure is pure: time and randomness come in as arguments. The critical parts, leader election first of
//! all, are therefore tested by simulation rather than by waiting.
//!
//! ```text
//!  args ─▶ telemetry ─▶ client ─▶ shutdown::Tasks ─┬─ probes, metrics, webhooks (every replica)
//!                                                  ├─ controllers             (the leader, or every replica without election)
//!                                                  └─ leader (ends last: the lease is released after the controllers)
//! ```

pub mod args;
pub mod backoff;
pub mod by_name;
pub mod by_namespace;
pub mod cache;
pub mod clock;
pub mod conditions;
pub mod controller;
pub mod denied;
pub mod error;
pub mod events;
pub mod find;
pub mod go_url;
pub mod index;
pub mod leader;
pub mod listen;
pub mod lookups;
pub mod metrics;
pub mod migration;
#[cfg(test)]
mod mock;
pub mod patch;
pub mod per_namespace;
pub mod probes;
pub mod process;
pub mod rbac;
pub mod readable;
pub mod secrets;
pub mod serve;
pub mod served;
pub mod shutdown;
pub mod status;
pub mod store;
pub mod telemetry;
pub mod timing;
pub mod tls;
pub mod webhook;
pub mod work;

pub use clock::Clock;

/// An error that a task or a server may fail with. The process prints it with its causes and exits.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Compiles the worked example in the document.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/how-to.md")]
struct HowTo;
