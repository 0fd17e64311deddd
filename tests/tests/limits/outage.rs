//! Ironic is away for long, and comes back with a certificate of another authority.

use std::path::Path;
use std::time::{Duration, Instant};

use metal3_api::metal3::{BareMetalHost, ErrorType, ProvisioningState};
use metal3_lab::ironic::{AgentFaults, Credentials, IronicConfig, Timeouts};
use metal3_scenarios::{LIMIT, Site, at_once, deployed_at_once, id, is_at_rest, run, state, status, version, waits};
use metal3_testkit::{eventually, namespace};

/// As long as some twenty units of the scenario's back-off, which last twenty minutes with the default unit.
const AWAY: Duration = Duration::from_secs(40);

/// Replaces a file at once, as the kubelet replaces what a Secret is mounted as.
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

#[test]
fn a_long_outage_counts_as_nobodys_failure_and_a_new_certificate_is_taken_up() {
    run(async {
        let config = IronicConfig {
            hosts: 5,
            timeouts: Timeouts {
                power_sync_interval: Duration::from_secs(15),
                ..Timeouts::default()
            },
            ..IronicConfig::default()
        };
        let mut site = Site::without_operator(namespace!().await, config).await;
        let ca = site.ironic.folder().join("ca-of-the-operator.crt");
        replace(&ca, &std::fs::read_to_string(site.ironic.ca_file().unwrap()).unwrap());
        site.config.args.push(format!("--ironic-cacert-file={}", ca.display()));
        site.start_operator().await;

        let [provisioned, available, deploying, unregistered, late] = std::array::from_fn(|number| number);
        let hangs_in_step = Some("write_image".to_owned());
        let faults = AgentFaults {
            hangs_in_step,
            ..AgentFaults::default()
        };
        site.agent(deploying, faults).await;
        site.apply_credentials(unregistered, &Credentials::new("admin", "letmein"))
            .await;
        let mut names = vec![
            site.apply_host(provisioned, deployed_at_once(site.image())).await,
            site.apply_host(available, at_once).await,
            site.apply_host(deploying, deployed_at_once(site.image())).await,
            site.apply_bare(unregistered, at_once).await,
        ];
        site.expect(&names[provisioned], "is provisioned and at rest", |host| {
            state(host) == ProvisioningState::Provisioned && is_at_rest(host)
        })
        .await;
        site.expect(&names[available], "is available and at rest", |host| {
            state(host) == ProvisioningState::Available && is_at_rest(host)
        })
        .await;
        eventually(LIMIT, "the image is being written", || async {
            let begun = site.machine(deploying).await.counters.deploy_steps;
            begun.get("write_image").map_or(Err(format!("{begun:?}")), |_| Ok(()))
        })
        .await;
        site.expect_waiting(&names[unregistered], "BackOff", &["registration error"])
            .await;

        site.ironic.kill_ironic();
        let cut_off = Instant::now();
        site.expect_waiting(&names[deploying], "IronicUnreachable", &["refused"])
            .await;
        names.push(site.apply_host(late, at_once).await);
        site.expect_waiting(&names[late], "IronicUnreachable", &["refused"])
            .await;
        // Its back-off passes, and then there is nobody to try it with.
        site.expect_waiting(&names[unregistered], "IronicUnreachable", &["refused"])
            .await;
        let mut before = Vec::new();
        for name in &names {
            before.push(site.host(name).await);
        }
        tokio::time::sleep(AWAY.saturating_sub(cut_off.elapsed())).await; // nothing is to happen, which nothing announces
        for (name, before) in names.iter().zip(&before) {
            let after = site.host(name).await;
            assert_eq!(standing(&after), standing(before), "{name}");
            // Said once, and then nothing is written.
            assert_eq!(version(&after), version(before), "{name}: {:?}", status(&after));
        }

        let new_ca = site.ironic.exchange_authority(&[]).unwrap();
        site.ironic.start_ironic().await.unwrap();
        let host = site
            .expect_waiting(&names[late], "IronicUnreachable", &["certificate"])
            .await;
        println!("{}", waits(&host, "IronicUnreachable").unwrap());
        replace(&ca, &new_ca);
        let start = Instant::now();
        site.expect_state(&names[late], ProvisioningState::Available).await;
        println!("enrolled and available {:?} after the new CA file", start.elapsed());
        site.agent(deploying, AgentFaults::default()).await;
        let right = site.server(unregistered).credentials.clone();
        site.apply_credentials(unregistered, &right).await;
        site.expect_state(&names[unregistered], ProvisioningState::Available)
            .await;
        site.expect_state(&names[deploying], ProvisioningState::Provisioned)
            .await;
        for number in [provisioned, available] {
            let (before, after) = (&before[number], site.host(&names[number]).await);
            assert_eq!(
                version(before),
                version(&after),
                "at rest throughout: {:?}",
                status(&after)
            );
        }
        let mut deploys = Vec::new();
        for number in 0..names.len() {
            deploys.push(site.machine(number).await.deploys);
        }
        assert_eq!(deploys, [1, 0, 1, 0, 0]);
        assert_eq!(site.nodes().await.len(), 5);
    });
}
