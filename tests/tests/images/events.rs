//! Events of a real Ironic's BMC: a BMCEventSubscription becomes a subscription of the BMC, and ends with the object.

use kube::ResourceExt;
use kube::api::DeleteParams;
use metal3_api::metal3::{BMCEventSubscription, ProvisioningState};
use metal3_scenarios::{LIMIT, TestEnv, run};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

use super::IRONIC;

#[test]
fn the_bmc_has_a_subscription_until_its_object_is_deleted() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, |_| {}).await;
        env.apply_secret("headers", &[("X-Receiver", "test")]).await;
        let object = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BMCEventSubscription", "metadata": {"name": "events"},
            "spec": {"hostName": name, "destination": "https://192.0.2.9/events", "context": "a",
                "httpHeadersRef": {"namespace": env.namespace.name, "name": "headers"}},
        });
        env.namespace.apply(&object.to_string()).await;
        let subscriptions = env.namespace.api::<BMCEventSubscription>();
        eventually(LIMIT, "the subscription is made", || async {
            let found = subscriptions.get("events").await.map_err(|error| error.to_string())?;
            let status = found.status.clone().unwrap_or_default();
            let is_made = !status.subscription_id.is_empty() && status.error.is_empty();
            if is_made && !found.finalizers().is_empty() {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        env.expect_state(&name, ProvisioningState::Available).await;
        assert_eq!(env.machine(0).await.event_subscriptions, 1);

        let deleted = subscriptions.delete("events", &DeleteParams::default()).await;
        deleted.expect("it is deleted");
        eventually(LIMIT, "the subscription is gone", || async {
            let found = subscriptions
                .get_opt("events")
                .await
                .map_err(|error| error.to_string())?;
            found.map_or(Ok(()), |found| Err(format!("{found:?}")))
        })
        .await;
        assert_eq!(env.machine(0).await.event_subscriptions, 0);
    });
}
