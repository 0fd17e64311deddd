//! HostClaim and HostDeployPolicy: hosts of one namespace for users of another.

mod host_claim;
mod policy;

pub use host_claim::{HostClaim, HostClaimSpec, HostClaimStatus, HostRef, HostSelector, HostSelectorRequirement};
pub use policy::{HostClaimNamespaces, HostDeployPolicy, HostDeployPolicySpec, HostDeployPolicyStatus, NameValuePair};
