//! How long the choice of a host takes among many, the look into the index included: `cargo xtask bench choice`.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use cluster_api_provider_metal3::select::{HostRequest, Outcome, Reserved, search, select, selector};
use cluster_api_provider_metal3::stores::{HostBy, Stores};
use metal3_api::infra::v1beta2::HostSelector;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::ObjectKey;
use serde_json::json;

const HOSTS: usize = 10_000;
const ROUNDS: u32 = 200;
const NAMESPACE: &str = "metal3";

fn main() -> Result<(), Box<dyn Error>> {
    let labels = json!({
        "matchLabels": {"rack": "r3"},
        "matchExpressions": [{"key": "generation", "operator": "gt", "values": ["2"]}],
    });
    let (free, used) = (stores(true)?, stores(false)?);
    let cases = [
        ("all free, any will do", &free, json!({})),
        (
            "all free, those of one rack and generation will do",
            &free,
            labels.clone(),
        ),
        ("all in use, and a reason for each", &used, labels),
    ];
    for (case, stores, selector) in cases {
        let selector: HostSelector = serde_json::from_value(selector)?;
        let request = HostRequest {
            machine: ObjectKey::new(NAMESPACE, "workers-1"),
            uid: "11e2b0a6-0f6c-4a64-9d1b-3b5f3f1c2a11".to_owned(),
            selector: selector::parse(Some(&selector)).map_err(|errors| format!("{errors:?}"))?,
            failure_domain: "row-1".to_owned(),
            is_domain_strict: false,
            reuse: Some("md-workers".to_owned()),
        };
        let start = Instant::now();
        for seed in 0..ROUNDS {
            choose(stores, black_box(&request), u64::from(seed));
        }
        let each = start.elapsed() / ROUNDS;
        println!("{HOSTS} hosts, {case}: {:.2} ms for a choice", each.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// As the provider does: among those that the index shows to be free, and where none will do, among all for the reasons.
fn choose(stores: &Stores, request: &HostRequest, seed: u64) {
    let mut selection = search(stores, request, &Reserved::new(), seed);
    if matches!(selection.outcome, Outcome::None) {
        let all = stores.hosts.find(&HostBy::Namespace(NAMESPACE.to_owned()));
        selection = select(request, &all, &Reserved::new(), seed);
        black_box(selection.survey().text(NAMESPACE, &selection.outcome));
    }
    black_box(selection);
}

fn stores(is_free: bool) -> Result<Stores, serde_json::Error> {
    let stores = Stores::new("");
    for number in 0..HOSTS {
        let consumer = json!({"kind": "Metal3Machine", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "namespace": NAMESPACE, "name": format!("other-{number}"), "uid": number.to_string()});
        let host: BareMetalHost = serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"namespace": NAMESPACE, "name": format!("host-{number:05}"), "uid": format!("host-{number}"), "labels": {
                "rack": format!("r{}", number % 10), "generation": (number % 7).to_string(),
                "infrastructure.cluster.x-k8s.io/failure-domain": format!("row-{}", number % 4)}},
            "spec": {"online": false, "consumerRef": if is_free { json!(null) } else { consumer }},
            "status": {"provisioning": {"state": "available", "ID": ""}, "errorMessage": ""},
        }))?;
        stores.hosts.created(host);
    }
    Ok(stores)
}
