//! The configuration of a simulator.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::clock::Pace;

/// What to simulate. [`Config::default`] is one server, real time and the durations measured on a real Ironic.
#[derive(Debug, Clone)]
pub struct Config {
    /// How many servers there are to enroll. They cost next to nothing until they are enrolled.
    pub servers: u32,
    /// What the API wants; none if it takes anybody.
    pub credentials: Option<Credentials>,
    /// How time passes.
    pub pace: Pace,
    /// How long everything takes.
    pub timings: Timings,
    /// The seed of everything that is random.
    pub seed: u64,
    /// The time of day at which the simulator begins.
    pub begin: Timestamp,
    /// The oldest API version that is spoken, as its minor number.
    pub min_version: u16,
    /// The newest. Fields and verbs of newer versions do not exist.
    pub max_version: u16,
    /// The most that a list has on a page.
    pub max_limit: usize,
    /// How many nodes may be deploying at once; more are refused with 503.
    pub max_concurrent_deploy: usize,
    /// How many nodes may be cleaning at once.
    pub max_concurrent_clean: usize,
    /// The conductor's name, which stands in `reservation` and in messages about locks.
    pub conductor: String,
    /// Whether nodes without `automated_clean` are cleaned.
    pub automated_clean: bool,
    /// Whether `last_error` of a deployment that the ramdisk reported as failed stays. The real one loses it.
    pub keep_last_error: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: 1,
            credentials: None,
            pace: Pace::Times(1.0),
            timings: Timings::measured(),
            seed: 0,
            begin: Timestamp::constant(1_790_000_000, 0),
            min_version: 1,
            max_version: 115,
            max_limit: 1000,
            max_concurrent_deploy: 250,
            max_concurrent_clean: 50,
            conductor: "sim-conductor".to_owned(),
            automated_clean: true,
            keep_last_error: false,
        }
    }
}

/// A user name and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl Credentials {
    /// From anything that is text.
    pub fn new(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self {
            username: username.into(),
            password: password.into(),
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

/// How long things take, in simulated time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timings {
    /// Before any request is answered.
    pub latency: Duration,
    /// One exchange with a BMC. Calls that Ironic answers only after one wait for it.
    pub bmc: Duration,
    /// Until a wrong password is noticed.
    pub refused: Duration,
    /// Until a BMC that does not answer is given up.
    pub unreachable: Duration,
    /// Verification of a BMC that is well.
    pub verify: Duration,
    /// A power change.
    pub power: Duration,
    /// What an operating system takes to end when asked to.
    pub soft_off: Duration,
    /// From the start of an action until its ramdisk is on its way: the node is locked.
    pub prepare: Duration,
    /// From there until the ramdisk reports.
    pub boot: Duration,
    /// One step of cleaning, deployment or service.
    pub step: Duration,
    /// From the last step to the end of the action: the node is locked.
    pub finish: Duration,
    /// An action without a ramdisk: fast inspection, adoption, taking down, `provide` without cleaning.
    pub short: Duration,
    /// How long the ramdisk of an inspection may be silent.
    pub inspection_timeout: Duration,
    /// How long that of a deployment or service may be silent.
    pub callback_timeout: Duration,
    /// How long that of a cleaning may be silent.
    pub clean_timeout: Duration,
    /// Timeouts are noticed at multiples of this.
    pub check_interval: Duration,
    /// Power states are compared at multiples of this.
    pub power_sync_interval: Duration,
    /// Whether a lost BMC is back is looked at at multiples of this.
    pub power_recovery_interval: Duration,
    /// How long a request waits between attempts at a locked node.
    pub lock_interval: Duration,
    /// How many attempts it makes before it is refused.
    pub lock_attempts: u32,
    /// Every duration of an action is longer by a random share of up to this: 0.25 is up to a quarter.
    pub jitter: f64,
}

impl Timings {
    /// As measured on a real Ironic 39.0 with servers that boot in half a second, with the timeouts of Metal3's image.
    pub const fn measured() -> Self {
        Self {
            latency: Duration::ZERO,
            bmc: Duration::from_millis(120),
            refused: Duration::from_secs(6),
            unreachable: Duration::from_secs(57),
            verify: Duration::from_secs(1),
            power: Duration::from_millis(1500),
            soft_off: Duration::from_millis(1300),
            prepare: Duration::from_millis(700),
            boot: Duration::from_millis(1200),
            step: Duration::from_millis(600),
            finish: Duration::from_millis(1200),
            short: Duration::from_millis(700),
            inspection_timeout: Duration::from_secs(300),
            callback_timeout: Duration::from_secs(300),
            clean_timeout: Duration::from_secs(300),
            check_interval: Duration::from_secs(30),
            power_sync_interval: Duration::from_secs(60),
            power_recovery_interval: Duration::from_secs(30),
            lock_interval: Duration::from_secs(1),
            lock_attempts: 3,
            jitter: 0.0,
        }
    }

    /// As quick as is of use: every action takes some tens of milliseconds, timeouts a second. What is left to measure is
    /// the client.
    pub const fn quick() -> Self {
        let short = Duration::from_millis(20);
        let timeout = Duration::from_secs(1);
        Self {
            latency: Duration::ZERO,
            bmc: Duration::from_millis(2),
            refused: short,
            unreachable: short,
            verify: short,
            power: short,
            soft_off: short,
            prepare: short,
            boot: short,
            step: short,
            finish: short,
            short,
            inspection_timeout: timeout,
            callback_timeout: timeout,
            clean_timeout: timeout,
            check_interval: Duration::from_millis(200),
            power_sync_interval: Duration::from_millis(500),
            power_recovery_interval: Duration::from_millis(200),
            lock_interval: Duration::from_millis(50),
            lock_attempts: 3,
            jitter: 0.0,
        }
    }
}
