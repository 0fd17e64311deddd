//! What the API server was seen to refuse the operator.

use std::sync::atomic::{AtomicBool, Ordering};

/// What the API server was seen to refuse us. The role that upstream ships does not allow patches of Secrets, and this operator
/// should run under it: then one patch is refused in the life of a process.
#[derive(Debug, Default)]
pub struct Rights {
    no_secret_patches: AtomicBool,
}

impl Rights {
    /// From now on Secrets are read before they are written.
    pub fn patches_of_secrets_are_refused(&self) {
        self.no_secret_patches.store(true, Ordering::Relaxed);
    }

    /// Whether Secrets may be patched, as far as is known.
    pub fn may_patch_secrets(&self) -> bool {
        !self.no_secret_patches.load(Ordering::Relaxed)
    }
}
