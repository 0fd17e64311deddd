//! Power that does not follow, and BMCs that are away.

use std::time::Instant;

use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::{BareMetalHost, ErrorType, ProvisioningState};
use metal3_lab::ironic::BmcFaults;
use metal3_scenarios::{Site, at_once, condition, deployed_at_once, is_available_and_on, run, status};
use metal3_testkit::namespace;
use serde_json::json;

use super::IRONIC;

/// Waits for an error of the power with a message that begins like this.
async fn expect_error(site: &Site, name: &str, words: &str) -> BareMetalHost {
    let host = site
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
        let site = Site::shared(namespace!().await, &IRONIC, 1).await;
        let name = site.apply_host(0, deployed_at_once(site.image())).await;
        site.expect_state(&name, ProvisioningState::Provisioned).await;
        let refuses = BmcFaults {
            power_refused: true,
            ..BmcFaults::default()
        };
        site.bmc(0, refuses).await;
        site.patch(&name, json!({"spec": {"online": false}})).await;
        let words = "Soft power off failed, a hard power off follows";
        let host = expect_error(&site, &name, words).await;
        let seen = status(&host);
        assert_eq!(
            (seen.error_count, seen.powered_on, seen.provisioning.state),
            (1, true, ProvisioningState::Provisioned)
        );
        site.expect_event(&name, "PowerManagementError", words).await;
        expect_error(&site, &name, "Power off failed").await;

        site.bmc(0, BmcFaults::default()).await;
        let is_forgiven = |host: &BareMetalHost| status(host).error_type.is_none() && status(host).error_count == 0;
        let is_off = |host: &BareMetalHost| !status(host).powered_on && is_forgiven(host);
        site.expect(&name, "is off and forgiven", is_off).await;
        let asked_softly = async || {
            let requests = site.machine(0).await.counters.power_requests;
            requests.get("GracefulShutdown").copied().unwrap_or_default()
        };
        assert_eq!((asked_softly().await, site.machine(0).await.is_on), (0, false));

        // It takes the request, and nothing happens.
        let ignores = BmcFaults {
            power_ignored: true,
            ..BmcFaults::default()
        };
        site.bmc(0, ignores).await;
        site.patch(&name, json!({"spec": {"online": true}})).await;
        expect_error(&site, &name, "Power on failed").await;
        site.bmc(0, BmcFaults::default()).await;
        let is_on = |host: &BareMetalHost| status(host).powered_on && is_forgiven(host);
        site.expect(&name, "is on and forgiven", is_on).await;

        site.patch(&name, json!({"spec": {"online": false}})).await;
        site.expect(&name, "is off", is_off).await;
        assert_eq!(asked_softly().await, 1, "what failed before is no reason to cut it off");
        assert_eq!(site.machine(0).await.deploys, 1);
    });
}

#[test]
fn a_bmc_that_is_away_is_told_and_its_host_goes_on_when_it_is_back() {
    run(async {
        let site = Site::shared(namespace!().await, &IRONIC, 1).await;
        let name = site.apply_host(0, at_once).await;
        site.expect(&name, "is available and on", is_available_and_on).await;
        let before = site.machine(0).await;
        // As while it starts. To anything of the 500s Ironic's driver comes back for half a minute, at every look.
        let starting = BmcFaults {
            status: Some(404),
            ..BmcFaults::default()
        };
        site.bmc(0, starting).await;
        let start = Instant::now();
        let manageable = |host: &BareMetalHost| condition(host, "Manageable").map(|c| (c.status, c.reason));
        let host = site
            .expect(&name, "has lost its BMC", |host| {
                manageable(host) == Some((ConditionStatus::False, "PowerFailure".to_owned()))
            })
            .await;
        println!("the BMC was missed after {:?}", start.elapsed());
        // Whether the server is on is not known, so what is known of it stays.
        let seen = status(&host);
        assert_eq!(
            (seen.provisioning.state, seen.powered_on),
            (ProvisioningState::Available, true)
        );
        assert_eq!((seen.error_type, seen.error_count), (None, 0));
        site.patch(&name, json!({"spec": {"online": false}})).await;
        site.expect_waiting(&name, "PowerUnknown", &["cannot ask the BMC"])
            .await;

        site.bmc(0, BmcFaults::default()).await;
        let start = Instant::now();
        let host = site
            .expect(&name, "is off, as it was asked to be meanwhile", |host| {
                !status(host).powered_on && manageable(host).is_some_and(|(status, _)| status == ConditionStatus::True)
            })
            .await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
        println!("switched off {:?} after its return", start.elapsed());
        let after = site.machine(0).await;
        assert_eq!(after.times_switched_off(), before.times_switched_off() + 1);
        assert_eq!(after.times_switched_on(), before.times_switched_on());
    });
}
