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
//! [`alloc`] is the arithmetic. [`pool`] manages one pool: its state, the decisions and the requests; its documentation lists the
//! invariants and how they are kept. [`admission`] validates writes. [`watches`] feeds watch events into the [`pools`],
//! [`reconcile`] runs rounds until a pool is idle.
//!
//! A failure lasts as long as its cause; upstream keeps a failed claim failed until it is recreated. An address keeps its prefix,
//! gateway and DNS servers when the pool changes later, as upstream's does.

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
