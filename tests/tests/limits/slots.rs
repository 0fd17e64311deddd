//! Slots on the provisioning network.

use std::collections::BTreeSet;

use metal3_api::metal3::{OperationalStatus, ProvisioningState, names};
use metal3_lab::ironic::{IronicLab, Mark};
use metal3_lab::operator::OperatorConfig;
use metal3_scenarios::{TestEnv, at_once, id, network_ramdisk, over_network, run, state, status, waits};
use metal3_testkit::namespace;
use serde_json::{Value, json};

use super::IRONIC;

const SLOTS: usize = 2;

fn two_slots(config: &mut OperatorConfig, ironic: &IronicLab) {
    network_ramdisk(config, ironic);
    config.args.push(format!("--provisioning-limit={SLOTS}"));
}

fn host(image: Option<Value>) -> impl FnOnce(&mut Value) {
    move |host| {
        at_once(host);
        over_network(host);
        if let Some(image) = image {
            host["spec"]["image"] = image;
        }
    }
}

/// Tracks which of some nodes load the provisioning network, from the conductor's log.
struct Busy {
    nodes: BTreeSet<String>,
    now: BTreeSet<String>,
    most: usize,
    mark: Mark,
}

impl Busy {
    /// The maximum at any moment so far.
    fn most(&mut self, env: &TestEnv) -> usize {
        const STATES: [&str; 7] = [
            "cleaning",
            "clean wait",
            "inspecting",
            "inspect wait",
            "deploying",
            "wait call-back",
            "deleting",
        ];
        let (moments, mark) = env.ironic.moments(self.mark).unwrap();
        self.mark = mark;
        for moment in moments.into_iter().filter(|moment| self.nodes.contains(&moment.node)) {
            if moment.provision_state.is_some_and(|s| STATES.contains(&s.as_str())) {
                self.now.insert(moment.node);
            } else {
                self.now.remove(&moment.node);
            }
            self.most = self.most.max(self.now.len());
        }
        self.most
    }

    /// A host being deleted takes no slot.
    fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
        self.now.remove(node);
    }
}

#[test]
fn slots_are_exact_the_queue_is_told_and_nobody_leaves_through_it() {
    run(async {
        let mut env = TestEnv::shared_with(namespace!().await, &IRONIC, 7, two_slots).await;
        let [working, leaving, first, second, third, detached, used] = std::array::from_fn(|number| number);
        let mut names = vec![String::new(); 7];
        names[used] = env.apply_host(used, host(Some(env.image()))).await;
        names[detached] = env.apply_host(detached, host(None)).await;
        env.expect_state(&names[used], ProvisioningState::Provisioned).await;
        env.expect_state(&names[detached], ProvisioningState::Available).await;

        // Two take the slots and keep them.
        for number in [working, leaving] {
            env.agent(number, json!({"hangs_in_step": "write_image"})).await;
            names[number] = env.apply_host(number, host(Some(env.image()))).await;
            env.expect_waiting(&names[number], "Deploying", &["node "]).await;
        }
        // One after another, to fix their order.
        for (number, place) in [(first, 1), (second, 2), (third, 3)] {
            names[number] = env.apply_host(number, host(Some(env.image()))).await;
            let words = [format!("all {SLOTS} slots"), format!("place {place} in the queue")];
            let host = env
                .expect_waiting(&names[number], "Queued", &words.each_ref().map(String::as_str))
                .await;
            assert_eq!(status(&host).operational_status, OperationalStatus::Delayed);
            assert_eq!(
                (state(&host), status(&host).error_count),
                (ProvisioningState::Available, 0)
            );
        }
        env.patch(&names[detached], json!({"spec": {"image": env.image()}}))
            .await;
        env.expect_waiting(&names[detached], "Queued", &["place 4 "]).await;
        let mut ids = Vec::new();
        for name in &names {
            ids.push(id(&env.host(name).await));
        }
        let mut busy = Busy {
            nodes: ids.iter().cloned().collect(),
            now: BTreeSet::new(),
            most: 0,
            mark: Mark::default(),
        };
        assert_eq!(busy.most(&env), SLOTS);

        // No deletion waits for a slot: not of a provisioned host, of a queued one, or of one with a slot.
        let annotation = json!({"metadata": {"annotations": {names::annotation::DETACHED: "{}"}}});
        env.patch(&names[detached], annotation).await;
        env.expect_waiting(&names[detached], "Detached", &[]).await;
        for number in [used, second] {
            busy.forget(&ids[number]);
            env.delete(&names[number]).await;
            env.expect_gone(&names[number]).await;
        }
        for number in [first, third] {
            let host = env.host(&names[number]).await;
            assert!(waits(&host, "Queued").is_some(), "{:?}", status(&host));
        }

        // A restart keeps every place in the queue.
        env.kill_operator();
        env.start_operator().await;
        env.expect_waiting(&names[third], "Queued", &["place 2 "]).await;
        env.expect_waiting(&names[first], "Queued", &["place 1 "]).await;

        busy.forget(&ids[leaving]);
        env.delete(&names[leaving]).await;
        env.expect_gone(&names[leaving]).await;
        env.expect_state(&names[first], ProvisioningState::Provisioned).await;
        assert_eq!(state(&env.host(&names[working]).await), ProvisioningState::Provisioning);
        env.agent(working, json!({})).await;
        for number in [working, third] {
            let host = env.expect_state(&names[number], ProvisioningState::Provisioned).await;
            assert_eq!(status(&host).operational_status, OperationalStatus::Ok);
        }
        assert_eq!(busy.most(&env), SLOTS, "both were used, and never a third");
    });
}
