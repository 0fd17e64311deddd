//! The provider on a real API server with Cluster API's real definitions, with the rights that it ships and no others.
//! What Cluster API's managers would do, the tests do.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails the test")]

mod choices;
mod clusters;
mod data;
mod label_sync;
mod machine_templates;
mod machines;
mod migration;
mod preallocation;
mod preview;
mod processes;
mod remediation;
mod rules;
mod silence;
mod support;
mod webhooks;
mod workload;
