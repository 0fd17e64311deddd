//! The manager on a real API server with Cluster API's real definitions, with the rights that it ships and no others.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails the test")]

mod allocate;
mod bad_input;
mod lives;
mod moves;
mod objects;
mod requests;
mod support;
mod upstream;
mod webhooks;
