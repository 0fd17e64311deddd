//! Deployments other than a disk image: a live ISO, and the custom steps of a site's own ramdisk.

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_scenarios::{TestEnv, at_once, description, run, status, without_retries};
use metal3_testkit::namespace;
use serde_json::{Value, json};

use super::{IRONIC, STEP};

#[test]
fn a_live_iso_is_booted_and_an_image_can_follow_it() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let iso = env.ironic.ramdisk_iso_url();
        let change = |host: &mut Value| {
            at_once(host);
            host["spec"]["image"] = json!({"url": iso, "format": "live-iso"});
            // Nothing would read it, so the host does not wait for it.
            host["spec"]["userData"] = json!({"name": "not-there"});
        };
        let name = env.apply_host(0, change).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        let node = env.node(&name).await;
        assert_eq!(node["deploy_interface"], "ramdisk");
        let expected = json!({"boot_iso": iso, "capabilities": {}, "root_device": {"name": "s== /dev/sda"}});
        assert_eq!(description(&node), expected);
        assert_eq!(node["instance_info"]["configdrive"], json!(null));
        let machine = env.expect_machine(0, 0, true, true).await;
        assert!(!machine.counters.deploy_steps.contains_key("write_image"));

        let change = json!({"spec": {"image": env.image(), "userData": null}});
        env.patch(&name, change).await;
        let host = env
            .expect(&name, "has the image on its disk", |host| {
                let provisioning = status(host).provisioning;
                provisioning.state == ProvisioningState::Provisioned
                    && provisioning.image.is_some_and(|image| image.url != iso)
            })
            .await;
        assert_eq!(status(&host).error_count, 0);
        let node = env.node(&name).await;
        assert_ne!(node["deploy_interface"], "ramdisk");
        let described = description(&node);
        assert_eq!(described["image_source"], env.image()["url"]);
        assert_eq!(described.get("boot_iso"), None);
        env.expect_machine(0, 1, true, false).await;
    });
}

#[test]
fn a_custom_deploy_runs_its_step_with_and_without_an_image() {
    run(async {
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 3, without_retries).await;
        let (with_image, without_image, mistyped) = (0, 1, 2);
        let custom = |method: &str, image: Option<Value>| {
            let method = method.to_owned();
            move |host: &mut Value| {
                at_once(host);
                host["spec"]["customDeploy"] = json!({"method": method});
                if let Some(image) = image {
                    host["spec"]["image"] = image;
                }
            }
        };
        let names = [
            env.apply_host(with_image, custom(STEP, Some(env.image()))).await,
            env.apply_host(without_image, custom(STEP, None)).await,
            env.apply_host(mistyped, custom("install_from_sight", None)).await,
        ];
        let host = env
            .expect_waiting(&names[mistyped], "BackOff", &["provisioning error"])
            .await;
        let seen = status(&host);
        println!("{}", seen.error_message);
        assert_eq!(seen.error_type, Some(ErrorType::Provisioning));
        let begin = "Custom deploy install_from_sight failed";
        assert!(seen.error_message.starts_with(begin), "{}", seen.error_message);
        let change = json!({"spec": {"customDeploy": {"method": STEP}}});
        env.patch(&names[mistyped], change).await;

        let image = env.image();
        let plain = json!({"capabilities": {}, "root_device": {"name": "s== /dev/sda"}, "metal3_deploy_method": STEP});
        let mut with = plain.clone();
        with["image_source"] = image["url"].clone();
        with["image_disk_format"] = json!("raw");
        with["image_os_hash_algo"] = json!("sha256");
        with["image_os_hash_value"] = image["checksum"].clone();
        for (number, expected) in [(with_image, with), (without_image, plain.clone()), (mistyped, plain)] {
            let name = &names[number];
            let host = env.expect_state(name, ProvisioningState::Provisioned).await;
            let deployed = status(&host).provisioning;
            assert_eq!(
                deployed.custom_deploy.map(|custom| custom.method).as_deref(),
                Some(STEP)
            );
            assert_eq!(
                deployed.image.is_some_and(|image| !image.url.is_empty()),
                number == with_image
            );
            let node = env.node(name).await;
            assert_eq!(node["deploy_interface"], "custom-agent", "{name}");
            assert_eq!(description(&node), expected, "{name}");
            let machine = env.machine(number).await;
            let steps = &machine.counters.deploy_steps;
            assert_eq!(
                (steps.get(STEP), steps.get("write_image")),
                (Some(&1), None),
                "{name}: {steps:?}"
            );
            assert!(machine.is_on);
        }
    });
}
