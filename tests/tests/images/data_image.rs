//! A data disc next to the image: the DataImage of a provisioned host, which is held until its disc is ejected.

use kube::ResourceExt;
use kube::api::DeleteParams;
use metal3_api::metal3::names::annotation::REBOOT;
use metal3_api::metal3::{BareMetalHost, DataImage, ProvisioningState};
use metal3_lab::ironic::{Machine, Mark};
use metal3_scenarios::{LIMIT, TestEnv, deployed_at_once, id, is_running, run, status};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

use super::IRONIC;
use super::firmware::count;

const HOLDS: &str = "dataimage.metal3.io";

/// Requests a reboot and waits until the host runs again.
async fn restart(env: &TestEnv, name: &str) {
    env.patch(name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
        .await;
    let host = env.expect(name, "runs again", is_running).await;
    assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
}

/// How often the BMC was asked to insert something.
fn inserted(machine: &Machine) -> u64 {
    count(machine, "POST", "VirtualMedia.InsertMedia")
}

/// How often the BMC was asked to eject what it has.
fn ejected(machine: &Machine) -> u64 {
    count(machine, "POST", "VirtualMedia.EjectMedia")
}

/// What Ironic was asked to do with the disc of a host, in this order.
fn disc_requests(env: &TestEnv, host: &BareMetalHost, since: Mark) -> Vec<String> {
    let (requests, _) = env.ironic.requests(since).expect("the log");
    let node = id(host);
    let those = requests.into_iter().filter(|request| {
        request.member == node && request.path.ends_with("/vmedia") && request.method != "GET" && request.status < 400
    });
    those.map(|request| request.method).collect()
}

pub async fn apply_disc(env: &TestEnv, name: &str, url: &str) {
    let image = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "DataImage", "metadata": {"name": name},
        "spec": {"url": url},
    });
    env.namespace.apply(&image.to_string()).await;
}

async fn expect_no_data_image(env: &TestEnv, name: &str) {
    let images = env.namespace.api::<DataImage>();
    eventually(LIMIT, "the DataImage is gone", || async {
        let found = images.get_opt(name).await.map_err(|error| error.to_string())?;
        found.map_or(Ok(()), |found| Err(format!("{found:?}")))
    })
    .await;
}

#[test]
fn the_disc_of_a_data_image_comes_and_goes_with_restarts() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, deployed_at_once(env.image())).await;
        env.expect(&name, "runs", is_running).await;
        let (deploys, is_on, no_disc, disc) = (1, true, false, true);
        let before = env.expect_machine(0, deploys, is_on, no_disc).await;

        let url = format!("{}?for={name}", env.ironic.ramdisk_iso_url());
        apply_disc(&env, &name, &url).await;
        let images = env.namespace.api::<DataImage>();
        eventually(LIMIT, "the DataImage is held", || async {
            let found = images.get(&name).await.map_err(|error| error.to_string())?;
            if found.finalizers() == [HOLDS] {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        let attached = async |wanted: &str| {
            eventually(LIMIT, &format!("the DataImage has {wanted:?} attached"), || async {
                let found = images.get(&name).await.map_err(|error| error.to_string())?;
                let status = found.status.unwrap_or_default();
                let is_so = status.attached_image.url == wanted && status.error.count == 0;
                if is_so { Ok(()) } else { Err(format!("{status:?}")) }
            })
            .await;
        };
        let told = async |wanted: &str| {
            eventually(LIMIT, &format!("the DataImage says {wanted}"), || async {
                let found = images.get(&name).await.map_err(|error| error.to_string())?;
                let conditions = found.status.unwrap_or_default().conditions;
                let is_so = conditions.first().is_some_and(|condition| condition.reason == wanted);
                if is_so { Ok(()) } else { Err(format!("{conditions:?}")) }
            })
            .await;
        };
        told("RestartNeeded").await;
        // The BMC does not take it: the object and the host say so, and the server starts with its disc once the BMC does.
        env.bmc(0, json!({"no_virtual_media": true})).await;
        env.patch(&name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
            .await;
        env.expect_waiting(&name, "DataImageFailing", &["attaching", "Virtual media mount failed"])
            .await;
        let refused = images.get(&name).await.expect("it is there").status.unwrap_or_default();
        assert!(
            refused.error.count > 0 && !refused.error.message.is_empty(),
            "{refused:?}"
        );
        told("AttachFailed").await;
        env.bmc(0, json!({})).await;
        let host = env.expect(&name, "runs again", is_running).await;
        assert_eq!((status(&host).error_type, status(&host).error_count), (None, 0));
        attached(&url).await;
        told("Inserted").await;
        let with_disc = env.expect_machine(0, deploys, is_on, disc).await;
        assert_eq!(with_disc.boot_device, "Hdd", "the disc is not what it boots from");
        assert_eq!(with_disc.times_switched_off(), before.times_switched_off() + 1);

        // A reboot without a change leaves the disc in place.
        restart(&env, &name).await;
        let again = env.expect_machine(0, deploys, is_on, disc).await;
        assert_eq!(inserted(&again), inserted(&with_disc));

        // Another disc takes its place at the next restart, and not before: the first one goes out, then the other one in.
        let other = format!("{url}&other");
        let (_, asked) = env.ironic.requests(Mark::default()).expect("the log");
        apply_disc(&env, &name, &other).await;
        // Nothing tells that the operator has looked at the edit and leaves the disc: it would have changed it by then.
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let found = env.expect(&name, "waits for nothing", is_running).await;
        attached(&url).await;
        told("RestartNeeded").await;
        assert_eq!(disc_requests(&env, &found, asked), Vec::<String>::new());
        let (_, asked) = env.ironic.requests(asked).expect("the log");
        restart(&env, &name).await;
        attached(&other).await;
        assert_eq!(disc_requests(&env, &found, asked), ["DELETE", "POST"]);
        let changed = env.expect_machine(0, deploys, is_on, disc).await;
        assert_eq!(inserted(&changed), inserted(&again) + 1);
        assert_eq!(ejected(&changed), ejected(&again) + 1);

        images
            .delete(&name, &DeleteParams::default())
            .await
            .expect("it is deleted");
        assert!(env.machine(0).await.virtual_cd, "a running system keeps its disc");
        assert!(images.get_opt(&name).await.unwrap().is_some(), "it waits for its disc");
        // The BMC does not give it back: the object and the host say so, and the server starts without it once the BMC does.
        env.bmc(0, json!({"virtual_media_stays": true})).await;
        env.patch(&name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
            .await;
        env.expect_waiting(&name, "DataImageFailing", &["detaching"]).await;
        let kept = images.get(&name).await.expect("it is there").status.unwrap_or_default();
        assert!(kept.error.count > 0 && !kept.error.message.is_empty(), "{kept:?}");
        assert!(env.machine(0).await.virtual_cd, "it is still in the drive");
        env.bmc(0, json!({})).await;
        env.expect(&name, "runs again", is_running).await;
        env.expect_machine(0, deploys, is_on, no_disc).await;
        expect_no_data_image(&env, &name).await;
        restart(&env, &name).await;
        env.expect_machine(0, deploys, is_on, no_disc).await;
        assert_eq!(
            status(&env.host(&name).await).provisioning.state,
            ProvisioningState::Provisioned
        );
    });
}

/// A BMC that takes long to insert a disc, and what happens meanwhile: the disc is not wanted any more, the operator dies; and a host
/// that is deleted with its disc.
#[test]
fn a_disc_that_is_inserted_for_long_is_where_it_should_be_in_the_end() {
    run(async {
        let mut env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, deployed_at_once(env.image())).await;
        env.expect(&name, "runs", is_running).await;
        let before = env.machine(0).await;
        let images = env.namespace.api::<DataImage>();
        let url = format!("{}?for={name}", env.ironic.ramdisk_iso_url());
        let reboot = json!({"metadata": {"annotations": {REBOOT: ""}}});
        let changing = ["Ironic changes the disc"];

        env.bmc(0, json!({"slow_virtual_media": 10})).await;
        apply_disc(&env, &name, &url).await;
        env.patch(&name, reboot.clone()).await;
        env.expect_waiting(&name, "DataImageChanging", &changing).await;
        images
            .delete(&name, &DeleteParams::default())
            .await
            .expect("it is deleted");
        env.expect(&name, "runs again", is_running).await;
        expect_no_data_image(&env, &name).await;
        let taken_back = env.expect_machine(0, 1, true, false).await;
        assert_eq!(inserted(&taken_back), inserted(&before) + 1, "it was being inserted");

        apply_disc(&env, &name, &url).await;
        env.patch(&name, reboot).await;
        env.expect_waiting(&name, "DataImageChanging", &changing).await;
        env.kill_operator();
        env.start_operator().await;
        env.expect(&name, "runs again", is_running).await;
        let with_disc = env.expect_machine(0, 1, true, true).await;
        assert_eq!(inserted(&with_disc), inserted(&taken_back) + 1, "it is asked for once");
        assert_eq!(with_disc.times_switched_off(), before.times_switched_off() + 2);

        env.bmc(0, json!({})).await;
        env.delete(&name).await;
        env.expect_gone(&name).await;
        eventually(LIMIT, "the DataImage is left to the garbage collector", || async {
            let found = images.get(&name).await.map_err(|error| error.to_string())?;
            let attached = found.status.clone().unwrap_or_default().attached_image.url;
            if found.finalizers().is_empty() && attached.is_empty() {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
        assert!(!env.machine(0).await.virtual_cd, "the next user finds no disc");
    });
}

/// What a user does while a BMC takes long to insert a disc: another disc is wanted, and later the host is deleted.
#[test]
fn a_disc_that_is_edited_or_whose_host_is_deleted_meanwhile_goes_out_again() {
    run(async {
        let env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_host(0, deployed_at_once(env.image())).await;
        env.expect(&name, "runs", is_running).await;
        let before = env.machine(0).await;
        let images = env.namespace.api::<DataImage>();
        let url = format!("{}?for={name}", env.ironic.ramdisk_iso_url());
        let inserting = async |seconds: u64, url: &str| {
            env.bmc(0, json!({"slow_virtual_media": seconds})).await;
            apply_disc(&env, &name, url).await;
            env.patch(&name, json!({"metadata": {"annotations": {REBOOT: ""}}}))
                .await;
            env.expect_waiting(&name, "DataImageChanging", &["Ironic changes the disc"])
                .await;
        };

        inserting(5, &url).await;
        let other = format!("{url}&other");
        apply_disc(&env, &name, &other).await;
        env.expect(&name, "runs again", is_running).await;
        let edited = env.expect_machine(0, 1, true, true).await;
        let status = images.get(&name).await.expect("it is there").status.unwrap_or_default();
        assert_eq!((&*status.attached_image.url, status.error.count), (&*other, 0));
        assert_eq!(inserted(&edited), inserted(&before) + 2);
        assert_eq!(ejected(&edited), ejected(&before) + 1);
        assert_eq!(edited.times_switched_off(), before.times_switched_off() + 1);

        env.bmc(0, json!({})).await;
        images
            .delete(&name, &DeleteParams::default())
            .await
            .expect("it is deleted");
        restart(&env, &name).await;
        expect_no_data_image(&env, &name).await;

        inserting(10, &url).await;
        env.delete(&name).await;
        env.expect_gone(&name).await;
        assert!(!env.machine(0).await.virtual_cd, "the next user finds no disc");
    });
}
