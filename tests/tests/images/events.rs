//! Events of a real Ironic's BMC: a BMCEventSubscription becomes a subscription of the BMC, which delivers its events
//! until the object is deleted.

use std::net::SocketAddr;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use metal3_api::metal3::{BMCEventSubscription, ProvisioningState};
use metal3_scenarios::{LIMIT, TestEnv, run};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::IRONIC;

/// How long a slow BMC takes to answer each request, in seconds: longer than the operator's end.
const SLOW: u32 = 2;

/// An event as it arrived: the header of our Secret, and the body.
type Event = (Option<String>, Value);

/// The destination of events, until the test ends.
async fn listen() -> (SocketAddr, UnboundedReceiver<Event>, JoinSet<()>) {
    async fn take(State(events): State<UnboundedSender<Event>>, headers: HeaderMap, Json(body): Json<Value>) {
        let header = headers.get("X-Receiver").and_then(|value| value.to_str().ok());
        // Nobody may be interested any more.
        let _ = events.send((header.map(str::to_owned), body));
    }
    let (events, received) = unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    let app = Router::new().route("/events", post(take)).with_state(events);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await.expect("it serves until it is dropped") });
    (address, received, tasks)
}

/// Waits for the event with this message.
async fn expect_event(events: &mut UnboundedReceiver<Event>, message: &str) -> Event {
    let wait = async {
        loop {
            let event = events.recv().await.expect("the listener runs");
            if event.1["Events"][0]["Message"] == message {
                return event;
            }
        }
    };
    timeout(LIMIT, wait).await.expect("the BMC delivers the event")
}

/// How many requests of this method the BMC has been sent that make or end subscriptions.
async fn asked(env: &TestEnv, method: &str) -> u64 {
    let requests = env.machine(0).await.counters.bmc_requests;
    let those = requests
        .iter()
        .filter(|(request, _)| request.starts_with(method) && request.contains("/Subscriptions"));
    those.map(|(_, count)| count).sum()
}

/// Waits until there are more of them. The BMC counts a request before it does what it says.
async fn expect_asked(env: &TestEnv, method: &str, before: u64) {
    eventually(LIMIT, &format!("the BMC gets a {method}"), || async {
        let now = asked(env, method).await;
        if now > before { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
}

/// Waits until the object tells that the BMC has refused a request. Its subscription stays this one.
async fn expect_refused(subscriptions: &Api<BMCEventSubscription>, id: &str) {
    eventually(LIMIT, "the refusal is told", || async {
        let found = subscriptions.get("events").await.map_err(|error| error.to_string())?;
        let status = found.status.clone().unwrap_or_default();
        let is_told = status.subscription_id == id && status.error.contains("400");
        if is_told { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

#[test]
fn the_bmc_delivers_events_until_the_object_is_deleted() {
    run(async {
        let (address, mut events, _serving) = listen().await;
        let mut env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, |_| {}).await;
        env.apply_secret("headers", &[("X-Receiver", "test")]).await;
        let object = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BMCEventSubscription", "metadata": {"name": "events"},
            "spec": {"hostName": name, "destination": format!("http://{address}/events"), "context": "a",
                "httpHeadersRef": {"namespace": env.namespace.name, "name": "headers"}},
        });
        // The BMC refuses it at first: the object says so, and it is tried again by itself.
        env.bmc(0, json!({"subscriptions_refused": true})).await;
        env.namespace.apply(&object.to_string()).await;
        let subscriptions = env.namespace.api::<BMCEventSubscription>();
        expect_refused(&subscriptions, "").await;
        assert_eq!(env.machine(0).await.event_subscriptions, 0);
        // The operator dies while the BMC makes it: nobody hears its identifier.
        let refused = asked(&env, "POST").await;
        env.bmc(0, json!({"delay": SLOW})).await;
        expect_asked(&env, "POST", refused).await;
        env.kill_operator();
        env.bmc(0, json!({})).await;
        env.start_operator().await;
        let made = eventually(LIMIT, "the subscription is made", || async {
            let found = subscriptions.get("events").await.map_err(|error| error.to_string())?;
            let status = found.status.clone().unwrap_or_default();
            let is_made = !status.subscription_id.is_empty() && status.error.is_empty();
            if is_made && !found.finalizers().is_empty() {
                Ok(status.subscription_id)
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        env.expect_state(&name, ProvisioningState::Available).await;
        let machine = env.machine(0).await;
        assert_eq!(machine.event_subscriptions, 1, "it is made once");
        let change = if machine.is_on { "off" } else { "on" };
        env.patch(&name, json!({"spec": {"online": !machine.is_on}})).await;
        let (header, event) = expect_event(&mut events, &format!("The server is {change}")).await;
        assert_eq!(header.as_deref(), Some("test"), "the header of the Secret");
        assert_eq!(event["Context"], "a");
        let origin = &event["Events"][0]["OriginOfCondition"]["@odata.id"];
        assert_eq!(*origin, format!("/redfish/v1/Systems/{}", machine.uuid));

        // The BMC does not end it at first: the object says so, stays, and it is tried again by itself.
        env.bmc(0, json!({"subscriptions_stay": true})).await;
        let deleted = subscriptions.delete("events", &DeleteParams::default()).await;
        deleted.expect("it is deleted");
        expect_refused(&subscriptions, &made).await;
        assert_eq!(env.machine(0).await.event_subscriptions, 1);
        // The operator dies while the BMC ends it.
        let refused = asked(&env, "DELETE").await;
        env.bmc(0, json!({"delay": SLOW})).await;
        expect_asked(&env, "DELETE", refused).await;
        env.kill_operator();
        env.bmc(0, json!({})).await;
        env.start_operator().await;
        eventually(LIMIT, "the subscription is gone", || async {
            let found = subscriptions
                .get_opt("events")
                .await
                .map_err(|error| error.to_string())?;
            found.map_or(Ok(()), |found| Err(format!("{found:?}")))
        })
        .await;
        assert_eq!(env.machine(0).await.event_subscriptions, 0);
    });
}
