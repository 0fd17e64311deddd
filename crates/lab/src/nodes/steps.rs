//! When a server's disk boots, when its power is cut, and when its disk is erased. Pure.

use crate::ironic::Machine;

/// What is on a server's disk: how often an image was written to it, and how often it was cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    deploys: usize,
    cleans: u64,
}

/// What the lab has made of a server.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// What its disk was made of; none where it has no disk.
    pub disk: Option<Content>,
    /// Which of its starts it runs since; none where it does not run.
    pub running: Option<u64>,
}

/// What there is to do for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing has changed.
    Nothing,
    /// It is off, or was meanwhile.
    Cut,
    /// It was cleaned, or another image was written.
    Erase,
    /// The image has been written to its disk.
    Write(Content),
    /// It was switched on, and boots its disk.
    Boot(u64),
}

/// The next step. Each brings what is known nearer to the machine.
pub fn next(known: &Known, machine: &Machine) -> Step {
    let content = Content {
        deploys: machine.deploys,
        cleans: machine.cleans(),
    };
    let running = machine.runs_image.then_some(machine.times_switched_on());
    match (known.running, running) {
        (Some(before), now) if now != Some(before) => Step::Cut,
        _ if known.disk.is_some_and(|disk| disk != content) => Step::Erase,
        (None, Some(_)) if known.disk.is_none() => Step::Write(content),
        (None, Some(start)) => Step::Boot(start),
        (None, None) | (Some(_), _) => Step::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn machine(runs_image: bool, starts: u64, deploys: usize, cleans: u64) -> Machine {
        let machine = json!({
            "uuid": "u", "name": "host-1", "is_on": runs_image, "boot_device": "Hdd", "virtual_cd": false, "event_subscriptions": 0,
            "runs_image": runs_image, "deploys": deploys, "agent": null,
            "counters": {"power": {"switched_on": starts}, "clean_steps": {"erase_devices_metadata": cleans}},
        });
        serde_json::from_value(machine).unwrap()
    }

    /// Everything that is done until nothing is left to do.
    fn done(known: &mut Known, machine: &Machine) -> Vec<Step> {
        let mut steps = Vec::new();
        loop {
            let step = next(known, machine);
            match step {
                Step::Nothing => return steps,
                Step::Cut => known.running = None,
                Step::Erase => known.disk = None,
                Step::Write(content) => known.disk = Some(content),
                Step::Boot(start) => known.running = Some(start),
            }
            steps.push(step);
        }
    }

    #[test]
    fn a_disk_outlives_power_cuts_and_ends_with_a_cleaning_or_another_image() {
        let mut known = Known::default();
        let content = |deploys, cleans| Content { deploys, cleans };
        assert_eq!(done(&mut known, &machine(false, 1, 0, 1)), []);
        let first = [Step::Write(content(1, 1)), Step::Boot(3)];
        assert_eq!(done(&mut known, &machine(true, 3, 1, 1)), first);
        assert_eq!(done(&mut known, &machine(false, 3, 1, 1)), [Step::Cut]);
        assert_eq!(done(&mut known, &machine(true, 4, 1, 1)), [Step::Boot(4)]);
        // Off and on again between two looks.
        assert_eq!(done(&mut known, &machine(true, 5, 1, 1)), [Step::Cut, Step::Boot(5)]);
        assert_eq!(done(&mut known, &machine(false, 6, 1, 2)), [Step::Cut, Step::Erase]);
        let second = [Step::Write(content(2, 2)), Step::Boot(7)];
        assert_eq!(done(&mut known, &machine(true, 7, 2, 2)), second);
        let third = [Step::Cut, Step::Erase, Step::Write(content(3, 2)), Step::Boot(9)];
        assert_eq!(done(&mut known, &machine(true, 9, 3, 2)), third);
    }
}
