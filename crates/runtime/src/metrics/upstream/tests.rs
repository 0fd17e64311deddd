use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::metrics::ControllerMetrics;
use crate::work::Queue;

fn registry() -> Registry {
    Registry::new(Build {
        component: "test",
        version: "1",
    })
}

fn expect(registry: &Registry, lines: &[&str]) {
    let text = registry.text().unwrap();
    for line in lines {
        assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
    }
}

// OWN 19: dashboards of controller-runtime showed nothing.
#[tokio::test(start_paused = true)]
async fn dashboards_of_controller_runtime_find_their_series() {
    let registry = registry();
    let metrics = ControllerMetrics::new(&registry);
    let (queue, stop) = (Queue::new(), CancellationToken::new());
    metrics.measure("host", &queue);
    for key in ["a", "b", "fails", "last"] {
        queue.push(key);
    }
    queue.push_in("later", Duration::from_secs(3600));
    expect(&registry, &["workqueue_depth{name=\"host\",controller=\"host\"} 4.0"]);
    let (own, end, seen) = (metrics.clone(), stop.clone(), registry.clone());
    let work = move |key| {
        let (metrics, stop, registry) = (own.clone(), end.clone(), seen.clone());
        async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let outcome = if key == "fails" { "transient" } else { "ok" };
            let is_requeued = key != "a";
            metrics.observe("host", PassEnd { outcome, is_requeued }, Duration::from_secs(2));
            if key == "last" {
                expect(
                    &registry,
                    &[
                        "controller_runtime_active_workers{controller=\"host\"} 1.0",
                        "controller_runtime_max_concurrent_reconciles{controller=\"host\"} 1.0",
                        "workqueue_unfinished_work_seconds{name=\"host\",controller=\"host\"} 2.0",
                        "workqueue_longest_running_processor_seconds{name=\"host\",controller=\"host\"} 2.0",
                    ],
                );
                stop.cancel();
            }
            None
        }
    };
    queue.run(1, stop, work).await;
    expect(
        &registry,
        &[
            "controller_runtime_reconcile_total{controller=\"host\",result=\"success\"} 1",
            "controller_runtime_reconcile_total{controller=\"host\",result=\"requeue_after\"} 2",
            "controller_runtime_reconcile_total{controller=\"host\",result=\"error\"} 1",
            "controller_runtime_reconcile_errors_total{controller=\"host\"} 1",
            "controller_runtime_reconcile_panics_total{controller=\"host\"} 0.0",
            "controller_runtime_reconcile_time_seconds_sum{controller=\"host\"} 8.0",
            "controller_runtime_active_workers{controller=\"host\"} 0.0",
            "workqueue_adds_total{name=\"host\",controller=\"host\"} 4.0",
            "workqueue_depth{name=\"host\",controller=\"host\"} 0.0",
            "workqueue_retries_total{name=\"host\",controller=\"host\"} 1",
            // 0, 2, 4 and 6 seconds for the one worker.
            "workqueue_queue_duration_seconds_sum{name=\"host\",controller=\"host\"} 12.0",
            "workqueue_work_duration_seconds_sum{name=\"host\",controller=\"host\"} 8.0",
        ],
    );
}

#[test]
fn queues_of_one_controller_are_added_up_and_forgotten_with_their_last_user() {
    let registry = registry();
    let metrics = ControllerMetrics::new(&registry);
    let (first, second) = (Queue::new(), Queue::new());
    for queue in [&first, &second] {
        metrics.measure("host", queue);
        queue.push(1);
    }
    expect(&registry, &["workqueue_depth{name=\"host\",controller=\"host\"} 2.0"]);
    drop(second);
    expect(&registry, &["workqueue_depth{name=\"host\",controller=\"host\"} 1.0"]);
}

#[tokio::test]
async fn requests_are_counted_by_method_and_answer() {
    let registry = registry();
    let requests = Requests::new(&registry);
    let answers = tower::service_fn(async |request: Request<()>| match request.uri().path() {
        "/gone" => Err("no answer"),
        "/none" => Ok(Response::builder().status(404).body(()).unwrap()),
        _ => Ok(Response::new(())),
    });
    let client = Arc::new(requests.layer(answers));
    for (method, path) in [("GET", "/"), ("GET", "/"), ("PATCH", "/none"), ("GET", "/gone")] {
        let uri = format!("https://192.0.2.1:6443{path}");
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        client.as_ref().clone().call(request).await.ok();
    }
    expect(
        &registry,
        &[
            "rest_client_requests_total{code=\"200\",host=\"192.0.2.1:6443\",method=\"GET\"} 2",
            "rest_client_requests_total{code=\"404\",host=\"192.0.2.1:6443\",method=\"PATCH\"} 1",
            "rest_client_requests_total{code=\"<error>\",host=\"192.0.2.1:6443\",method=\"GET\"} 1",
        ],
    );
}
