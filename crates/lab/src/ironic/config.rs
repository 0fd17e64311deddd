//! The configuration of a lab's Ironic.

use std::path::PathBuf;
use std::time::Duration;

/// What to start. `IronicConfig::default()` is one Redfish host, TLS and basic authentication everywhere, and timeouts
/// as Metal3's image has them.
#[derive(Debug, Clone)]
pub struct IronicConfig {
    /// Where everything of the instance goes; it is kept. Without it, a temporary folder that goes with the instance.
    pub folder: Option<PathBuf>,
    /// How many servers with a Redfish BMC there are.
    pub hosts: u16,
    /// How many servers with an IPMI BMC there are besides.
    pub ipmi_hosts: u16,
    /// Whether the API, the BMCs and the agents speak TLS, with certificates of the instance's own authority.
    pub tls: bool,
    /// Whether the API wants credentials (HTTP basic authentication).
    pub auth: bool,
    /// When Ironic gives up waiting, and how often it looks.
    pub timeouts: Timeouts,
    /// The longest time between two heartbeats of an agent.
    pub heartbeat_limit: Duration,
    /// Names of in-band deploy steps that agents offer besides the usual ones, for custom deploys.
    pub extra_deploy_steps: Vec<String>,
    /// Whether to run the packaged program without our changes, which make it quicker and log its requests
    /// ([`super::Request`]). Every call of a BMC then takes 0.6 s of CPU.
    pub plain: bool,
    /// Options of Ironic, as `("group.option", "value")`, that win over everything else.
    pub overrides: Vec<(String, String)>,
}

impl Default for IronicConfig {
    fn default() -> Self {
        Self {
            folder: None,
            hosts: 1,
            ipmi_hosts: 0,
            tls: true,
            auth: true,
            timeouts: Timeouts::default(),
            heartbeat_limit: Duration::from_secs(30),
            extra_deploy_steps: Vec::new(),
            plain: false,
            overrides: Vec::new(),
        }
    }
}

/// When Ironic gives up waiting for a ramdisk, and how often it looks. Ironic counts in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Without a heartbeat while deploying or servicing.
    pub callback: Duration,
    /// Without an inventory while inspecting.
    pub inspection: Duration,
    /// Without a heartbeat while cleaning.
    pub clean: Duration,
    /// How often Ironic looks whether a timeout has passed: timeouts fire that much later.
    pub check_interval: Duration,
    /// How often Ironic compares every server's power state with its record.
    pub power_sync_interval: Duration,
    /// How often Ironic looks whether a BMC that it lost is back.
    pub power_recovery_interval: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            callback: Duration::from_secs(300),
            inspection: Duration::from_secs(300),
            clean: Duration::from_secs(300),
            check_interval: Duration::from_secs(30),
            power_sync_interval: Duration::from_secs(60),
            power_recovery_interval: Duration::from_secs(30),
        }
    }
}

impl Timeouts {
    /// Short enough for tests that wait for a timeout: 20 s, seen at most 5 s later.
    pub fn short() -> Self {
        Self {
            callback: Duration::from_secs(20),
            inspection: Duration::from_secs(20),
            clean: Duration::from_secs(20),
            check_interval: Duration::from_secs(5),
            power_sync_interval: Duration::from_secs(15),
            power_recovery_interval: Duration::from_secs(15),
        }
    }
}
