//! Typed client for the parts of OpenStack Ironic's API that Metal3 uses.
//!
//! ```text
//! Client ── call ──▶ slots (how many at once) ──▶ exchange (headers, time-outs) ──▶ Ironic
//!            ▲                                        │
//!            └── repeat: refused, locked, busy ◀── Error: class, Ironic's own words
//! ```
//!
//! It translates and reports, and makes no decisions. The controller decides what a locked node or a failed deployment
//! means for a host. So retries within a call are few and short, and no state of a node is kept.
//!
//! Three rules hold everywhere:
//! - every call ends: connecting, the whole exchange and the retries are bounded, and slots are shared fairly between
//!   tenants;
//! - an unknown field, state or null never makes a response unreadable;
//! - no password, token or configuration drive appears in `Debug`, `Display` or the log.

mod body;
mod cause;
mod client;
mod config;
mod credentials;
mod error;
mod exposure;
mod fault;
mod fields;
mod firmware;
mod flight;
mod foreign;
mod inventory;
mod link;
mod media;
mod node;
mod nodes;
mod observe;
pub mod patch;
mod ports;
mod ready;
mod redact;
mod request;
mod shares;
mod state;
mod subscriptions;
mod transport;
mod turns;
mod verify;
mod version;
mod view;
mod weight;

pub use client::Client;
pub use config::{Auth, ClientConfig, ConfigError, Tls};
pub use error::{Error, ErrorClass};
pub use exposure::Exposure;
pub use fields::{Fields, MASK};
pub use firmware::{BiosSetting, FirmwareComponent};
pub use inventory::{Cpu, Disk, Interface, Inventory, ParsedLldp, PluginData, SystemVendor, Vlan};
pub use link::Link;
pub use media::VirtualMedium;
pub use node::{Node, NodeDetail, Port, Validation};
pub use observe::{Exchange, Observer, Operation, Outcome};
pub use patch::{Diff, MaskedValues, Op, PatchOp};
pub use redact::without_url_secrets;
pub use request::{CreateNode, CreatePort, DeployStep, ProvisionRequest, Step};
pub use shares::{Share, Shares};
pub use state::{PowerState, PowerTarget, ProvisionState, Verb};
pub use subscriptions::{NewSubscription, Subscription};
pub use turns::on_behalf_of;
pub use url::Url;
pub use version::{ApiVersion, Feature, MINIMUM, Versions};
