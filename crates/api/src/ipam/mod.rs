//! Group `ipam.metal3.io`, version `v1alpha1`: pools of IP addresses, and who has which.
//!
//! Addresses are plain texts here, as they are stored. Two texts can name one IPv6 address, so compare them parsed.
//!
//! Both this group and Cluster API have a kind `IPAddress` with the plural `ipaddresses`. This is Metal3's; Cluster API's
//! is [`crate::capi::IPAddress`]. On a command line always use the full name, `ipaddresses.ipam.metal3.io`.

mod address;
mod claim;
pub mod names;
mod pool;
mod text;

pub use address::{IPAddress, IPAddressSpec};
pub use claim::{IPClaim, IPClaimSpec, IPClaimStatus};
pub use pool::{Allocating, AllocationStrategy, IPPool, IPPoolSpec, IPPoolStatus, PoolEntry, PoolUsage};
