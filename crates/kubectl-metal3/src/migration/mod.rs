//! The check before one Metal3 takes the place of another: what is in the cluster, what will happen, what blocks, and which commands
//! to run. Observed once, then decided without a client.

mod calls;
pub mod change;
pub mod decide;
mod definitions;
mod fields;
mod inventory;
pub mod observe;
mod programs;
pub mod report;
mod settings;
mod shell;
mod steps;
