//! Our definitions and types against a real API server.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helper functions too"
)]

#[path = "../objects/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each test program uses its own part")]
mod objects;

mod explain;
mod fixed;
mod hosts;
mod limits;
mod required;
mod server;
mod table;
