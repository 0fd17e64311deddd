//! The reasons of events that tell of something left on a server. An alert counts them.

/// A disc stays in a drive.
pub const DISC: &str = "DataImageLeftInDrive";

/// A subscription stays on a BMC.
pub const SUBSCRIPTION: &str = "SubscriptionLeftOnBMC";
