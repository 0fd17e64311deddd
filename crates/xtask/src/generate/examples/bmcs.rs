//! `examples/bmc`: what addresses of management controllers look like.

use super::file::{CREDENTIALS, File, bmc, credentials, host};
use super::{Examples, named};
use metal3_api::metal3::BareMetalHostSpec;

/// A name, an address, and what is worth knowing of its driver.
const ADDRESSES: &[(&str, &str, &str)] = &[
    (
        "ipmi",
        "ipmi://192.0.2.30",
        "IPMI on its usual port 623. The installer is booted from the network.",
    ),
    ("ipmi-port", "ipmi://192.0.2.31:6230", "The same on another port."),
    ("ipmi-short", "192.0.2.32", "An address without a scheme means IPMI."),
    (
        "libvirt",
        "libvirt://192.0.2.33:16509",
        "A virtual machine behind an IPMI emulator. Needs its bootMACAddress.",
    ),
    (
        "redfish",
        "redfish://192.0.2.34/redfish/v1/Systems/1",
        "Redfish over TLS. The installer is booted from the network.",
    ),
    (
        "redfish-http",
        "redfish+http://192.0.2.35:8000/redfish/v1/Systems/1",
        "Without TLS: only for emulators and laboratories.",
    ),
    (
        "redfish-ipv6",
        "redfish://[2001:db8::36]:8443/redfish/v1/Systems/1",
        "IPv6 addresses stand in brackets.",
    ),
    (
        "virtualmedia",
        "redfish-virtualmedia://192.0.2.37/redfish/v1/Systems/1",
        "The installer is booted from virtual media, and needs neither DHCP nor TFTP.",
    ),
    (
        "uefihttp",
        "redfish-uefihttp://192.0.2.38/redfish/v1/Systems/1",
        "The firmware fetches the installer by HTTP.",
    ),
    (
        "idrac",
        "idrac-redfish://192.0.2.39/redfish/v1/Systems/System.Embedded.1",
        "Dell's iDRAC. The installer is booted from the network.",
    ),
    (
        "idrac-virtualmedia",
        "idrac-virtualmedia://192.0.2.40/redfish/v1/Systems/System.Embedded.1",
        "Dell's iDRAC with virtual media.",
    ),
    (
        "ilo5",
        "ilo5-redfish://192.0.2.41/redfish/v1/Systems/1",
        "HPE's iLO 5. The same as redfish; the name is kept for existing manifests.",
    ),
    (
        "ilo5-virtualmedia",
        "ilo5-virtualmedia://192.0.2.42/redfish/v1/Systems/1",
        "HPE's iLO 5 with virtual media. The same as redfish-virtualmedia.",
    ),
];

pub fn examples() -> anyhow::Result<Examples> {
    Ok(named("bmc", [("addresses", addresses()?)]))
}

/// One host for each kind of address.
fn addresses() -> anyhow::Result<String> {
    let mut file = File::new(
        "A server for each kind of management controller. The address selects the driver; all schemes with redfish, idrac\n\
         and ilo5 also exist with +http and +https at their end.",
    );
    file.add(&credentials("bmc-login"), CREDENTIALS)?;
    for (number, (name, address, about)) in ADDRESSES.iter().enumerate() {
        let host = host(
            &format!("bmc-{name}"),
            BareMetalHostSpec {
                online: true,
                bmc: bmc(address, "bmc-login"),
                boot_mac_address: format!("52:54:00:12:36:{number:02x}"),
                ..Default::default()
            },
        );
        file.add(&host, &[("spec.bmc.address", about)])?;
    }
    Ok(file.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use metal3_bmc::BmcAddress;

    #[test]
    fn all_addresses_are_understood() {
        for (_, address, _) in ADDRESSES {
            let parsed = BmcAddress::parse(address);
            assert!(parsed.is_ok(), "{address}: {}", parsed.unwrap_err());
        }
    }
}
