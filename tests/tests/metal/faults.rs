//! What a user reads when a deployment fails on a server that really boots.

use std::time::Duration;

use metal3_api::metal3::{ErrorType, ProvisioningState};
use metal3_scenarios::{MetalEnv, run, status, waits};
use serde_json::{Value, json};

/// More than anything else writes on the disk: an image is being written.
const WRITTEN: u64 = 100 << 20;

#[test]
#[ignore = "emulates a server for half an hour: cargo xtask test --metal"]
fn a_user_reads_why_an_installation_fails() {
    run(async {
        // A ramdisk that died is missed after this.
        let env = MetalEnv::start("faults", Duration::from_secs(300)).await;
        env.apply_host(|host| {
            host["spec"]["inspectionMode"] = json!("disabled");
            host["spec"]["automatedCleaningMode"] = json!("disabled");
            host["spec"]["rootDeviceHints"] = json!({"serialNumber": "NO-SUCH-DISK"});
        })
        .await;
        env.expect_state(ProvisioningState::Available).await;
        let raw = MetalEnv::image(&env.metal.image("disk.raw").unwrap(), false);

        expect_failure(
            &env,
            "a disk that is not there",
            json!({"image": raw}),
            &["NO-SUCH-DISK"],
            None,
        )
        .await;

        let serial = env.metal.server().serial;
        // The agent downloads it three times before it gives up, and this file is small.
        let mut wrong = MetalEnv::image(&env.metal.image("large.qcow2").unwrap(), false);
        wrong["checksum"] = json!("0".repeat(64));
        let spec = json!({"image": wrong, "rootDeviceHints": {"serialNumber": serial}});
        expect_failure(&env, "a wrong checksum", spec, &["checksum"], None).await;

        let large = MetalEnv::image(&env.metal.image("large.qcow2").unwrap(), false);
        expect_failure(
            &env,
            "an image larger than the disk",
            json!({"image": large}),
            &[],
            None,
        )
        .await;

        let words = ["stopped answering"];
        expect_failure(&env, "a power cut", json!({"image": raw}), &words, Some("destroy")).await;

        // Another name for the same image: what is wrong is tried again at once.
        let mut again = MetalEnv::image(&env.metal.image("disk.raw").unwrap(), true);
        again["format"] = json!("raw");
        expect_failure(
            &env,
            "an agent that hangs",
            json!({"image": again}),
            &[],
            Some("suspend"),
        )
        .await;
    });
}

/// Changes the host's spec, does something to the server while the image is being written, and waits until the host tells of the
/// failure with these words.
async fn expect_failure(env: &MetalEnv, what: &str, spec: Value, words: &[&str], done: Option<&str>) {
    env.say(&format!("=== {what}"));
    env.patch(json!({"spec": spec})).await;
    // What failed before is taken back first.
    env.expect("is being installed", |host| waits(host, "Deploying").is_some())
        .await;
    if let Some(command) = done {
        let before = env.metal.written().unwrap();
        env.until("the image is being written", async || {
            let written = env.metal.written().unwrap();
            if written.abs_diff(before) > WRITTEN {
                Ok(())
            } else {
                Err(format!("{written} of {before} bytes"))
            }
        })
        .await;
        env.say(&format!("virsh {command}"));
        env.metal.virsh(command).unwrap();
    }
    let host = env
        .expect(&format!("tells of {what}"), |host| {
            status(host).error_type == Some(ErrorType::Provisioning)
        })
        .await;
    let message = status(&host).error_message;
    env.say(&format!("READ {what}: {message}"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    for (reason, message) in env.events().await {
        println!("    {reason}: {message}");
    }
    for word in words {
        assert!(message.contains(word), "{word:?} in {message:?}");
    }
}
