//! The lab: a real control plane and a real Ironic with simulated servers, as plain processes on 127.0.0.1.
//!
//! Tests (`metal3-testkit`) and `cargo xtask lab` start it. There are no containers, and nothing needs root. Several labs can run
//! concurrently, each in its own folder, and nothing outlives the process that started it, however that ends.
//!
//! ```text
//!   binaries (found, cached, built) ─┐
//!   process, ports, pki, instance ───┴─▶ control_plane ──▶ provider ──▶ cluster_api
//!                                    └─▶ ironic ──▶ workload (a second control plane, and kubelets)
//!   python (environments, made once) ────▶ ironic, cloud_init
//! ```
//!
//! It is a tool for tests and demonstrations, so errors are `anyhow`'s: they are printed, not matched. `lab/README.md` lists what
//! is started and its cost.

pub mod apply;
pub mod audit;
pub mod binaries;
mod cache;
pub mod cargo;
pub mod cloud_init;
pub mod cluster_api;
pub mod clusterctl;
pub mod control_plane;
mod debian;
pub mod guest;
pub mod image;
pub mod instance;
pub mod ironic;
pub mod lab;
mod lines;
pub mod manager;
pub mod metal;
pub mod nodes;
pub mod npm;
pub mod oci;
pub mod operator;
pub mod pki;
pub mod ports;
mod private_file;
pub mod process;
pub mod provider;
mod python;
pub mod workload;

pub use control_plane::{ControlPlane, ControlPlaneConfig};
