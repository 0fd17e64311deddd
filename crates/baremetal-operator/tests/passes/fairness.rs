//! What all tenants share: workers, and calls to Ironic.

use std::sync::Arc;
use std::time::Duration;

use baremetal_operator::args::DEFAULT_CONCURRENCY;
use metal3_api::metal3::ProvisioningState;
use metal3_ironic::on_behalf_of;
use metal3_ironic_sim::Rule;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::work::Queue;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cluster::NAMESPACE;
use crate::site::{NAME, Site, is_at_rest};

/// Less than the time after which a call is given up.
const SOON: Duration = Duration::from_secs(25);

// OWN 22c: with BMCs that hang, one tenant held every worker and every call to Ironic.
#[tokio::test]
async fn a_tenant_whose_bmcs_hang_does_not_hold_up_another() {
    let site = Arc::new(Site::new(&json!({})).await);
    site.sim.add_rule(Rule {
        path: Some("/v1/nodes/tarpit*".to_owned()),
        ..Rule::default()
    });
    let key = |namespace: &str, name: &str| ObjectKey::new(namespace, name);
    let (queue, stop, life) = (Queue::new(), CancellationToken::new(), Arc::new(site.begin(None)));
    for n in 0..200 {
        queue.push(key("tarpit", &n.to_string()));
    }
    queue.push(key(NAMESPACE, NAME));
    let done = stop.clone();
    let work = move |host: ObjectKey| {
        let (site, life, done) = (site.clone(), life.clone(), done.clone());
        async move {
            if host.namespace == NAMESPACE {
                let host = site.host()?;
                if is_at_rest(&host, &ProvisioningState::Available) {
                    done.cancel();
                }
                life.reconcile(host).await;
                return Some(Duration::from_millis(50));
            }
            let (ironic, node) = (life.ironic(), format!("tarpit~{}", host.name));
            let calls = async {
                ironic.node(&node).await.ok();
                ironic.validate(&node).await.ok();
            };
            on_behalf_of(&host.namespace, calls).await;
            Some(Duration::ZERO)
        }
    };
    tokio::select! {
        () = queue.run(DEFAULT_CONCURRENCY.into(), stop.clone(), work) => {}
        () = tokio::time::sleep(SOON) => assert!(stop.is_cancelled(), "the other tenant's host does not get on"),
    }
}
