//! `examples/rack`: several servers in one file. `cargo xtask demo` applies it with the lab's addresses.

use super::file::{BMC, CLEANING, CREDENTIALS, File, bmc, credentials, host, reference, secret, yaml};
use super::{Examples, named};
use metal3_api::metal3::names::secret_key;
use metal3_api::metal3::{BareMetalHost, BareMetalHostSpec, ChecksumType, Image, ImageFormat};
use serde_json::json;

pub fn examples() -> anyhow::Result<Examples> {
    Ok(named("rack", [("rack", rack()?)]))
}

/// Three servers with virtual media: one with data of every kind, one with user data, one with nothing but its image.
fn rack() -> anyhow::Result<String> {
    let mut file = File::new(
        "Three servers that boot their installer from virtual media and run the same image. The first brings users, network\n\
         and metadata of its own, the second users, the third nothing but the image.",
    );
    file.add(&credentials("rack2-node1-bmc"), CREDENTIALS)?;
    file.add(
        &user_data(1)?,
        &[("stringData.userData", "What cloud-init does at the first boot.")],
    )?;
    file.add(
        &secret(
            "rack2-node1-meta-data",
            secret_key::META_DATA,
            &yaml(&json!({"local-hostname": "node1.example.org", "rack": "rack2"}))?,
        ),
        &[(
            "stringData.metaData",
            "Merged over what the operator generates, such as the name.",
        )],
    )?;
    let network_data = json!({
        "links": [{ "id": "nic1", "type": "phy", "ethernet_mac_address": mac(1) }],
        "networks": [{
            "id": "net1", "link": "nic1", "type": "ipv4", "ip_address": "198.51.100.21", "netmask": "255.255.255.0",
            "routes": [{ "network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "198.51.100.1" }],
        }],
        "services": [{ "type": "dns", "address": "198.51.100.53" }],
    });
    file.add(
        &secret(
            "rack2-node1-network-data",
            secret_key::NETWORK_DATA,
            &yaml(&network_data)?,
        ),
        &[(
            "stringData.networkData",
            "Network configuration of the installed system.",
        )],
    )?;
    let mut first = server(1);
    first.spec.user_data = Some(reference("rack2-node1-user-data"));
    first.spec.meta_data = Some(reference("rack2-node1-meta-data"));
    first.spec.network_data = Some(reference("rack2-node1-network-data"));
    file.add(
        &first,
        &[
            ("spec.bmc", BMC),
            (
                "spec.bootMACAddress",
                "The interface that the host is installed through. Cannot be changed later.",
            ),
            (
                "spec.image",
                "Setting the image installs it, removing it cleans the host.",
            ),
            (
                "spec.image.checksum",
                "The image's digest: Ironic writes no image that has another.",
            ),
            ("spec.automatedCleaningMode", CLEANING),
        ],
    )?;

    file.add(&credentials("rack2-node2-bmc"), &[])?;
    file.add(&user_data(2)?, &[])?;
    let mut second = server(2);
    second.spec.user_data = Some(reference("rack2-node2-user-data"));
    file.add(&second, &[])?;

    file.add(&credentials("rack2-node3-bmc"), &[])?;
    file.add(
        &server(3),
        &[(
            "spec.image",
            "Without data of its own, the system is told its name and its UUID.",
        )],
    )?;
    Ok(file.text)
}

fn mac(number: u8) -> String {
    format!("52:54:00:12:35:{number:02x}")
}

fn user_data(number: u8) -> anyhow::Result<k8s_openapi::api::core::v1::Secret> {
    let data = json!({ "users": [{ "name": "admin", "groups": "sudo", "lock_passwd": true }] });
    Ok(secret(
        &format!("rack2-node{number}-user-data"),
        secret_key::USER_DATA,
        &format!("#cloud-config\n{}", yaml(&data)?),
    ))
}

fn server(number: u8) -> BareMetalHost {
    host(
        &format!("rack2-node{number}"),
        BareMetalHostSpec {
            online: true,
            bmc: bmc(
                &format!("redfish-virtualmedia://192.0.2.{}/redfish/v1/Systems/1", 20 + number),
                &format!("rack2-node{number}-bmc"),
            ),
            boot_mac_address: mac(number),
            image: Some(Image {
                url: "https://images.example.org/server-24.04.qcow2".to_owned(),
                checksum: "3e5b8f6c1d0a4729be6fd2937a85c04e1b9d7f2a6c3058e4d1f7b2960a8c5e43".to_owned(),
                checksum_type: Some(ChecksumType::Sha256),
                format: Some(ImageFormat::Qcow2),
                ..Default::default()
            }),
            ..Default::default()
        },
    )
}
