//! A workload cluster whose API server takes requests and does not answer them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::{Json, Router};
use kube::ResourceExt;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_testkit::{DEADLINE, eventually, namespace};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::support::{Site, lacks};

const NODE: &str = "NodeProviderIDSet";
/// More than work on machines at once.
const MACHINES: usize = 5;

/// Lists these Nodes, and leaves everything else without an answer.
#[derive(Clone)]
struct Silent {
    nodes: Value,
    writes: Arc<AtomicUsize>,
}

async fn answer(State(silent): State<Silent>, request: Request) -> Json<Value> {
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
    if request.method() != Method::GET {
        silent.writes.fetch_add(1, Ordering::Relaxed);
    } else if !is_watch {
        return Json(silent.nodes);
    }
    std::future::pending().await
}

/// The kubeconfig of such a server.
async fn serve(silent: Silent, tasks: &mut JoinSet<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(silent);
    tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}]})
    .to_string()
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_holds_up_no_machine_of_another() {
    let site = Site::for_machines(namespace!().await).await;
    site.ready_cluster("d").await;
    let provider = site.provider_with(&["--metal3machine-concurrency=3"]).await;
    let mut nodes = Vec::new();
    for number in 0..MACHINES {
        let (host, machine) = (format!("h{number}"), format!("m{number}"));
        let label = json!({"of": machine});
        site.host(&host, label.clone(), "available").await;
        site.machine(&machine, json!({"hostSelector": {"matchLabels": label}}))
            .await;
        let host = site.claimed(&host, &machine).await;
        site.host_becomes(&host.name_any(), "provisioned").await;
        let labels = json!({"metal3.io/uuid": host.uid()});
        nodes.push(json!({"metadata": {"name": machine, "uid": machine, "resourceVersion": "1", "labels": labels}}));
    }
    let writes = Arc::new(AtomicUsize::new(0));
    let list = json!({"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": nodes});
    let silent = Silent {
        nodes: list,
        writes: writes.clone(),
    };
    let mut tasks = JoinSet::new();
    let kubeconfig = serve(silent, &mut tasks).await;
    site.host("other", json!({"of": "other"}), "available").await;
    site.kubeconfig("c", &kubeconfig).await;
    eventually(DEADLINE, "a Node is to get its provider ID", || async {
        match writes.load(Ordering::Relaxed) {
            0 => Err(0),
            _ => Ok(()),
        }
    })
    .await;

    let claim = async {
        let selector = json!({"matchLabels": {"of": "other"}});
        site.machine_of("d", "other", json!({"hostSelector": selector})).await;
        site.claimed("other", "other").await
    };
    // A write is given up after ten seconds.
    let claimed: Result<BareMetalHost, _> = tokio::time::timeout(Duration::from_secs(9), claim).await;
    claimed.unwrap();
    assert!(writes.load(Ordering::Relaxed) <= 2, "few wait for one cluster");
    let is_told = |machine: &Metal3Machine| lacks(machine, NODE, "gave no answer within 10 s");
    for number in 0..MACHINES {
        site.namespace
            .expect(&format!("m{number}"), "tells that the cluster is silent", is_told)
            .await;
    }
    provider.stop().await;
}
