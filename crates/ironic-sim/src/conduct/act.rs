//! From the start of work to the end of its last step.

use std::time::Duration;

use serde_json::Value;

use super::{Stage, Task, Work};
use crate::images;
use crate::node::{Node, Step, interface_kind};
use crate::server::Medium;
use crate::words::{Power, State};
use crate::world::World;

impl World {
    /// The first stage is over.
    pub(super) fn begin(&mut self, number: u32, task: Task) {
        let trouble = self.bmc_trouble(number).map(|(_, why)| why);
        match &task.work {
            Work::Verify => self.verified(number, trouble),
            Work::Power(target) => self.power_changed(number, *target, trouble),
            Work::Attach { .. } | Work::Detach { .. } => self.media_changed(number, &task.work, trouble),
            Work::Adopt => self.adopted(number),
            Work::Abort { last_error, power } => self.aborted(number, last_error.clone(), *power),
            Work::TearDown => self.torn_down(number, trouble),
            Work::FastInspect => match trouble {
                None => self.finish(number, &task),
                Some(why) => self.fail(number, &task, &why),
            },
            Work::Clean { is_manual: false } if !self.cleans(number) => self.finish(number, &task),
            Work::Deploy if self.is_ramdisk_deploy(number) && trouble.is_none() => self.finish(number, &task),
            Work::Clean { .. } | Work::Service if !task.has_ramdisk => self.begin_steps(number, task, trouble),
            Work::Inspect | Work::Clean { .. } | Work::Deploy | Work::Service => self.boot(number, task, trouble),
        }
    }

    /// Whether automated cleaning of a node is on.
    pub(super) fn cleans(&self, number: u32) -> bool {
        let own = self.nodes.get(&number).and_then(|node| node.automated_clean);
        own.unwrap_or(self.config.automated_clean)
    }

    /// The BMC works on the first step, without a ramdisk.
    fn begin_steps(&mut self, number: u32, task: Task, trouble: Option<String>) {
        let Some(why) = trouble else {
            self.set_power(number, Power::On);
            self.wait(number, &task.work);
            return self.next_step(number, task);
        };
        let step = task.steps.front().cloned();
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        let name = step.as_ref().map(Step::id).unwrap_or_default();
        let error = format!("Node {} failed step {name}: {why}", node.uuid);
        match task.work {
            Work::Service => node.service_step = step,
            _ => node.clean_step = step,
        }
        self.fail(number, &task, &error);
    }

    /// The conductor has set everything up: the ramdisk boots.
    fn boot(&mut self, number: u32, mut task: Task, trouble: Option<String>) {
        let Some(node) = self.nodes.get(&number) else {
            return;
        };
        let uuid = node.uuid.clone();
        let media_refused = boots_media(node) && self.faults_of(number).is_some_and(|faults| faults.media_refused);
        let refusal = || format!("Virtual media mount failed for node {uuid}: Inserting virtual media into cd failed.");
        let trouble = trouble.or_else(|| media_refused.then(refusal));
        if let Some(why) = trouble {
            let error = match task.work {
                Work::Deploy => format!("Failed to prepare to deploy: {why}"),
                Work::Clean { .. } => format!("Failed to prepare node {uuid} for cleaning: {why}"),
                Work::Service => format!("Failed to prepare node {uuid} for service: {why}"),
                _ => why,
            };
            return self.fail(number, &task, &error);
        }
        if task.work == Work::Deploy
            && let Some(why) = self
                .machine_of(number)
                .and_then(|m| m.fail(|faults| faults.image_error.clone()))
        {
            return self.fail(number, &task, &format!("Failed to prepare to deploy: {why}"));
        }
        if task.work == Work::Deploy
            && let Err(why) = self.find_image(number)
        {
            return self.fail(number, &task, &format!("Failed to prepare to deploy: {why}"));
        }
        self.set_drive(number, Some(format!("http://ironic/redfish/boot-{uuid}.iso")));
        self.set_power(number, Power::On);
        self.wait(number, &task.work);
        task.stage = Stage::Boot;
        task.heard = self.now;
        let boot = self.config.timings.boot;
        self.plan_or_time_out(number, task, boot);
    }

    /// What is in the virtual CD drive of a server that boots from it. Ironic takes out what somebody else has put in.
    pub(super) fn set_drive(&mut self, number: u32, image: Option<String>) {
        if !self.nodes.get(&number).is_some_and(boots_media) {
            return;
        }
        let Some(machine) = self.machine_of(number) else {
            return;
        };
        // An empty one is known to be empty without looking for it.
        if image.is_none() && machine.more.is_none() {
            return;
        }
        let (device, media) = ("cdrom", &mut machine.more().media);
        media.retain(|medium| !["cdrom", "dvd"].contains(&medium.device));
        media.extend(image.map(|image| Medium { device, image }));
    }

    /// The description of the image says from now on where it was found.
    fn find_image(&mut self, number: u32) -> Result<(), String> {
        let info = self.nodes.get_mut(&number).map(|node| &mut node.instance_info);
        if let Some(Value::String(source)) = info.and_then(|info| info.get_mut("image_source")) {
            *source = images::found(source)?;
        }
        Ok(())
    }

    /// Moves a node to the state in which its ramdisk works.
    fn wait(&mut self, number: u32, work: &Work) {
        let target = self.nodes.get(&number).and_then(|node| node.target);
        if let Some([_, wait, _]) = work.states() {
            self.enter(number, wait, target);
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_locked = false;
        }
    }

    /// The ramdisk reports after a time, or else Ironic gives it up.
    fn plan_or_time_out(&mut self, number: u32, task: Task, span: Duration) {
        if self.is_silent(number, &task) {
            let at = self.gives_up(&task);
            self.plan_at(number, task, at);
        } else {
            self.plan(number, task, span);
        }
    }

    /// Whether nothing will be heard of a ramdisk, or of settings that are to come into force. One that Ironic cannot tell by a port's address is not listened to.
    fn is_silent(&self, number: u32, task: &Task) -> bool {
        let faults = self.faults_of(number);
        if !task.has_ramdisk {
            let is_of_settings = |step: &Step| step.id() == "bios.apply_configuration";
            let is_ignored = faults.is_some_and(|faults| faults.settings_ignored);
            return is_ignored && task.stage == Stage::Step && task.steps.front().is_some_and(is_of_settings);
        }
        if faults.is_some_and(|faults| faults.agent_dead) {
            return true;
        }
        task.work != Work::Inspect && self.ports_of(number).next().is_none()
    }

    /// When Ironic gives up a ramdisk.
    fn gives_up(&self, task: &Task) -> Duration {
        let timings = &self.config.timings;
        let timeout = match task.work {
            Work::Inspect => timings.inspection_timeout,
            Work::Clean { .. } | Work::TearDown => timings.clean_timeout,
            _ => timings.callback_timeout,
        };
        Self::boundary(task.heard + timeout, timings.check_interval)
    }

    /// The ramdisk should have reported.
    pub(super) fn booted(&mut self, number: u32, mut task: Task) {
        if self.is_silent(number, &task) {
            return self.not_heard(number, task);
        }
        if task.work == Work::Inspect {
            self.enter(number, State::Inspecting, None);
            let error = self
                .machine_of(number)
                .and_then(|m| m.fail(|faults| faults.inspect_error.clone()));
            return match error {
                Some(why) => {
                    let error = format!(
                        "Failed to finish inspection: Failed to inspect hardware. Reason: Ramdisk reported error: {why}"
                    );
                    self.fail(number, &task, &error);
                }
                None => self.wrap_up(number, task),
            };
        }
        if task.steps.is_empty() {
            task.steps = match task.work {
                Work::Deploy => vec![Step::of_agent("deploy", "write_image")].into(),
                _ => vec![Step::of_agent("deploy", "erase_devices_metadata")].into(),
            };
        }
        self.next_step(number, task);
    }

    fn next_step(&mut self, number: u32, mut task: Task) {
        task.heard = self.now;
        let step = task.steps.front().cloned();
        if let Some(node) = self.nodes.get_mut(&number) {
            match task.work {
                Work::Deploy => node.deploy_step.clone_from(&step),
                Work::Service => node.service_step.clone_from(&step),
                _ => node.clean_step.clone_from(&step),
            }
        }
        if step.is_none() {
            return self.wrap_up(number, task);
        }
        task.stage = Stage::Step;
        let span = self.config.timings.step;
        self.plan_or_time_out(number, task, span);
    }

    /// A step should be done.
    pub(super) fn stepped(&mut self, number: u32, mut task: Task) {
        if self.is_silent(number, &task) {
            return self.not_heard(number, task);
        }
        let Some(step) = task.steps.pop_front() else {
            return self.wrap_up(number, task);
        };
        if task.abort {
            // It was done before the abort took effect.
            self.apply_step(number, &step);
            let what = match task.work {
                Work::Deploy => "deploy",
                Work::Service => "service",
                _ => "clean",
            };
            let text = format!(
                "By request, the {what} operation was aborted during or after the completion of step \"{}\"",
                step.id()
            );
            if task.work == Work::Service {
                return self.service_aborted(number, text);
            }
            return self.fail(number, &task, &text);
        }
        if task.steps.is_empty()
            && let Some(why) = self.step_error(number, &task.work)
        {
            let uuid = self.nodes.get(&number).map(|n| n.uuid.clone()).unwrap_or_default();
            let what = match task.work {
                Work::Deploy => "Deploy",
                Work::Service => "Service",
                _ => "Clean",
            };
            return self.fail_by_agent(
                number,
                task,
                format!("{what} step {} failed on node {uuid}. {why}", step.id()),
            );
        }
        self.apply_step(number, &step);
        self.next_step(number, task);
    }

    fn step_error(&mut self, number: u32, work: &Work) -> Option<String> {
        let machine = self.machine_of(number)?;
        machine.fail(|faults| match work {
            Work::Deploy => faults.deploy_error.clone(),
            Work::Service => faults.service_error.clone(),
            _ => faults.clean_error.clone(),
        })
    }

    /// Nothing was heard: too late, or to be waited for until it is.
    fn not_heard(&mut self, number: u32, task: Task) {
        let at = self.gives_up(&task);
        if at > self.now {
            return self.plan_at(number, task, at);
        }
        let node = self.nodes.get(&number);
        let uuid = node.map(|node| node.uuid.clone()).unwrap_or_default();
        let during = |what: &str, did: &str, step: Option<&Step>| {
            let step = step.map_or_else(
                || "{}".to_owned(),
                |step| format!("{{'interface': '{}', 'step': '{}'}}", step.interface, step.name),
            );
            format!(
                "Timeout reached while {did} the node. Please check if the ramdisk responsible for the {what} is running \
                 on the node. Failed on step {step}."
            )
        };
        let error = match task.work {
            Work::Inspect => {
                "Timeout reached while inspecting the node. Please check if the ramdisk responsible for the \
                              inspection is running on the node."
                    .to_owned()
            }
            Work::Deploy => format!("Timeout reached while waiting for callback for node {uuid}"),
            Work::Service => during("servicing", "servicing", node.and_then(|n| n.service_step.as_ref())),
            _ => during("cleaning", "cleaning", node.and_then(|n| n.clean_step.as_ref())),
        };
        self.fail(number, &task, &error);
    }

    /// All steps are done: the conductor ends the work.
    fn wrap_up(&mut self, number: u32, mut task: Task) {
        let target = self.nodes.get(&number).and_then(|node| node.target);
        if let Some([at_work, _, _]) = task.work.states() {
            self.enter(number, at_work, target);
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_locked = true;
        }
        task.stage = Stage::Finish;
        let delay = self
            .faults_of(number)
            .map_or(Duration::ZERO, crate::server::Faults::delay);
        let span = self.config.timings.finish + delay;
        self.plan(number, task, span);
    }

    fn media_changed(&mut self, number: u32, work: &Work, trouble: Option<String>) {
        let refused = self.faults_of(number).is_some_and(|faults| faults.media_refused);
        if let Some(why) = trouble {
            let Some(node) = self.nodes.get_mut(&number) else {
                return;
            };
            node.last_error = Some(match work {
                Work::Attach { device, .. } => format!("Could not attach device {device} to node {}: {why}", node.uuid),
                _ => format!("Could not detach device(s) from node {}: {why}", node.uuid),
            });
        } else if let Some(machine) = self.machine_of(number) {
            let media = &mut machine.more().media;
            match work {
                Work::Attach { device, image } if !refused => {
                    media.retain(|medium| medium.device != *device);
                    media.push(Medium {
                        device,
                        image: image.clone(),
                    });
                }
                Work::Detach { devices } => media.retain(|medium| !devices.contains(&medium.device)),
                _ => {}
            }
        }
        self.release(number);
    }

    /// Lets go of a node.
    pub(super) fn release(&mut self, number: u32) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.is_locked = false;
            node.task = None;
            node.epoch += 1;
            node.updated = Some(self.now);
            node.rested = Some(self.now);
        }
    }

    /// Changes the power of the server and of the record.
    pub(super) fn set_power(&mut self, number: u32, power: Power) {
        if let Some(machine) = self.machine_of(number) {
            machine.is_on = power == Power::On;
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.power = Some(power);
            node.updated = Some(self.now);
        }
    }
}

/// Whether a node's ramdisk comes by virtual media.
fn boots_media(node: &Node) -> bool {
    interface_kind("boot_interface").is_some_and(|kind| node.interfaces[kind].contains("virtual-media"))
}
