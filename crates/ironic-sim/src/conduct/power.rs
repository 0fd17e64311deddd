//! Power: requested changes, and those that Ironic detects.

use crate::agenda::Item;
use crate::server::Faults;
use crate::words::{Power, PowerTarget, State};
use crate::world::World;

/// After so many failed looks a node is put into maintenance.
const LOOKS: u32 = 3;

impl World {
    pub(super) fn power_changed(&mut self, number: u32, target: PowerTarget, trouble: Option<String>) {
        let ignored = self.faults_of(number).is_some_and(|faults| faults.power_ignored);
        let ignored = ignored.then(|| format!("Timeout waiting for the power state to become {}.", target.leads_to()));
        let before = self.machine_of(number).map(|machine| machine.power());
        if let Some(node) = self.nodes.get_mut(&number) {
            node.target_power = None;
            if let Some(why) = trouble.or(ignored) {
                let to = target.leads_to();
                node.last_error = Some(format!("Failed to change power state to '{to}' by '{target}': {why}"));
                return self.release(number);
            }
        }
        self.count(number, |counters| match target {
            PowerTarget::Reboot | PowerTarget::SoftReboot => counters.reboots += 1,
            _ if before == Some(target.leads_to()) => {}
            PowerTarget::On => counters.power_ons += 1,
            PowerTarget::Off | PowerTarget::SoftOff => counters.power_offs += 1,
        });
        self.set_power(number, target.leads_to());
        self.release(number);
    }

    /// Makes these the only faults of a server.
    pub fn set_faults(&mut self, machine: u32, faults: Option<Faults>) {
        let is_down = faults.as_ref().is_some_and(|faults| faults.bmc_down);
        let record = self.machine(machine);
        let was_down = record.faults.as_ref().is_some_and(|faults| faults.bmc_down);
        record.faults = faults.map(Box::new);
        if is_down && !was_down {
            self.look_at_power(machine, 1);
        } else if was_down && !is_down {
            let at = Self::boundary(self.now, self.config.timings.power_recovery_interval);
            self.agenda.put(at, Item::PowerRecovery { machine });
        }
    }

    /// Presses the power button of a server: Ironic notices at its next power sync.
    pub fn push_button(&mut self, machine: u32, is_on: bool) {
        self.machine(machine).is_on = is_on;
        self.look_at_power(machine, 0);
    }

    fn look_at_power(&mut self, machine: u32, failures: u32) {
        let interval = self.config.timings.power_sync_interval;
        let at = Self::boundary(self.now + std::time::Duration::from_nanos(1), interval);
        self.agenda.put(at, Item::PowerSync { machine, failures });
    }

    pub fn sync_power(&mut self, machine: u32, failures: u32) {
        let record = self.machine(machine);
        let (is_down, power) = (
            record.faults.as_ref().is_some_and(|faults| faults.bmc_down),
            record.power(),
        );
        if !is_down {
            return self.see_power(machine, Some(power));
        }
        if failures == 0 {
            return;
        }
        if failures < LOOKS {
            return self.look_at_power(machine, failures + 1);
        }
        self.see_power(machine, None);
        for number in self.nodes_of(machine) {
            let Some(node) = self.nodes.get_mut(&number).filter(|node| is_looked_at(node)) else {
                continue;
            };
            let error = format!(
                "During sync_power_state, max retries exceeded for node {}, node state None does not match expected state \
                 'None'. Updating DB state to 'None' Switching node to maintenance mode. Error: the BMC does not answer",
                node.uuid
            );
            node.maintenance = true;
            node.maintenance_reason = Some(error.clone());
            node.last_error = Some(error);
            node.fault = Some("power failure");
        }
    }

    pub fn recover_power(&mut self, machine: u32) {
        let record = self.machine(machine);
        if record.faults.as_ref().is_some_and(|faults| faults.bmc_down) {
            return;
        }
        let power = record.power();
        for number in self.nodes_of(machine) {
            if let Some(node) = self.nodes.get_mut(&number)
                && node.fault == Some("power failure")
            {
                node.maintenance = false;
                node.maintenance_reason = None;
                node.fault = None;
                node.power = Some(power);
                node.updated = Some(self.now);
            }
        }
    }

    fn see_power(&mut self, machine: u32, power: Option<Power>) {
        let now = self.now;
        for number in self.nodes_of(machine) {
            if let Some(node) = self.nodes.get_mut(&number).filter(|node| is_looked_at(node))
                && node.power != power
            {
                node.power = power;
                // A client that wants another power state has to act.
                node.rested = Some(now);
                node.updated = Some(now);
            }
        }
    }
}

/// Whether Ironic compares the power of a node.
fn is_looked_at(node: &crate::node::Node) -> bool {
    !node.is_locked && !node.maintenance && !matches!(node.state, State::Enroll | State::Verifying)
}
