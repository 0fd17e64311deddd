//! Hosts whose disks are put together.

use metal3_api::metal3::{
    BareMetalHostSpec, BootMode, HardwareRaidLevel, HardwareRaidVolume, RaidConfig, RootDeviceHints, SoftwareRaidLevel,
    SoftwareRaidVolume,
};

use super::super::file::{BMC, CLEANING, CREDENTIALS, File, bmc, credentials, host};

/// A host that is prepared for whoever comes.
pub fn ipmi_raid() -> anyhow::Result<String> {
    let mut system = SoftwareRaidVolume::new(SoftwareRaidLevel::Raid1);
    system.root_volume = true;
    system.size_gibibytes = Some(100);
    let scratch = SoftwareRaidVolume::new(SoftwareRaidLevel::Raid0);
    let host = host(
        "rack1-node2",
        BareMetalHostSpec {
            online: true,
            bmc: bmc("ipmi://192.0.2.11:623", "rack1-node2-bmc"),
            boot_mac_address: "52:54:00:12:34:02".to_owned(),
            boot_mode: Some(BootMode::Legacy),
            raid: Some(RaidConfig {
                software_raid_volumes: Some(vec![system, scratch]),
                ..Default::default()
            }),
            description: "Rack 1, unit 12".to_owned(),
            ..Default::default()
        },
    );
    let mut file = File::new(
        "A server with an IPMI controller that is inspected, gets its disks mirrored, and then waits as available until\n\
         somebody sets an image. It boots its installer from the network.",
    );
    file.add(&credentials("rack1-node2-bmc"), CREDENTIALS)?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            ("spec.raid", "Done before the host becomes available."),
            (
                "spec.raid.hardwareRAIDVolumes",
                "null leaves RAID controllers alone; an empty list would delete their volumes.",
            ),
            (
                "spec.raid.softwareRAIDVolumes",
                "The root volume must be a mirror. Without a list of disks, all are used.",
            ),
            ("spec.bootMode", "BIOS; needed only where the firmware has no UEFI."),
            (
                "spec.bootMACAddress",
                "How a machine that boots from the network is told from others.",
            ),
            ("spec.description", "For people."),
            ("spec.automatedCleaningMode", CLEANING),
        ],
    )?;
    Ok(file.text)
}

/// A host whose RAID controller is set up.
pub fn hardware_raid() -> anyhow::Result<String> {
    let system = HardwareRaidVolume {
        name: "system".to_owned(),
        rotational: Some(false),
        number_of_physical_disks: Some(2),
        ..HardwareRaidVolume::new(HardwareRaidLevel::Raid1)
    };
    let data = HardwareRaidVolume {
        name: "data".to_owned(),
        controller: "RAID.Integrated.1-1".to_owned(),
        physical_disks: (2..8).map(|disk| format!("Disk.Bay.{disk}")).collect(),
        ..HardwareRaidVolume::new(HardwareRaidLevel::Raid6)
    };
    let host = host(
        "rack1-node4",
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                "idrac-virtualmedia://192.0.2.13/redfish/v1/Systems/System.Embedded.1",
                "rack1-node4-bmc",
            ),
            raid: Some(RaidConfig {
                hardware_raid_volumes: Some(vec![system, data]),
                ..Default::default()
            }),
            root_device_hints: Some(RootDeviceHints {
                model: "PERC".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        },
    );
    let mut file = File::new("A server whose RAID controller gets two volumes before the server becomes available.");
    file.add(&credentials("rack1-node4-bmc"), CREDENTIALS)?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            (
                "spec.raid.hardwareRAIDVolumes",
                "Volumes of hardware and of software exclude each other. Without a size, a volume takes all there is.",
            ),
            (
                "spec.raid.hardwareRAIDVolumes.controller",
                "Disks are named as their controller knows them, so it must be named, too.",
            ),
            (
                "spec.rootDeviceHints",
                "Controllers name their volumes as they like; the model is a safe hint.",
            ),
            ("spec.automatedCleaningMode", CLEANING),
        ],
    )?;
    Ok(file.text)
}
