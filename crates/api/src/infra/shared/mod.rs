//! Structures that look the same in both versions.

mod address;
mod condition;
pub mod limits;
mod link;
mod machine;
mod meta_data;
mod network;
mod selector;
mod source;

pub use address::{AddressFamily, AddressText, Ipv4Text, Ipv6Text};
pub use condition::{DeprecatedConditions, DeprecatedStatus, LegacyCondition};
pub use link::{BondMode, EthernetLink, EthernetType, LinkMac, TransmitHashPolicy, VlanLink};
pub use machine::{ChecksumType, CustomDeploy, MachineAddress, MachineAddressType};
pub use meta_data::{
    MetaDataAnnotation, MetaDataFromPool, MetaDataHostInterface, MetaDataIndex, MetaDataLabel, MetaDataNamespace,
    MetaDataObjectName, MetaDataString,
};
pub use network::{DynamicNetwork, Gateway, NetworkServices, Networks, Route, RouteServices, StaticNetwork};
pub use selector::{HostSelector, HostSelectorRequirement};
pub use source::{AnnotationRef, PoolReference, SourceObject};
