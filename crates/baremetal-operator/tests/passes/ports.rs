//! Ports follow what inspections find.

use metal3_api::metal3::ProvisioningState;
use metal3_ironic_sim::{Action as Trouble, Rule};
use rstest::rstest;
use serde_json::{Value, json};

use crate::site::{Life, NAME, Site};

const GONE: &str = "52:54:00:00:00:77";
const OTHERS: &str = "52:54:00:00:00:78";

fn macs(site: &Site) -> Vec<String> {
    let path = format!("/v1/ports?node_uuid={}", site.status().provisioning.id);
    let (_, ports) = site.sim.call("GET", &path, 95, Value::Null);
    let of = |port: &Value| port["address"].as_str().unwrap().to_owned();
    ports["ports"].as_array().unwrap().iter().map(of).collect()
}

/// The condition `PortsComplete`, if it is there: its reason and message.
fn told(site: &Site) -> Option<(String, String)> {
    let mut conditions = site.status().conditions.into_iter();
    let told = conditions.find(|c| c.type_ == "PortsComplete");
    told.map(|c| (c.reason, c.message))
}

fn make(site: &Site, path: &str, body: Value) -> Value {
    let (status, made) = site.sim.call("POST", path, 95, body);
    assert_eq!(status, 201, "{made}");
    made
}

/// Has the host inspected again, and waits until it is at rest after that.
async fn inspect_again(site: &Site, life: &Life) {
    let so_far = site.counters().inspections;
    site.edit(&json!({"metadata": {"annotations": {"inspect.metal3.io": ""}}}));
    let is_inspected = |_: Option<&_>| site.counters().inspections > so_far;
    assert!(site.until(life, "inspected again", is_inspected).await);
    assert!(site.until_at_rest(life, ProvisioningState::Available).await);
}

/// D25 of upstream's: ports are made and never corrected.
#[tokio::test]
async fn the_port_of_a_nic_that_is_gone_goes_with_the_next_inspection() {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    let found = macs(&site);
    let node = site.status().provisioning.id;
    let ours = json!({"metal3_host": format!("metal3~{NAME}")});
    for (mac, extra) in [(GONE, ours), (OTHERS, json!({}))] {
        let port = json!({"node_uuid": node, "address": mac, "pxe_enabled": false, "extra": extra});
        make(&site, "/v1/ports", port);
    }
    inspect_again(&site, &life).await;
    let mut left = macs(&site);
    left.retain(|mac| !found.contains(mac));
    assert_eq!(left, [OTHERS], "that of others is not ours to remove");
    assert!(macs(&site).contains(&site.sim.server(0).boot_mac().to_owned()));
}

/// The inventory is good although Ironic keeps a port: the host goes on, and says so until an inspection finds it removed.
#[rstest]
#[case::for_good(400)]
// Said three times: until then it may be a clash that ends by itself.
#[case::in_this_state(409)]
#[tokio::test]
async fn a_port_that_ironic_keeps_is_told_and_fails_nothing(#[case] status: u16) {
    let site = Site::new(&json!({})).await;
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    let ours = json!({"metal3_host": format!("metal3~{NAME}")});
    let port =
        json!({"node_uuid": site.status().provisioning.id, "address": GONE, "pxe_enabled": false, "extra": ours});
    make(&site, "/v1/ports", port);
    site.sim.add_rule(Rule {
        method: Some("DELETE".to_owned()),
        path: Some("/v1/ports/*".to_owned()),
        action: Trouble::Refuse {
            status,
            text: "a VIF is attached".to_owned(),
            retry_after: None,
        },
        ..Rule::default()
    });
    inspect_again(&site, &life).await;
    let (reason, words) = told(&site).unwrap();
    assert_eq!(reason, "ChangeRefused");
    assert!(words.contains(GONE) && words.contains("a VIF is attached"), "{words}");
    assert_eq!(site.status().error_count, 0);

    site.sim.clear_rules();
    inspect_again(&site, &life).await;
    assert!(!macs(&site).contains(&GONE.to_owned()));
    assert_eq!(told(&site), None);
}

/// A NIC that was moved here: told as long as the other node has its port, and taken up by the next inspection after that.
#[tokio::test]
async fn the_port_of_a_nic_that_was_moved_here_is_taken_up_by_an_inspection() {
    let site = Site::new(&json!({})).await;
    let other = make(&site, "/v1/nodes", json!({"name": "metal3~other", "driver": "redfish"}));
    let second = site.sim.server(0).macs[1].clone();
    let port = make(
        &site,
        "/v1/ports",
        json!({"node_uuid": other["uuid"], "address": second, "pxe_enabled": false}),
    );
    let life = site.begin(None);
    assert!(site.until_at_rest(&life, ProvisioningState::Available).await);
    let (_, words) = told(&site).unwrap_or_default();
    assert!(
        words.contains(&format!("{second} of node metal3~other")) && words.contains("inspect.metal3.io"),
        "{words}"
    );
    let path = format!("/v1/ports/{}", port["uuid"].as_str().unwrap());
    assert_eq!(site.sim.call("DELETE", &path, 95, Value::Null).0, 204);
    inspect_again(&site, &life).await;
    assert!(macs(&site).contains(&second));
    assert_eq!(told(&site), None);
}
