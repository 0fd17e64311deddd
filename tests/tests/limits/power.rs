//! Power requests without effect, and unreachable BMCs.

use std::time::Instant;

use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::{BareMetalHost, ErrorType, ProvisioningState};
use metal3_lab::ironic::Mark;
use metal3_scenarios::{
    LIMIT, TestEnv, at_once, condition, deployed_at_once, is_available_and_on, is_running, run, state, status, version,
    waits,
};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

use super::IRONIC;

/// Waits for a power error whose message begins like this.
async fn expect_error(env: &TestEnv, name: &str, words: &str) -> BareMetalHost {
    let host = env
        .expect(name, &format!("is told {words:?}"), |host| {
            status(host).error_message.starts_with(words)
        })
        .await;
    println!("{}", status(&host).error_message);
    assert_eq!(status(&host).error_type, Some(ErrorType::PowerManagement));
    host
}

#[test]
fn a_server_that_does_not_follow_is_told_and_forgiven() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, deployed_at_once(env.image())).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        env.bmc(0, json!({"power_refused": true})).await;
        env.patch(&name, json!({"spec": {"online": false}})).await;
        let words = "Soft power off failed, a hard power off follows";
        let host = expect_error(&env, &name, words).await;
        let seen = status(&host);
        assert_eq!(
            (seen.error_count, seen.powered_on, seen.provisioning.state),
            (1, true, ProvisioningState::Provisioned)
        );
        env.expect_event(&name, "PowerManagementError", words).await;
        expect_error(&env, &name, "Power off failed").await;

        env.bmc(0, json!({})).await;
        let is_forgiven = |host: &BareMetalHost| status(host).error_type.is_none() && status(host).error_count == 0;
        let is_off = |host: &BareMetalHost| !status(host).powered_on && is_forgiven(host);
        env.expect(&name, "is off and forgiven", is_off).await;
        let asked_softly = async || {
            let requests = env.machine(0).await.counters.power_requests;
            requests.get("GracefulShutdown").copied().unwrap_or_default()
        };
        assert_eq!((asked_softly().await, env.machine(0).await.is_on), (0, false));

        // It accepts the request without any effect.
        env.bmc(0, json!({"power_ignored": true})).await;
        env.patch(&name, json!({"spec": {"online": true}})).await;
        expect_error(&env, &name, "Power on failed").await;
        env.bmc(0, json!({})).await;
        let is_on = |host: &BareMetalHost| status(host).powered_on && is_forgiven(host);
        env.expect(&name, "is on and forgiven", is_on).await;

        env.patch(&name, json!({"spec": {"online": false}})).await;
        env.expect(&name, "is off", is_off).await;
        assert_eq!(asked_softly().await, 1, "what failed before is no reason to cut it off");
        assert_eq!(env.machine(0).await.deploys, 1);
    });
}

/// As while it starts. To anything of the 500s Ironic's driver comes back for half a minute, at every look.
fn away() -> Value {
    json!({"status": 404})
}

fn has_lost_its_bmc(host: &BareMetalHost) -> bool {
    condition(host, "Manageable").is_some_and(|c| c.status == ConditionStatus::False && c.reason == "PowerFailure")
}

fn is_manageable(host: &BareMetalHost) -> bool {
    condition(host, "Manageable").is_some_and(|c| c.status == ConditionStatus::True)
}

#[test]
fn a_bmc_that_is_away_is_told_and_its_host_goes_on_when_it_is_back() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, at_once).await;
        env.expect(&name, "is available and on", is_available_and_on).await;
        let before = env.machine(0).await;
        env.bmc(0, away()).await;
        let start = Instant::now();
        let host = env.expect(&name, "has lost its BMC", has_lost_its_bmc).await;
        println!("the BMC was missed after {:?}", start.elapsed());
        // The power state is unknown, so the last known state stays.
        let seen = status(&host);
        assert_eq!(
            (seen.provisioning.state, seen.powered_on),
            (ProvisioningState::Available, true)
        );
        assert_eq!((seen.error_type, seen.error_count), (None, 0));
        env.patch(&name, json!({"spec": {"online": false}})).await;
        env.expect_waiting(&name, "PowerUnknown", &["cannot ask the BMC"]).await;

        env.bmc(0, json!({})).await;
        let start = Instant::now();
        let host = env
            .expect(&name, "is off, as it was asked to be meanwhile", |host| {
                !status(host).powered_on && is_manageable(host)
            })
            .await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
        println!("switched off {:?} after its return", start.elapsed());
        let after = env.machine(0).await;
        assert_eq!(after.times_switched_off(), before.times_switched_off() + 1);
        assert_eq!(after.times_switched_on(), before.times_switched_on());
    });
}

/// Whether anything failed on a host, according to its events.
async fn has_failed(env: &TestEnv, name: &str) -> bool {
    let events = env.events(name).await;
    events.iter().any(|(reason, _)| reason.ends_with("Error"))
}

#[test]
fn work_waits_for_bmcs_that_are_away_and_goes_on_when_they_are_back() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 4).await;
        let [wanted, given_up, deploying, cleaning] = std::array::from_fn(|number| number);
        let hang = |step: &str| json!({"hangs_in_step": step});
        env.agent(deploying, hang("write_image")).await;
        env.agent(cleaning, hang("erase_devices_metadata")).await;
        let is_cleaned = |host: &mut Value| host["spec"]["inspectionMode"] = json!("disabled");
        let image = env.image();
        let names = [
            env.apply_host(wanted, is_cleaned).await,
            env.apply_host(given_up, deployed_at_once(image.clone())).await,
            env.apply_host(deploying, deployed_at_once(image.clone())).await,
            env.apply_host(cleaning, |host| {
                is_cleaned(host);
                host["spec"]["image"] = image.clone();
            })
            .await,
        ];
        env.expect(&names[wanted], "is available and on", is_available_and_on)
            .await;
        env.expect(&names[given_up], "is provisioned and on", is_running).await;
        env.expect_waiting(&names[deploying], "Deploying", &["node "]).await;
        env.expect_waiting(&names[cleaning], "Cleaning", &["node "]).await;

        let (_, mark) = env.ironic.requests(Mark::default()).unwrap();
        for number in 0..names.len() {
            env.bmc(number, away()).await;
        }
        for number in [wanted, given_up] {
            env.expect(&names[number], "has lost its BMC", has_lost_its_bmc).await;
        }
        env.patch(&names[wanted], json!({"spec": {"image": image}})).await;
        let cleaned = json!({"spec": {"image": null, "automatedCleaningMode": "metadata"}});
        env.patch(&names[given_up], cleaned).await;
        let mut before = Vec::new();
        for number in [wanted, given_up] {
            let words = [
                "cannot reach the BMC of node",
                "goes on when Ironic has reached it again",
            ];
            let host = env.expect_waiting(&names[number], "PowerUnknown", &words).await;
            assert!(has_lost_its_bmc(&host));
            before.push((number, host, env.machine(number).await.bmc_requests()));
        }
        let states = [ProvisioningState::Provisioning, ProvisioningState::Deprovisioning];
        assert_eq!([state(&before[0].1), state(&before[1].1)], states);
        // Ironic has retried the BMC repeatedly without success.
        for (number, host, asked) in &before {
            eventually(LIMIT, "Ironic asks the BMC again", || async {
                let now = env.machine(*number).await.bmc_requests();
                if now >= asked + 3 {
                    Ok(())
                } else {
                    Err(format!("{asked}, now {now}"))
                }
            })
            .await;
            let after = env.host(&names[*number]).await;
            assert_eq!(version(host), version(&after), "{:?}", status(&after));
            let node = env.node(&names[*number]).await;
            assert_eq!(
                (&node["maintenance"], &node["fault"]),
                (&json!(true), &json!("power failure"))
            );
        }
        for (number, reason) in [(deploying, "Deploying"), (cleaning, "Cleaning")] {
            let host = env.host(&names[number]).await;
            assert!(waits(&host, reason).is_some(), "{:?}", status(&host));
        }

        for number in 0..names.len() {
            env.bmc(number, json!({})).await;
        }
        let start = Instant::now();
        for number in [deploying, cleaning] {
            env.agent(number, json!({})).await;
        }
        for number in [wanted, deploying, cleaning] {
            env.expect_state(&names[number], ProvisioningState::Provisioned).await;
        }
        env.expect_state(&names[given_up], ProvisioningState::Available).await;
        println!("all had ended well {:?} after the return of the BMCs", start.elapsed());
        for (number, name) in names.iter().enumerate() {
            let host = env.host(name).await;
            let seen = status(&host);
            assert_eq!(
                (seen.error_type, seen.error_count, seen.provisioning_fail_count),
                (None, 0, 0),
                "{name}"
            );
            assert!(is_manageable(&host) && !has_failed(&env, name).await, "{name}");
            let machine = env.machine(number).await;
            let cleans = u64::from(number != deploying);
            assert_eq!((machine.deploys, machine.cleans()), (1, cleans), "{name}");
        }
        let nodes = env.nodes().await;
        let (mut requests, _) = env.ironic.requests(mark).unwrap();
        requests.retain(|request| nodes.iter().any(|node| node["uuid"] == *request.member));
        assert!(!requests.is_empty());
        requests.retain(|request| request.method == "DELETE" && request.path.ends_with("/maintenance"));
        assert_eq!(requests, [], "it is Ironic that ends the maintenance");
    });
}

#[test]
fn a_server_that_lost_its_power_with_its_bmc_is_switched_on_again() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, deployed_at_once(env.image())).await;
        env.expect(&name, "is provisioned and on", is_running).await;
        // Last switched on by the operator.
        env.patch(&name, json!({"spec": {"online": false}})).await;
        env.expect(&name, "is off", |host| !status(host).powered_on).await;
        env.patch(&name, json!({"spec": {"online": true}})).await;
        env.expect(&name, "is on", is_running).await;
        let before = env.machine(0).await;

        env.bmc(0, away()).await;
        env.expect(&name, "has lost its BMC", has_lost_its_bmc).await;
        let error = env.node(&name).await["last_error"].to_string();
        println!("{error}");
        assert!(
            error.contains("max retries exceeded"),
            "Ironic leaves this behind: {error}"
        );
        env.cut_power(0).await;
        env.bmc(0, json!({})).await;
        let start = Instant::now();
        env.expect(&name, "is on again", |host| is_manageable(host) && is_running(host))
            .await;
        println!("on again {:?} after the return of its BMC", start.elapsed());
        let after = env.machine(0).await;
        assert!(after.is_on);
        assert_eq!(after.times_switched_on(), before.times_switched_on() + 1);
        assert_eq!(after.deploys, 1);
        let host = env.host(&name).await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
        assert!(!has_failed(&env, &name).await, "{:?}", env.events(&name).await);
    });
}
