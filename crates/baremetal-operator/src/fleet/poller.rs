//! The task that lists the nodes.

use std::pin::pin;
use std::time::Duration;

use metal3_ironic::{Client, Error, Link, Node};
use metal3_runtime::Clock;
use metal3_runtime::timing::operator::WHILE_DOWN;
use tokio_util::sync::CancellationToken;

use super::{Fleet, Pace, outage_of};
use crate::host::observed::{Outage, OutageKind};

/// Lists until stopped.
pub async fn run(fleet: Fleet, link: Link, pace: Pace, clock: Clock, stop: CancellationToken) {
    let mut ready = None;
    loop {
        let mut exchanged = pin!(link.exchanged());
        let start = clock.elapsed();
        let answer = tokio::select! {
            answer = list(&fleet, &link, &mut ready) => answer,
            () = stop.cancelled() => return,
            // Do not wait for the request: it may be to an Ironic that is gone.
            () = &mut exchanged => continue,
        };
        let cost = clock.elapsed().saturating_sub(start);
        if answer.is_err() {
            ready = None;
        }
        let pause = take(&fleet, answer, &pace, start, cost);
        fleet.call(&fleet.view(), clock.elapsed());
        fleet.0.first.send_replace(true);
        tokio::select! {
            () = rest(&fleet, ready.as_ref(), &pace, &clock, pause) => {}
            () = stop.cancelled() => return,
            () = &mut exchanged => {}
            // Even then not faster than the fast pace, and never two lists back to back on a slow Ironic.
            () = rung(&fleet, pace.fast.max(cost)) => {}
        }
    }
}

/// Pauses for this time. While hosts wait, the most recently changed nodes are listed in between.
async fn rest(fleet: &Fleet, client: Option<&Client>, pace: &Pace, clock: &Clock, pause: Duration) {
    let end = clock.elapsed() + pause;
    let mut took = Duration::ZERO;
    loop {
        let left = end.saturating_sub(clock.elapsed());
        let recent = fleet.view().recent(pace, clock.elapsed());
        let (Some(client), Some(recent)) = (client, recent.filter(|recent| recent.pause.max(took) < left)) else {
            return tokio::time::sleep(left).await;
        };
        tokio::time::sleep(recent.pause.max(took)).await;
        let asked = clock.elapsed();
        // The next full list reports the error.
        let Ok(nodes) = client.nodes_changed_last(recent.nodes).await else {
            return;
        };
        let now = clock.elapsed();
        took = now.saturating_sub(asked);
        if !take_recent(fleet, nodes, asked, now) {
            return;
        }
    }
}

/// Takes the most recently changed nodes. Returns false if there may be more changes.
fn take_recent(fleet: &Fleet, nodes: Vec<Node>, asked: Duration, now: Duration) -> bool {
    let listed = nodes.iter().map(|node| node.uuid.clone()).collect();
    let mut view = fleet.view();
    view.answered(now.saturating_sub(asked));
    let reaches_known = nodes.iter().any(|node| view.knows(node));
    let woken = view.update(nodes, asked);
    fleet.slots().glimpsed(&listed, asked);
    fleet.call(&view, now);
    drop(view);
    fleet.wake(woken);
    reaches_known
}

async fn rung(fleet: &Fleet, least: Duration) {
    fleet.0.bell.notified().await;
    tokio::time::sleep(least).await;
}

/// `ready` is the client that answered last.
async fn list(fleet: &Fleet, link: &Link, ready: &mut Option<Client>) -> Result<Vec<Node>, Error> {
    let client = link.client()?;
    if !ready.as_ref().is_some_and(|known| known.is(&client)) {
        // After a time without answers it may be a different Ironic: negotiate again, and wait for a conductor.
        fleet.speak(client.ready().await?);
    }
    let nodes = client.nodes().await?;
    *ready = Some(client);
    Ok(nodes)
}

fn take(fleet: &Fleet, answer: Result<Vec<Node>, Error>, pace: &Pace, asked: Duration, cost: Duration) -> Duration {
    let (woken, pause) = {
        let mut view = fleet.view();
        match answer {
            Ok(nodes) => {
                if view.outage().is_some() {
                    tracing::info!(nodes = nodes.len(), "Ironic answers again");
                }
                view.answered(cost);
                let woken = view.replace(nodes, asked);
                fleet.slots().listed(asked);
                (woken, view.pause(pace, cost, asked + cost))
            }
            Err(error) => {
                let outage = outage_of(&error, "").unwrap_or_else(|| Outage {
                    kind: OutageKind::Failing,
                    cause: error.message(),
                });
                if view.outage() != Some(&outage) {
                    tracing::warn!(cause = %outage.cause, kind = ?outage.kind, "Ironic cannot be used");
                }
                (view.fail(outage), WHILE_DOWN)
            }
        }
    };
    fleet.wake(woken);
    pause
}

#[cfg(test)]
mod tests;
