//! A real Ironic passes the checks that the simulator passes: what the simulator is measured by is true.
#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

mod checks;

use parking_lot::Mutex;
use std::sync::Arc;

use checks::{Access, Act, TestEnv};
use futures::future::BoxFuture;
use metal3_lab::ironic::{IronicConfig, IronicLab};
use serde_json::json;

type Of<T> = BoxFuture<'static, T>;

#[tokio::test(flavor = "multi_thread")]
async fn the_real_one_is_as_the_simulator_says() {
    let lab = IronicLab::start(IronicConfig {
        hosts: 4,
        tls: false,
        ..IronicConfig::default()
    });
    let lab = Arc::new(lab.await.unwrap());
    let on = |act: fn(Arc<IronicLab>, usize) -> Of<()>| -> Act<()> {
        let lab = lab.clone();
        Box::new(move |number| act(lab.clone(), number))
    };
    let user = lab.credentials().unwrap();
    let image = lab.image().unwrap();
    let drives = lab.clone();
    let env = TestEnv {
        wrong: Mutex::default(),
        http: reqwest::Client::builder().no_proxy().build().unwrap(),
        url: lab.endpoint(),
        user: (user.username.clone(), user.password.clone()),
        servers: lab
            .hosts()
            .iter()
            .map(|host| Access {
                address: host.bmc_url(),
                system: host.system_id(),
                username: host.credentials.username.clone(),
                password: host.credentials.password.clone(),
                mac: host.boot_mac().to_owned(),
            })
            .collect(),
        ramdisk: lab.ramdisk_iso_url(),
        image: (image.url, image.sha256),
        silence: on(|lab, number| {
            Box::pin(async move {
                lab.set_agent_faults(&lab.hosts()[number], &json!({"never": "boot"}))
                    .await
                    .unwrap();
            })
        }),
        slow: on(|lab, number| {
            Box::pin(async move {
                lab.set_bmc_faults(&lab.hosts()[number], &json!({"delay": 5}))
                    .await
                    .unwrap();
            })
        }),
        refuse: on(|lab, number| {
            Box::pin(async move {
                lab.set_bmc_faults(&lab.hosts()[number], &json!({"settings_refused": true}))
                    .await
                    .unwrap();
            })
        }),
        revert: on(|lab, number| {
            Box::pin(async move {
                lab.set_bmc_faults(&lab.hosts()[number], &json!({"settings_reverted": true}))
                    .await
                    .unwrap();
            })
        }),
        heal: on(|lab, number| {
            Box::pin(async move {
                let host = &lab.hosts()[number];
                lab.set_bmc_faults(host, &json!({})).await.unwrap();
                lab.set_agent_faults(host, &json!({})).await.unwrap();
            })
        }),
        user_data: Box::new(move |number| {
            let lab = drives.clone();
            Box::pin(async move {
                let machine = lab.machine(&lab.hosts()[number]).await.unwrap();
                machine.deployments.last()?.config_drive.as_ref()?.user_data.clone()
            })
        }),
    };
    checks::all(&env).await;
    drop(env);
    if let Ok(lab) = Arc::try_unwrap(lab) {
        lab.stop().await;
    }
}
