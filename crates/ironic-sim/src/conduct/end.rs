//! How work ends, successfully or not.

use std::time::Duration;

use super::{Stage, Task, Work};
use crate::inventory;
use crate::port::Port;
use crate::words::{Power, State};
use crate::world::World;

/// For how long the error of a failed deployment is seen before Ironic loses it.
const ERROR_SHOWS: Duration = Duration::from_millis(40);

impl World {
    pub(super) fn verified(&mut self, number: u32, trouble: Option<String>) {
        let power = self.machine_of(number).map(|machine| machine.power());
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        if let Some(why) = trouble {
            let uuid = &node.uuid;
            node.last_error = Some(format!("Failed to get power state for node {uuid}. Error: {why}"));
            self.enter(number, State::Enroll, None);
        } else {
            node.power = power;
            node.health = (node.driver != "ipmi").then_some("OK");
            self.enter(number, State::Manageable, None);
        }
        self.release(number);
    }

    pub(super) fn adopted(&mut self, number: u32) {
        let error = self
            .machine_of(number)
            .and_then(|m| m.fail(|faults| faults.adopt_error.clone()));
        match error {
            Some(why) => {
                if let Some(node) = self.nodes.get_mut(&number) {
                    node.last_error = Some(format!("Error while attempting to adopt node {}: {why}.", node.uuid));
                    node.power = None;
                }
                self.enter(number, State::AdoptFailed, None);
            }
            None => self.enter(number, State::Active, None),
        }
        self.release(number);
    }

    pub(super) fn aborted(&mut self, number: u32, last_error: String, power: Power) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.clean_step = None;
            node.deploy_step = None;
            node.service_step = None;
            node.last_error = Some(last_error);
            self.set_power(number, power);
            self.set_drive(number, None);
        }
        self.release(number);
    }

    /// A service was aborted in a step, after which Ironic has cleared up: its failure is no fault.
    pub(super) fn service_aborted(&mut self, number: u32, last_error: String) {
        let target = self.nodes.get(&number).and_then(|node| node.target);
        self.enter(number, State::ServiceFailed, target);
        self.aborted(number, last_error, Power::On);
    }

    pub(super) fn torn_down(&mut self, number: u32, trouble: Option<String>) {
        let error = self
            .machine_of(number)
            .and_then(|m| m.fail(|faults| faults.undeploy_error.clone()));
        // What belongs to the instance goes in either case.
        self.reindex(number, |node| {
            node.instance_info.clear();
            node.instance_uuid = None;
            node.deploy_step = None;
            node.service_step = None;
        });
        if let Some(why) = trouble.or(error) {
            if let Some(node) = self.nodes.get_mut(&number) {
                node.last_error = Some(format!("Failed to tear down: {why}"));
            }
            self.enter(number, State::Error, None);
            return self.release(number);
        }
        self.set_power(number, Power::Off);
        self.set_drive(number, None);
        self.enter(number, State::Cleaning, None);
        self.count_clean(number);
        self.start(number, Work::Clean { is_manual: false }, Vec::new());
    }

    /// Counts an automated cleaning, if it will be one.
    pub fn count_clean(&mut self, number: u32) {
        if self.cleans(number) {
            self.count(number, |counters| counters.cleans += 1);
        }
    }

    /// Work has succeeded.
    pub(super) fn finish(&mut self, number: u32, task: &Task) {
        let has_run = task.stage == Stage::Finish;
        if has_run && task.has_ramdisk {
            self.set_drive(number, None);
        }
        match &task.work {
            Work::Inspect | Work::FastInspect => {
                self.keep_inventory(number, task.work == Work::FastInspect);
                if has_run {
                    self.set_power(number, Power::Off);
                }
                self.enter(number, State::Manageable, None);
            }
            Work::Clean { is_manual } => {
                if has_run && task.has_ramdisk {
                    self.set_power(number, Power::Off);
                }
                let to = if *is_manual {
                    State::Manageable
                } else {
                    State::Available
                };
                self.enter(number, to, None);
            }
            Work::Deploy | Work::Service => {
                self.set_power(number, Power::On);
                self.enter(number, State::Active, None);
            }
            Work::Verify
            | Work::TearDown
            | Work::Adopt
            | Work::Power(_)
            | Work::Attach { .. }
            | Work::Detach { .. }
            | Work::Abort { .. } => {}
        }
        self.release(number);
    }

    /// Keeps what inspection found, and makes ports for new network cards.
    fn keep_inventory(&mut self, number: u32, is_fast: bool) {
        let Some(machine) = self.nodes.get(&number).and_then(|node| node.machine) else {
            return;
        };
        let faults = self.faults_of(number);
        let found = inventory::found(machine, is_fast, faults.map(|faults| &faults.inventory));
        for (address, pxe_enabled) in inventory::cards(&found) {
            if self.port_with(&address).is_none() {
                let port = Port {
                    uuid: self.new_uuid(),
                    node: number,
                    address,
                    pxe_enabled,
                    extra: serde_json::Map::new(),
                    created: self.now,
                };
                self.insert_port(port);
            }
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            let arch = found["inventory"]["cpu"]["architecture"].clone();
            node.properties.insert("cpu_arch".to_owned(), arch);
            node.inventory = Some(Box::new(found));
        }
    }

    /// Work has failed.
    pub(super) fn fail(&mut self, number: u32, task: &Task, error: &str) {
        let Some([_, _, failed]) = task.work.states() else {
            return self.release(number);
        };
        let is_reachable = self.bmc_trouble(number).is_none();
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        node.last_error = Some(error.to_owned());
        // Only a failed running step leaves the server in a state that needs an operator.
        let fault = match failed {
            State::CleanFailed => node.clean_step.take().map(|_| "clean failure"),
            State::ServiceFailed => node.service_step.take().map(|_| "service failure"),
            _ => None,
        };
        node.deploy_step = None;
        if fault.is_some() {
            node.fault = fault;
            node.maintenance = true;
            node.maintenance_reason.get_or_insert_with(|| error.to_owned());
        }
        let target = node.target;
        if is_reachable && task.stage != Stage::Begin {
            self.set_power(number, Power::Off);
            self.set_drive(number, None);
        }
        self.enter(number, failed, target);
        self.release(number);
    }

    /// The ramdisk has reported a failure. Of a deployment Ironic first shows the error, then loses it: what rests is a
    /// failure without a word.
    pub(super) fn fail_by_agent(&mut self, number: u32, mut task: Task, error: String) {
        if task.work != Work::Deploy || self.config.keep_last_error {
            return self.fail(number, &task, &error);
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_locked = true;
            node.last_error = Some(error.clone());
        }
        task.failure = Some(error);
        task.stage = Stage::Failing;
        self.plan(number, task, ERROR_SHOWS);
    }

    pub(super) fn failed_late(&mut self, number: u32, mut task: Task) {
        if task.failure.take().is_some() {
            // The state turns before power is off and the lock is gone.
            self.enter(number, State::DeployFailed, None);
            if let Some(node) = self.nodes.get_mut(&number) {
                node.last_error = None;
                node.deploy_step = None;
                node.target_power = Some(Power::Off);
            }
            let span = self.config.timings.power;
            return self.plan(number, task, span);
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.target_power = None;
        }
        self.set_power(number, Power::Off);
        self.set_drive(number, None);
        self.release(number);
    }
}
