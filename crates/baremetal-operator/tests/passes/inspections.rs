//! What counts as the outcome of an inspection.

use metal3_api::metal3::ProvisioningState;
use metal3_ironic_sim::Faults;
use serde_json::json;

use crate::failures;
use crate::site::Site;

/// Ironic keeps what it found before. With another way to inspect, a failed node passes through a state in which it might be
/// taken for found just now.
#[tokio::test]
async fn an_inventory_of_before_does_not_count_after_a_failure() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    site.sim.set_faults(
        0,
        Faults {
            inspect_error: Some("the ramdisk has crashed".to_owned()),
            ..Faults::default()
        },
    );
    site.edit(&json!({"metadata": {"annotations": {"inspect.metal3.io": ""}}}));
    assert!(site.until(&life, "failed", |host| failures(host) > 0).await);
    assert_eq!(site.counters().inspections, 2);
    site.sim.clear_faults(0);
    site.edit(&json!({"spec": {"inspectionMode": "fast"}}));
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    assert_eq!(site.counters().inspections, 3);
}
