//! `examples/baremetalhost`: hosts, by what they run and how they are made ready.

mod first_boot;
mod raid;

use super::file::{BMC, CLEANING, CREDENTIALS, File, bmc, credentials, host, image, reference, secret};
use super::{Examples, named};
use metal3_api::metal3::names::{annotation, secret_key};
use metal3_api::metal3::{
    BareMetalHost, BareMetalHostSpec, BootMode, CleaningMode, CustomDeploy, Image, ImageFormat, InspectionMode,
};
use serde_json::json;

const FOLDER: &str = "baremetalhost";

pub fn examples() -> anyhow::Result<Examples> {
    Ok(named(
        FOLDER,
        [
            ("virtual-media", first_boot::virtual_media()?),
            ("ipmi-raid", raid::ipmi_raid()?),
            ("live-iso", live_iso()?),
            ("hardware-raid", raid::hardware_raid()?),
            ("custom-deploy", custom_deploy()?),
            ("oci-image", oci_image()?),
            ("externally-provisioned", externally_provisioned()?),
            ("detached", detached()?),
            ("power-stays-on", power_stays_on()?),
        ],
    ))
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
