//! Settings of the operator that change while it has hosts.

use std::time::Duration;

use baremetal_operator::settings::HostSettings;
use metal3_api::metal3::ProvisioningState;
use metal3_ironic_sim::Faults;
use metal3_testkit::played::Request;
use rstest::rstest;
use serde_json::{Value, json};

use crate::site::{Site, settings};
use crate::{deployed, failures};

/// Where the node is started from.
fn iso(site: &Site) -> Value {
    let path = format!("/v1/nodes/{}", site.status().provisioning.id);
    let (_, mut node) = site.sim.call("GET", &path, 95, Value::Null);
    node["driver_info"]["deploy_iso"].take()
}

fn faulty(change: impl FnOnce(&mut Faults, Option<String>)) -> Faults {
    let mut faults = Faults::default();
    change(&mut faults, Some("the ramdisk is not found".to_owned()));
    faults
}

/// Who has mended the operator's settings does not edit every host besides.
#[rstest]
#[case::inspection(faulty(|faults, why| faults.inspect_error = why), json!({}), ProvisioningState::Available)]
#[case::cleaning(faulty(|faults, why| faults.clean_error = why), deployed(), ProvisioningState::Provisioned)]
#[case::deployment(faulty(|faults, why| faults.deploy_error = why), deployed(), ProvisioningState::Provisioned)]
#[tokio::test]
async fn a_retry_is_made_with_the_settings_of_now(
    #[case] faults: Faults,
    #[case] spec: Value,
    #[case] ends: ProvisioningState,
) {
    let (wrong, right) = ("http://images.example/wrong.iso", "http://images.example/right.iso");
    let site = Site::new(&spec).await;
    site.sim.set_faults(0, faults);
    let life = site.begin_with(None, settings(wrong));
    assert!(site.until(&life, "failed", |host| failures(host) > 0).await);
    assert_eq!(iso(&site), wrong);
    drop(life);

    site.sim.clear_faults(0);
    let soon = HostSettings {
        retry_base: Duration::from_millis(1),
        ..settings(right)
    };
    let life = site.begin_with(None, soon);
    life.listed().await;
    assert!(site.until_at_rest(&life, ends).await);
    assert_eq!(iso(&site), right);
    drop(life);

    // Nothing is started on a host at rest: for that, other settings cost nothing.
    let life = site.begin_with(None, settings("http://images.example/newer.iso"));
    life.listed().await;
    life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
    site.cluster.requests();
    let before = site.sim.requests();
    for _ in 0..3 {
        life.forget_rest();
        life.reconcile(site.host().unwrap()).await.unwrap().unwrap();
    }
    let asked: Vec<Request> = site.cluster.requests();
    assert!(asked.is_empty(), "{asked:?}");
    let after = site.sim.requests();
    let changed = after.iter().filter(|(kind, count)| before.get(*kind) != Some(count));
    let changed: Vec<_> = changed.map(|(kind, _)| kind.as_str()).collect();
    assert!(changed.iter().all(|kind| *kind == "GET /v1/nodes"), "{changed:?}");
    assert_eq!(iso(&site), right);
}
