//! The IP address manager: pools of addresses, and claims that get one.
//!
//! ```text
//!  watches: pools, claims and addresses of both families, Clusters
//!      │ watches.rs
//!      ▼
//!  PoolState (one per pool) ──▶ decide (pure) ──▶ a round of requests ──▶ API server
//!      ▲                                               │ answers
//!      └───────────────────────────────────────────────┘
//! ```
//!
//! [`alloc`] is the arithmetic. [`pool`] is one pool: what is known, what to do next, doing it; its documentation has the
//! invariants and how they are kept. [`admission`] says what may be written. [`watches`] brings what the watches show to the
//! [`pools`], [`reconcile`] goes round after round until a pool is idle.
//!
//! A failure lasts as long as its cause; upstream keeps a failed claim failed until it is made anew. An address keeps its
//! prefix, gateway and DNS servers when the pool changes later, as upstream's does.

pub mod admission;
pub mod alloc;
pub mod args;
pub mod metrics;
pub mod pool;
pub mod pools;
pub mod rbac;
pub mod reconcile;
pub mod run;
pub mod watches;
pub mod webhooks;
