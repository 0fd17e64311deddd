//! Image URLs that Ironic rewrites: it follows redirects, normalizes URLs, and masks what looks like a password. None of that
//! makes it a different image.

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_lab::ironic::Mark;
use metal3_scenarios::{TestEnv, deployed_at_once, run, status, without_retries};
use metal3_testkit::namespace;
use serde_json::json;

use super::IRONIC;

/// Paths under which the image server has the image.
const PATHS: [&str; 14] = [
    "/redirect/301/images/tiny.img",
    "/redirect/302/images/tiny.img",
    "/redirect/307/images/tiny.img",
    "/redirect/308/images/tiny.img",
    "/relative/images/tiny.img",
    "/to-https/images/tiny.img",
    "/redirect/301/relative/redirect/307/to-https/images/tiny.img",
    "//images/tiny.img",
    "/images/../images/tiny.img",
    "/%7E/images/tiny.img",
    "/images/%74iny.img?",
    "/images/tiny.img?version=2&format=raw",
    // Anything that looks like a password is returned masked.
    "/images/tiny.img?token=abc&x=1",
    "",
];

#[test]
fn an_image_is_deployed_once_whatever_ironic_makes_of_its_url() {
    // OWN 1b: the deployment was considered one of another image, and was torn down and restarted without end.
    run(async {
        let servers = PATHS.len() + 1;
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, servers, without_retries).await;
        let mut urls: Vec<_> = PATHS.iter().map(|path| env.ironic.image_under(path)).collect();
        urls.push(
            env.ironic
                .image_under("/images/tiny.img")
                .replace("127.0.0.1", "LOCALHOST"),
        );
        let mut names = Vec::new();
        for (number, url) in urls.iter().enumerate() {
            let mut image = env.image();
            image["url"] = json!(url);
            names.push(env.apply_host(number, deployed_at_once(image)).await);
        }
        let mut rewritten = 0;
        for (name, url) in names.iter().zip(&urls) {
            let host = env.expect_state(name, ProvisioningState::Provisioned).await;
            let status = status(&host);
            assert_eq!((status.error_count, status.provisioning_fail_count), (0, 0), "{url}");
            assert_eq!(status.provisioning.image.unwrap().url, *url);
            rewritten += usize::from(env.node(name).await["instance_info"]["image_source"] != json!(url));
            // It is reconciled again, and still has work to do.
            env.patch(name, json!({"spec": {"online": false}})).await;
        }
        assert!(rewritten >= 9, "Ironic has rewritten {rewritten} only");
        for (number, (name, url)) in names.iter().zip(&urls).enumerate() {
            env.expect(name, "is off", |host| !status(host).powered_on).await;
            let machine = env.machine(number).await;
            assert_eq!((machine.deploys, machine.cleans()), (1, 0), "{url}");
            assert_eq!(work(&env, name).await, (1, 0), "{url}");
        }
    });
}

/// How often a host's node was set to deploy, and to tear down.
async fn work(env: &TestEnv, name: &str) -> (usize, usize) {
    let node = env.node(name).await["uuid"].clone();
    let (moments, _) = env.ironic.moments(Mark::default()).expect("the conductor's log");
    let states: Vec<_> = moments
        .into_iter()
        .filter(|moment| json!(moment.node) == node)
        .filter_map(|moment| moment.provision_state)
        .collect();
    let begun = |state: &str, goes_on: &str| {
        let pairs = states.iter().zip(states.iter().skip(1));
        pairs
            .filter(|(before, now)| *now == state && ![state, goes_on].contains(&before.as_str()))
            .count()
    };
    (begun("deploying", "wait call-back"), begun("deleting", "cleaning"))
}

#[test]
fn an_image_that_ironic_cannot_reach_is_told_and_held_back() {
    run(async {
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 2, without_retries).await;
        for (number, path, reason) in [
            (0, "/loop/images/tiny.img", "redirects"),
            (1, "/no-head/images/tiny.img", "HEAD"),
        ] {
            let mut image = env.image();
            image["url"] = json!(env.ironic.image_under(path));
            let name = env.apply_host(number, deployed_at_once(image)).await;
            let host = env
                .expect_waiting(&name, "BackOff", &["provisioning error", reason])
                .await;
            let seen = status(&host);
            println!("{}", seen.error_message);
            assert_eq!((seen.error_type, seen.error_count), (Some(ErrorType::Provisioning), 1));
            assert_eq!(env.machine(number).await.deploys, 0);
        }
    });
}
