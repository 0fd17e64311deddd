//! One operator for the hosts of several namespaces.

use metal3_api::metal3::{BareMetalHost, ProvisioningState};
use metal3_scenarios::{FleetEnv, over_network, run, state, status, waits};
use metal3_testkit::namespace;
use serde_json::json;

const HOSTS: u32 = 4;

#[test]
fn hosts_of_two_namespaces_take_turns_at_the_slots() {
    run(async {
        let other = namespace!().await;
        let mut env = FleetEnv::new(namespace!().await, HOSTS, 3).await;
        env.watch_also(&other);
        env.bind_secrets_of(&other).await;
        env.config.args.extend([
            "--provisioning-limit=0".to_owned(),
            "--deploy-kernel-url=http://images.example/ipa.kernel".to_owned(),
            "--deploy-ramdisk-url=http://images.example/ipa.initramfs".to_owned(),
        ]);
        let mut hosts = Vec::new();
        for number in 0..HOSTS {
            let namespace = if number % 2 == 0 { &env.namespace } else { &other };
            hosts.push((
                namespace.clone(),
                env.apply_host_in(namespace, number, over_network).await,
            ));
        }
        env.start_operator().await;
        for (namespace, name) in &hosts {
            let is_queued = |host: &BareMetalHost| waits(host, "Queued").is_some_and(|words| words.contains("place"));
            namespace.expect(name, "is in the queue", is_queued).await;
        }
        // They return to their places after a restart, in which there is a slot.
        env.kill_operator();
        let flag = env
            .config
            .args
            .iter_mut()
            .find(|flag| flag.starts_with("--provisioning-limit"));
        *flag.unwrap() = "--provisioning-limit=1".to_owned();
        env.start_operator().await;
        for (namespace, name) in &hosts {
            let is_available = |host: &BareMetalHost| state(host) == ProvisioningState::Available;
            namespace.expect(name, "is available", is_available).await;
        }
        let sum = env.sum();
        assert_eq!((sum.creates, sum.inspections), (HOSTS, HOSTS));
    });
}

// OWN 28d: the operator needed the right to list all Secrets of the cluster, including namespaces without hosts.
#[test]
fn secrets_are_read_where_the_rights_to_them_are_bound() {
    run(async {
        let other = namespace!().await;
        let mut env = FleetEnv::new(namespace!().await, 2, 4).await;
        env.watch_also(&other);
        let bound = env.apply_host_in(&env.namespace, 0, |_| {}).await;
        let unbound = env.apply_host_in(&other, 1, |_| {}).await;
        env.start_operator().await;
        let is_available = |host: &BareMetalHost| state(host) == ProvisioningState::Available;
        env.namespace.expect(&bound, "is available", is_available).await;
        let role = "Bind the ClusterRole baremetal-operator-secrets";
        let is_told = |host: &BareMetalHost| waits(host, "KubernetesFailing").is_some_and(|words| words.contains(role));
        other.expect(&unbound, "is told which rights it needs", is_told).await;
        env.bind_secrets_of(&other).await;
        other.expect(&unbound, "goes on by itself", is_available).await;

        // A change to a watched object there triggers the host.
        let secret = format!("{unbound}-bmc");
        let wrong =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "stringData": {"password": ""}});
        other.apply(&wrong.to_string()).await;
        let is_told = |host: &BareMetalHost| status(host).error_message.contains("password is empty");
        other.expect(&unbound, "is told of its Secret", is_told).await;
    });
}
