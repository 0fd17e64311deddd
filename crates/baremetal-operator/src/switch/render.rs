//! The part of the configuration that describes one switch.

use std::fmt::Write as _;
use std::path::Path;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use metal3_api::metal3::BareMetalSwitch;
use metal3_api::metal3::names::condition::switch::{CONFIGURATION_ERROR, CREDENTIAL_ERROR};
use metal3_api::metal3::names::secret_key::{ADMIN_PASSWORD, PASSWORD, SSH_PRIVATE_KEY, USERNAME};

/// The key of the configuration in its Secret.
pub const CONFIGS_KEY: &str = "switch-configs.conf";

/// How the configuration begins.
pub const HEADER: &str = "# This file is managed by the Baremetal Operator\n\n";

/// One switch as Ironic's networking service reads it.
pub struct Entry {
    /// Its section.
    pub section: String,
    /// The file name and content of its private key.
    pub key_file: Option<(String, ByteString)>,
}

/// Why a switch is left out.
#[derive(Debug, PartialEq)]
pub struct Problem {
    pub reason: &'static str,
    pub message: String,
}

impl Problem {
    pub fn of_credentials(message: String) -> Self {
        Self {
            reason: CREDENTIAL_ERROR,
            message,
        }
    }

    pub fn of_configuration(message: String) -> Self {
        Self {
            reason: CONFIGURATION_ERROR,
            message,
        }
    }
}

/// Renders a switch with its credentials. Private keys are mounted at `path`.
pub fn entry(switch: &BareMetalSwitch, secret: &Secret, path: &str) -> Result<Entry, Problem> {
    let spec = &switch.spec;
    let name = switch.metadata.name.as_deref().unwrap_or_default();
    let mut section = format!("[switch:{name}]\n");
    let mut put = |key: &str, value: &str| {
        writeln!(section, "{key}={value}").ok();
    };
    put("address", plain("spec.address", &spec.address)?);
    // It names a file, and a key of the Secret.
    if !spec.mac_address.chars().all(|c| c.is_ascii_hexdigit() || c == ':') {
        return Err(Problem::of_configuration(
            "spec.macAddress is not a MAC address".to_owned(),
        ));
    }
    put("mac_address", plain("spec.macAddress", &spec.mac_address)?);
    if let Some(port) = spec.port {
        put("port", &port.to_string());
    }
    put("driver_type", spec.driver.as_str());
    put("device_type", plain("spec.deviceType", &spec.device_type)?);
    if spec.disable_certificate_verification {
        put("insecure", "true");
    }
    put("username", &required(secret, USERNAME)?);
    let key_file = bytes(secret, SSH_PRIVATE_KEY).map(|key| {
        let file = format!("{}.key", spec.mac_address.replace(':', "-"));
        (file, key.clone())
    });
    match &key_file {
        Some((file, _)) => put("key_file", &Path::new(path).join(file).to_string_lossy()),
        None if bytes(secret, PASSWORD).is_some() => put("password", &required(secret, PASSWORD)?),
        None => {
            let message = format!("{} has neither {PASSWORD} nor {SSH_PRIVATE_KEY}", named(secret));
            return Err(Problem::of_credentials(message));
        }
    }
    // Secrets from templates have an empty one where there is none.
    if bytes(secret, ADMIN_PASSWORD).is_some_and(|value| !value.0.trim_ascii().is_empty()) {
        put("enable_secret", &required(secret, ADMIN_PASSWORD)?);
    }
    section.push('\n');
    Ok(Entry { section, key_file })
}

fn named(secret: &Secret) -> String {
    format!("Secret {}", secret.metadata.name.as_deref().unwrap_or_default())
}

fn bytes<'a>(secret: &'a Secret, key: &str) -> Option<&'a ByteString> {
    secret.data.as_ref()?.get(key)
}

/// A value of the Secret on one line. Whitespace around it is not part of it. Messages never contain it.
fn required(secret: &Secret, key: &str) -> Result<String, Problem> {
    let wrong = |what: &str| Problem::of_credentials(format!("{key} of {} {what}", named(secret)));
    let value = bytes(secret, key).ok_or_else(|| wrong("is missing"))?;
    let text = std::str::from_utf8(&value.0).map_err(|_| wrong("is not UTF-8"))?.trim();
    if text.is_empty() {
        return Err(wrong("is empty"));
    }
    if let Some(what) = unfit(text) {
        return Err(wrong(what));
    }
    Ok(text.to_owned())
}

/// Why Ironic's configuration cannot hold a value.
fn unfit(value: &str) -> Option<&'static str> {
    let is_quoted = |quote| value.starts_with(quote) && value.ends_with(quote);
    if value.contains(char::is_control) {
        Some("contains a line break or another control character")
    } else if value.replace("%%", "").contains('%') {
        // Ironic's networking service would use none of the namespace's switches: Python's configparser takes it for the beginning
        // of a reference.
        Some("contains a % alone, at which Ironic fails to read the configuration of all switches")
    } else if is_quoted('"') || is_quoted('\'') {
        Some("begins and ends with the same quotation mark, which Ironic drops")
    } else {
        None
    }
}

/// A field of the specification. A line break would add settings to the configuration.
fn plain<'a>(field: &str, value: &'a str) -> Result<&'a str, Problem> {
    let why = if value.is_empty() {
        Some("is empty")
    } else {
        unfit(value)
    };
    match why {
        Some(why) => Err(Problem::of_configuration(format!("{field} {why}"))),
        None => Ok(value),
    }
}
