//! The tables of BMC types: every type with its driver, interfaces, abilities and driver parameters.

use metal3_bmc::{BmcAddress, Credentials};
use rstest::rstest;
use serde_json::{Value, json};

const TRANSPORTS: [&str; 3] = ["", "+http", "+https"];

#[expect(clippy::unwrap_used, reason = "a test helper")]
fn parse(text: &str) -> BmcAddress {
    BmcAddress::parse(text).unwrap()
}

fn credentials() -> Credentials {
    Credentials {
        username: "admin".to_owned(),
        password: "hunter2".to_owned(),
    }
}

/// Interfaces in the order bios, boot, firmware, fast inspection, management, power, raid, vendor.
type Interfaces = [Option<&'static str>; 8];

const IPMI: Interfaces = [None, Some("ipxe"), None, None, None, None, Some("no-raid"), None];
const REDFISH: Interfaces = redfish("ipxe");
const IDRAC: Interfaces = idrac("ipxe");

const fn redfish(boot: &'static str) -> Interfaces {
    [
        None,
        Some(boot),
        Some("redfish"),
        Some("redfish"),
        None,
        None,
        Some("redfish"),
        None,
    ]
}

const fn idrac(boot: &'static str) -> Interfaces {
    let own = Some("idrac-redfish");
    [own, Some(boot), Some("redfish"), Some("redfish"), own, own, own, own]
}

/// Abilities in the order: needs a boot MAC address, secure boot, ISO, needs a provisioning network.
#[rstest]
#[case("ipmi", "ipmi", IPMI, [false, false, false, true])]
#[case("libvirt", "ipmi", IPMI, [true, false, false, true])]
#[case("redfish", "redfish", REDFISH, [false, true, false, true])]
#[case("ilo5-redfish", "redfish", REDFISH, [false, true, false, true])]
#[case("idrac-redfish", "idrac", IDRAC, [false, true, false, true])]
#[case("redfish-virtualmedia", "redfish", redfish("redfish-virtual-media"), [false, true, true, false])]
#[case("ilo5-virtualmedia", "redfish", redfish("redfish-virtual-media"), [false, true, true, false])]
#[case("idrac-virtualmedia", "idrac", idrac("idrac-redfish-virtual-media"), [false, true, true, false])]
#[case("redfish-uefihttp", "redfish", redfish("redfish-https"), [false, true, true, false])]
fn types(#[case] name: &str, #[case] driver: &str, #[case] interfaces: Interfaces, #[case] abilities: [bool; 4]) {
    let suffixes = if driver == "ipmi" {
        &TRANSPORTS[..1]
    } else {
        &TRANSPORTS[..]
    };
    for suffix in suffixes {
        let address = parse(&format!("{name}{suffix}://192.0.2.7/x"));
        assert_eq!(address.bmc_type(), format!("{name}{suffix}"));
        let access = address.access();
        assert_eq!(access.driver(), driver);
        assert_eq!(
            [
                access.bios_interface,
                access.boot_interface,
                access.firmware_interface,
                access.fast_inspect_interface(),
                access.management_interface,
                access.power_interface,
                access.raid_interface,
                access.vendor_interface,
            ],
            interfaces
        );
        assert_eq!(
            [
                access.needs_boot_mac(),
                access.supports_secure_boot(),
                access.supports_iso(),
                access.needs_provisioning_network(),
            ],
            abilities
        );
    }
    if driver == "ipmi" {
        for suffix in &TRANSPORTS[1..] {
            BmcAddress::parse(&format!("{name}{suffix}://192.0.2.7")).unwrap_err();
        }
    }
}

#[rstest]
#[case::defaults("ipmi://192.0.2.7", false,
    json!({"ipmi_address": "192.0.2.7", "ipmi_port": "623", "ipmi_priv_level": "ADMINISTRATOR"}))]
#[case::all("ipmi://[fe80::1]:6230/x?a=b&privilegelevel=OPERATOR&privilegelevel=USER", true,
    json!({"ipmi_address": "fe80::1", "ipmi_port": "6230", "ipmi_priv_level": "OPERATOR", "ipmi_verify_ca": false}))]
#[case::libvirt("libvirt://bmc.example:6230", false,
    json!({"ipmi_address": "bmc.example", "ipmi_port": "6230", "ipmi_priv_level": "ADMINISTRATOR"}))]
fn ipmi_info(#[case] address: &str, #[case] unverified: bool, #[case] mut expected: Value) {
    expected["ipmi_username"] = json!("admin");
    expected["ipmi_password"] = json!("hunter2");
    assert_eq!(json!(parse(address).driver_info(&credentials(), unverified)), expected);
}

const SYSTEM: &str = "/redfish/v1/Systems/1";

#[rstest]
#[case::https("://192.0.2.7/redfish/v1/Systems/1", "https://192.0.2.7", Some(SYSTEM))]
#[case::https_by_name("+https://192.0.2.7/redfish/v1/Systems/1", "https://192.0.2.7", Some(SYSTEM))]
#[case::http("+http://192.0.2.7:8000/redfish/v1/Systems/1", "http://192.0.2.7:8000", Some(SYSTEM))]
#[case::ipv6("://[fe80::1]:8443/redfish/v1/Systems/1", "https://[fe80::1]:8443", Some(SYSTEM))]
#[case::ipv6_without_port("://[FE80::1]/a", "https://[FE80::1]", Some("/a"))]
#[case::no_path("://bmc.example", "https://bmc.example", None)]
#[case::slash("://bmc.example/", "https://bmc.example", None)]
#[case::root("://bmc.example/redfish/v1", "https://bmc.example", None)]
#[case::root_and_slashes("://bmc.example//redfish/v1//", "https://bmc.example", None)]
#[case::slash_at_the_end_stays(
    "://bmc.example/redfish/v1/Systems/1/",
    "https://bmc.example",
    Some("/redfish/v1/Systems/1/")
)]
#[case::escapes("://bmc.example/a%20b%3Fc", "https://bmc.example", Some("/a b?c"))]
#[case::query_and_fragment("://bmc.example/a?privilegelevel=nonsense#b", "https://bmc.example", Some("/a"))]
#[case::user_info("://admin:secret@bmc.example/a", "https://bmc.example", Some("/a"))]
fn redfish_info(#[case] tail: &str, #[case] redfish_address: &str, #[case] system: Option<&str>) {
    let families = [
        "redfish",
        "ilo5-redfish",
        "idrac-redfish",
        "redfish-virtualmedia",
        "ilo5-virtualmedia",
        "idrac-virtualmedia",
        "redfish-uefihttp",
    ];
    for family in families {
        let address = parse(&format!("{family}{tail}"));
        let mut expected = json!({
            "redfish_address": redfish_address, "redfish_username": "admin", "redfish_password": "hunter2",
        });
        if family == "redfish-uefihttp" {
            expected["redfish_system_id"] = json!(address.path());
        } else if let Some(system) = system {
            expected["redfish_system_id"] = json!(system);
        }
        assert_eq!(json!(address.driver_info(&credentials(), false)), expected, "{family}");
        expected["redfish_verify_ca"] = json!(false);
        assert_eq!(json!(address.driver_info(&credentials(), true)), expected, "{family}");
    }
}

#[test]
fn passwords_are_not_shown() {
    assert_eq!(
        format!("{:?}", credentials()),
        "Credentials { username: \"admin\", .. }"
    );
}
