//! A stateful Ironic for fleets and faults.
//!
//! It implements the part of OpenStack Ironic's API that a Metal3 operator uses, with the real state machine, locks, errors and
//! error texts, for purely virtual servers: ten thousand of them in one small process. Where it differs from the real Ironic, it
//! is wrong; one suite of checks runs against both.
//!
//! ```text
//!   ApiServer ──HTTP──▶ api ── what a request means ──▶ world: nodes, ports, servers
//!     │  rules: delays, refusals, halves      │                  ▲
//!     └─ /sim/…: faults, counters             └─ conduct ────────┘  what happens later, on the agenda
//! ```
//!
//! Not implemented: rescue, hold states, allocations, port groups, chassis, the delivery of events, Keystone, and anything that
//! a BMC or a ramdisk sends to Ironic. A server's behaviour is set by its [`Faults`].
//!
//! ```
//! use std::time::Duration;
//! use metal3_ironic_sim::{Config, Pace, Sim};
//! use serde_json::json;
//!
//! let sim = Sim::new(Config { pace: Pace::Manual, ..Config::default() });
//! let server = sim.server(0);
//! let access = json!({
//!     "redfish_address": format!("http://{}", server.ip), "redfish_system_id": "/redfish/v1/Systems/1",
//!     "redfish_username": server.credentials.username, "redfish_password": server.credentials.password,
//! });
//! let node = json!({"driver": "redfish", "name": "a", "driver_info": access});
//! assert_eq!(sim.call("POST", "/v1/nodes", 95, node).0, 201);
//! assert_eq!(sim.call("PUT", "/v1/nodes/a/states/provision", 95, json!({"target": "manage"})).0, 202);
//! assert_eq!(sim.call("GET", "/v1/nodes/a", 95, json!(null)).1["provision_state"], "verifying");
//! sim.advance(Duration::from_secs(2));
//! assert_eq!(sim.call("GET", "/v1/nodes/a", 95, json!(null)).1["provision_state"], "manageable");
//! ```

mod agenda;
mod api;
mod clock;
mod conduct;
mod config;
mod control;
mod drivers;
mod images;
mod inventory;
mod node;
mod port;
mod refusal;
mod rules;
mod serve;
mod server;
mod sim;
mod words;
mod world;

pub use clock::Pace;
pub use config::{Config, Credentials, Timings};
pub use rules::{Action, Rule};
pub use serve::{ApiServer, Identity};
pub use server::{Counters, Faults, Server};
pub use sim::Sim;
pub use words::{Power, PowerTarget, State};
