//! The task that lists, on a simulated Ironic.

use std::future::Future;

use metal3_ironic::{ClientConfig, Url};
use metal3_ironic_sim::{ApiServer, Config, Sim};
use metal3_runtime::metrics::{Build, Catalogue, Registry};
use metal3_runtime::store::ObjectKey;
use serde_json::json;

use super::*;
use crate::metrics::IronicDown;

const NODES: u32 = 100;
/// Until the second list of all nodes: longer than everything here together.
const LONG: Duration = Duration::from_secs(300);
const LIMIT: Duration = Duration::from_secs(60);

async fn in_time<T>(what: &str, comes: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, comes)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"))
}

fn lists(sim: &Sim) -> u64 {
    sim.requests().get("GET /v1/nodes").copied().unwrap_or_default()
}

#[tokio::test]
async fn who_waits_hears_of_its_node_long_before_the_next_list_of_all() {
    let sim = Sim::new(Config::default());
    let api = ApiServer::start(&sim, ([127, 0, 0, 1], 0).into(), None).await.unwrap();
    for number in 0..NODES {
        let node = json!({"driver": "redfish", "name": format!("ns~h{number}")});
        assert_eq!(sim.call("POST", "/v1/nodes", 95, node).0, 201);
    }
    let link = Link::to(Client::new(ClientConfig::new(Url::parse(&api.url()).unwrap())).unwrap());
    let pace = Pace {
        fast: Duration::from_millis(20),
        slow: LONG,
        longest: LONG,
        // A pause of five minutes after a list of all of them, of three seconds after one of two.
        per_node: Duration::from_millis(50),
        fast_factor: 30,
        recent: 0,
        ..Pace::default()
    };
    let (fleet, mut woken) = Fleet::new(1);
    let key = |number: u32| ObjectKey {
        namespace: "ns".to_owned(),
        name: format!("h{number}"),
    };
    fleet.set_waiting(&key(7), true, Duration::ZERO);
    let stop = CancellationToken::new();
    let task = run(fleet.clone(), link, pace, Clock::system(), stop.clone());
    let test = async {
        in_time("all are listed", async {
            for _ in 0..NODES {
                woken.recv().await.unwrap();
            }
        })
        .await;
        let before = lists(&sim);
        in_time("some are listed", async {
            while lists(&sim) == before {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        sim.call("PUT", "/v1/nodes/ns~h7/maintenance", 95, json!({"reason": "a change"}));
        assert_eq!(in_time("it is woken", woken.recv()).await, Some(key(7)));
        stop.cancel();
    };
    tokio::join!(task, test);
}

// OWN 31zb: while all hosts rested, only the log told that Ironic was down.
#[tokio::test]
async fn an_outage_is_told_while_no_host_waits() {
    let sim = Sim::new(Config::default());
    let api = ApiServer::start(&sim, ([127, 0, 0, 1], 0).into(), None).await.unwrap();
    // Nobody listens there.
    let [down, up] = ["http://127.0.0.1:1", &api.url()].map(|url| ClientConfig::new(Url::parse(url).unwrap()));
    let link = Link::to(Client::new(down).unwrap());
    let registry = Registry::new(Build {
        component: "test",
        version: "1",
    });
    let (fleet, _woken) = Fleet::new(1);
    IronicDown::register(&mut Catalogue::new(&registry), fleet.clone());
    let exposed = || registry.text().unwrap();
    let is = |kind: &str, down: u8| exposed().contains(&format!("metal3_ironic_down{{kind=\"{kind}\"}} {down}\n"));
    assert!(!exposed().contains("metal3_ironic_down{"), "nothing is known yet");
    let stop = CancellationToken::new();
    let task = run(
        fleet.clone(),
        link.clone(),
        Pace::default(),
        Clock::system(),
        stop.clone(),
    );
    let test = async {
        in_time("the outage is told", async {
            while !is("unreachable", 1) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert!(
            ["absent", "unauthorized", "failing"]
                .into_iter()
                .all(|kind| is(kind, 0))
        );
        link.set(Client::new(up).unwrap());
        in_time("its end is told", async {
            while !is("unreachable", 0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        assert!(OutageKind::ALL.into_iter().all(|kind| is(kind.label(), 0)));
        stop.cancel();
    };
    tokio::join!(task, test);
}
