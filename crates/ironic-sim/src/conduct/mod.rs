//! The conductor: what happens to a node after a request was accepted.
//!
//! ```text
//!            locked                not locked            locked
//!   accept ─▶ Begin ──prepare──▶ Boot ──▶ Step … ──▶ Finish ─▶ rest
//!               │                 │         │
//!               └──── failed ◀────┴─────────┘  (error of the BMC, of the ramdisk; time-out)
//! ```

mod act;
mod end;
mod power;
mod steps;

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use crate::agenda::Item;
use crate::node::Step;
use crate::words::{Power, PowerTarget, State};
use crate::world::World;

/// What is under way on a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Task {
    pub work: Work,
    pub stage: Stage,
    /// When the ramdisk was last heard of, or its boot began.
    pub heard: Duration,
    pub steps: VecDeque<Step>,
    /// Whether a ramdisk does it. The BMC does some steps by itself.
    pub has_ramdisk: bool,
    /// To be ended after the step at work.
    pub abort: bool,
    /// Why it is to fail, for a failure that takes time to be seen.
    pub failure: Option<String>,
}

/// The kinds of work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work {
    Verify,
    Inspect,
    FastInspect,
    /// Automated with false.
    Clean {
        is_manual: bool,
    },
    Deploy,
    /// Ends in an automated cleaning.
    TearDown,
    Adopt,
    Service,
    Power(PowerTarget),
    Attach {
        device: &'static str,
        image: String,
    },
    Detach {
        devices: Vec<&'static str>,
    },
    /// Clears up after an abort that has changed the state already, and leaves this as the last word, and this power.
    Abort {
        last_error: String,
        power: Power,
    },
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Begin,
    Boot,
    Step,
    Finish,
    /// The failure shows; what follows it does not yet.
    Failing,
}

impl Work {
    /// The states in which the conductor works, in which the ramdisk does, and in which it has failed.
    fn states(&self) -> Option<[State; 3]> {
        match self {
            Self::Inspect | Self::FastInspect => Some([State::Inspecting, State::InspectWait, State::InspectFailed]),
            Self::Clean { .. } | Self::TearDown => Some([State::Cleaning, State::CleanWait, State::CleanFailed]),
            Self::Deploy => Some([State::Deploying, State::DeployWait, State::DeployFailed]),
            Self::Service => Some([State::Servicing, State::ServiceWait, State::ServiceFailed]),
            _ => None,
        }
    }

    /// Whether a ramdisk is needed for these steps.
    fn needs_ramdisk(&self, steps: &[Step]) -> bool {
        let is_by_the_bmc = |step: &Step| match step.interface.as_str() {
            "bios" => true,
            "firmware" => *self == Self::Service,
            _ => false,
        };
        match self {
            Self::Service | Self::Clean { is_manual: true } => !steps.iter().all(is_by_the_bmc),
            Self::Inspect | Self::Clean { is_manual: false } | Self::Deploy => true,
            Self::Verify
            | Self::FastInspect
            | Self::TearDown
            | Self::Adopt
            | Self::Power(_)
            | Self::Attach { .. }
            | Self::Detach { .. }
            | Self::Abort { .. } => false,
        }
    }
}

impl World {
    /// Begins work on a node, which is locked from now on and has no last error any more.
    pub fn start(&mut self, number: u32, work: Work, steps: Vec<Step>) {
        let task = Task {
            has_ramdisk: work.needs_ramdisk(&steps),
            work,
            stage: Stage::Begin,
            heard: self.now,
            steps: steps.into(),
            abort: false,
            failure: None,
        };
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_locked = true;
            node.last_error = None;
            node.updated = Some(self.now);
        }
        let time = self.first_span(number, &task.work);
        self.plan(number, task, time);
    }

    /// How long the first stage takes.
    fn first_span(&self, number: u32, work: &Work) -> Duration {
        let timings = &self.config.timings;
        if let Some((span, _)) = self.bmc_trouble(number)
            && !matches!(work, Work::Adopt | Work::Abort { .. })
        {
            return span;
        }
        let delay = self
            .faults_of(number)
            .map_or(Duration::ZERO, crate::server::Faults::delay);
        let cleans = self
            .nodes
            .get(&number)
            .and_then(|n| n.automated_clean)
            .unwrap_or(self.config.automated_clean);
        delay
            + match work {
                Work::Verify => timings.verify,
                Work::Clean { is_manual: false } if !cleans => timings.short,
                Work::Deploy if self.is_ramdisk_deploy(number) => timings.short,
                Work::Inspect | Work::Clean { .. } | Work::Deploy | Work::Service => timings.prepare,
                Work::FastInspect | Work::TearDown | Work::Adopt | Work::Abort { .. } => timings.short,
                Work::Power(PowerTarget::SoftOff | PowerTarget::SoftReboot) => timings.soft_off,
                Work::Power(_) => timings.power,
                Work::Attach { .. } | Work::Detach { .. } => timings.bmc,
            }
    }

    pub fn is_ramdisk_deploy(&self, number: u32) -> bool {
        let kind = crate::node::interface_kind("deploy_interface");
        let interface = kind.and_then(|kind| Some(self.nodes.get(&number)?.interfaces[kind]));
        interface == Some("ramdisk")
            || interface == Some("autodetect")
                && self
                    .nodes
                    .get(&number)
                    .is_some_and(|n| has(&n.instance_info, "boot_iso"))
    }

    /// Lets a task go on after a time.
    fn plan(&mut self, number: u32, task: Task, after: Duration) {
        let jitter = 1.0 + self.random.f64() * self.config.timings.jitter.max(0.0);
        let at = self.now + after.mul_f64(jitter);
        self.plan_at(number, task, at);
    }

    fn plan_at(&mut self, number: u32, task: Task, at: Duration) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.epoch += 1;
            node.task = Some(Box::new(task));
            let epoch = node.epoch;
            self.agenda.put(at, Item::Task { node: number, epoch });
        }
    }

    /// The time of a node's task has come.
    pub fn go_on(&mut self, number: u32) {
        let Some(task) = self.nodes.get_mut(&number).and_then(|node| node.task.take()) else {
            return;
        };
        match task.stage {
            Stage::Begin => self.begin(number, *task),
            Stage::Boot => self.booted(number, *task),
            Stage::Step => self.stepped(number, *task),
            Stage::Finish => self.finish(number, &task),
            Stage::Failing => self.failed_late(number, *task),
        }
    }

    /// Why the BMC of a node cannot be used, and how long it takes to notice.
    pub fn bmc_trouble(&self, number: u32) -> Option<(Duration, String)> {
        let node = self.nodes.get(&number)?;
        let timings = &self.config.timings;
        let text = |key: &str| node.driver_info.get(key).and_then(Value::as_str).unwrap_or_default();
        let is_ipmi = node.driver == "ipmi";
        let address = text(if is_ipmi { "ipmi_address" } else { "redfish_address" });
        let faults = node.machine.and_then(|_| self.faults_of(number));
        let Some(machine) = node.machine.filter(|_| faults.is_none_or(|faults| !faults.bmc_down)) else {
            let why = if is_ipmi {
                "IPMI call failed: power status.".to_owned()
            } else {
                format!(
                    "Redfish connection failed for node {}: Unable to connect to {address}/redfish/v1/.",
                    node.uuid
                )
            };
            return Some((timings.unreachable, why));
        };
        let wanted = crate::server::Server::new(machine).credentials;
        let password = faults
            .and_then(|faults| faults.password.clone())
            .unwrap_or(wanted.password);
        let [user, word] = if is_ipmi {
            ["ipmi_username", "ipmi_password"]
        } else {
            ["redfish_username", "redfish_password"]
        };
        if text(user) == wanted.username && text(word) == password {
            return None;
        }
        let why = if is_ipmi {
            "IPMI call failed: power status.".to_owned()
        } else {
            format!(
                "Redfish exception occurred. Error: HTTP GET {address}{} returned code 401. unknown error",
                text("redfish_system_id")
            )
        };
        Some((timings.refused, why))
    }
}

/// Whether a map has something under a key.
pub(crate) fn has(map: &serde_json::Map<String, Value>, key: &str) -> bool {
    match map.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}
