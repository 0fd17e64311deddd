//! The operator's client on the simulator: TLS, credentials, pages, and requests that go wrong by rule.
#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

use std::time::Duration;

use metal3_ironic::{
    Auth, Client, ClientConfig, CreateNode, ErrorClass, PatchOp, PowerTarget, ProvisionState, Tls, Url, Verb,
};
use metal3_ironic_sim::{Action, ApiServer, Config, Credentials, Faults, Identity, Pace, Rule, Sim, Timings};
use serde_json::json;

const PASSWORD: &str = "secret-of-ironic";

struct TestEnv {
    sim: Sim,
    server: ApiServer,
    client: Client,
}

/// A simulator behind TLS that wants credentials, and a client that does not repeat calls.
async fn env(config: Config) -> TestEnv {
    rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let identity = Identity {
        certificate: own.cert.pem().into_bytes(),
        key: own.signing_key.serialize_pem().into_bytes(),
    };
    let sim = Sim::new(Config {
        credentials: Some(Credentials::new("ironic", PASSWORD)),
        ..config
    });
    let server = ApiServer::start(&sim, ([127, 0, 0, 1], 0).into(), Some(&identity))
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.crt");
    std::fs::write(&ca, own.cert.pem()).unwrap();
    let client = client(&server, PASSWORD, Some(ca)).unwrap();
    TestEnv { sim, server, client }
}

fn client(
    server: &ApiServer,
    password: &str,
    ca_file: Option<std::path::PathBuf>,
) -> Result<Client, metal3_ironic::ConfigError> {
    Client::new(ClientConfig {
        auth: Auth::Basic {
            username: "ironic".to_owned(),
            password: password.to_owned(),
        },
        tls: Tls {
            insecure: ca_file.is_none(),
            ca_file,
            ..Tls::default()
        },
        retries: 0,
        timeout: Duration::from_secs(20),
        page_limit: 2,
        ..ClientConfig::new(Url::parse(&server.url()).unwrap())
    })
}

fn node(sim: &Sim, number: u32) -> CreateNode {
    let server = sim.server(number);
    CreateNode {
        driver: "redfish".to_owned(),
        name: format!("ns~{}", server.name),
        driver_info: [
            ("redfish_address", json!(format!("http://{}", server.ip))),
            ("redfish_username", json!(server.credentials.username)),
            ("redfish_password", json!(server.credentials.password)),
        ]
        .into_iter()
        .collect(),
        ..CreateNode::default()
    }
}

fn quick(servers: u32) -> Config {
    Config {
        servers,
        timings: Timings::quick(),
        ..Config::default()
    }
}

#[tokio::test]
async fn it_is_reached_over_tls_with_credentials() {
    let env = env(quick(5)).await;
    env.client.ready().await.unwrap();
    let stranger = client(&env.server, "wrong", None).unwrap();
    assert_eq!(stranger.ready().await.unwrap_err().class(), ErrorClass::Unauthorized);
    for number in 0..5 {
        env.client.create_node(&node(&env.sim, number)).await.unwrap();
    }
    let listed = env.client.nodes().await.unwrap();
    assert_eq!(listed.len(), 5, "in pages of two");
    assert!(listed.iter().all(|node| node.provision_state == ProvisionState::Enroll));
    assert_eq!(env.sim.requests()["GET /v1/nodes"], 3);
    env.server.stop().await;
    assert_eq!(env.client.nodes().await.unwrap_err().class(), ErrorClass::Unreachable);
}

#[tokio::test]
async fn requests_go_wrong_by_rule() {
    let env = env(quick(3)).await;
    let (client, sim) = (&env.client, &env.sim);
    let once = |method: &str, path: &str, after: bool, action: Action| Rule {
        method: Some(method.to_owned()),
        path: Some(path.to_owned()),
        count: Some(1),
        after,
        action,
        ..Rule::default()
    };
    // Made, but the answer is lost: the name is taken.
    sim.add_rule(once("POST", "/v1/nodes", true, Action::Half));
    let lost = client.create_node(&node(sim, 0)).await.unwrap_err();
    assert_eq!(
        (lost.class(), lost.status()),
        (ErrorClass::Unreachable, Some(201)),
        "{lost}"
    );
    assert_eq!(
        client.create_node(&node(sim, 0)).await.unwrap_err().class(),
        ErrorClass::Duplicate
    );
    // Not even made.
    sim.add_rule(once("POST", "/v1/nodes", false, Action::Half));
    client.create_node(&node(sim, 1)).await.unwrap_err();
    client.create_node(&node(sim, 1)).await.unwrap();
    let busy = Action::Refuse {
        status: 503,
        text: "no free conductor workers".to_owned(),
        retry_after: Some(7),
    };
    sim.add_rule(once("PUT", "/v1/nodes/*/states/provision", false, busy));
    let refused = client.provision("ns~server-1", &Verb::Manage.into()).await.unwrap_err();
    assert_eq!(
        (refused.class(), refused.retry_after()),
        (ErrorClass::Busy, Some(Duration::from_secs(7)))
    );
    client.provision("ns~server-1", &Verb::Manage.into()).await.unwrap();
    assert_eq!(sim.counters(1).verifies, 1);
    assert_eq!((sim.counters(0).creates, sim.counters(1).creates), (1, 1));
}

#[tokio::test]
async fn a_locked_node_is_waited_for_and_then_refused() {
    let env = env(Config {
        pace: Pace::Times(20.0),
        ..Config::default()
    })
    .await;
    let (client, sim) = (&env.client, &env.sim);
    let id = client.create_node(&node(sim, 0)).await.unwrap().uuid;
    let slow = Faults {
        bmc_delay_ms: 400_000,
        ..Faults::default()
    };
    sim.set_faults(0, slow);
    let before = sim.now();
    client.power(&id, PowerTarget::On, None).await.unwrap();
    let refused = client
        .patch_node(&id, &[PatchOp::add("/extra/a", 1)])
        .await
        .unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Locked, "{refused}");
    assert!(
        sim.now().saturating_sub(before) >= Duration::from_secs(2),
        "three attempts, a second apart"
    );
    assert!(
        client.node(&id).await.unwrap().unwrap().reservation.is_some(),
        "reading does not wait"
    );
}
