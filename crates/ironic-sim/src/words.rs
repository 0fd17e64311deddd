//! The names in Ironic's state machine, and its transitions.

use std::fmt;

/// Declares an enum of wire words.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vmeta])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// The one with this word.
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
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
    /// `provision_state`. Rescue and hold states are not simulated: nothing of ours leads there.
    State {
        /// Known by name only.
        Enroll = "enroll",
        /// The BMC is being tried.
        Verifying = "verifying",
        /// Reachable.
        Manageable = "manageable",
        /// Waiting for an image.
        Available = "available",
        /// With an instance.
        Active = "active",
        /// Deployment, conductor at work.
        Deploying = "deploying",
        /// Deployment, ramdisk at work.
        DeployWait = "wait call-back",
        /// Deployment failed.
        DeployFailed = "deploy failed",
        /// The instance is being taken down.
        Deleting = "deleting",
        /// Taking it down failed.
        Error = "error",
        /// Cleaning, conductor at work.
        Cleaning = "cleaning",
        /// Cleaning, ramdisk at work.
        CleanWait = "clean wait",
        /// Cleaning failed.
        CleanFailed = "clean failed",
        /// Inspection, conductor at work.
        Inspecting = "inspecting",
        /// Inspection, ramdisk at work.
        InspectWait = "inspect wait",
        /// Inspection failed.
        InspectFailed = "inspect failed",
        /// A running machine is being taken over.
        Adopting = "adopting",
        /// Taking over failed.
        AdoptFailed = "adopt failed",
        /// Service, conductor at work.
        Servicing = "servicing",
        /// Service, ramdisk at work.
        ServiceWait = "service wait",
        /// Service failed.
        ServiceFailed = "service failed",
    }
}

words! {
    /// `power_state`.
    Power {
        /// On.
        On = "power on",
        /// Off.
        Off = "power off",
    }
}

words! {
    /// The `target` of a power request.
    PowerTarget {
        /// Switch on.
        On = "power on",
        /// Cut the power.
        Off = "power off",
        /// Power cycle.
        Reboot = "rebooting",
        /// Ask the operating system to end.
        SoftOff = "soft power off",
        /// Ask the operating system to reboot.
        SoftReboot = "soft rebooting",
    }
}

impl PowerTarget {
    /// The power state that it leads to, which is also what `target_power_state` shows meanwhile.
    pub const fn leads_to(self) -> Power {
        match self {
            Self::On | Self::Reboot | Self::SoftReboot => Power::On,
            Self::Off | Self::SoftOff => Power::Off,
        }
    }
}

/// What a `target` of a provision request asks of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Manage,
    Provide,
    Inspect,
    Clean,
    Deploy,
    Rebuild,
    Delete,
    Adopt,
    Abort,
    Service,
}

impl Verb {
    /// The verb behind a `target`.
    pub fn parse(target: &str) -> Option<Self> {
        Some(match target {
            "manage" => Self::Manage,
            "provide" => Self::Provide,
            "inspect" => Self::Inspect,
            "clean" => Self::Clean,
            "active" | "deploy" => Self::Deploy,
            "rebuild" => Self::Rebuild,
            "deleted" | "undeploy" => Self::Delete,
            "adopt" => Self::Adopt,
            "abort" => Self::Abort,
            "service" => Self::Service,
            _ => return None,
        })
    }

    /// Where the verb leads from a state at once; none where the state machine refuses it.
    pub const fn from(self, state: State) -> Option<State> {
        use State as S;
        Some(match (self, state) {
            (Self::Manage, S::Enroll) => S::Verifying,
            (Self::Manage, S::Available | S::CleanFailed | S::InspectFailed | S::AdoptFailed) => S::Manageable,
            (Self::Provide | Self::Clean, S::Manageable) => S::Cleaning,
            (Self::Inspect, S::Manageable | S::InspectFailed) => S::Inspecting,
            (Self::Deploy, S::Available | S::DeployFailed)
            | (Self::Rebuild, S::Active | S::DeployFailed | S::Error) => S::Deploying,
            (
                Self::Delete,
                S::Active | S::DeployFailed | S::DeployWait | S::Error | S::ServiceFailed | S::ServiceWait,
            ) => S::Deleting,
            (Self::Adopt, S::Manageable | S::AdoptFailed) => S::Adopting,
            (Self::Abort, S::InspectWait) => S::InspectFailed,
            (Self::Abort, S::CleanWait) => S::CleanFailed,
            (Self::Abort, S::DeployWait) => S::DeployFailed,
            (Self::Abort, S::ServiceWait | S::ServiceFailed) => S::Active,
            (Self::Service, S::Active | S::ServiceFailed) => S::Servicing,
            _ => return None,
        })
    }
}

/// That of a new node.
impl Default for State {
    fn default() -> Self {
        Self::Enroll
    }
}

impl State {
    /// Where an action in this state leads when nothing else was asked for; none in stable states.
    pub const fn target(self) -> Option<Self> {
        match self {
            Self::Enroll | Self::Manageable | Self::Available | Self::Active | Self::Error => None,
            Self::Verifying | Self::Inspecting | Self::InspectWait | Self::InspectFailed => Some(Self::Manageable),
            Self::Deleting | Self::Cleaning | Self::CleanWait | Self::CleanFailed => Some(Self::Available),
            Self::Deploying
            | Self::DeployWait
            | Self::DeployFailed
            | Self::Adopting
            | Self::AdoptFailed
            | Self::Servicing
            | Self::ServiceWait
            | Self::ServiceFailed => Some(Self::Active),
        }
    }

    /// Where a node goes whose conductor died in this state.
    pub const fn after_crash(self) -> Option<Self> {
        match self {
            Self::Deploying => Some(Self::DeployFailed),
            Self::Cleaning => Some(Self::CleanFailed),
            Self::Verifying => Some(Self::Enroll),
            Self::Inspecting => Some(Self::InspectFailed),
            Self::Adopting => Some(Self::AdoptFailed),
            Self::Deleting => Some(Self::Error),
            Self::Servicing => Some(Self::ServiceFailed),
            _ => None,
        }
    }

    /// Whether the record may be patched while an action is under way or has failed.
    pub const fn allows_patch(self) -> bool {
        matches!(
            self,
            Self::DeployFailed
                | Self::Inspecting
                | Self::InspectFailed
                | Self::InspectWait
                | Self::CleanFailed
                | Self::Error
                | Self::Verifying
                | Self::AdoptFailed
                | Self::ServiceFailed
        )
    }

    /// Whether interfaces may be changed outside maintenance.
    pub const fn allows_interfaces(self) -> bool {
        matches!(
            self,
            Self::Enroll | Self::Inspecting | Self::InspectWait | Self::Manageable | Self::Available
        )
    }

    /// Whether the node may be deleted outside maintenance.
    pub const fn allows_delete(self) -> bool {
        matches!(
            self,
            Self::Manageable | Self::Enroll | Self::AdoptFailed | Self::Available
        )
    }

    /// Counts towards the limit of deployments.
    pub const fn is_deploying(self) -> bool {
        matches!(self, Self::Deploying | Self::DeployWait)
    }

    /// Counts towards the limit of cleanings.
    pub const fn is_cleaning(self) -> bool {
        matches!(self, Self::Deleting | Self::Cleaning | Self::CleanWait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for state in State::ALL {
            assert_eq!(State::parse(state.as_str()), Some(*state));
        }
        assert_eq!(State::parse("wait callback"), None);
    }

    #[test]
    fn every_state_but_the_transient_ones_has_a_way_out() {
        let verbs = [
            Verb::Manage,
            Verb::Provide,
            Verb::Inspect,
            Verb::Clean,
            Verb::Deploy,
            Verb::Rebuild,
            Verb::Delete,
            Verb::Adopt,
            Verb::Abort,
            Verb::Service,
        ];
        for state in State::ALL {
            let is_stuck = verbs.iter().all(|verb| verb.from(*state).is_none());
            assert_eq!(is_stuck, state.after_crash().is_some(), "{state}");
        }
    }
}
