//! Ironic is down for long, and comes back with a certificate of another CA; or with another password.

use std::env::VarError;
use std::path::Path;
use std::time::{Duration, Instant};

use metal3_api::metal3::{BareMetalHost, ErrorType, ProvisioningState};
use metal3_lab::ironic::{Credentials, IronicConfig, Timeouts};
use metal3_scenarios::{
    LIMIT, TestEnv, at_once, deployed_at_once, id, is_at_rest, power_compared_often, run, state, status, version, waits,
};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

/// How long Ironic is away, in seconds, instead of the usual time.
const SECONDS: &str = "METAL3_TEST_OUTAGE_SECONDS";

/// The length of an outage, and what has to fit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    /// Twenty units of the scenarios' back-off, which last twenty minutes with the default unit.
    Scaled,
    /// As long as this, with the back-off and the time-outs that users have.
    Real(Duration),
}

impl Outage {
    /// As the environment asks for.
    fn asked_for() -> Self {
        match std::env::var(SECONDS) {
            Ok(text) => Self::read(&text).unwrap_or_else(|why| panic!("{SECONDS}: {why}")),
            Err(VarError::NotPresent) => Self::Scaled,
            Err(error) => panic!("{SECONDS}: {error}"),
        }
    }

    /// Long enough for a first backoff, and too short for a registration to become overdue, which would be reported.
    fn read(text: &str) -> Result<Self, String> {
        let seconds: u64 = text.parse().map_err(|_| format!("{text:?} is no number of seconds"))?;
        if (300..=840).contains(&seconds) {
            Ok(Self::Real(Duration::from_secs(seconds)))
        } else {
            Err(format!("{seconds} is not between 300 and 840 seconds"))
        }
    }

    fn length(self) -> Duration {
        match self {
            Self::Scaled => Duration::from_secs(40),
            Self::Real(length) => length,
        }
    }

    fn timeouts(self) -> Timeouts {
        let usual = Timeouts {
            power_sync_interval: Duration::from_secs(15),
            ..Timeouts::default()
        };
        match self {
            Self::Scaled => usual,
            // Ironic's own default.
            Self::Real(_) => Timeouts {
                callback: Duration::from_secs(1800),
                ..usual
            },
        }
    }

    /// Changes the operator's settings.
    fn set(self, args: &mut Vec<String>) {
        match self {
            Self::Scaled => {}
            Self::Real(_) => args.retain(|flag| !flag.starts_with("--retry-base-seconds")),
        }
    }
}

#[test]
fn the_length_of_an_outage_is_read_or_refused() {
    assert_eq!(Outage::read("600"), Ok(Outage::Real(Duration::from_secs(600))));
    for (text, why) in [
        ("", "no number"),
        ("10m", "no number"),
        ("-600", "no number"),
        ("40", "between"),
        ("3600", "between"),
    ] {
        assert!(Outage::read(text).unwrap_err().contains(why), "{text}");
    }
}

/// Replaces a file atomically, as the kubelet does for a mounted Secret.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// What an outage must not change.
fn standing(host: &BareMetalHost) -> (ProvisioningState, Option<ErrorType>, i32, i32, bool, String) {
    let status = status(host);
    (
        state(host),
        status.error_type,
        status.error_count,
        status.provisioning_fail_count,
        status.powered_on,
        id(host),
    )
}

async fn expect_writing(env: &TestEnv, number: usize) {
    eventually(LIMIT, "the image is being written", || async {
        let begun = env.machine(number).await.counters.deploy_steps;
        begun.get("write_image").map_or(Err(format!("{begun:?}")), |_| Ok(()))
    })
    .await;
}

#[test]
fn a_long_outage_counts_as_nobodys_failure_and_a_new_certificate_is_taken_up() {
    run(async {
        let outage = Outage::asked_for();
        let config = IronicConfig {
            hosts: 5,
            timeouts: outage.timeouts(),
            ..IronicConfig::default()
        };
        let mut env = TestEnv::without_operator(namespace!().await, config).await;
        let ca = env.ironic.folder().join("ca-of-the-operator.crt");
        replace(&ca, &std::fs::read_to_string(env.ironic.ca_file().unwrap()).unwrap());
        env.config.args.push(format!("--ironic-cacert-file={}", ca.display()));
        outage.set(&mut env.config.args);
        env.start_operator().await;

        let [provisioned, available, deploying, unregistered, late] = std::array::from_fn(|number| number);
        env.agent(deploying, json!({"hangs_in_step": "write_image"})).await;
        env.apply_credentials(unregistered, &Credentials::new("admin", "letmein"))
            .await;
        let mut names = vec![
            env.apply_host(provisioned, deployed_at_once(env.image())).await,
            env.apply_host(available, at_once).await,
            env.apply_host(deploying, deployed_at_once(env.image())).await,
            env.apply_bare(unregistered, at_once).await,
        ];
        env.expect(&names[provisioned], "is provisioned and at rest", |host| {
            state(host) == ProvisioningState::Provisioned && is_at_rest(host)
        })
        .await;
        env.expect(&names[available], "is available and at rest", |host| {
            state(host) == ProvisioningState::Available && is_at_rest(host)
        })
        .await;
        expect_writing(&env, deploying).await;
        env.expect_waiting(&names[unregistered], "BackOff", &["registration error"])
            .await;

        env.ironic.kill_ironic();
        let cut_off = Instant::now();
        env.expect_waiting(&names[deploying], "IronicUnreachable", &["refused"])
            .await;
        names.push(env.apply_host(late, at_once).await);
        env.expect_waiting(&names[late], "IronicUnreachable", &["refused"])
            .await;
        // Its backoff ends while Ironic is down.
        env.expect_waiting(&names[unregistered], "IronicUnreachable", &["refused"])
            .await;
        let mut before = Vec::new();
        for name in &names {
            before.push(env.host(name).await);
        }
        let left = outage.length().saturating_sub(cut_off.elapsed());
        println!("{outage:?}: everybody has said so, and nothing is to happen in the {left:.0?} that are left");
        tokio::time::sleep(left).await; // nothing is to happen, which nothing announces
        for (name, before) in names.iter().zip(&before) {
            let after = env.host(name).await;
            assert_eq!(standing(&after), standing(before), "{name}");
            // Reported once, with no further writes.
            assert_eq!(version(&after), version(before), "{name}: {:?}", status(&after));
        }

        let new_ca = env.ironic.exchange_authority(&[]).unwrap();
        env.ironic.start_ironic().await.unwrap();
        let host = env
            .expect_waiting(&names[late], "IronicUnreachable", &["certificate"])
            .await;
        println!("{}", waits(&host, "IronicUnreachable").unwrap());
        replace(&ca, &new_ca);
        let start = Instant::now();
        env.expect_state(&names[late], ProvisioningState::Available).await;
        println!("enrolled and available {:?} after the new CA file", start.elapsed());
        env.agent(deploying, json!({})).await;
        let right = env.server(unregistered).credentials.clone();
        env.apply_credentials(unregistered, &right).await;
        env.expect_state(&names[unregistered], ProvisioningState::Available)
            .await;
        env.expect_state(&names[deploying], ProvisioningState::Provisioned)
            .await;
        for number in [provisioned, available] {
            let (before, after) = (&before[number], env.host(&names[number]).await);
            assert_eq!(
                version(before),
                version(&after),
                "at rest throughout: {:?}",
                status(&after)
            );
        }
        let mut deploys = Vec::new();
        for number in 0..names.len() {
            deploys.push(env.machine(number).await.deploys);
        }
        assert_eq!(deploys, [1, 0, 1, 0, 0]);
        assert_eq!(env.nodes().await.len(), 5);
    });
}

#[test]
fn credentials_that_are_exchanged_are_taken_up_without_a_restart() {
    run(async {
        let config = power_compared_often(3);
        let env = TestEnv::start(namespace!().await, config).await;
        let [resting, deploying, late] = std::array::from_fn(|number| number);
        env.agent(deploying, json!({"hangs_in_step": "write_image"})).await;
        let mut names = vec![
            env.apply_host(resting, deployed_at_once(env.image())).await,
            env.apply_host(deploying, deployed_at_once(env.image())).await,
        ];
        let is_resting = |host: &BareMetalHost| state(host) == ProvisioningState::Provisioned && is_at_rest(host);
        let before = env
            .expect(&names[resting], "is provisioned and at rest", is_resting)
            .await;
        expect_writing(&env, deploying).await;

        // Ironic's first.
        let files = env.config.credentials();
        let user = Credentials::new("ironic", "second-secret-of-ironic");
        env.ironic.exchange_credentials(user.clone()).await.unwrap();
        names.push(env.apply_host(late, at_once).await);
        for number in [deploying, late] {
            let words = ["Ironic refuses the operator's credentials", "goes on by itself"];
            let host = env.expect_waiting(&names[number], "IronicUnauthorized", &words).await;
            assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
        }
        replace(&files.join("password"), &user.password);
        let start = Instant::now();
        env.expect_state(&names[late], ProvisioningState::Available).await;
        println!(
            "enrolled and available {:?} after the new password file",
            start.elapsed()
        );
        env.agent(deploying, json!({})).await;
        env.expect_state(&names[deploying], ProvisioningState::Provisioned)
            .await;
        let after = env.host(&names[resting]).await;
        assert_eq!(
            version(&before),
            version(&after),
            "at rest throughout: {:?}",
            status(&after)
        );

        // Ours first, and the user has another name.
        let user = Credentials::new("metal3", "third-secret-of-ironic");
        replace(&files.join("username"), &user.username);
        replace(&files.join("password"), &user.password);
        env.ironic.exchange_credentials(user).await.unwrap();
        env.patch(&names[resting], json!({"spec": {"online": false}})).await;
        let host = env
            .expect(&names[resting], "is off", |host| !status(host).powered_on)
            .await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
        let mut deploys = Vec::new();
        for number in 0..names.len() {
            deploys.push(env.machine(number).await.deploys);
        }
        assert_eq!(deploys, [1, 1, 0]);
        assert!(!env.operator_log().contains("secret-of-ironic"));
    });
}
