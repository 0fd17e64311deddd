//! The grammar of addresses: what is accepted, as what, and how what is not is complained about.

use metal3_bmc::{BmcAddress, Part};
use proptest::prelude::*;
use rstest::rstest;

/// Accepted, and what it is in full.
#[rstest]
#[case("10.0.0.5", "ipmi://10.0.0.5")]
#[case("10.0.0.5:6230", "ipmi://10.0.0.5:6230")]
#[case("bmc.lab.example", "ipmi://bmc.lab.example")]
#[case("bmc.lab.example/path", "ipmi://bmc.lab.example/path")]
#[case("[fe80::1]:6230", "ipmi://[fe80::1]:6230")]
#[case("ipmi:10.0.0.5", "ipmi://10.0.0.5")]
#[case("ipmi:10.0.0.5:6230", "ipmi://10.0.0.5:6230")]
#[case("ipmi://10.0.0.5:6230", "ipmi://10.0.0.5:6230")]
#[case("ipmi://10.0.0.5:", "ipmi://10.0.0.5")]
#[case("ipmi://[fe80::1]", "ipmi://[fe80::1]")]
#[case("ipmi://h?privilegelevel=USER", "ipmi://h?privilegelevel=USER")]
#[case("redfish:10.0.0.5", "redfish://10.0.0.5")]
#[case("redfish:bmc.example:8443/redfish/v1", "redfish://bmc.example:8443/redfish/v1")]
#[case(
    "redfish://[fe80::1]:8443/redfish/v1/Systems/1",
    "redfish://[fe80::1]:8443/redfish/v1/Systems/1"
)]
#[case("REDFISH+HTTP://h/x", "redfish+http://h/x")]
#[case(
    "idrac-virtualmedia+https://h/redfish/v1/Systems/System.Embedded.1",
    "idrac-virtualmedia+https://h/redfish/v1/Systems/System.Embedded.1"
)]
#[case("redfish://admin:secret@h/x", "redfish://h/x")]
#[case("redfish://admin:s@cret@h/x", "redfish://h/x")]
#[case("redfish:admin@h", "redfish://h")]
#[case("redfish://h/a%20b%25c#d", "redfish://h/a%20b%25c")]
#[case("redfish://h/systems/a@b", "redfish://h/systems/a@b")]
#[case("redfish://999.1.1.1", "redfish://999.1.1.1")]
fn accepted(#[case] text: &str, #[case] full: &str) {
    let address = BmcAddress::parse(text).unwrap();
    assert_eq!(address.to_string(), full);
    assert_eq!(BmcAddress::parse(full).unwrap(), address);
}

#[test]
fn parts_are_at_hand() {
    let address: BmcAddress = "redfish+http://[fe80::1]:8443/a%20b".parse().unwrap();
    assert_eq!(
        (address.host(), address.port(), address.path()),
        ("fe80::1", Some(8443), "/a b")
    );
    assert!(address.ip().unwrap().is_ipv6());
    assert_eq!(BmcAddress::parse("redfish://h").unwrap().ip(), None);
}

const LONG: &str = "ipmi://aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg.example";

/// Refused; which part is wrong, and words that the complaint must have.
#[rstest]
#[case("", Part::Address, &["is empty", "redfish://"])]
#[case("redfish://h/x\n", Part::Address, &["control character"])]
#[case("bmc.lab.example:6230", Part::Scheme, &["\"bmc.lab.example\"", "ipmi://bmc.lab.example:6230"])]
#[case("fe80::1", Part::Scheme, &["ipmi://[fe80::1]"])]
#[case("[fe80::1]", Part::Host, &["needs a port", "ipmi://"])]
#[case("foo://h", Part::Scheme, &["\"foo\"", "redfish-virtualmedia", "ipmi"])]
#[case("redfish+ftp://h", Part::Scheme, &["\"redfish+ftp\"", "+http or +https, not +ftp"])]
#[case("ipmi+http://h", Part::Scheme, &["write ipmi"])]
#[case("https://h", Part::Scheme, &["redfish+https"])]
#[case("idrac://h", Part::Scheme, &["no longer supported", "idrac-redfish"])]
#[case("idrac+http://h", Part::Scheme, &["no longer supported"])]
#[case("ilo4://h", Part::Scheme, &["no longer supported"])]
#[case("ilo4-virtualmedia://h", Part::Scheme, &["no longer supported"])]
#[case("ilo5://h", Part::Scheme, &["no longer supported"])]
#[case("irmc://h", Part::Scheme, &["no longer supported"])]
#[case("ibmc+https://h", Part::Scheme, &["no longer supported"])]
#[case("//h/x", Part::Scheme, &["missing"])]
#[case("://h/x", Part::Scheme, &["missing"])]
#[case("ipmi://", Part::Host, &["missing"])]
#[case("ipmi:", Part::Host, &["missing"])]
#[case("redfish:/path", Part::Host, &["missing"])]
#[case("redfish:///path", Part::Host, &["missing"])]
#[case("ipmi://-bad.example", Part::Host, &["\"-bad.example\"", "host name"])]
#[case("ipmi://bad-.example", Part::Host, &["host name"])]
#[case("ipmi://a+b.example", Part::Host, &["\"a+b.example\""])]
#[case("ipmi://a_b", Part::Host, &["\"a_b\""])]
#[case("ipmi://h.", Part::Host, &["\"h.\""])]
#[case("ipmi://h%41", Part::Host, &["\"h%41\""])]
#[case("ipmi://ho st", Part::Host, &["\"ho st\""])]
#[case(LONG, Part::Host, &["at most 63"])]
#[case("ipmi://h:80:80", Part::Host, &["\"h:80\""])]
#[case("ipmi://[fe80::zz]:1", Part::Host, &["\"fe80::zz\"", "IPv6"])]
#[case("ipmi://[fe80::1%eth0]", Part::Host, &["zone"])]
#[case("ipmi://[fe80::1", Part::Host, &["closing"])]
#[case("redfish://fe80::1/x", Part::Host, &["\"fe80::1\"", "brackets"])]
#[case("ipmi://h:port", Part::Port, &["\"port\"", "1 to 65535"])]
#[case("ipmi://h:70000", Part::Port, &["\"70000\""])]
#[case("ipmi://h:0", Part::Port, &["\"0\""])]
#[case("ipmi://h:+5", Part::Port, &["\"+5\""])]
#[case("ipmi://[fe80::1]80", Part::Port, &["colon"])]
#[case("redfish://h/a%zz", Part::Path, &["\"/a%zz\"", "%25"])]
#[case("redfish://h/a%4", Part::Path, &["hexadecimal"])]
#[case("redfish://h/%ff", Part::Path, &["UTF-8"])]
#[case("redfish://h/%0a", Part::Path, &["control"])]
#[case("ipmi://h?privilegelevel=admin", Part::Query, &["\"privilegelevel=admin\"", "ADMINISTRATOR, OPERATOR"])]
#[case("ipmi://h?privilegelevel=", Part::Query, &["privilege level"])]
fn refused(#[case] text: &str, #[case] part: Part, #[case] words: &[&str]) {
    let error = BmcAddress::parse(text).unwrap_err();
    let shown = error.to_string();
    assert_eq!(error.part(), part, "{shown}");
    for word in words {
        assert!(shown.contains(word), "{word:?} is not in: {shown}");
    }
}

/// A password in the address is not repeated, whatever characters make the grammar see it somewhere else.
#[rstest]
#[case("redfish://admin:hunter2/x@h_h/")]
#[case("redfish://admin:hunter2#x@h")]
#[case("redfish://admin:hunter2?x@h")]
#[case("redfish://hunter2@h_h")]
#[case("redfish://admin:hunter2@h:port/x")]
#[case("redfish://admin:[hunter2/@h")]
#[case("redfish://admin:1/%hunter2@h")]
#[case("foo://admin:hunter2@h")]
#[case("hunter2:x@h")]
#[case("admin:hunter2@h")]
#[case("admin:hunter2@10.0.0.5")]
#[case("ipmi://h?privilegelevel=hunter2@h")]
fn passwords_are_not_quoted(#[case] text: &str) {
    let shown = match BmcAddress::parse(text) {
        Ok(address) => format!("{address} {address:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!shown.contains("hunter2"), "{shown}");
}

fn address_like() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![
        "",
        "ipmi:",
        "ipmi://",
        "redfish+http://",
        "redfish://",
        "[a-z+]{1,8}:(//)?"
    ];
    let user_info = prop_oneof![4 => Just(String::new()), 1 => "[a-z:]{0,5}@"];
    let host = prop_oneof![
        "[a-z0-9.-]{0,12}",
        Just("[fe80::1]".to_owned()),
        "[0-9.]{7,9}",
        "\\PC{0,6}"
    ];
    let port = prop_oneof![Just(String::new()), ":[0-9]{0,6}"];
    let path = prop_oneof![Just(String::new()), "(/[a-zA-Z0-9%?#@ ä&=.:]{0,8}){0,3}", "/\\PC{0,8}"];
    let query = prop_oneof![Just(String::new()), "\\?privilegelevel=(USER|x)", "\\?[a-z=&%+]{0,8}"];
    (scheme, user_info, host, port, path, query).prop_map(|(a, b, c, d, e, f)| format!("{a}{b}{c}{d}{e}{f}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_read_without_panic(text in "\\PC*") {
        BmcAddress::parse(&text).ok();
    }

    #[test]
    fn any_bytes_are_read_without_panic(text in any::<String>()) {
        BmcAddress::parse(&text).ok();
    }

    /// What was read and written is read the same again.
    #[test]
    fn the_full_form_is_stable(text in address_like()) {
        if let Ok(address) = BmcAddress::parse(&text) {
            let full = address.to_string();
            let again = BmcAddress::parse(&full);
            prop_assert_eq!(again.as_ref(), Ok(&address), "{}", full);
            prop_assert_eq!(again.unwrap().to_string(), full);
        }
    }

    /// Errors never repeat a password, whatever it is made of.
    #[test]
    fn errors_hold_no_password(password in "[a-zA-Z0-9/#?:@\\[%]{0,4}Zz[a-zA-Z0-9/#?:@\\[%.+-]{2,6}", host in "[a-y0-9_:]{1,6}") {
        for text in [format!("redfish://admin:{password}@{host}/x"), format!("admin:{password}@{host}"), format!("foo:admin:{password}@{host}")] {
            if let Err(error) = BmcAddress::parse(&text) {
                prop_assert!(!format!("{error} {error:?}").contains("Zz"), "{}: {}", text, error);
            }
        }
    }
}

#[test]
fn a_name_longer_than_dns_allows_is_refused() {
    let named = |labels: usize| BmcAddress::parse(&format!("ipmi://{}", vec!["a"; labels].join(".")));
    assert!(named(127).is_ok());
    assert!(named(128).unwrap_err().to_string().contains("253 in all"));
}
