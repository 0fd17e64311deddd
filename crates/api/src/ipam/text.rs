//! The texts of addresses and subnets, as the schema checks them.
//!
//! An address is a dotted IPv4 address without leading zeros, or an IPv6 address in hexadecimal with or without `::`.
//! Zones, brackets and a dotted tail are refused. Existing clusters have these very patterns; a pattern that
//! admits the same texts would do as well, but could not be compared with them.

use schemars::{Schema, SchemaGenerator, json_schema};

/// One number of an IPv4 address.
macro_rules! octet {
    () => {
        "([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
    };
}

macro_rules! v4 {
    () => {
        concat!("(", octet!(), r"\.){3}", octet!())
    };
}

/// One group of an IPv6 address.
macro_rules! group {
    () => {
        "[0-9a-fA-F]{1,4}"
    };
}

/// No `::`; then a `::` at the end; then one with 1 to 6 groups after it; then one at the beginning.
#[rustfmt::skip]
macro_rules! v6 {
    () => {
        concat!(
            "(", group!(), ":){7,7}", group!(),
            "|(", group!(), ":){1,7}:",
            "|(", group!(), ":){1,6}:", group!(),
            "|(", group!(), ":){1,5}(:", group!(), "){1,2}",
            "|(", group!(), ":){1,4}(:", group!(), "){1,3}",
            "|(", group!(), ":){1,3}(:", group!(), "){1,4}",
            "|(", group!(), ":){1,2}(:", group!(), "){1,5}",
            "|", group!(), ":((:", group!(), "){1,6})",
            "|:((:", group!(), "){1,7}|:)",
        )
    };
}

/// What an address looks like.
pub const ADDRESS: &str = concat!("((^(", v4!(), ")$)|(^(", v6!(), ")$))");

/// What a subnet looks like: an address and the length of its prefix.
pub const SUBNET: &str = concat!(
    "((^(",
    v4!(),
    ")/([0-9]|[1-2][0-9]|3[0-2])$)|(^(",
    v6!(),
    ")/([0-9]|[0-9][0-9]|1[0-1][0-9]|12[0-8])$))"
);

/// Schema of one address.
pub fn address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": ADDRESS })
}

/// Schema of a subnet.
pub fn subnet(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "pattern": SUBNET })
}

/// Schema of a list of addresses.
pub fn addresses(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": address(generator) })
}

/// Schema of addresses by name.
pub fn address_map(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": address(generator) })
}

/// Schema of the length of a prefix. Existing definitions set no minimum, so a negative one is stored, and refused by
/// the controller.
pub fn prefix(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "maximum": 128 })
}
