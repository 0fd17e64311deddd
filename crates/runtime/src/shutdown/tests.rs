use super::*;
use std::{convert::Infallible, future::pending, io};

async fn until(token: CancellationToken) -> Result<(), Infallible> {
    token.cancelled().await;
    Ok(())
}

#[tokio::test]
async fn a_signal_stops_normal_tasks_before_final_ones() {
    let mut tasks = Tasks::new();
    let (stop, drained) = (tasks.stop(), tasks.drained());
    let order = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    for (name, token, last) in [("normal", stop, false), ("last", drained, true)] {
        let order = order.clone();
        let task = async move {
            token.cancelled().await;
            order.lock().push(name);
            Ok::<_, Infallible>(())
        };
        if last {
            tasks.spawn_final(name, task);
        } else {
            tasks.spawn(name, task);
        }
    }
    let mut signals = 0;
    let result = tasks
        .run_until(async || {
            signals += 1;
            if signals > 1 {
                pending::<()>().await;
            }
        })
        .await;
    result.unwrap();
    assert_eq!(*order.lock(), ["normal", "last"]);
}

#[tokio::test]
async fn any_way_of_ending_early_ends_the_process() {
    let mut tasks = Tasks::new();
    tasks.spawn("good", until(tasks.stop()));
    tasks.spawn("returns", async { Ok::<_, Infallible>(()) });
    let ended = tasks.run_until(async || pending().await).await;
    assert!(matches!(ended, Err(Ended::Returned("returns"))));

    let mut tasks = Tasks::new();
    tasks.spawn_final("fails", async { Err(io::Error::other("why")) });
    let ended = tasks.run_until(async || pending().await).await.unwrap_err();
    assert_eq!(crate::error::chain(&ended).to_string(), "task fails failed: why");

    let mut tasks = Tasks::new();
    tasks.spawn("panics", async {
        assert_eq!(1, 2, "on purpose");
        Ok::<_, Infallible>(())
    });
    let ended = tasks.run_until(async || pending().await).await;
    assert!(matches!(ended, Err(Ended::Panicked("panics"))));
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let mut tasks = Tasks::new();
    tasks.spawn("stubborn", pending::<Result<(), Infallible>>());
    assert!(matches!(tasks.run_until(async || {}).await, Err(Ended::Forced)));
}

#[tokio::test(start_paused = true)]
async fn the_end_comes_before_kubernetes_kills_the_process() {
    // OWN 14c: Upstream's manifests give it ten seconds.
    let start = time::Instant::now();
    let mut tasks = Tasks::new();
    let stop = tasks.stop();
    tasks.spawn("slow", async move {
        stop.cancelled().await;
        time::sleep(GRACE.mul_f64(0.99)).await;
        Ok::<_, Infallible>(())
    });
    tasks.spawn_final("stubborn", pending::<Result<(), Infallible>>());
    let mut first = true;
    let ended = tasks
        .run_until(async || {
            if !std::mem::take(&mut first) {
                pending::<()>().await;
            }
        })
        .await;
    assert!(matches!(ended, Err(Ended::Overdue(_))));
    assert!(start.elapsed() <= Duration::from_secs(8), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_last_reviews_may_take_what_the_other_tasks_leave() {
    use crate::timing::webhooks::{LAST_CALLS, LAST_REVIEWS};
    let mut tasks = Tasks::new();
    tasks.spawn("quick", until(tasks.stop()));
    let drained = tasks.drained();
    tasks.spawn_final("webhooks", async move {
        drained.cancelled().await;
        time::sleep(LAST_CALLS + LAST_REVIEWS).await;
        Ok::<_, Infallible>(())
    });
    let mut first = true;
    let ended = tasks.run_until(async || {
        if !std::mem::take(&mut first) {
            pending::<()>().await;
        }
    });
    ended.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stubborn_task_keeps_the_lease_from_being_released() {
    let mut tasks = Tasks::new();
    tasks.spawn("stubborn", pending::<Result<(), Infallible>>());
    tasks.spawn_final("leader", until(tasks.drained()));
    let drained = tasks.drained();
    let mut first = true;
    let ended = tasks
        .run_until(async || {
            if !std::mem::take(&mut first) {
                pending::<()>().await;
            }
        })
        .await;
    assert_eq!(
        ended.unwrap_err().to_string(),
        "still running after the grace period: stubborn"
    );
    assert!(!drained.is_cancelled());
}
