//! The BareMetalHost controller.
//!
//! ```text
//!  passes.rs   observe/ ─▶ decide/ (pure) ─▶ carry_out.rs, apply/ ─▶ report.rs
//!                 ▲            │ Look
//!                 └────────────┘
//! ```

mod annotations;
mod apply;
pub mod bmc_names;
pub mod budget;
pub mod cached;
mod carry_out;
pub mod claim;
pub mod companions;
mod conditions;
pub mod config_drive;
pub mod context;
mod decide;
mod detach_error;
mod draft;
mod ending;
mod error;
pub mod firmware;
mod gone;
mod hardware;
pub mod held;
mod hints;
pub mod identity;
mod instance;
mod mark;
pub mod named_url;
pub mod next_check;
mod node_spec;
mod observe;
pub mod observed;
mod passes;
pub mod plan;
pub mod pull_secret;
pub mod queue;
pub mod quiet;
mod raid;
mod ramdisk;
mod report;
pub mod rights;
mod secret_marks;
pub(crate) mod text;
mod trouble;

use self::context::Context;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_runtime::store::ObjectKey;

pub use self::conditions::WAITING;
pub use self::decide::{decide, is_exempt, takes_slot, unrecord_restart};
pub use self::error::ReconcileError;
pub use self::gone::{forget, vanished};
pub use self::identity::{key_of, port_mark};
pub use self::instance::deployment_mark;
pub use self::passes::{on_error, reconcile};
pub use self::ramdisk::surroundings as ramdisk_surroundings;
pub use self::report::change as status_change;
pub use self::secret_marks::secret_versions;

/// Whether nothing was ever done about a host.
pub fn is_new(host: &BareMetalHost) -> bool {
    let mut status = host.status.iter();
    host.metadata.deletion_timestamp.is_none() && status.all(|s| s.provisioning.state == ProvisioningState::None)
}

/// The fleet has woken a host: to be called before the host is reconciled.
pub fn woken(ctx: &Context, key: &ObjectKey) {
    // What it sees may be what it saw: it is its turn, or its node has changed and come back to where it was.
    ctx.quiet.call(key);
}

/// The ramdisk that is built for a host has changed: the host looks at it again.
pub fn ramdisk_changed(ctx: &Context, key: &ObjectKey) {
    ctx.memory.ramdisk_changed(key);
    ctx.quiet.call(key);
}
