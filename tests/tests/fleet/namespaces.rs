//! One operator for the hosts of several namespaces.

use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_scenarios::{FleetSite, over_network, run, state, waits};
use metal3_testkit::namespace;

const HOSTS: u32 = 4;

#[test]
fn hosts_of_two_namespaces_take_turns_at_the_slots() {
    run(async {
        let other = namespace!().await;
        let mut site = FleetSite::new(namespace!().await, HOSTS, 3).await;
        let watched = format!("--namespace={},{}", site.namespace.name, other.name);
        site.config.args.retain(|flag| !flag.starts_with("--namespace="));
        site.config.args.extend([
            watched,
            "--provisioning-limit=0".to_owned(),
            "--deploy-kernel-url=http://images.example/ipa.kernel".to_owned(),
            "--deploy-ramdisk-url=http://images.example/ipa.initramfs".to_owned(),
        ]);
        let mut hosts = Vec::new();
        for number in 0..HOSTS {
            let namespace = if number % 2 == 0 { &site.namespace } else { &other };
            hosts.push((
                namespace.clone(),
                site.apply_host_in(namespace, number, over_network).await,
            ));
        }
        site.start_operator().await;
        for (namespace, name) in &hosts {
            let is_queued = |host: &BareMetalHost| waits(host, "Queued").is_some_and(|words| words.contains("place"));
            namespace.expect(name, "is in the queue", is_queued).await;
        }
        // They come back to their places in another life, in which there is a slot.
        site.kill_operator();
        let flag = site
            .config
            .args
            .iter_mut()
            .find(|flag| flag.starts_with("--provisioning-limit"));
        *flag.unwrap() = "--provisioning-limit=1".to_owned();
        site.start_operator().await;
        for (namespace, name) in &hosts {
            let is_available = |host: &BareMetalHost| state(host) == ProvisioningState::Available;
            namespace.expect(name, "is available", is_available).await;
        }
        let sum = site.sum();
        assert_eq!((sum.creates, sum.inspections), (HOSTS, HOSTS));
    });
}
