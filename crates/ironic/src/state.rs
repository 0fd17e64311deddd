//! The words Ironic uses for what a node is doing, and the verbs that move it on.

use std::fmt;

/// Declares an enum of known wire words with a catch-all that keeps an unknown word, so that a newer Ironic cannot make
/// a node unreadable.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)*
            /// A word this version does not know, kept as it came.
            Other(String),
        }

        impl $name {
            /// The word on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// `provision_state` of a node: where it stands in Ironic's own state machine.
    ProvisionState {
        /// Known by name only; the BMC has not been contacted.
        Enroll = "enroll",
        /// The BMC's address and credentials are being tried.
        Verifying = "verifying",
        /// Reachable; inspection and manual cleaning start here.
        Manageable = "manageable",
        /// Cleaned and waiting for an image.
        Available = "available",
        /// Carries an instance.
        Active = "active",
        /// Deployment, conductor at work.
        Deploying = "deploying",
        /// Deployment, waiting for the ramdisk.
        DeployWait = "wait call-back",
        /// Deployment failed.
        DeployFailed = "deploy failed",
        /// Deployment stopped by a hold step.
        DeployHold = "deploy hold",
        /// The instance is being taken down.
        Deleting = "deleting",
        /// Cleaning, conductor at work.
        Cleaning = "cleaning",
        /// Cleaning, waiting for the ramdisk.
        CleanWait = "clean wait",
        /// Cleaning failed.
        CleanFailed = "clean failed",
        /// Cleaning stopped by a hold step.
        CleanHold = "clean hold",
        /// Taking the instance down failed.
        Error = "error",
        /// Inspection, conductor at work.
        Inspecting = "inspecting",
        /// Inspection, waiting for the ramdisk.
        InspectWait = "inspect wait",
        /// Inspection failed.
        InspectFailed = "inspect failed",
        /// A running machine is being adopted without deploying it.
        Adopting = "adopting",
        /// Adoption failed.
        AdoptFailed = "adopt failed",
        /// Booted into a rescue ramdisk.
        Rescue = "rescue",
        /// On the way to rescue.
        Rescuing = "rescuing",
        /// On the way to rescue, waiting for the ramdisk.
        RescueWait = "rescue wait",
        /// Rescue failed.
        RescueFailed = "rescue failed",
        /// On the way back from rescue.
        Unrescuing = "unrescuing",
        /// Leaving rescue failed.
        UnrescueFailed = "unrescue failed",
        /// Firmware or settings change on a node with an instance, conductor at work.
        Servicing = "servicing",
        /// The same, waiting for the ramdisk.
        ServiceWait = "service wait",
        /// The same, failed.
        ServiceFailed = "service failed",
        /// The same, stopped by a hold step.
        ServiceHold = "service hold",
    }
}

words! {
    /// `power_state` of a node as Ironic last saw it. A node that it could not ask has none at all.
    PowerState {
        /// Switched on.
        On = "power on",
        /// Switched off.
        Off = "power off",
    }
}

/// The `target` of `PUT …/states/provision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// enroll → verifying → manageable; also the way out of most failed states.
    Manage,
    /// manageable → cleaning → available.
    Provide,
    /// manageable → inspecting → manageable.
    Inspect,
    /// manageable → cleaning → manageable, with steps of our choice.
    Clean,
    /// available → deploying → active.
    Active,
    /// active → deleting → cleaning → available.
    Deleted,
    /// manageable → adopting → active.
    Adopt,
    /// Aborts an operation that waits for the ramdisk.
    Abort,
    /// active → servicing → active, with steps of our choice.
    Service,
}

impl Verb {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manage => "manage",
            Self::Provide => "provide",
            Self::Inspect => "inspect",
            Self::Clean => "clean",
            Self::Active => "active",
            Self::Deleted => "deleted",
            Self::Adopt => "adopt",
            Self::Abort => "abort",
            Self::Service => "service",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The `target` of `PUT …/states/power`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PowerTarget {
    /// Switch on.
    On,
    /// Cut the power.
    Off,
    /// Ask the operating system to shut down, and cut the power when the given time has passed.
    SoftOff,
    /// Power cycle.
    Reboot,
    /// Ask the operating system to reboot.
    SoftReboot,
}

impl PowerTarget {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "power on",
            Self::Off => "power off",
            Self::SoftOff => "soft power off",
            Self::Reboot => "rebooting",
            Self::SoftReboot => "soft rebooting",
        }
    }
}

impl fmt::Display for PowerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: &[&str] = &[
        "enroll",
        "verifying",
        "manageable",
        "available",
        "active",
        "deploying",
        "wait call-back",
        "deploy failed",
        "deploy hold",
        "deleting",
        "cleaning",
        "clean wait",
        "clean failed",
        "clean hold",
        "error",
        "inspecting",
        "inspect wait",
        "inspect failed",
        "adopting",
        "adopt failed",
        "rescue",
        "rescuing",
        "rescue wait",
        "rescue failed",
        "unrescuing",
        "unrescue failed",
        "servicing",
        "service wait",
        "service failed",
        "service hold",
    ];

    #[test]
    fn every_known_state_is_recognised_and_survives() {
        for word in STATES {
            let state = ProvisionState::from(*word);
            assert!(!matches!(state, ProvisionState::Other(_)), "{word} is not recognised");
            assert_eq!(state.as_str(), *word);
        }
    }

    #[test]
    fn unknown_words_survive() {
        assert_eq!(ProvisionState::from("polishing").as_str(), "polishing");
        assert_eq!(PowerState::from("error"), PowerState::Other("error".to_owned()));
        assert_eq!(PowerState::from("power on"), PowerState::On);
    }
}
