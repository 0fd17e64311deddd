//! Slots on the provisioning network.

use std::collections::BTreeSet;

use metal3_api::metal3::{OperationalStatus, ProvisioningState, names};
use metal3_lab::ironic::{IronicLab, Mark};
use metal3_lab::operator::OperatorConfig;
use metal3_scenarios::{Site, at_once, id, network_ramdisk, over_network, run, state, status, waits};
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

/// Follows which of some nodes load the provisioning network, by what the conductor wrote down.
struct Busy {
    nodes: BTreeSet<String>,
    now: BTreeSet<String>,
    most: usize,
    mark: Mark,
}

impl Busy {
    /// The most at any one moment so far.
    fn most(&mut self, site: &Site) -> usize {
        const STATES: [&str; 7] = [
            "cleaning",
            "clean wait",
            "inspecting",
            "inspect wait",
            "deploying",
            "wait call-back",
            "deleting",
        ];
        let (moments, mark) = site.ironic.moments(self.mark).unwrap();
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

    /// A host on its way out takes no slot.
    fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
        self.now.remove(node);
    }
}

#[test]
fn slots_are_exact_the_queue_is_told_and_nobody_leaves_through_it() {
    run(async {
        let mut site = Site::shared_with(namespace!().await, &IRONIC, 7, two_slots).await;
        let [working, leaving, first, second, third, detached, used] = std::array::from_fn(|number| number);
        let mut names = vec![String::new(); 7];
        names[used] = site.apply_host(used, host(Some(site.image()))).await;
        names[detached] = site.apply_host(detached, host(None)).await;
        site.expect_state(&names[used], ProvisioningState::Provisioned).await;
        site.expect_state(&names[detached], ProvisioningState::Available).await;

        // Two take the slots and keep them.
        for number in [working, leaving] {
            site.agent(number, json!({"hangs_in_step": "write_image"})).await;
            names[number] = site.apply_host(number, host(Some(site.image()))).await;
            site.expect_waiting(&names[number], "Deploying", &["node "]).await;
        }
        // One after another, so that they come in this order.
        for (number, place) in [(first, 1), (second, 2), (third, 3)] {
            names[number] = site.apply_host(number, host(Some(site.image()))).await;
            let words = [format!("all {SLOTS} slots"), format!("place {place} in the queue")];
            let host = site
                .expect_waiting(&names[number], "Queued", &words.each_ref().map(String::as_str))
                .await;
            assert_eq!(status(&host).operational_status, OperationalStatus::Delayed);
            assert_eq!(
                (state(&host), status(&host).error_count),
                (ProvisioningState::Available, 0)
            );
        }
        site.patch(&names[detached], json!({"spec": {"image": site.image()}}))
            .await;
        site.expect_waiting(&names[detached], "Queued", &["place 4 "]).await;
        let mut ids = Vec::new();
        for name in &names {
            ids.push(id(&site.host(name).await));
        }
        let mut busy = Busy {
            nodes: ids.iter().cloned().collect(),
            now: BTreeSet::new(),
            most: 0,
            mark: Mark::default(),
        };
        assert_eq!(busy.most(&site), SLOTS);

        // Nobody who leaves waits for a slot: neither a host in use, nor one in the queue, nor one that has a slot.
        let annotation = json!({"metadata": {"annotations": {names::annotation::DETACHED: "{}"}}});
        site.patch(&names[detached], annotation).await;
        site.expect_waiting(&names[detached], "Detached", &[]).await;
        for number in [used, second] {
            busy.forget(&ids[number]);
            site.delete(&names[number]).await;
            site.expect_gone(&names[number]).await;
        }
        for number in [first, third] {
            let host = site.host(&names[number]).await;
            assert!(waits(&host, "Queued").is_some(), "{:?}", status(&host));
        }

        // A restart changes nobody's place.
        site.kill_operator();
        site.start_operator().await;
        site.expect_waiting(&names[third], "Queued", &["place 2 "]).await;
        site.expect_waiting(&names[first], "Queued", &["place 1 "]).await;

        busy.forget(&ids[leaving]);
        site.delete(&names[leaving]).await;
        site.expect_gone(&names[leaving]).await;
        site.expect_state(&names[first], ProvisioningState::Provisioned).await;
        assert_eq!(
            state(&site.host(&names[working]).await),
            ProvisioningState::Provisioning
        );
        site.agent(working, json!({})).await;
        for number in [working, third] {
            let host = site.expect_state(&names[number], ProvisioningState::Provisioned).await;
            assert_eq!(status(&host).operational_status, OperationalStatus::Ok);
        }
        assert_eq!(busy.most(&site), SLOTS, "both were used, and never a third");
    });
}
