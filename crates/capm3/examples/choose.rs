//! How long the choice of a host takes among many: `cargo run --release -p cluster-api-provider-metal3 --example choose`.
//!
//! Two cases: the choice among free hosts, and the full list of reasons when none will do.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use cluster_api_provider_metal3::select::{Outcome, Reserved, Selector, Wish, select};
use metal3_api::infra::v1beta2::HostSelector;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::ObjectKey;
use serde_json::json;

const HOSTS: usize = 10_000;
const ROUNDS: u32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let selector: HostSelector = serde_json::from_value(json!({
        "matchLabels": {"rack": "r3"},
        "matchExpressions": [{"key": "generation", "operator": "gt", "values": ["2"]}],
    }))?;
    let wish = Wish {
        machine: ObjectKey::new("metal3", "workers-1"),
        uid: "11e2b0a6-0f6c-4a64-9d1b-3b5f3f1c2a11".to_owned(),
        selector: Selector::parse(Some(&selector)).map_err(|errors| format!("{errors:?}"))?,
        failure_domain: "row-1".to_owned(),
        is_domain_strict: false,
        reuse: Some("md-workers".to_owned()),
    };
    for (case, is_free) in [("all free", true), ("all in use", false)] {
        let hosts = hosts(is_free)?;
        let start = Instant::now();
        for seed in 0..ROUNDS {
            let selection = select(black_box(&wish), black_box(&hosts), &Reserved::new(), u64::from(seed));
            if matches!(selection.outcome, Outcome::None) == is_free {
                return Err(format!("{case}: {}", selection.summary(&wish)).into());
            }
            if !is_free {
                black_box(selection.summary(&wish));
            }
        }
        let each = start.elapsed() / ROUNDS;
        println!(
            "{HOSTS} candidates, {case}: {:.2} ms for a choice",
            each.as_secs_f64() * 1e3
        );
    }
    Ok(())
}

fn hosts(is_free: bool) -> Result<Vec<Arc<BareMetalHost>>, serde_json::Error> {
    let host = |number: usize| {
        let consumer = json!({"kind": "Metal3Machine", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "namespace": "metal3", "name": format!("other-{number}"), "uid": number.to_string()});
        serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"namespace": "metal3", "name": format!("host-{number:05}"), "labels": {
                "rack": format!("r{}", number % 10), "generation": (number % 7).to_string(),
                "infrastructure.cluster.x-k8s.io/failure-domain": format!("row-{}", number % 4)}},
            "spec": {"online": false, "consumerRef": if is_free { json!(null) } else { consumer }},
            "status": {"provisioning": {"state": "available", "ID": ""}, "errorMessage": ""},
        }))
        .map(Arc::new)
    };
    (0..HOSTS).map(host).collect()
}
