//! `kubectl metal3`: looks at a cluster and says what to do. It only reads, and reads no Secret.

pub mod args;
pub mod migration;
pub mod run;
