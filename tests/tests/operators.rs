//! Crashes of the operator, concurrent operators, and idle operators.

#![expect(
    clippy::expect_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{
    BMCEventSubscription, BareMetalHost, DataImage, HostFirmwareComponents, HostFirmwareSettings, OperationalStatus,
    ProvisioningState,
};
use metal3_lab::ironic::{IronicConfig, IronicLab, Machine, Mark};
use metal3_lab::operator::OperatorConfig;
use metal3_scenarios::{
    LIMIT, TestEnv, at_once, id, is_at_rest, is_available_and_on, is_running, power_compared_often, run, state, status,
    waits_for_nothing,
};
use metal3_testkit::{TestNamespace, eventually, namespace};
use serde_json::{Value, json};

/// How many effects an operator has applied in all its runs; it logs each before it stores the status.
fn applied(env: &TestEnv) -> usize {
    let log = env.operator_log();
    log.matches(": applied").count() + log.matches("the BMC sends its events").count()
}

async fn is_provisioned(env: &TestEnv, name: &str) -> bool {
    state(&env.host(name).await) == ProvisioningState::Provisioned
}

/// What one provisioning does to a server.
fn cost(machine: &Machine) -> (usize, u64, u64, u64, u64) {
    (
        machine.deploys,
        machine.cleans(),
        machine.inspections(),
        machine.times_switched_on(),
        machine.times_switched_off(),
    )
}

/// Kills the operator after its first or second effect in each run, until the host is done. An effect is logged before the
/// status is stored, so most kills come between the two.
async fn killed_after_effects(env: &mut TestEnv, name: &str, is_done: impl AsyncFn(&TestEnv, &str) -> bool) -> usize {
    let mut lives = 0;
    while !is_done(env, name).await {
        let before = applied(env);
        env.start_operator().await;
        let wanted = before + 1 + lives % 2;
        let start = Instant::now();
        while applied(env) < wanted && !is_done(env, name).await {
            assert!(start.elapsed() < LIMIT, "no effect in life {lives}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        env.kill_operator();
        lives += 1;
    }
    lives
}

/// Kills the operator after increasing times until the host is provisioned, so that kills hit every moment of its startup too.
async fn killed_after_times(env: &mut TestEnv, name: &str) -> usize {
    let (mut lives, mut time) = (0, Duration::from_millis(50));
    while !is_provisioned(env, name).await {
        env.start_operator().await;
        tokio::time::sleep(time).await;
        time += Duration::from_millis(70);
        env.kill_operator();
        lives += 1;
    }
    lives
}

#[test]
fn an_operator_killed_at_any_moment_finishes_what_it_began() {
    run(async {
        let config = IronicConfig {
            hosts: 4,
            ..IronicConfig::default()
        };
        let ironic = Arc::new(IronicLab::start(config).await.unwrap());
        let mut envs = Vec::new();
        for number in 0..4 {
            let namespace = TestNamespace::new("killed").await;
            let mut env = TestEnv::at(namespace, ironic.clone(), number).await;
            env.config.wait = false;
            if number < 3 {
                env.apply_with_image(0).await;
            }
            envs.push(env);
        }
        let mut preparing = envs.pop().expect("four were made");
        let [undisturbed, by_effect, by_time] = envs.as_mut_slice() else {
            unreachable!("three are left")
        };
        let names = [undisturbed.server(0), by_effect.server(0), by_time.server(0)].map(|server| server.name.clone());
        undisturbed.start_operator().await;
        let (_, effects, times, ()) = tokio::join!(
            undisturbed.expect_state(&names[0], ProvisioningState::Provisioned),
            killed_after_effects(by_effect, &names[1], is_provisioned),
            killed_after_times(by_time, &names[2]),
            killed_while_preparing(&mut preparing),
        );
        println!("killed after effects {effects} times, after times {times} times");
        assert!(effects >= 5 && times >= 8, "often enough to mean something");
        for env in [by_effect, by_time] {
            env.start_operator().await;
        }
        let expected = cost(&envs[0].machine(0).await);
        for (env, name) in envs.iter().zip(&names) {
            env.expect(name, "waits for nothing", |host| {
                state(host) == ProvisioningState::Provisioned && waits_for_nothing(host)
            })
            .await;
            assert_eq!(env.nodes().await.len(), 1);
            let seen = cost(&env.machine(0).await);
            println!("{name}: deploys, cleans, inspections, on, off: {seen:?}");
            assert_eq!(seen, expected, "{name} against the undisturbed {}", names[0]);
        }
        assert_eq!(expected.0, 1);
        killed_while_servicing(&mut envs[1], &names[1]).await;
        killed_while_changing_disc_and_subscription(&mut envs[1], &names[1]).await;
    });
}

/// Changes of settings and firmware that the lab's BMC makes.
fn changes() -> (Value, Value) {
    let updates = json!([{"component": "bios", "url": "http://127.0.0.1:1/bios-1.1.0.bin"}]);
    (
        json!({"settings": {"ProcTurboMode": "Disabled"}}),
        json!({"updates": updates}),
    )
}

/// Settings and firmware at once, of a host that is not available yet, by an operator that is killed after each of its effects.
async fn killed_while_preparing(env: &mut TestEnv) {
    let (before, (_, mark)) = (
        env.machine(0).await,
        env.ironic.requests(Mark::default()).expect("the log"),
    );
    let (settings, updates) = changes();
    for (kind, spec) in [("HostFirmwareSettings", settings), ("HostFirmwareComponents", updates)] {
        let name = &env.server(0).name;
        let object =
            json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        env.namespace.apply(&object.to_string()).await;
    }
    let name = env.apply_host(0, at_once).await;
    let lives = killed_after_effects(env, &name, is_prepared).await;
    println!("killed {lives} times until the server was prepared");
    assert!(lives >= 5, "often enough to mean something");
    env.start_operator().await;
    env.expect(&name, "is available and on", is_available_and_on).await;
    expect_asked_once(&before, &env.machine(0).await);
    assert_eq!(
        verbs(env, mark, &name).await,
        2,
        "it is managed, and set up by a cleaning"
    );
}

/// The same of a server in use, which keeps what it runs.
async fn killed_while_servicing(env: &mut TestEnv, name: &str) {
    let before = env.machine(0).await;
    let policy = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "HostUpdatePolicy", "metadata": {"name": name},
        "spec": {"firmwareSettings": "onReboot", "firmwareUpdates": "onReboot"},
    });
    env.namespace.apply(&policy.to_string()).await;
    let (settings, updates) = changes();
    let params = PatchParams::default();
    let api: Api<HostFirmwareSettings> = env.namespace.api();
    api.patch(name, &params, &Patch::Merge(json!({"spec": settings})))
        .await
        .expect("the settings are edited");
    let api: Api<HostFirmwareComponents> = env.namespace.api();
    api.patch(name, &params, &Patch::Merge(json!({"spec": updates})))
        .await
        .expect("the updates are edited");
    env.kill_operator();
    env.patch(name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
        .await;
    let (_, mark) = env.ironic.requests(Mark::default()).expect("the log");
    let lives = killed_after_effects(env, name, is_serviced).await;
    println!("killed {lives} times while the server was serviced");
    assert!(lives >= 3, "often enough to mean something");
    env.start_operator().await;
    env.expect(name, "runs again", is_running).await;
    let after = env.machine(0).await;
    expect_asked_once(&before, &after);
    assert_eq!(verbs(env, mark, name).await, 1, "its service");
    assert_eq!((after.deploys, after.cleans()), (before.deploys, before.cleans()));
    assert_eq!(status(&env.host(name).await).operational_status, OperationalStatus::Ok);
}

/// A disc comes and goes with restarts of a server in use, and its BMC subscribes and ends that, while the operator is killed after
/// each of its effects.
async fn killed_while_changing_disc_and_subscription(env: &mut TestEnv, name: &str) {
    const INSERT: &str = "VirtualMedia.InsertMedia";
    const EJECT: &str = "VirtualMedia.EjectMedia";
    let before = env.machine(0).await;
    env.kill_operator();
    let url = format!("{}?for={name}", env.ironic.ramdisk_iso_url());
    for (kind, spec) in [
        ("DataImage", json!({"url": url})),
        (
            "BMCEventSubscription",
            json!({"hostName": name, "destination": "http://192.0.2.1/events"}),
        ),
    ] {
        let object =
            json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        env.namespace.apply(&object.to_string()).await;
    }
    let reboot = json!({"metadata": {"annotations": {REBOOT: ""}}});
    env.patch(name, reboot.clone()).await;
    let lives = killed_after_effects(env, name, is_equipped).await;
    assert!(lives >= 3, "often enough to mean something: {lives}");
    env.start_operator().await;
    env.expect(name, "runs again", is_running).await;
    let equipped = env.expect_machine(0, before.deploys, true, true).await;
    assert_eq!(equipped.event_subscriptions, 1);
    let went = [(INSERT, 1), (EJECT, 0), ("/Subscriptions", 1)];
    expect_asked(&before, &equipped, &went);

    env.kill_operator();
    let (images, subscriptions) = (
        env.namespace.api::<DataImage>(),
        env.namespace.api::<BMCEventSubscription>(),
    );
    let params = DeleteParams::default();
    images.delete(name, &params).await.expect("it is deleted");
    subscriptions.delete(name, &params).await.expect("it is deleted");
    env.patch(name, reboot).await;
    let again = killed_after_effects(env, name, is_stripped).await;
    assert!(again >= 3, "often enough to mean something: {again}");
    println!("killed {lives} times until disc and subscription were there, and {again} times until they were gone");
    env.start_operator().await;
    env.expect(name, "runs again", is_running).await;
    let stripped = env.expect_machine(0, before.deploys, true, false).await;
    assert_eq!(stripped.event_subscriptions, 0);
    let went = [(INSERT, 0), (EJECT, 1), ("/Subscriptions", 1)];
    expect_asked(&equipped, &stripped, &went);
    let restarts = |machine: &Machine| machine.times_switched_off();
    assert_eq!(
        [restarts(&equipped), restarts(&stripped)],
        [restarts(&before) + 1, restarts(&before) + 2]
    );
}

/// Whether the host runs with its disc and its subscription, and all objects say so.
async fn is_equipped(env: &TestEnv, name: &str) -> bool {
    let image = env.namespace.api::<DataImage>().get(name).await;
    let status = image.expect("it is there").status.unwrap_or_default();
    let subscription = env.namespace.api::<BMCEventSubscription>().get(name).await;
    let told = subscription.expect("it is there").status.unwrap_or_default();
    let is_had = !status.attached_image.url.is_empty() && !told.subscription_id.is_empty();
    is_had && is_running(&env.host(name).await)
}

/// Whether the host runs, and neither object is left.
async fn is_stripped(env: &TestEnv, name: &str) -> bool {
    let image = env.namespace.api::<DataImage>().get_opt(name).await;
    let subscription = env.namespace.api::<BMCEventSubscription>().get_opt(name).await;
    let is_gone = image.expect("an answer").is_none() && subscription.expect("an answer").is_none();
    is_gone && is_running(&env.host(name).await)
}

/// The BMC was asked for each change once.
fn expect_asked_once(before: &Machine, after: &Machine) {
    expect_asked(before, after, &[("/BIOS/Settings", 1), ("SimpleUpdate", 1)]);
}

/// The BMC was asked so often for the changes whose requests have these words.
fn expect_asked(before: &Machine, after: &Machine, expected: &[(&str, u64)]) {
    let requests = |machine: &Machine, words: &str| {
        let those = machine.counters.bmc_requests.iter();
        let those = those.filter(|(request, _)| request.contains(words) && !request.starts_with("GET"));
        those.map(|(_, count)| count).sum::<u64>()
    };
    for (words, times) in expected {
        assert_eq!(
            requests(after, words) - requests(before, words),
            *times,
            "{words}: {after:?}"
        );
    }
}

/// How often Ironic was asked to change the state of a host's node, except when the node was locked.
async fn verbs(env: &TestEnv, since: Mark, name: &str) -> usize {
    const LOCKED: u16 = 409;
    let node = id(&env.host(name).await);
    let (requests, _) = env.ironic.requests(since).expect("the log");
    let those = requests.iter().filter(|request| {
        request.member == node
            && request.method == "PUT"
            && request.path.ends_with("/states/provision")
            && request.status != LOCKED
    });
    those.count()
}

async fn is_prepared(env: &TestEnv, name: &str) -> bool {
    is_changed(env, name).await && is_available_and_on(&env.host(name).await)
}

async fn is_serviced(env: &TestEnv, name: &str) -> bool {
    is_changed(env, name).await && is_running(&env.host(name).await)
}

/// Whether the host's objects show both changes.
async fn is_changed(env: &TestEnv, name: &str) -> bool {
    let settings: Api<HostFirmwareSettings> = env.namespace.api();
    let components: Api<HostFirmwareComponents> = env.namespace.api();
    let settings = settings
        .get(name)
        .await
        .expect("it is there")
        .status
        .unwrap_or_default();
    let components = components
        .get(name)
        .await
        .expect("it is there")
        .status
        .unwrap_or_default();
    let has_version = components
        .components
        .iter()
        .any(|found| (found.component.as_str(), found.current_version.as_str()) == ("bios", "1.1.0"));
    let has_mode = settings
        .settings
        .get("ProcTurboMode")
        .is_some_and(|mode| mode == "Disabled");
    has_version && has_mode
}

const ELECTION: [&str; 4] = [
    "--enable-leader-election",
    "--lease-duration-seconds=6",
    "--renew-deadline-seconds=4",
    "--retry-period-seconds=1",
];

/// How often an operator applied an effect.
fn effects(config: &OperatorConfig, effect: &str) -> usize {
    let log = std::fs::read_to_string(config.folder.join("operator.log")).unwrap_or_default();
    log.lines()
        .filter(|line| line.contains(": applied") && line.contains(effect))
        .count()
}

#[test]
fn of_two_operators_one_works_and_the_other_takes_over() {
    run(async {
        let env = TestEnv::without_operator(namespace!().await, IronicConfig::default()).await;
        env.agent(0, json!({"hangs_in_step": "write_image"})).await;
        let (one, two) = tokio::join!(env.replica("one", &ELECTION), env.replica("two", &ELECTION));
        let name = env.apply_with_image(0).await;
        env.expect_waiting(&name, "Deploying", &["node "]).await;
        let (leader, other) = if effects(&one.1, "create node") > 0 {
            (one, two)
        } else {
            (two, one)
        };
        assert_eq!(effects(&leader.1, "create node"), 1);
        assert_eq!(effects(&other.1, ": applied"), 0, "only one works");
        let leases: Api<Lease> = Api::namespaced(env.namespace.client.clone(), "baremetal-operator-system");
        let holder = async || {
            let lease = leases
                .get("baremetal-operator")
                .await
                .expect("the lease is in the pod's namespace");
            lease.spec.and_then(|s| s.holder_identity)
        };
        let first = holder().await;
        let start = Instant::now();
        leader.0.process().kill();
        env.agent(0, json!({})).await;
        eventually(LIMIT, "the other takes the lease", || async {
            let now = holder().await;
            if now == first { Err(format!("{now:?}")) } else { Ok(()) }
        })
        .await;
        println!("the other took over in {:?}", start.elapsed());
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        assert_eq!(effects(&other.1, "create node"), 0, "no double creates");
        assert_eq!(env.nodes().await.len(), 1);
        assert_eq!(env.machine(0).await.deploys, 1);
    });
}

#[test]
fn a_fleet_at_rest_costs_nothing_but_a_list_now_and_then() {
    run(async {
        // So that Ironic learns of the servers' health, which is news for the status.
        let config = power_compared_often(4);
        let env = TestEnv::start(namespace!().await, config).await;
        let mut names = Vec::new();
        for number in 0..4 {
            names.push(env.apply_with_image(number).await);
        }
        for name in &names {
            let is_at_rest = |host: &BareMetalHost| state(host) == ProvisioningState::Provisioned && is_at_rest(host);
            env.expect(name, "is provisioned and at rest", is_at_rest).await;
        }
        // The events of the last change are still being written.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut before = Vec::new();
        for name in &names {
            before.push(status(&env.host(name).await));
        }
        let audit = env.namespace.server().audit_log().expect("the testkit has one");
        let from = audit.end().unwrap();
        let (_, mark) = env.ironic.requests(Mark::default()).unwrap();
        let minute = Duration::from_secs(60);
        tokio::time::sleep(minute).await;

        for (name, before) in names.iter().zip(before) {
            assert_eq!(status(&env.host(name).await), before, "{name} after {minute:?}");
        }
        let user = env.operator_user();
        let (requests, _) = audit.since(from).unwrap();
        let ours: Vec<_> = requests.iter().filter(|request| request.user == user).collect();
        let reads = ["get", "list", "watch"];
        let writes: Vec<_> = ours.iter().filter(|r| !reads.contains(&r.verb.as_str())).collect();
        assert!(writes.is_empty(), "{writes:?}");
        let (requests, _) = env.ironic.requests(mark).unwrap();
        let calls = metal3_lab::ironic::count(requests.iter().filter(|r| !r.is_of_a_ramdisk()));
        println!(
            "in {minute:?}: {} requests to the API server, to Ironic {calls:?}",
            ours.len()
        );
        let lists = calls.get("GET /v1/nodes").copied().unwrap_or_default();
        assert!(
            (1..=13).contains(&lists),
            "one in five seconds, whatever the number of hosts"
        );
        assert_eq!(calls.values().sum::<u64>(), lists, "nothing else: {calls:?}");
    });
}
