//! Cluster API's infrastructure provider: turns Cluster and Machine objects of Cluster API into real hosts.
//!
//! ```text
//!  watches, one for each kind ─▶ Stores (with indexes) ─▶ queues, one for each controller
//!                                   │                                │
//!                                   └──── observe ─▶ decide ─▶ apply ─▶ report
//!                                                    (pure)     │         │
//!                                                               └─────────┴──▶ API server; answers go into the Stores
//! ```
//!
//! Each controller is a folder: `observed` is its input, `decide` the pure decision, `apply` the writes. [`stores`] holds the
//! shared watch stores, [`controller`] the reconcile loop, [`run`] the process.
//!
//! Where a lagging store could do harm, a decision does not rely on it: what must not happen twice is written with the observed
//! resourceVersion, and on a conflict the pass runs again.

pub mod args;
pub mod cluster;
mod conditions;
pub mod context;
#[cfg(test)]
mod costs;
pub mod data;
pub mod data_template;
pub mod error;
pub mod label_sync;
mod labels;
pub mod machine;
pub mod machine_template;
pub mod metrics;
pub mod rbac;
#[cfg(test)]
mod reasons;
mod refusals;
pub mod remediation;
mod report;
pub mod run;
pub mod select;
#[cfg(test)]
mod sim;
pub mod stores;
pub mod webhooks;
pub mod workload;
