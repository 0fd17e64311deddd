//! Group `infrastructure.cluster.x-k8s.io`: how Cluster API uses the machines.
//!
//! Every kind has two versions. [`v1beta2`] is what controllers read and what is stored; [`v1beta1`] is deprecated and
//! served for manifests and backups that still say so.
//!
//! ```text
//! v1beta2/   the stored version of the nine kinds
//! v1beta1/   the older version: only what has another shape there
//! shared/    structures that look the same in both
//! convert/   from one version to the other
//! names      labels, annotations and finalizers
//! ```
//!
//! The shared structures carry the limits of v1beta2. Where v1beta1 uses one, its schema is loosened by
//! [`shared::limits::loose`], because v1beta1 never had most of these limits.

mod convert;
pub mod names;
pub mod shared;
pub mod v1beta1;
pub mod v1beta2;

pub use convert::{ConversionError, convert};
