//! The desired node of a host in Ironic: the request that creates it, and the differences of an existing one.

use metal3_api::metal3::{
    BareMetalHost, BareMetalHostSpec, BareMetalHostStatus, BootMode, CleaningMode, InspectionMode, ProvisioningState,
    RamdiskFormat,
};
use metal3_bmc::{BmcAddress, Credentials};
use metal3_ironic::{CreateNode, Diff, Fields, MASK, Node, NodeDetail, PatchOp};
use serde_json::Value;

use super::identity;
use super::instance::Deployment;
use super::ramdisk::Ramdisk;
use crate::host::identity::node_name;
use crate::settings::HostSettings;

/// The inputs of the node's description.
pub struct Target<'a> {
    /// The host.
    pub host: &'a BareMetalHost,
    /// Its status being built, which has the boot mode.
    pub status: &'a BareMetalHostStatus,
    /// Its architecture.
    pub architecture: &'a str,
    /// The operator's settings.
    pub settings: &'a HostSettings,
    /// The parsed BMC address.
    pub address: &'a BmcAddress,
    /// What its ramdisk boots from.
    pub ramdisk: &'a Ramdisk,
    /// Where its BMC fetches virtual media from.
    pub media: MediaUrl<'a>,
}

/// Where a BMC fetches virtual media from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaUrl<'a> {
    /// From Ironic's usual address.
    Ironics,
    /// From this one (`IRONIC_EXTERNAL_URL_V6`).
    Own(&'a str),
    /// Unchanged, because the BMC's host name does not resolve.
    AsItIs,
}

const ARCHITECTURE: &str = "cpu_arch";
const CAPABILITIES: &str = "capabilities";
const EXTERNAL_URL: &str = "external_http_url";
const DEPLOY_KEYS: [&str; 4] = ["deploy_kernel", "deploy_ramdisk", "deploy_iso", "kernel_append_params"];

impl Target<'_> {
    fn capability(&self) -> &'static str {
        match self.status.provisioning.boot_mode.as_ref() {
            Some(BootMode::UefiSecureBoot) => "boot_mode:uefi,secure_boot:true",
            Some(BootMode::Legacy) => "boot_mode:bios",
            Some(BootMode::Uefi | BootMode::Other(_)) | None => "boot_mode:uefi",
        }
    }

    fn cleans(&self) -> bool {
        self.host.spec.automated_cleaning_mode != CleaningMode::Disabled
    }

    /// The boot images of the ramdisk; `None` to leave them unchanged: then Ironic's own configuration may apply.
    fn deploy_images(&self) -> Option<[(&'static str, Option<Value>); 4]> {
        let [kernel, ramdisk, iso, params] = DEPLOY_KEYS;
        let from_iso = |url: &str| [(kernel, None), (ramdisk, None), (iso, Some(url.into())), (params, None)];
        let from_ramdisk = |k: &str, r: &str, extra: &str| {
            let extra = (!extra.is_empty()).then(|| Value::from(format!("%default% {extra}")));
            [
                (kernel, Some(k.into())),
                (ramdisk, Some(r.into())),
                (iso, None),
                (params, extra),
            ]
        };
        let images = &self.settings.deploy_images;
        let supports_iso = self.address.access().supports_iso();
        match self.ramdisk {
            Ramdisk::AsItIs => None,
            Ramdisk::Configured => match (&images.iso, &images.kernel, &images.ramdisk) {
                (Some(url), _, _) if supports_iso => Some(from_iso(url)),
                (_, Some(k), Some(r)) => Some(from_ramdisk(k, r, "")),
                _ => None,
            },
            Ramdisk::Built(built) if built.format == Some(RamdiskFormat::Iso) => {
                supports_iso.then(|| from_iso(&built.image_url))
            }
            Ramdisk::Built(built) => {
                let own = Some(&built.kernel_url).filter(|url| !url.is_empty());
                let kernel = own.or(images.kernel.as_ref())?;
                Some(from_ramdisk(kernel, &built.image_url, &built.extra_kernel_params))
            }
        }
    }

    /// Whether the operator manages where the BMC fetches virtual media from.
    fn is_url_ours(&self) -> bool {
        self.settings.external_url_v6.is_some() && self.media != MediaUrl::AsItIs
    }

    /// The URL for virtual media, unless it is Ironic's default.
    fn external_url(&self) -> Option<Value> {
        match self.media {
            MediaUrl::Own(url) => Some(url.into()),
            MediaUrl::Ironics | MediaUrl::AsItIs => None,
        }
    }

    fn access_info(&self, credentials: &Credentials) -> Fields {
        let mut info: Fields = self
            .address
            .driver_info(credentials, self.host.spec.bmc.disable_certificate_verification)
            .into();
        if let Some(url) = self.external_url() {
            info.insert(EXTERNAL_URL.to_owned(), url);
        }
        info
    }

    /// The deploy interface for adopting a running host.
    fn deploy_interface(&self) -> Option<&'static str> {
        match self.status.provisioning.state {
            ProvisioningState::Provisioned | ProvisioningState::ExternallyProvisioned => {
                Deployment::current(&self.host.spec, self.status)?.interface()
            }
            _ => None,
        }
    }
}

/// The inspection interface: the ramdisk, or the BMC itself.
pub fn inspect_interface(spec: &BareMetalHostSpec, address: &BmcAddress) -> &'static str {
    match spec.inspection_mode {
        Some(InspectionMode::Fast) => address.access().fast_inspect_interface().unwrap_or("agent"),
        _ => "agent",
    }
}

/// The request that enrols the host. It contains the whole initial configuration, so that no patch has to follow.
pub fn create(target: &Target<'_>, credentials: &Credentials) -> CreateNode {
    let mut driver_info = target.access_info(credentials);
    for (key, value) in target.deploy_images().into_iter().flatten() {
        if let Some(value) = value {
            driver_info.insert(key.to_owned(), value);
        }
    }
    CreateNode {
        uuid: identity::own_uuid(target.host).map(str::to_owned),
        properties: [
            (CAPABILITIES, target.capability().into()),
            (ARCHITECTURE, target.architecture.into()),
        ]
        .into_iter()
        .collect(),
        deploy_interface: target.deploy_interface().map(str::to_owned),
        inspect_interface: Some(inspect_interface(&target.host.spec, target.address).to_owned()),
        // Older servers reject the field; false is their default.
        disable_power_off: target.host.spec.disable_power_off.then_some(true),
        automated_clean: Some(target.cleans()),
        ..at_bmc(target.address, node_name(target.host), driver_info)
    }
}

/// The request for a node that exists only while the BMC is asked whether it accepts these credentials. The name of
/// such a node is no host's, and tells an administrator who finds one what it was made for. What the address leaves open
/// of the location, such as the system, is that of the node in question, whose access data is `stored`: an account may
/// see another of the systems behind one BMC.
pub fn credential_check(
    host: &BareMetalHost,
    address: &BmcAddress,
    credentials: &Credentials,
    stored: Option<&Fields>,
) -> CreateNode {
    let name = format!("credential-check-{}", host.metadata.uid.as_deref().unwrap_or_default());
    let mut driver_info: Fields = address
        .driver_info(credentials, host.spec.bmc.disable_certificate_verification)
        .into();
    let [main, rest] = bmc_keys(&driver_info);
    for key in [main, rest] {
        if let Some(found) = stored.and_then(|stored| stored.get(key)) {
            driver_info.entry(key).or_insert_with(|| found.clone());
        }
    }
    at_bmc(address, name, driver_info)
}

/// The location of the BMC in access data, as a text to compare.
pub fn location(access: &Fields) -> String {
    let parts = bmc_keys(access).map(|key| access.get(key).map(ToString::to_string).unwrap_or_default());
    parts.join(" ")
}

/// What each node at a BMC of this type has.
fn at_bmc(address: &BmcAddress, name: String, driver_info: Fields) -> CreateNode {
    let access = address.access();
    let own = |word: Option<&'static str>| word.map(str::to_owned);
    CreateNode {
        driver: access.driver().to_owned(),
        name,
        driver_info,
        bios_interface: own(access.bios_interface),
        boot_interface: own(access.boot_interface),
        firmware_interface: own(access.firmware_interface),
        management_interface: own(access.management_interface),
        power_interface: own(access.power_interface),
        raid_interface: own(access.raid_interface),
        vendor_interface: own(access.vendor_interface),
        ..CreateNode::default()
    }
}

/// Whether the node was enrolled for a different BMC type, so that its driver cannot use this address.
pub fn has_another_driver(target: &Target<'_>, detail: &NodeDetail) -> bool {
    let stored = detail.driver.as_deref();
    stored.is_some_and(|driver| driver != target.address.access().driver())
}

/// Whether the node uses a different protocol than the address: its driver could not use it.
pub fn has_another_protocol(target: &Target<'_>, detail: &NodeDetail) -> bool {
    let wanted = target.access_info(&Credentials::default());
    let is_stored = |key: &str| detail.driver_info.contains_key(key);
    ["ipmi_address", "redfish_address"]
        .into_iter()
        .any(|key| is_stored(key) && !wanted.contains_key(key))
        && !wanted.keys().any(|key| key.ends_with("_address") && is_stored(key))
}

/// The boot interface, if the node was enrolled for a different type of address.
pub fn boot(target: &Target<'_>, node: &Node) -> Option<PatchOp> {
    let wanted = target.address.access().boot_interface?;
    let stored = node.boot_interface.as_deref()?;
    (stored != wanted).then(|| PatchOp::add("/boot_interface", wanted))
}

/// Whether a visible part of the BMC access differs, or was removed: passwords are masked and cannot be compared.
pub fn access_differs(target: &Target<'_>, detail: &NodeDetail) -> bool {
    let wanted = target.access_info(&Credentials::default());
    let is_secret = |key: &str| key.ends_with("_username") || key.ends_with("_password");
    let is_another = |(key, value): (&String, &Value)| {
        let stored = detail.driver_info.get(key);
        stored.is_none_or(|stored| stored != value && stored != MASK)
    };
    // Of the optional keys. Keys set by hand are left unchanged, and so is the URL if the operator does not manage it.
    let is_url_ours = target.is_url_ours();
    let is_optional =
        |key: &str| key == "redfish_system_id" || key.ends_with("_verify_ca") || (key == EXTERNAL_URL && is_url_ours);
    let has_gone = |key: &String| is_optional(key) && !wanted.contains_key(key);
    wanted.iter().filter(|(key, _)| !is_secret(key)).any(is_another) || detail.driver_info.keys().any(has_gone)
}

/// Why a node that has the host's name, or a port with its MAC address, is not that of the host's BMC: the first part
/// of the address that differs. A part that only one of them has does not count.
pub fn another_bmc(address: &BmcAddress, stored: &Fields) -> Option<String> {
    let wanted: Fields = address.driver_info(&Credentials::default(), false).into();
    let text = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.trim_end_matches('/').to_ascii_lowercase()
    };
    let [main, rest @ ..] = bmc_keys(&wanted);
    let Some(found) = stored.get(main) else {
        return Some(format!("driver_info has no {main}"));
    };
    for key in std::iter::once(main).chain(rest) {
        let pair = wanted
            .get(key)
            .zip(if key == main { Some(found) } else { stored.get(key) });
        if let Some((wanted, found)) = pair.filter(|(wanted, found)| text(wanted) != text(found)) {
            return Some(format!(
                "driver_info.{key} is {}, that of the host would be {}",
                text(found),
                text(wanted)
            ));
        }
    }
    None
}

/// Whether credentials that the BMC accepts for this address prove access to the node. They do not where only the address names
/// a system: they are tried there, and the node may be another of the systems behind the BMC.
pub fn can_be_proven(address: &BmcAddress, stored: &Fields) -> bool {
    const SYSTEM: &str = "redfish_system_id";
    let wanted: Fields = address.driver_info(&Credentials::default(), false).into();
    // An address may leave it empty.
    let names_one = |access: &Fields| access.get(SYSTEM).is_some_and(|system| system != "");
    another_bmc(address, stored).is_none() && (names_one(stored) || !names_one(&wanted))
}

/// The location of a BMC, by protocol: the key that every node has, and the optional one.
const BMC_KEYS: [[&str; 2]; 2] = [["ipmi_address", "ipmi_port"], ["redfish_address", "redfish_system_id"]];

/// The keys of a BMC's location in access data.
fn bmc_keys(access: &Fields) -> [&'static str; 2] {
    BMC_KEYS[usize::from(access.contains_key("redfish_address"))]
}

/// Whether a key of `driver_info` is part of the access between Ironic and the BMC: it changes with the address.
fn is_access(key: &str) -> bool {
    key.starts_with("ipmi_") || key.starts_with("redfish_") || key == EXTERNAL_URL
}

/// The differences of an existing node. With `access` the whole BMC access is sent again.
pub fn configure(target: &Target<'_>, access: Option<&Credentials>, detail: &NodeDetail) -> Vec<PatchOp> {
    let mut diff = Diff::default();
    if let Some(credentials) = access {
        // Replacing the whole map also removes keys of another BMC type. Keys unrelated to the access are kept.
        let mut info = target.access_info(credentials);
        for (key, value) in detail.driver_info.iter() {
            let is_kept = !is_access(key) || (key == EXTERNAL_URL && target.media == MediaUrl::AsItIs);
            if is_kept && value != MASK {
                info.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        for (key, value) in target.deploy_images().into_iter().flatten() {
            match value {
                Some(value) => info.insert(key.to_owned(), value),
                None => info.remove(key),
            };
        }
        return std::iter::once(PatchOp::add("/driver_info", info))
            .chain(rest(target, detail, diff))
            .collect();
    }
    for (key, value) in target.deploy_images().into_iter().flatten() {
        diff.set("/driver_info", key, value, detail.driver_info.get(key));
    }
    if target.is_url_ours() {
        let stored = detail.driver_info.get(EXTERNAL_URL);
        diff.set("/driver_info", EXTERNAL_URL, target.external_url(), stored);
    }
    rest(target, detail, diff)
}

fn rest(target: &Target<'_>, detail: &NodeDetail, mut diff: Diff) -> Vec<PatchOp> {
    let stored = detail.properties.get(CAPABILITIES);
    let merged = merged_capabilities(stored.and_then(Value::as_str), target.capability());
    diff.set("/properties", CAPABILITIES, Some(merged.into()), stored);
    diff.set(
        "/properties",
        ARCHITECTURE,
        Some(target.architecture.into()),
        detail.properties.get(ARCHITECTURE),
    );
    diff.set(
        "",
        "automated_clean",
        Some(target.cleans().into()),
        detail.automated_clean.map(Value::from).as_ref(),
    );
    if target.settings.can_disable_power_off
        && target.host.spec.disable_power_off != detail.disable_power_off.unwrap_or(false)
    {
        let stored = detail.disable_power_off.map(Value::from);
        diff.set(
            "",
            "disable_power_off",
            Some(target.host.spec.disable_power_off.into()),
            stored.as_ref(),
        );
    }
    diff.into_ops()
}

/// Our boot mode and secure boot replace the stored ones; other capabilities stay.
fn merged_capabilities(stored: Option<&str>, ours: &str) -> String {
    stored
        .into_iter()
        .flat_map(|s| s.split(','))
        .filter(|c| !c.is_empty() && !c.starts_with("boot_mode:") && !c.starts_with("secure_boot:"))
        .chain([ours])
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(None, "boot_mode:uefi")]
    #[case(Some(""), "boot_mode:uefi")]
    #[case(Some("boot_mode:bios"), "boot_mode:uefi")]
    #[case(
        Some("cpu_vt:true,boot_mode:bios,secure_boot:true,x:y"),
        "cpu_vt:true,x:y,boot_mode:uefi"
    )]
    fn other_capabilities_stay(#[case] stored: Option<&str>, #[case] expected: &str) {
        assert_eq!(merged_capabilities(stored, "boot_mode:uefi"), expected);
    }

    // OWN 31wr: an account that sees only its own system behind a BMC passed for one that may use the node's system.
    #[rstest]
    #[case::the_only_system("redfish://192.0.2.1", json!({"redfish_system_id": "/redfish/v1/Systems/2"}),
        "redfish_system_id", json!("/redfish/v1/Systems/2"))]
    #[case::a_system("redfish://192.0.2.1/redfish/v1/Systems/1", json!({}), "redfish_system_id", json!("/redfish/v1/Systems/1"))]
    #[case::nothing_else("redfish://192.0.2.1/redfish/v1/Systems/1", json!({"redfish_username": "theirs"}),
        "redfish_username", json!("admin"))]
    fn credentials_are_checked_at_the_system_of_the_node(
        #[case] address: &str,
        #[case] stored: Value,
        #[case] key: &str,
        #[case] expected: Value,
    ) {
        let host: BareMetalHost = serde_json::from_value(json!({"metadata": {"name": "h"}, "spec": {}})).unwrap();
        let address = BmcAddress::parse(address).unwrap();
        let credentials = Credentials {
            username: "admin".to_owned(),
            ..Credentials::default()
        };
        let stored: Fields = serde_json::from_value(stored).unwrap();
        let probe = credential_check(&host, &address, &credentials, Some(&stored));
        assert_eq!(probe.driver_info[key], expected);
        assert_ne!(location(&probe.driver_info), location(&Fields::default()));
    }
}
