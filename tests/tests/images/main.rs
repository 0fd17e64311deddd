//! What is deployed, and how a server is configured for it: every setting of a spec, checked in a real Ironic and on the server.

#![expect(
    clippy::expect_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

mod access;
mod checksums;
mod cleaning;
mod data_image;
mod deployments;
mod events;
mod firmware;
mod firmware_faults;
mod not_applied;
mod raid;
mod ramdisk;
mod root_device;
mod urls;

use metal3_lab::ironic::IronicConfig;
use metal3_scenarios::Pool;

/// The servers with IPMI come after those.
const REDFISH_HOSTS: u16 = 61;

/// The deploy step of a site's own ramdisk.
const STEP: &str = "install_from_site";

static IRONIC: Pool = Pool::new(|| IronicConfig {
    hosts: REDFISH_HOSTS,
    ipmi_hosts: 1,
    extra_deploy_steps: vec![STEP.to_owned()],
    ..IronicConfig::default()
});
