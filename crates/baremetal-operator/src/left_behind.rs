//! The reasons of events that tell of something left on a server. An alert counts them.

/// A DataImage goes while its disc stays in the drive.
pub const DISC: &str = "DataImageLeftInDrive";

/// A BMCEventSubscription goes while the BMC sends its events.
pub const SUBSCRIPTION: &str = "SubscriptionLeftOnBMC";
