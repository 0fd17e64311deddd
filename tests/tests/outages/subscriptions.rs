//! Ironic dies while BMCs make and end subscriptions to their events. It remembers none of that.

use kube::Api;
use kube::api::DeleteParams;
use metal3_api::metal3::{BMCEventSubscription, ProvisioningState};
use metal3_lab::ironic::IronicConfig;
use metal3_scenarios::{LIMIT, TestEnv, run};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

use super::{apply, asked};

/// The BMC that does what it was asked for while Ironic is away.
const EARLY: usize = 0;
/// The BMC that does it after it was asked a second time.
const LATE: usize = 1;

/// Waits until the BMC has been asked so often to make or end a subscription. It counts a request before it does what it says.
async fn expect_asked(env: &TestEnv, number: usize, method: &str, times: u64) {
    let what = format!("BMC {number} gets {times} {method} for subscriptions");
    eventually(LIMIT, &what, || async {
        match asked(&env.machine(number).await, method, "/Subscriptions") {
            now if now >= times => Ok(()),
            now => Err(now.to_string()),
        }
    })
    .await;
}

/// Waits until the BMC has so many subscriptions.
async fn expect_subscriptions(env: &TestEnv, number: usize, count: usize) {
    eventually(LIMIT, &format!("BMC {number} has {count} subscriptions"), || async {
        let now = env.machine(number).await.event_subscriptions;
        if now == count { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
}

/// Waits until the object has its subscription, without an error.
async fn expect_made(subscriptions: &Api<BMCEventSubscription>, name: &str) {
    eventually(LIMIT, &format!("{name} is made"), || async {
        let found = subscriptions.get(name).await.map_err(|error| error.to_string())?;
        let status = found.status.unwrap_or_default();
        let is_made = !status.subscription_id.is_empty() && status.error.is_empty();
        if is_made { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
}

/// Kills Ironic while both BMCs hold a request, of which only one is carried out before Ironic is back.
async fn kill_ironic_within(env: &TestEnv, left: usize) {
    env.ironic.kill_ironic();
    env.bmc(EARLY, json!({})).await;
    expect_subscriptions(env, EARLY, left).await;
    env.ironic.start_ironic().await.expect("it starts again");
}

// OWN 31vs: a BMC that made a subscription after it was asked for it again had two, and sent each event twice, for ever.
#[test]
fn ironic_that_dies_within_a_subscription_leaves_one_and_later_none() {
    run(async {
        let config = IronicConfig {
            hosts: 2,
            ..IronicConfig::default()
        };
        let env = TestEnv::start(namespace!().await, config).await;
        let mut names = Vec::new();
        for number in [EARLY, LATE] {
            names.push(env.apply_host(number, |_| {}).await);
        }
        for name in &names {
            env.expect_state(name, ProvisioningState::Available).await;
        }
        let slow = json!({"slow_subscriptions": 200});
        for (number, name) in names.iter().enumerate() {
            env.bmc(number, slow.clone()).await;
            let spec = json!({"hostName": name, "destination": "http://192.0.2.1/events", "context": "c"});
            apply(&env, "BMCEventSubscription", name, &spec).await;
        }
        for number in [EARLY, LATE] {
            expect_asked(&env, number, "POST", 1).await;
        }
        kill_ironic_within(&env, 1).await;
        let subscriptions = env.namespace.api::<BMCEventSubscription>();
        expect_made(&subscriptions, &names[EARLY]).await;
        expect_asked(&env, LATE, "POST", 2).await;
        env.bmc(LATE, json!({})).await;
        expect_made(&subscriptions, &names[LATE]).await;
        expect_subscriptions(&env, LATE, 2).await;
        expect_subscriptions(&env, LATE, 1).await;
        let early = env.machine(EARLY).await;
        assert_eq!(
            (early.event_subscriptions, asked(&early, "POST", "/Subscriptions")),
            (1, 1),
            "it was found, and not asked for again"
        );

        for (number, name) in names.iter().enumerate() {
            env.bmc(number, slow.clone()).await;
            let deleted = subscriptions.delete(name, &DeleteParams::default()).await;
            deleted.expect("the deletion is accepted");
        }
        expect_asked(&env, EARLY, "DELETE", 1).await;
        // One has ended what was too much.
        expect_asked(&env, LATE, "DELETE", 2).await;
        kill_ironic_within(&env, 0).await;
        env.namespace.expect_gone::<BMCEventSubscription>(&names[EARLY]).await;
        expect_asked(&env, LATE, "DELETE", 3).await;
        env.bmc(LATE, json!({})).await;
        env.namespace.expect_gone::<BMCEventSubscription>(&names[LATE]).await;
        for number in [EARLY, LATE] {
            assert_eq!(env.machine(number).await.event_subscriptions, 0);
        }
    });
}
