//! Cluster API's infrastructure provider: Cluster and Machine objects of Cluster API become real hosts.
//!
//! ```text
//!  watches, one for each kind ─▶ Stores (with indexes) ─▶ queues, one for each controller
//!                                   │                                │
//!                                   └──── observe ─▶ decide ─▶ apply ─▶ report
//!                                                    (pure)     │         │
//!                                                               └─────────┴──▶ API server; answers go into the Stores
//! ```
//!
//! A controller is a folder: `observed` is what it sees, `decide` the pure decision, `apply` the writes. [`stores`] holds
//! what all see, [`controller`] the loop around passes, [`run`] the process.
//!
//! Nothing is concluded from the stores alone that would hurt if they were late: what must not be done twice is written
//! with the resourceVersion that was judged, and who comes second looks again.

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
