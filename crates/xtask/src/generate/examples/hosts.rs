//! `examples/baremetalhost`: hosts, by what they run and how they are made ready.

use super::file::{BMC, CLEANING, CREDENTIALS, File, bmc, credentials, host, image, reference, secret, yaml};
use super::{Examples, named};
use metal3_api::metal3::names::{annotation, secret_key};
use metal3_api::metal3::{
    BareMetalHost, BareMetalHostSpec, BootMode, CleaningMode, CustomDeploy, HardwareRaidLevel, HardwareRaidVolume,
    Image, ImageFormat, InspectionMode, RaidConfig, RootDeviceHints, SoftwareRaidLevel, SoftwareRaidVolume,
};
use serde_json::json;

const FOLDER: &str = "baremetalhost";

pub fn examples() -> anyhow::Result<Examples> {
    Ok(named(
        FOLDER,
        [
            ("virtual-media", virtual_media()?),
            ("ipmi-raid", ipmi_raid()?),
            ("live-iso", live_iso()?),
            ("hardware-raid", hardware_raid()?),
            ("custom-deploy", custom_deploy()?),
            ("oci-image", oci_image()?),
            ("externally-provisioned", externally_provisioned()?),
            ("detached", detached()?),
            ("power-stays-on", power_stays_on()?),
        ],
    ))
}

/// A host with everything that a first boot may want.
fn virtual_media() -> anyhow::Result<String> {
    let host = host(
        "rack1-node1",
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                "redfish-virtualmedia://192.0.2.10/redfish/v1/Systems/1",
                "rack1-node1-bmc",
            ),
            boot_mac_address: "52:54:00:12:34:01".to_owned(),
            boot_mode: Some(BootMode::Uefi),
            root_device_hints: Some(RootDeviceHints {
                min_size_gigabytes: 100,
                rotational: Some(false),
                ..Default::default()
            }),
            image: Some(image()),
            user_data: Some(reference("rack1-node1-user-data")),
            network_data: Some(reference("rack1-node1-network-data")),
            meta_data: Some(reference("rack1-node1-meta-data")),
            ..Default::default()
        },
    );
    let user_data = json!({ "users": [{
        "name": "admin",
        "groups": "sudo",
        "ssh_authorized_keys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPL admin@example.org"],
    }] });
    let network_data = json!({
        "links": [{
            "id": "nic1", "type": "phy", "ethernet_mac_address": "52:54:00:12:34:01",
        }],
        "networks": [{
            "id": "net1", "link": "nic1", "type": "ipv4", "ip_address": "198.51.100.11", "netmask": "255.255.255.0",
            "routes": [{ "network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "198.51.100.1" }],
        }],
        "services": [{ "type": "dns", "address": "198.51.100.53" }],
    });
    let meta_data = json!({ "rack": "rack1", "local-hostname": "node1.example.org" });
    let mut file = File::new(
        "A server that boots its installer from virtual media, so no DHCP or TFTP is needed, and runs an image with its\n\
         own users, network and metadata.",
    );
    file.add(&credentials("rack1-node1-bmc"), CREDENTIALS)?;
    file.add(
        &secret(
            "rack1-node1-user-data",
            secret_key::USER_DATA,
            &format!("#cloud-config\n{}", yaml(&user_data)?),
        ),
        &[(
            "stringData.userData",
            "What cloud-init does at the first boot. The key may also be called value.",
        )],
    )?;
    file.add(
        &secret(
            "rack1-node1-network-data",
            secret_key::NETWORK_DATA,
            &yaml(&network_data)?,
        ),
        &[(
            "stringData.networkData",
            "Network configuration of the installed system, as OpenStack's network_data.json has it.",
        )],
    )?;
    file.add(
        &secret("rack1-node1-meta-data", secret_key::META_DATA, &yaml(&meta_data)?),
        &[(
            "stringData.metaData",
            "Merged over what the operator generates: uuid, name and local-hostname among others.",
        )],
    )?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            (
                "spec.bmc.address",
                "The scheme selects the driver, the path is the system's in the BMC's Redfish service.",
            ),
            (
                "spec.rootDeviceHints",
                "Which disk is written to: here the first that does not spin and has at least 100 GB.",
            ),
            ("spec.bootMode", "UEFI is what an absent bootMode means, too."),
            (
                "spec.bootMACAddress",
                "The interface that the host is installed through. Cannot be changed later.",
            ),
            ("spec.online", "A host that should be off is not installed."),
            (
                "spec.image",
                "Setting the image installs it, changing it installs anew, removing it cleans the host.",
            ),
            ("spec.image.checksum", "A digest, or a URL where digests are listed."),
            ("spec.userData", "All three Secrets must be in the host's namespace."),
            ("spec.automatedCleaningMode", CLEANING),
        ],
    )?;
    Ok(file.text)
}

/// A host that is prepared for whoever comes.
fn ipmi_raid() -> anyhow::Result<String> {
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

/// A host that runs from an ISO.
fn live_iso() -> anyhow::Result<String> {
    let mut bmc = bmc(
        "idrac-virtualmedia://192.0.2.12/redfish/v1/Systems/System.Embedded.1",
        "rack1-node3-bmc",
    );
    bmc.disable_certificate_verification = true;
    let host = host(
        "rack1-node3",
        BareMetalHostSpec {
            online: true,
            bmc,
            boot_mode: Some(BootMode::UefiSecureBoot),
            image: Some(Image {
                url: "https://images.example.org/rescue.iso".to_owned(),
                format: Some(ImageFormat::LiveIso),
                ..Default::default()
            }),
            automated_cleaning_mode: CleaningMode::Disabled,
            ..Default::default()
        },
    );
    let mut file = File::new("A server that boots and runs from an ISO; nothing is written to its disks.");
    file.add(&credentials("rack1-node3-bmc"), CREDENTIALS)?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            (
                "spec.bmc.disableCertificateVerification",
                "Only for controllers whose certificate cannot be replaced.",
            ),
            ("spec.bootMode", "The ISO must be signed for secure boot."),
            ("spec.image", "A live ISO needs no checksum."),
            ("spec.automatedCleaningMode", "The disks keep what is on them."),
        ],
    )?;
    Ok(file.text)
}

/// A host whose RAID controller is set up.
fn hardware_raid() -> anyhow::Result<String> {
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

/// A host that is deployed by a step of the site's own ramdisk.
fn custom_deploy() -> anyhow::Result<String> {
    let host = host(
        "rack1-node5",
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                "redfish-virtualmedia://192.0.2.14/redfish/v1/Systems/1",
                "rack1-node5-bmc",
            ),
            custom_deploy: Some(CustomDeploy {
                method: "install_everything".to_owned(),
            }),
            user_data: Some(reference("rack1-node5-user-data")),
            ..Default::default()
        },
    );
    let mut file = File::new(
        "A server that a site's own ramdisk installs: it offers a deploy step of this name, which gets the user data and\n\
         does the rest.",
    );
    file.add(&credentials("rack1-node5-bmc"), CREDENTIALS)?;
    file.add(
        &secret(
            "rack1-node5-user-data",
            secret_key::USER_DATA,
            "anything that the step understands\n",
        ),
        &[],
    )?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            (
                "spec.customDeploy",
                "An image may be given besides; the step finds it in its arguments.",
            ),
            ("spec.automatedCleaningMode", CLEANING),
        ],
    )?;
    Ok(file.text)
}

/// A host that runs an image from a container registry.
fn oci_image() -> anyhow::Result<String> {
    let host = host(
        "rack1-node6",
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                "redfish-virtualmedia://192.0.2.15/redfish/v1/Systems/1",
                "rack1-node6-bmc",
            ),
            image: Some(Image {
                url: "oci://registry.example.org/images/server:24.04".to_owned(),
                oci_auth_secret_name: "registry-login".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        },
    );
    let login = json!({ "auths": { "registry.example.org": { "username": "puller", "password": "change-me" } } });
    let mut pull_secret = secret("registry-login", ".dockerconfigjson", &login.to_string());
    pull_secret.type_ = Some("kubernetes.io/dockerconfigjson".to_owned());
    let mut file = File::new("A server that runs an image which lies in a container registry.");
    file.add(&credentials("rack1-node6-bmc"), CREDENTIALS)?;
    file.add(
        &pull_secret,
        &[("type", "As kubectl create secret docker-registry makes it.")],
    )?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            (
                "spec.image",
                "The registry knows the image's digest, so a checksum is refused here.",
            ),
            (
                "spec.image.ociAuthSecretName",
                "Only for registries that ask who is there.",
            ),
            ("spec.automatedCleaningMode", CLEANING),
        ],
    )?;
    Ok(file.text)
}

/// A host that came with its system.
fn externally_provisioned() -> anyhow::Result<String> {
    let host = host(
        "rack1-node7",
        BareMetalHostSpec {
            online: true,
            bmc: bmc("redfish://192.0.2.16/redfish/v1/Systems/1", "rack1-node7-bmc"),
            boot_mac_address: "52:54:00:12:34:07".to_owned(),
            externally_provisioned: true,
            inspection_mode: Some(InspectionMode::Disabled),
            automated_cleaning_mode: CleaningMode::Disabled,
            ..Default::default()
        },
    );
    let mut file = File::new("A server that runs something already. Its power is managed and nothing else.");
    file.add(&credentials("rack1-node7-bmc"), CREDENTIALS)?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            (
                "spec.externallyProvisioned",
                "To take it over later, set an image and then make this false.",
            ),
            ("spec.inspectionMode", "An inspection would reboot it."),
            ("spec.automatedCleaningMode", "The disks keep what is on them."),
        ],
    )?;
    Ok(file.text)
}

/// A host that nobody touches for a while.
fn detached() -> anyhow::Result<String> {
    let mut host = host(
        "rack1-node8",
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                "redfish-virtualmedia://192.0.2.17/redfish/v1/Systems/1",
                "rack1-node8-bmc",
            ),
            image: Some(image()),
            ..Default::default()
        },
    );
    let arguments = json!({ "deleteAction": "delay" }).to_string();
    host.metadata.annotations = Some([(annotation::DETACHED.to_owned(), arguments)].into());
    let mut file = File::new(
        "A server that is taken out of Ironic once it is provisioned, and left running as it is. Removing the annotation\n\
         brings it back.",
    );
    file.add(&credentials("rack1-node8-bmc"), CREDENTIALS)?;
    file.add(
        &host,
        &[
            (
                "metadata.annotations",
                "delay: deleting the host waits until it is attached again. Without arguments, or with delete, the host goes\n\
                 and its machine stays as it is.",
            ),
            ("spec.bmc", BMC),
            ("spec.automatedCleaningMode", CLEANING),
        ],
    )?;
    Ok(file.text)
}

/// A host that shares its power with others.
fn power_stays_on() -> anyhow::Result<String> {
    let host: BareMetalHost = host(
        "rack1-node9",
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                "redfish-virtualmedia://192.0.2.18/redfish/v1/Systems/1",
                "rack1-node9-bmc",
            ),
            disable_power_off: true,
            inspection_mode: Some(InspectionMode::Fast),
            architecture: "aarch64".to_owned(),
            ..Default::default()
        },
    );
    let mut file = File::new("A server that is only ever rebooted, and inspected through its management controller.");
    file.add(&credentials("rack1-node9-bmc"), CREDENTIALS)?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            (
                "spec.disablePowerOff",
                "Such as a network card with a processor of its own: without its server's power it is gone.",
            ),
            (
                "spec.inspectionMode",
                "The controller is asked, and nothing is booted. It knows less than a ramdisk finds.",
            ),
            ("spec.architecture", "Found out by inspection where it is absent."),
            ("spec.automatedCleaningMode", CLEANING),
        ],
    )?;
    Ok(file.text)
}
