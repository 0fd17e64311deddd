//! `examples/companions`: what stands beside a host, mostly under its name.

use super::file::{BMC, CREDENTIALS, File, bmc, credentials, host, metadata, reference, secret};
use super::{Examples, named};
use metal3_api::int_or_string::IntOrString;
use metal3_api::metal3::hardware::{Cpu, Nic, Storage, SystemVendor};
use metal3_api::metal3::names::secret_key;
use metal3_api::metal3::{
    BMCEventSubscription, BMCEventSubscriptionSpec, BareMetalHostSpec, BareMetalSwitch, BareMetalSwitchSpec, DataImage,
    DataImageSpec, FirmwareUpdate, HardwareData, HardwareDataSpec, HardwareDetails, HostFirmwareComponents,
    HostFirmwareComponentsSpec, HostFirmwareSettings, HostFirmwareSettingsSpec, HostNetworkAttachment,
    HostNetworkAttachmentRef, HostNetworkAttachmentSpec, HostUpdatePolicy, HostUpdatePolicySpec, InspectionMode,
    NetworkInterface, PreprovisioningImage, PreprovisioningImageSpec, RamdiskFormat, SwitchPort, SwitchPortMode,
    UpdatePolicy,
};

/// The host that the others stand beside. None of them needs it to be applied.
const HOST: &str = "rack1-node1";

pub fn examples() -> anyhow::Result<Examples> {
    Ok(named(
        "companions",
        [
            ("firmware-settings", firmware_settings()?),
            ("firmware-components", firmware_components()?),
            ("update-policy", update_policy()?),
            ("data-image", data_image()?),
            ("event-subscription", event_subscription()?),
            ("preprovisioning-image", preprovisioning_image()?),
            ("hardware-data", hardware_data()?),
            ("switch", switch()?),
        ],
    ))
}

fn firmware_settings() -> anyhow::Result<String> {
    let settings: [(&str, IntOrString); 3] = [
        ("LogicalProc", "Enabled".into()),
        ("BootDelay", 5.into()),
        ("SriovGlobalEnable", "true".into()),
    ];
    let settings = HostFirmwareSettings {
        metadata: metadata(HOST),
        spec: HostFirmwareSettingsSpec {
            settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        },
        status: None,
    };
    let mut file = File::new(
        "BIOS settings of the host of the same name. The operator makes this object, too, with the settings that are there\n\
         in its status, and a FirmwareSchema that says which names and values exist.",
    );
    file.add(
        &settings,
        &[(
            "spec.settings",
            "Names are the vendor's. Numbers may be numbers; true and false must be texts.",
        )],
    )?;
    Ok(file.text)
}

fn firmware_components() -> anyhow::Result<String> {
    let update = |component: &str, file: &str| FirmwareUpdate {
        component: component.to_owned(),
        url: format!("https://firmware.example.org/{file}"),
    };
    let components = HostFirmwareComponents {
        metadata: metadata(HOST),
        spec: HostFirmwareComponentsSpec {
            updates: vec![
                update("bios", "bios-2.19.1.exe"),
                update("bmc", "bmc-7.10.30.bin"),
                update("nic:NIC.Integrated.1", "nic-22.91.5.bin"),
            ],
        },
        status: None,
    };
    let mut file = File::new("Firmware of the host of the same name. The status lists components and their versions.");
    file.add(
        &components,
        &[(
            "spec.updates",
            "bios, bmc, or nic: and the name of the network card as the controller has it.",
        )],
    )?;
    Ok(file.text)
}

fn update_policy() -> anyhow::Result<String> {
    let policy = HostUpdatePolicy {
        metadata: metadata(HOST),
        spec: HostUpdatePolicySpec {
            firmware_settings: Some(UpdatePolicy::OnReboot),
            firmware_updates: Some(UpdatePolicy::OnReboot),
        },
        status: None,
    };
    let mut file = File::new(
        "Lets the firmware of a provisioned host change: at its next reboot, which the annotation reboot.metal3.io asks\n\
         for. Without a policy, firmware changes only while a host is made available.",
    );
    file.add(&policy, &[])?;
    Ok(file.text)
}

fn data_image() -> anyhow::Result<String> {
    let image = DataImage {
        metadata: metadata(HOST),
        spec: DataImageSpec {
            url: "https://images.example.org/site-data.iso".to_owned(),
        },
        status: None,
    };
    let mut file = File::new(
        "An ISO that the host of the same name sees as a drive; it does not boot from it. It is attached, and detached when\n\
         this object is deleted, at the host's next reboot.",
    );
    file.add(&image, &[])?;
    Ok(file.text)
}

fn event_subscription() -> anyhow::Result<String> {
    let subscription = BMCEventSubscription {
        metadata: metadata("rack1-node1-events"),
        spec: BMCEventSubscriptionSpec {
            host_name: HOST.to_owned(),
            destination: "https://events.example.org/redfish".to_owned(),
            context: "rack1-node1".to_owned(),
            http_headers: Some(reference("event-receiver-headers")),
        },
        status: None,
    };
    let mut file = File::new("Has the management controller of a host send its events to a receiver.");
    file.add(
        &secret("event-receiver-headers", "Authorization", "Bearer change-me"),
        &[("stringData", "Each key is a header that the controller sends along.")],
    )?;
    file.add(
        &subscription,
        &[
            ("spec", "Cannot be changed: make a new subscription instead."),
            ("spec.context", "Any text; the controller puts it into each event."),
        ],
    )?;
    Ok(file.text)
}

fn preprovisioning_image() -> anyhow::Result<String> {
    let image = PreprovisioningImage {
        metadata: metadata(HOST),
        spec: PreprovisioningImageSpec {
            network_data_name: "rack1-node1-installer-network".to_owned(),
            architecture: "x86_64".to_owned(),
            accept_formats: vec![RamdiskFormat::Iso, RamdiskFormat::Initrd],
        },
        status: None,
    };
    let network = "links:\n- id: nic1\n  type: phy\n  ethernet_mac_address: \"52:54:00:12:34:01\"\n";
    let mut file = File::new(
        "The installer for one host, with the host's network built in. The operator makes this object; a controller that\n\
         builds images answers in its status. Shown for those who write one.",
    );
    file.add(
        &secret("rack1-node1-installer-network", secret_key::NETWORK_DATA, network),
        &[],
    )?;
    file.add(&image, &[("spec.acceptFormats", "The first is liked best.")])?;
    Ok(file.text)
}

fn hardware_data() -> anyhow::Result<String> {
    let nic = Nic {
        name: "eno1".to_owned(),
        mac: "52:54:00:12:34:0a".to_owned(),
        ip: "192.0.2.110".to_owned(),
        speed_gbps: 25,
        pxe: true,
        ..Default::default()
    };
    let disk = Storage {
        name: "/dev/nvme0n1".to_owned(),
        size_bytes: 960_197_124_096,
        ..Default::default()
    };
    let data = HardwareData {
        metadata: metadata("rack1-node10"),
        spec: HardwareDataSpec {
            hardware: Some(Box::new(HardwareDetails {
                system_vendor: SystemVendor {
                    manufacturer: "Example".to_owned(),
                    product_name: "Server 1".to_owned(),
                    ..Default::default()
                },
                ram_mebibytes: 262_144,
                nics: vec![nic],
                storage: vec![disk],
                cpu: Cpu {
                    arch: "x86_64".to_owned(),
                    count: 64,
                    ..Default::default()
                },
                ..Default::default()
            })),
        },
    };
    let host = host(
        "rack1-node10",
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                "redfish-virtualmedia://192.0.2.19/redfish/v1/Systems/1",
                "rack1-node10-bmc",
            ),
            boot_mac_address: "52:54:00:12:34:0a".to_owned(),
            inspection_mode: Some(InspectionMode::Disabled),
            ..Default::default()
        },
    );
    let mut file = File::new("A server whose hardware is declared, so that it is not inspected.");
    file.add(
        &data,
        &[(
            "spec.hardware",
            "Made before the host, under its name, this replaces inspection.",
        )],
    )?;
    file.add(&credentials("rack1-node10-bmc"), CREDENTIALS)?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            ("spec.inspectionMode", "Nothing is booted to look at the hardware."),
        ],
    )?;
    Ok(file.text)
}

fn switch() -> anyhow::Result<String> {
    let switch = BareMetalSwitch {
        metadata: metadata("rack1-top"),
        spec: BareMetalSwitchSpec {
            address: "192.0.2.250".to_owned(),
            mac_address: "52:54:00:aa:00:01".to_owned(),
            device_type: "netmiko_cisco_ios".to_owned(),
            credentials: Some(reference("rack1-top-login")),
            port: Some(22),
            ..Default::default()
        },
        status: None,
    };
    let attachment = |name: &str, mode, vlans: &[&str]| HostNetworkAttachment {
        metadata: metadata(name),
        spec: HostNetworkAttachmentSpec {
            mode,
            native_vlan: 100,
            allowed_vlans: vlans.iter().map(|&vlan| vlan.to_owned()).collect(),
            mtu: Some(9000),
        },
    };
    let interface = |name: &str, attachment: &str, port: Option<&str>| NetworkInterface {
        name: name.to_owned(),
        host_network_attachment: HostNetworkAttachmentRef {
            name: attachment.to_owned(),
            ..Default::default()
        },
        switch_port: port.map(|port| SwitchPort {
            switch_id: "52:54:00:aa:00:01".to_owned(),
            port_id: port.to_owned(),
        }),
        ..Default::default()
    };
    let host = host(
        "rack1-node11",
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                "redfish-virtualmedia://192.0.2.20/redfish/v1/Systems/1",
                "rack1-node11-bmc",
            ),
            network_interfaces: vec![
                interface("eno1", "provisioning", None),
                interface("eno2", "tenants", Some("Ethernet1/12")),
            ],
            ..Default::default()
        },
    );
    let mut file = File::new("A switch, and how the ports of a host are to be set up.");
    file.add(
        &credentials("rack1-top-login"),
        &[("stringData", "Instead of a password, ssh-privatekey may hold a key.")],
    )?;
    file.add(
        &switch,
        &[(
            "spec.macAddress",
            "As hosts see the switch by LLDP. This is how ports are told.",
        )],
    )?;
    file.add(&attachment("provisioning", SwitchPortMode::Access, &[]), &[])?;
    file.add(
        &attachment("tenants", SwitchPortMode::Trunk, &["200-203", "300"]),
        &[
            ("spec.nativeVLAN", "Frames without a tag."),
            ("spec.allowedVLANs", "Frames with one of these tags."),
        ],
    )?;
    file.add(&credentials("rack1-node11-bmc"), CREDENTIALS)?;
    file.add(
        &host,
        &[
            ("spec.bmc", BMC),
            (
                "spec.networkInterfaces",
                "Checked and kept; no controller sets up ports yet.",
            ),
            (
                "spec.networkInterfaces.switchPort",
                "Where LLDP does not tell the port.",
            ),
        ],
    )?;
    Ok(file.text)
}
