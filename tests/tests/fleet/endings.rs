//! An operator that is told to end.

use metal3_api::metal3::ProvisioningState;
use metal3_ironic_sim::Action;
use metal3_scenarios::{FleetSite, run};
use metal3_testkit::namespace;

use super::rule;

#[test]
fn an_operator_whose_calls_hang_ends_before_it_is_killed() {
    // OWN 14d: It waited for the answer.
    run(async {
        let mut site = FleetSite::new(namespace!().await, 1, 5).await;
        site.sim
            .add_rule(rule("POST", "/v1/nodes", 1.0, 1, true, Action::Stall));
        site.start_operator().await;
        site.apply_hosts().await;
        // The node is made, and the operator does not hear of it.
        site.until("the node is made", |sum| sum.creates == 1).await;
        let start = std::time::Instant::now();
        assert!(site.stop_operator().await, "it was killed");
        println!("ended after {:.1} s", start.elapsed().as_secs_f64());
        let log = site.operator_log();
        assert!(
            log.contains("work is cut off") && !log.contains("still running"),
            "{log}"
        );
        site.start_operator().await;
        site.expect_all(ProvisioningState::Available).await;
        assert_eq!(site.sum().creates, 1);
    });
}
