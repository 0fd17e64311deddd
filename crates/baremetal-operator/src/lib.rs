//! The baremetal-operator: it brings physical hosts from `kubectl apply` to a running image by driving OpenStack
//! Ironic.
//!
//! ```text
//!  watch event ─┐
//!  Secret ──────┼─▶ observe ─▶ decide (pure) ─▶ apply ─▶ report
//!  fleet view ──┘   reads on     a plan         one       one status write,
//!                   demand                      mutation  events, metrics
//! ```
//!
//! It keeps no state that must survive: after a kill at any moment, the next process finds everything that it needs in
//! Kubernetes and in Ironic. All behaviour is in `host::decide`; no other module makes choices.

pub mod args;
mod claim;
pub mod companion;
pub mod data_image;
mod duration;
mod exposure;
pub mod firmware_components;
pub mod firmware_schema;
pub mod firmware_settings;
pub mod fleet;
pub mod host;
mod hosts;
pub mod ironic_config;
pub mod ironic_resource;
mod left_behind;
mod leftovers;
mod live;
pub mod metrics;
pub mod preprovisioning;
pub mod rbac;
pub mod reference;
pub mod run;
pub mod settings;
pub mod subscription;
mod switch;
pub mod webhooks;
