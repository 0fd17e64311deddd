//! The client against servers that speak HTTP as told: what is sent, and what is made of odd answers.
#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

mod calls;
mod limits;
mod paging;
mod ready;
mod refusals;
mod rotation;
mod secrets;
mod server;
mod tls;
mod trouble;
