//! The history of the simulated servers, for tests.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A server's present state and what happened to it since the instance started.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Machine {
    /// The host's UUID.
    pub uuid: String,
    /// The host's name.
    pub name: String,
    /// Whether its power is on.
    pub is_on: bool,
    /// What it boots from next, as Redfish calls it: `Hdd`, `Cd`, `Pxe` or `UefiHttp`.
    pub boot_device: String,
    /// Whether a virtual CD is inserted.
    pub virtual_cd: bool,
    /// How many subscriptions to its events the BMC has.
    pub event_subscriptions: usize,
    /// Its firmware settings in force; what Ironic has written takes effect with the next boot.
    #[serde(default)]
    pub bios: BTreeMap<String, Value>,
    /// Whether it runs the image that was last written to its disk: it is on, no ramdisk's agent runs, and no cleaning has
    /// erased the disk since.
    pub runs_image: bool,
    /// How many images were written, each downloaded and with the right checksum.
    pub deploys: usize,
    /// Its present or last agent, if a ramdisk ever ran.
    pub agent: Option<Agent>,
    /// What was counted.
    pub counters: Counters,
    /// What was deployed, the oldest first. Only filled when one machine is asked for.
    #[serde(default)]
    pub deployments: Vec<Deployment>,
}

/// Counters of a server; nothing resets them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Changes of the power: `switched_on`, `switched_off`. A restart of a running server is one of each.
    pub power: BTreeMap<String, u64>,
    /// Requests to change the power, by Redfish reset type, whether or not they changed it.
    pub power_requests: BTreeMap<String, u64>,
    /// Of the agent: `boots`, `inspections` (that Ironic accepted), `heartbeats`.
    pub agent: BTreeMap<String, u64>,
    /// Clean steps that were begun, by name.
    pub clean_steps: BTreeMap<String, u64>,
    /// Deploy steps that were begun, by name.
    pub deploy_steps: BTreeMap<String, u64>,
    /// Service steps that were begun, by name.
    pub service_steps: BTreeMap<String, u64>,
    /// Requests to the BMC: method and path with `{id}` for the system, or an IPMI command.
    pub bmc_requests: BTreeMap<String, u64>,
}

impl Machine {
    /// How often it was switched off, restarts included: 0 says that it was never power-cycled.
    pub fn times_switched_off(&self) -> u64 {
        self.counters.power.get("switched_off").copied().unwrap_or_default()
    }

    /// How often it was switched on, restarts included.
    pub fn times_switched_on(&self) -> u64 {
        self.counters.power.get("switched_on").copied().unwrap_or_default()
    }

    /// How often Ironic accepted an inventory of it.
    pub fn inspections(&self) -> u64 {
        self.counters.agent.get("inspections").copied().unwrap_or_default()
    }

    /// How many cleanings erased its disks' metadata, which is what automated cleaning does.
    pub fn cleans(&self) -> u64 {
        self.counters
            .clean_steps
            .get("erase_devices_metadata")
            .copied()
            .unwrap_or_default()
    }

    /// How many requests its BMC was sent.
    pub fn bmc_requests(&self) -> u64 {
        self.counters.bmc_requests.values().sum()
    }
}

/// A ramdisk's agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Agent {
    /// How far it got: `booting`, `without a network`, `inspecting`, `inspected`, `looking up`, `running`.
    pub state: String,
    /// Whether it still runs.
    pub is_alive: bool,
    /// The node UUID that it got from Ironic.
    pub node: Option<String>,
    /// The static addresses in the network data that its ramdisk was started with, if it was.
    pub addresses: Option<Vec<String>>,
    /// The commands it was given, the oldest first.
    pub commands: Vec<Command>,
}

/// A command that Ironic gave an agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Command {
    /// Extension and name, such as `clean.execute_clean_step`.
    pub name: String,
    /// The step that it executes, if it does.
    pub step: Option<String>,
    /// `RUNNING`, `SUCCEEDED` or `FAILED`.
    pub status: String,
}

/// An image that was written to a server's disk, as far as a simulated disk goes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Deployment {
    /// Where the image came from.
    pub image_url: String,
    /// Its size in bytes.
    pub image_size: u64,
    /// Its digest, by the algorithm that Ironic asked for.
    pub image_digest: String,
    /// The config drive that came with it.
    pub config_drive: Option<ConfigDrive>,
}

/// What a config drive holds; what is not on it is `None`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ConfigDrive {
    /// `meta_data.json`.
    pub meta_data: Option<Value>,
    /// `user_data` as text.
    pub user_data: Option<String>,
    /// `network_data.json`.
    pub network_data: Option<Value>,
    /// All of its files to the byte, in base64, by their paths.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}
