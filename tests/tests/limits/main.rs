//! What blocks hosts: occupied slots, repeated failures, unreachable BMCs and an unreachable Ironic.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helper functions too"
)]

mod failures;
mod outage;
mod power;
mod slots;

use std::time::Duration;

use metal3_lab::ironic::{IronicConfig, Timeouts};
use metal3_scenarios::Pool;

/// Whatever Ironic waits for it gives up soon. Hosts that are inspected have to make it within that time on a busy machine.
static IRONIC: Pool = Pool::new(|| IronicConfig {
    hosts: 16,
    timeouts: Timeouts {
        inspection: Duration::from_secs(30),
        check_interval: Duration::from_secs(5),
        power_sync_interval: Duration::from_secs(5),
        power_recovery_interval: Duration::from_secs(5),
        ..Timeouts::default()
    },
    overrides: [
        ("conductor.power_state_change_timeout", "6"),
        // A BMC is given up after two failed connections.
        ("conductor.power_state_sync_max_retries", "1"),
    ]
    .map(|(option, value)| (option.to_owned(), value.to_owned()))
    .into(),
    ..IronicConfig::default()
});
