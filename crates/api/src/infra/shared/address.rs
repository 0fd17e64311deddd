//! Texts of IP addresses.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

macro_rules! ipv4 {
    () => {
        r"^((([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])\.){3}([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5]))$"
    };
}

macro_rules! ipv6 {
    () => {
        concat!(
            "^(([0-9a-fA-F]{1,4}:){7,7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|",
            "([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3}|",
            "([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5}|",
            "[0-9a-fA-F]{1,4}:((:[0-9a-fA-F]{1,4}){1,6})|:((:[0-9a-fA-F]{1,4}){1,7}|:))$",
        )
    };
}

/// A family of addresses, told by the text that its addresses are written as.
pub trait AddressFamily: JsonSchema + Default + PartialEq + AsRef<str> {
    /// Length of the longest prefix, in bits.
    const BITS: i32;
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident, $pattern:expr) => {
        $(#[$doc])*
        ///
        /// Kept as it was written, even if it is none: only the schema checks it.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Whether there is none.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

address!(
    /// Text of an IPv4 address.
    Ipv4Text,
    ipv4!()
);
address!(
    /// Text of an IPv6 address.
    Ipv6Text,
    ipv6!()
);
address!(
    /// Text of an address of either family.
    AddressText,
    concat!("((", ipv4!(), ")|(", ipv6!(), "))")
);

impl AddressFamily for Ipv4Text {
    const BITS: i32 = 32;
}

impl AddressFamily for Ipv6Text {
    const BITS: i32 = 128;
}

/// Schema of a prefix length in a family.
pub(super) fn prefix<A: AddressFamily>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "minimum": 0, "maximum": A::BITS })
}
