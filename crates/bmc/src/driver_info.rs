//! How Ironic reaches a BMC: the `driver_info` of its node.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::access::Family;
use crate::address::BmcAddress;

/// Port of IPMI when none is given.
const IPMI_PORT: u16 = 623;

/// User and password of a BMC. `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

impl BmcAddress {
    /// The keys that say how to reach this BMC. Those about images to boot are the caller's.
    ///
    /// With `disable_cert_verification` Ironic does not check the BMC's certificate; without it the key is absent, so
    /// that Ironic's own default holds.
    pub fn driver_info(&self, credentials: &Credentials, disable_cert_verification: bool) -> BTreeMap<String, Value> {
        let family = self.access().family;
        let mut info: Vec<(&str, Value)> = match family {
            Family::Ipmi => vec![
                ("ipmi_address", self.host().into()),
                ("ipmi_port", self.port().unwrap_or(IPMI_PORT).to_string().into()),
                ("ipmi_username", credentials.username.clone().into()),
                ("ipmi_password", credentials.password.clone().into()),
                (
                    "ipmi_priv_level",
                    self.privilege_level().unwrap_or("ADMINISTRATOR").into(),
                ),
            ],
            Family::Redfish | Family::RedfishUefiHttp => vec![
                (
                    "redfish_address",
                    format!("{}://{}", self.transport().name(), self.authority()).into(),
                ),
                ("redfish_username", credentials.username.clone().into()),
                ("redfish_password", credentials.password.clone().into()),
            ],
        };
        // Without a path, or with that of the service's root, Ironic picks the only system there is.
        let names_system = !matches!(self.path().trim_matches('/'), "" | "redfish/v1");
        if family == Family::RedfishUefiHttp || (family == Family::Redfish && names_system) {
            info.push(("redfish_system_id", self.path().into()));
        }
        if disable_cert_verification {
            let key = if family == Family::Ipmi {
                "ipmi_verify_ca"
            } else {
                "redfish_verify_ca"
            };
            info.push((key, false.into()));
        }
        info.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
