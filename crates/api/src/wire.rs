//! How values look on the wire: enums that survive unknown texts, and the predicates that leave empty fields out.
//!
//! # Enums
//!
//! The schema lists an enum's texts, so the API server refuses others. Stored objects can still carry one: they were
//! written under a newer CRD, or the list has shrunk since. A closed Rust enum would fail to deserialise such an object
//! and, with it, the whole list that a watch starts from; every other host would stop being looked after. So each
//! enum has a last variant `Other(String)`, which keeps the text unchanged through a round trip and leaves it to
//! the controller to refuse this one object with a message.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{Schema, SchemaGenerator, json_schema};

/// Whether a field may be left out because it equals its type's default.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// For a field that is always written although readers may find it missing.
///
/// The schema requires exactly the fields that are always written. A field with this predicate is written always and
/// required never, which is what a field with a default in the schema wants.
pub fn never<T>(_: &T) -> bool {
    false
}

/// Schema of Go's `int`: an integer without a format.
pub fn int(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

/// Reads a Go `int` into 32 bits. What does not fit becomes the nearest number that does: it is out of every range that
/// means something, and an object that cannot be read at all would be worse.
pub fn clamped<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    <i64 as serde::Deserialize>::deserialize(deserializer).map(clamp)
}

/// The same for a number that may be missing.
pub fn clamped_option<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    <Option<i64> as serde::Deserialize>::deserialize(deserializer).map(|number| number.map(clamp))
}

/// Reads a time that the schema requires but that may be missing all the same: Go writes null for a time that was never
/// set. The beginning of Unix time stands for it, so that the object can be read, and written again as the schema wants it.
pub fn time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    <Option<Time> as serde::Deserialize>::deserialize(deserializer).map(|time| time.unwrap_or_else(no_time))
}

/// What [`time`] reads where there is none.
pub fn no_time() -> Time {
    Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH)
}

/// The nearest number of 32 bits.
pub fn clamp(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// Declares an enum of texts; see the [module](self) for why it has a variant `Other`.
///
/// `closed` lists the texts in the schema, `open` makes the schema a plain string.
macro_rules! wire_enum {
    (
        $(#[$outer:meta])*
        $kind:ident enum $name:ident {
            $( $(#[$inner:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$outer])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $( $(#[$inner])* $variant, )+
            /// A text that this version does not know, kept as it was read.
            Other(String),
        }

        impl $name {
            /// The known texts, in the order of the schema.
            pub const TEXTS: &'static [&'static str] = &[$($text),+];

            /// The text on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $text, )+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $text => Self::$variant, )+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Ok(Self::from(text.as_str()))
            }
        }

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                $crate::wire::wire_enum!(@schema $kind)
            }
        }
    };
    (@schema closed) => { schemars::json_schema!({ "type": "string", "enum": Self::TEXTS }) };
    (@schema open) => { schemars::json_schema!({ "type": "string" }) };
}
pub(crate) use wire_enum;

/// Lets an object be read although it has no `spec` at all, which the schema of every kind permits.
///
/// The root structure comes from kube's derive, which takes no serde attributes, so a missing spec cannot get its
/// default there. But serde offers a missing field to its type as "nothing", and a type that asks for an option accepts
/// that. The type itself derives its serde code with `remote = "Self"`, as inherent functions, and gets the traits here.
macro_rules! optional_spec {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Present($name);
                impl<'de> serde::Deserialize<'de> for Present {
                    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                        $name::deserialize(deserializer).map(Present)
                    }
                }
                let present = Option::<Present>::deserialize(deserializer)?;
                Ok(present.map(|spec| spec.0).unwrap_or_default())
            }
        }
    };
}
pub(crate) use optional_spec;
