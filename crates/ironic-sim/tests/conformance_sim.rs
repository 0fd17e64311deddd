//! The simulator passes the checks that a real Ironic passes.
#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

mod checks;

use parking_lot::Mutex;

use checks::{Access, TestEnv};
use metal3_ironic_sim::{ApiServer, Config, Credentials, Faults, Pace, Sim};

/// Ten simulated seconds a second: what is to be seen in between lasts long enough on any machine.
const TIMES: f64 = 10.0;

#[tokio::test(flavor = "multi_thread")]
async fn the_simulator_is_an_ironic() {
    // It fails if there is one, which is as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    let sim = Sim::new(Config {
        servers: 4,
        credentials: Some(Credentials::new("ironic", "secret")),
        pace: Pace::Times(TIMES),
        ..Config::default()
    });
    let server = ApiServer::start(&sim, "127.0.0.1:0".parse().unwrap(), None)
        .await
        .unwrap();
    let servers = (0..4).map(|number| {
        let server = sim.server(number);
        Access {
            address: format!("http://{}", server.ip),
            system: "/redfish/v1/Systems/1".to_owned(),
            username: server.credentials.username,
            password: server.credentials.password,
            mac: server.macs[0].clone(),
        }
    });
    let faulty = |faults: Faults| -> checks::Act<()> {
        let sim = sim.clone();
        Box::new(move |number| {
            let (sim, faults) = (sim.clone(), faults.clone());
            Box::pin(async move { sim.set_faults(u32::try_from(number).unwrap(), faults) })
        })
    };
    let drives = sim.clone();
    let env = TestEnv {
        wrong: Mutex::default(),
        http: reqwest::Client::builder().no_proxy().build().unwrap(),
        url: server.url(),
        user: ("ironic".to_owned(), "secret".to_owned()),
        servers: servers.collect(),
        ramdisk: "http://images/ipa.iso".to_owned(),
        image: ("http://server/images/tiny.img".to_owned(), "ab".repeat(32)),
        silence: faulty(Faults {
            agent_dead: true,
            ..Faults::default()
        }),
        slow: faulty(Faults {
            bmc_delay_ms: 100_000,
            ..Faults::default()
        }),
        refuse: faulty(Faults {
            service_error: Some("the BMC refuses it".to_owned()),
            ..Faults::default()
        }),
        revert: faulty(Faults {
            settings_reverted: true,
            ..Faults::default()
        }),
        heal: faulty(Faults::default()),
        user_data: Box::new(move |number| {
            let drive = drives.config_drive(u32::try_from(number).unwrap());
            Box::pin(async move { Some(drive?["user_data"].as_str()?.to_owned()) })
        }),
    };
    checks::all(&env).await;
    server.stop().await;
}
