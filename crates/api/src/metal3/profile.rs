//! Hardware profiles: the old way of telling which disk an operating system goes to. Deprecated, but still what decides
//! for a host without root device hints.

use super::{BareMetalHostSpec, RootDeviceHints};

/// A profile's name, one of a fixed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HardwareProfile {
    /// Nothing is known; the first SCSI disk.
    Unknown,
    /// A virtual machine; the first virtio disk.
    Libvirt,
    /// A Dell machine without RAID.
    Dell,
    /// A Dell machine with RAID.
    DellRaid,
    /// A virtual machine on OpenStack; the second virtio disk.
    Openstack,
    /// No hints at all.
    Empty,
}

/// A hardware profile that does not exist. The host fails to register with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no hardware profile is called {name:?}")]
pub struct UnknownProfile {
    /// The name that was asked for.
    pub name: String,
}

impl HardwareProfile {
    /// All profiles.
    pub const ALL: [Self; 6] = [
        Self::Unknown,
        Self::Libvirt,
        Self::Dell,
        Self::DellRaid,
        Self::Openstack,
        Self::Empty,
    ];

    /// The name in `spec.hardwareProfile` and `status.hardwareProfile`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Libvirt => "libvirt",
            Self::Dell => "dell",
            Self::DellRaid => "dell-raid",
            Self::Openstack => "openstack",
            Self::Empty => "empty",
        }
    }

    /// The profile for a host: the one in its status, else the one in its spec, else by its BMC address.
    ///
    /// # Errors
    ///
    /// The status or the spec names a profile that does not exist.
    pub fn choose(status_name: &str, spec: &BareMetalHostSpec) -> Result<Self, UnknownProfile> {
        let name = if status_name.is_empty() {
            spec.hardware_profile.as_str()
        } else {
            status_name
        };
        match name {
            "" if spec.bmc.address.starts_with("libvirt") => Ok(Self::Libvirt),
            "" => Ok(Self::Unknown),
            name => Self::ALL
                .into_iter()
                .find(|profile| profile.name() == name)
                .ok_or_else(|| UnknownProfile { name: name.to_owned() }),
        }
    }

    /// The profile's root device hints.
    pub fn root_device_hints(self) -> Option<RootDeviceHints> {
        let device = |name: &str| {
            Some(RootDeviceHints {
                device_name: name.to_owned(),
                ..Default::default()
            })
        };
        let scsi = |address: &str| {
            Some(RootDeviceHints {
                hctl: address.to_owned(),
                ..Default::default()
            })
        };
        match self {
            Self::Unknown => device("/dev/sda"),
            Self::Libvirt => device("/dev/vda"),
            Self::Dell => scsi("0:0:0:0"),
            Self::DellRaid => scsi("0:2:0:0"),
            Self::Openstack => device("/dev/vdb"),
            Self::Empty => None,
        }
    }
}

impl BareMetalHostSpec {
    /// The hints to provision with: the user's own, else the profile's. A software RAID volume that is marked as root
    /// volume needs none, and the profile's would point at one of its members.
    pub fn effective_root_device_hints(&self, profile: HardwareProfile) -> Option<RootDeviceHints> {
        if self.root_device_hints.is_some() {
            return self.root_device_hints.clone();
        }
        let has_root_volume = self
            .raid
            .as_ref()
            .is_some_and(super::RaidConfig::has_software_root_volume);
        if has_root_volume {
            None
        } else {
            profile.root_device_hints()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metal3::{RaidConfig, SoftwareRaidLevel, SoftwareRaidVolume};
    use rstest::rstest;

    fn spec(profile: &str, address: &str) -> BareMetalHostSpec {
        let mut spec = BareMetalHostSpec {
            hardware_profile: profile.to_owned(),
            ..Default::default()
        };
        spec.bmc.address = address.to_owned();
        spec
    }

    #[rstest]
    #[case::nothing("", "", "redfish://h/", Ok("unknown"))]
    #[case::libvirt_address("", "", "libvirt://h/", Ok("libvirt"))]
    #[case::spec_over_address("", "dell", "libvirt://h/", Ok("dell"))]
    #[case::status_over_spec("openstack", "dell", "libvirt://h/", Ok("openstack"))]
    #[case::unknown_in_spec("", "acme", "", Err("acme"))]
    #[case::unknown_in_status("acme", "dell", "", Err("acme"))]
    fn choice(
        #[case] status: &str,
        #[case] in_spec: &str,
        #[case] address: &str,
        #[case] expected: Result<&str, &str>,
    ) {
        let chosen = HardwareProfile::choose(status, &spec(in_spec, address));
        assert_eq!(chosen.as_ref().map(|p| p.name()).map_err(|e| e.name.as_str()), expected);
    }

    #[rstest]
    #[case("unknown", "/dev/sda", "")]
    #[case("libvirt", "/dev/vda", "")]
    #[case("dell", "", "0:0:0:0")]
    #[case("dell-raid", "", "0:2:0:0")]
    #[case("openstack", "/dev/vdb", "")]
    fn hints_of_a_profile(#[case] name: &str, #[case] device_name: &str, #[case] hctl: &str) {
        let profile = HardwareProfile::choose(name, &BareMetalHostSpec::default()).unwrap();
        let hints = profile.root_device_hints().unwrap();
        assert_eq!((hints.device_name.as_str(), hints.hctl.as_str()), (device_name, hctl));
    }

    #[test]
    fn own_hints_come_first_and_a_raid_root_volume_needs_none() {
        let mut spec = spec("", "");
        assert_eq!(spec.effective_root_device_hints(HardwareProfile::Empty), None);
        assert!(spec.effective_root_device_hints(HardwareProfile::Unknown).is_some());
        let mut volume = SoftwareRaidVolume::new(SoftwareRaidLevel::Raid1);
        volume.root_volume = true;
        spec.raid = Some(RaidConfig {
            software_raid_volumes: Some(vec![volume]),
            ..Default::default()
        });
        assert_eq!(spec.effective_root_device_hints(HardwareProfile::Unknown), None);
        let own = RootDeviceHints {
            serial_number: "S1".to_owned(),
            ..Default::default()
        };
        spec.root_device_hints = Some(own.clone());
        assert_eq!(spec.effective_root_device_hints(HardwareProfile::Unknown), Some(own));
    }
}
