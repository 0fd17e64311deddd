//! A host with everything that a first boot may want.

use metal3_api::metal3::names::secret_key;
use metal3_api::metal3::{BareMetalHost, BareMetalHostSpec, BootMode, RootDeviceHints};
use serde_json::json;

use super::super::file::{BMC, CLEANING, CREDENTIALS, File, bmc, credentials, host, image, reference, secret, yaml};

/// Why which field is there.
const NOTES: &[(&str, &str)] = &[
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
];

pub fn virtual_media() -> anyhow::Result<String> {
    let mut file = File::new(
        "A server that boots its installer from virtual media, so no DHCP or TFTP is needed, and runs an image with its\n\
         own users, network and metadata.",
    );
    file.add(&credentials("rack1-node1-bmc"), CREDENTIALS)?;
    add_config_drive(&mut file)?;
    file.add(&node(), NOTES)?;
    Ok(file.text)
}

fn node() -> BareMetalHost {
    host(
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
    )
}

/// What cloud-init reads on the host.
fn add_config_drive(file: &mut File) -> anyhow::Result<()> {
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
    )
}
