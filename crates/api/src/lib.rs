//! Metal3's Kubernetes kinds as Rust types.
//!
//! What a Go client of Metal3 writes must be readable here, and what is written here must be readable there: field
//! names, enum texts, what is left out when empty and what is not are all part of the interface.
//!
//! This crate holds types, their schema and small pure questions about them. It decides nothing and does no I/O.
//!
//! ```text
//! metal3/        group metal3.io           BareMetalHost, HardwareData, HostClaim, …
//! infra/         group infrastructure.…    Metal3Cluster, Metal3Machine, …, two versions and their conversion
//! ipam/          group ipam.metal3.io      IPPool, IPClaim, IPAddress
//! capi/          Cluster API's own kinds   the parts that Metal3 reads
//! condition      status conditions of every kind
//! reference      Secret and object references
//! carried        how large a text may become that users carry in annotations and Secrets
//! int_or_string  values that are a number or a text
//! wire           enums that keep unknown texts
//! crd            turns the types into CustomResourceDefinitions
//! ```
//!
//! Conventions of the types:
//!
//! - A text that Go omits when empty is a plain `String`, and empty means absent. `Option` stands only where absent
//!   and zero mean different things.
//! - A structure that Go always writes (`status.operationHistory`, `spec.bmc`) is a plain field with a default and is
//!   left out while it equals that default.
//! - Reading is lenient: a missing field takes its default, even if the schema requires it, because statuses also
//!   arrive through annotations, where no API server has checked them.
//! - Enums are closed in the schema and open in Rust: see [`wire`].

pub mod capi;
pub mod carried;
pub mod condition;
pub mod crd;
pub mod infra;
pub mod int_or_string;
pub mod ipam;
pub mod labels;
pub mod metal3;
pub mod reference;
pub mod rules;
pub mod wire;
