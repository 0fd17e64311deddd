//! Checksums: in the spec, as passed to Ironic, and as compared by the agent.

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_scenarios::{TestEnv, deployed_at_once, description, run, status, without_retries};
use metal3_testkit::namespace;
use serde_json::json;

use super::IRONIC;

#[test]
fn every_kind_of_checksum_reaches_the_agent_as_it_was_meant() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 7).await;
        let image = env.ironic.image().unwrap();
        let file = format!("{}.sha256sum", image.url);
        let typed = |kind: &str, value: &str| json!({"image_os_hash_algo": kind, "image_os_hash_value": value});
        let detected = |value: &str| json!({"image_checksum": value});
        // The value in the spec, the value passed to Ironic, and the digest that the agent computes.
        let cases = [
            (Some("md5"), &image.md5, typed("md5", &image.md5), &image.md5),
            (
                Some("sha256"),
                &image.sha256,
                typed("sha256", &image.sha256),
                &image.sha256,
            ),
            (
                Some("sha512"),
                &image.sha512,
                typed("sha512", &image.sha512),
                &image.sha512,
            ),
            (Some("auto"), &image.sha512, detected(&image.sha512), &image.sha512),
            (None, &image.sha256, detected(&image.sha256), &image.sha256),
            (Some("sha256"), &file, typed("sha256", &file), &image.sha256),
            (None, &file, detected(&file), &image.sha256),
        ];
        let mut names = Vec::new();
        for (number, (kind, checksum, ..)) in cases.iter().enumerate() {
            let mut wanted = json!({"url": image.url, "checksum": checksum, "format": "raw"});
            if let Some(kind) = kind {
                wanted["checksumType"] = json!(kind);
            }
            names.push(env.apply_host(number, deployed_at_once(wanted)).await);
        }
        for (number, (kind, checksum, told, digest)) in cases.into_iter().enumerate() {
            let what = format!("checksum {checksum} of type {kind:?}");
            let host = env.expect_state(&names[number], ProvisioningState::Provisioned).await;
            assert_eq!(status(&host).error_count, 0, "{what}");
            let mut expected = json!({
                "image_source": image.url, "image_disk_format": "raw",
                "capabilities": {}, "root_device": {"name": "s== /dev/sda"},
            });
            for (key, value) in told.as_object().unwrap() {
                expected[key] = value.clone();
            }
            assert_eq!(description(&env.node(&names[number]).await), expected, "{what}");
            let machine = env.machine(number).await;
            let found: Vec<_> = machine.deployments.iter().map(|d| &d.image_digest).collect();
            assert_eq!(found, [digest], "{what}");
            assert_eq!((machine.inspections(), machine.cleans()), (0, 0), "{what}");
        }
    });
}

#[test]
fn a_wrong_checksum_is_told_and_its_correction_deployed() {
    run(async {
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 1, without_retries).await;
        let mut image = env.image();
        let right = image["checksum"].clone();
        image["checksum"] = json!("0".repeat(64));
        let name = env.apply_host(0, deployed_at_once(image)).await;
        let host = env.expect_waiting(&name, "BackOff", &["provisioning error"]).await;
        let seen = status(&host);
        println!("{}", seen.error_message);
        assert_eq!((seen.error_type, seen.error_count), (Some(ErrorType::Provisioning), 1));
        // Ironic loses the agent's message if it powers the server off afterwards.
        let words = &seen.error_message;
        assert!(
            words.contains("Error verifying image checksum") || words.contains("Ironic gives no reason"),
            "{words}"
        );
        env.expect_event(&name, "ProvisioningError", words).await;
        assert_eq!(env.machine(0).await.deploys, 0);

        // Only the image's checksum changes, which would not affect a provisioned host.
        env.patch(&name, json!({"spec": {"image": {"checksum": right}}})).await;
        let host = env.expect_state(&name, ProvisioningState::Provisioned).await;
        let seen = status(&host);
        assert_eq!((seen.error_type, seen.provisioning_fail_count), (None, 0));
        let machine = env.machine(0).await;
        assert_eq!((machine.deploys, machine.counters.deploy_steps["write_image"]), (1, 2));
    });
}
