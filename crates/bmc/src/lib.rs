//! BMC addresses such as `redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1`: what they mean for Ironic.
//!
//! ```text
//! text ── parse ──▶ BmcAddress ── access() ──────▶ driver, interfaces, what the hardware can do
//!                        └──────── driver_info() ─▶ how Ironic reaches it
//! ```
//!
//! Pure: no name is resolved, no connection is made. The grammar is that of Metal3, which is neither RFC 3986 nor that
//! of web browsers (a bare host name is an IPMI address, `redfish:host` is allowed), so this crate has its own parser.
//!
//! An address may contain user-info, although credentials belong in a Secret. It is dropped, and no error ever quotes
//! it.

mod access;
mod address;
mod driver_info;
mod error;
mod syntax;

pub use access::Access;
pub use address::BmcAddress;
pub use driver_info::Credentials;
pub use error::{AddressError, Part};
