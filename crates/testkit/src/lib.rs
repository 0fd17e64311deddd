//! Helpers for tests against a real API server: one server per test binary, one namespace per test, objects from YAML, and
//! assertions that poll.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! #[tokio::test]
//! async fn a_config_map_gets_its_key() {
//!     let namespace = metal3_testkit::namespace!().await;
//!     namespace.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {key: value}}").await;
//!     // … start what is under test with `namespace.client` or `namespace.service_account("robot")` …
//!     namespace
//!         .expect("a", "has its key", |map: &ConfigMap| map.data.iter().flatten().any(|(key, _)| key == "key"))
//!         .await;
//! }
//! ```
//!
//! The first test of a binary starts the server (seconds; minutes when its programs must be built first, with a line
//! now and then), and it ends with the binary. There is no controller manager: nothing collects garbage, and a deleted
//! namespace stays. A test that needs garbage collection starts its own [`metal3_lab::ControlPlane`].
//!
//! Kinds with two versions are converted by our programs' webhook, which runs in the test's own process, whatever webhook the
//! CRDs name.
//!
//! Everything here panics on failure, which fails the test. No test is ever skipped.

#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a library of assertions: to panic is how they fail a test, as said above"
)]

mod balancer;
mod eventually;
pub mod leaks;
mod namespace;
pub mod peak;
pub mod played;
mod processes;
mod replicas;
mod server;
mod webhooks;

pub use eventually::{DEADLINE, eventually};
pub use metal3_lab::apply::parse;
pub use namespace::{NamespacedKind, TestNamespace, test_name};
pub use processes::Processes;
pub use replicas::Replicas;
pub use server::{
    another_server, bare_server, definitions, init, server, server_without_rules, with_controller_manager,
    without_rules,
};
pub use webhooks::{Served, endpoint, listen};

/// The error with its causes, as a test failure.
#[track_caller]
fn fail(what: &str, error: &anyhow::Error) -> ! {
    panic!("{what}: {error:#}")
}
