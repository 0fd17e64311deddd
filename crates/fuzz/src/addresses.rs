//! Addresses of BMCs.

use crate::bounded::is_bounded;
use metal3_bmc::{BmcAddress, Credentials};

/// User-info, which no output may show.
const CANARY: &str = "secret-of-fuzz";

/// The same address whether it contains user-info or not, the same again when written out, and nothing of user-info anywhere.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let parsed = BmcAddress::parse(text);
    match &parsed {
        Ok(address) => is_whole(input, address),
        Err(error) => is_bounded(&[], error.to_string().len()),
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return;
    };
    // Otherwise it is a path that has this in it.
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !is_scheme || text.to_ascii_lowercase().contains(CANARY) {
        return;
    }
    let secret = BmcAddress::parse(&format!("{scheme}://u:{CANARY}@{rest}"));
    let said = match &secret {
        Ok(address) => format!("{address} {address:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!said.contains(CANARY), "{said}");
    assert_eq!(secret.ok(), parsed.ok());
}

/// What an accepted address leads to.
fn is_whole(input: &[u8], address: &BmcAddress) {
    let full = address.to_string();
    assert_eq!(BmcAddress::parse(&full).as_ref(), Ok(address), "{full}");
    assert!(address.port() != Some(0), "{full}");
    assert!(address.path().is_empty() || address.path().starts_with('/'), "{full}");
    let credentials = Credentials {
        username: "admin".to_owned(),
        password: CANARY.to_owned(),
    };
    let info = address.driver_info(&credentials, true);
    let said = format!("{info:?}");
    is_bounded(input, said.len());
    let host = info.get("redfish_address").or_else(|| info.get("ipmi_address"));
    let host = host.and_then(|host| host.as_str()).expect("an address");
    let is_clean = |c: char| !c.is_control() && !c.is_whitespace() && c != '@';
    assert!(!host.is_empty() && host.chars().all(is_clean), "{host}");
}
