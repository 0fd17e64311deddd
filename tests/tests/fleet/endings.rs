//! Shutdown of the operator.

use metal3_api::metal3::ProvisioningState;
use metal3_ironic_sim::Action;
use metal3_scenarios::{FleetEnv, run};
use metal3_testkit::namespace;

use super::rule;

#[test]
fn an_operator_whose_calls_hang_ends_before_it_is_killed() {
    // OWN 14d: it waited for the response.
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 5).await;
        env.sim.add_rule(rule("POST", "/v1/nodes", 1.0, 1, true, Action::Stall));
        env.start_operator().await;
        env.apply_hosts().await;
        // The node is created, and the response is lost.
        env.until("the node is made", |sum| sum.creates == 1).await;
        let start = std::time::Instant::now();
        assert!(env.stop_operator().await, "it was killed");
        println!("ended after {:.1} s", start.elapsed().as_secs_f64());
        let log = env.operator_log();
        assert!(
            log.contains("work is cut off") && !log.contains("still running"),
            "{log}"
        );
        env.start_operator().await;
        env.expect_all(ProvisioningState::Available).await;
        assert_eq!(env.sum().creates, 1);
    });
}
