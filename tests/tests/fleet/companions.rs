//! DataImages, BMCEventSubscriptions and PreprovisioningImages, from `kubectl apply` to `kubectl delete`.

use std::fmt::Debug;
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::names::annotation::RECORDED_STATUS;
use metal3_api::metal3::{
    BMCEventSubscription, BareMetalHost, DataImage, HardwareData, HostFirmwareSettings, PreprovisioningImage,
    PreprovisioningImageStatus, ProvisioningState,
};
use metal3_ironic_sim::Action;
use metal3_scenarios::{FleetEnv, LIMIT, run};
use metal3_testkit::{NamespacedKind, eventually, namespace};
use serde_json::{Value, json};

use super::rule;

const DATA_IMAGE: &str = "dataimage.metal3.io";
const SUBSCRIPTION: &str = "bmceventsubscription.metal3.io";

/// Waits until an object is as wanted.
pub(super) async fn until<K: NamespacedKind>(api: &Api<K>, name: &str, what: &str, holds: impl Fn(&K) -> bool) -> K {
    eventually(LIMIT, &format!("{name} {what}"), || async {
        let found = api.get(name).await.map_err(|error| error.to_string())?;
        if holds(&found) {
            Ok(found)
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
}

async fn delete<K: NamespacedKind>(api: &Api<K>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.expect("it is deleted");
}

async fn until_gone<K: NamespacedKind + Debug>(api: &Api<K>, name: &str) {
    eventually(LIMIT, &format!("{name} is gone"), || async {
        let found = api.get_opt(name).await.map_err(|error| error.to_string())?;
        found.map_or(Ok(()), |found| Err(format!("{found:?}")))
    })
    .await;
}

/// Creates an object again as `clusterctl move` does in another management cluster: without its status.
pub(super) async fn move_away_and_back<K: NamespacedKind + Debug>(api: &Api<K>, name: &str) {
    let mut object = release_and_delete(api, name).await;
    let metadata = object.meta_mut();
    (metadata.resource_version, metadata.uid) = (None, None);
    api.create(&PostParams::default(), &object)
        .await
        .expect("it is created again");
}

/// Deletes an object without waiting for what holds it. Returns what it was.
async fn release_and_delete<K: NamespacedKind + Debug>(api: &Api<K>, name: &str) -> K {
    let object = api.get(name).await.expect("it exists");
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch(name, &PatchParams::default(), &release)
        .await
        .expect("it is released");
    delete(api, name).await;
    until_gone(api, name).await;
    object
}

fn data_image(name: &str, finalizers: &[&str]) -> String {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "DataImage", "metadata": {"name": name, "finalizers": finalizers},
        "spec": {"url": "http://images.example/data.iso"}})
    .to_string()
}

fn subscription(name: &str, host: &str, secret: Option<(&str, &str)>) -> String {
    let mut object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BMCEventSubscription", "metadata": {"name": name},
        "spec": {"hostName": host, "destination": "https://192.0.2.9/events", "context": name}});
    if let Some((namespace, name)) = secret {
        object["spec"]["httpHeadersRef"] = json!({"namespace": namespace, "name": name});
    }
    object.to_string()
}

fn attached(image: &DataImage) -> &str {
    let status = image.status.as_ref();
    status.map_or("", |status| status.attached_image.url.as_str())
}

/// The reason of the condition `Attached`.
fn told(image: &DataImage) -> &str {
    let conditions = image.status.as_ref().map_or(&[][..], |status| &status.conditions);
    conditions.first().map_or("", |condition| &condition.reason)
}

#[test]
fn a_data_image_is_held_from_its_host_to_the_end_of_its_disc() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 21).await;
        let images: Api<DataImage> = env.namespace.api();
        // What upstream's operator has left.
        env.namespace.apply(&data_image("left", &[DATA_IMAGE])).await;
        delete(&images, "left").await;
        env.start_operator().await;
        until_gone(&images, "left").await;

        let name = env.sim.server(0).name;
        env.namespace.apply(&data_image(&name, &[])).await;
        until(&images, &name, "has no host", |image| told(image) == "NoBareMetalHost").await;
        env.apply_hosts_with(|host| {
            host["spec"]["image"] = json!({"url": "http://images.example/os.img", "checksum": "0".repeat(64),
                "checksumType": "sha256", "format": "raw"});
        })
        .await;
        let held = until(&images, &name, "is held", |image| !image.finalizers().is_empty()).await;
        assert_eq!(held.finalizers(), [DATA_IMAGE]);
        let owner = &held.owner_references()[0];
        assert_eq!(
            (owner.kind.as_str(), &owner.name, owner.controller),
            ("BareMetalHost", &name, None)
        );
        env.expect_all(ProvisioningState::Provisioned).await;
        until(&images, &name, "waits for a restart", |image| {
            told(image) == "RestartNeeded"
        })
        .await;
        env.patch_hosts(&json!({"metadata": {"annotations": {"reboot.metal3.io": ""}}}))
            .await;
        until(&images, &name, "is in the drive", |image| told(image) == "Inserted").await;
        until(&images, &name, "is attached", |image| {
            !attached(image).is_empty() && image.annotations().contains_key(RECORDED_STATUS)
        })
        .await;
        env.expect_all(ProvisioningState::Provisioned).await;

        // OWN 31ma: after a move, the disc was a medium of somebody else.
        assert!(env.stop_operator().await);
        move_away_and_back(&images, &name).await;
        assert_eq!(images.get(&name).await.expect("it is back").status, None);
        env.start_operator().await;
        until(&images, &name, "has its record again", |image| {
            !attached(image).is_empty() && told(image) == "Recorded"
        })
        .await;

        // OWN 30da: the next user of the host finds no disc.
        env.patch_hosts(&json!({"spec": {"image": null}})).await;
        until(&images, &name, "is detached", |image| attached(image).is_empty()).await;
        until(&images, &name, "waits for an image", |image| {
            told(image) == "HostNotProvisioned"
        })
        .await;
        env.expect_all(ProvisioningState::Available).await;
        let held = images.get(&name).await.expect("it stays");
        assert_eq!(held.finalizers(), [DATA_IMAGE]);
        delete(&images, &name).await;
        until_gone(&images, &name).await;
    });
}

#[test]
fn events_are_subscribed_to_once_and_until_the_object_is_deleted() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 22).await;
        // The BMC has the subscription, and the answer is lost.
        let lost = rule("POST", "/v1/nodes/*/vendor_passthru", 1.0, 1, true, Action::Half);
        env.sim.add_rule(lost);
        let subscriptions: Api<BMCEventSubscription> = env.namespace.api();
        let (name, own) = (env.sim.server(0).name, env.namespace.name.clone());
        env.namespace.apply(&subscription("plain", &name, None)).await;
        env.namespace
            .apply(&subscription("with-headers", &name, Some((&own, "headers"))))
            .await;
        env.start_operator().await;
        until(&subscriptions, "plain", "misses its host", |object| {
            error(object).contains("does not exist")
        })
        .await;
        env.apply_hosts().await;
        env.expect_all(ProvisioningState::Available).await;
        let made = until(&subscriptions, "plain", "is made", |object| !id(object).is_empty()).await;
        assert_eq!((made.finalizers(), error(&made)), (&[SUBSCRIPTION.to_owned()][..], ""));

        let missing = |object: &BMCEventSubscription| error(object).contains("headers does not exist");
        until(&subscriptions, "with-headers", "misses its Secret", missing).await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "headers"},
            "stringData": {"Authorization": "Bearer hunter2"}});
        env.namespace.apply(&secret.to_string()).await;
        until(&subscriptions, "with-headers", "is made", |object| {
            !id(object).is_empty()
        })
        .await;
        let on_bmc = env.sim.subscriptions(0);
        assert_eq!(on_bmc.len(), 2, "each once: {on_bmc:?}");
        // Besides its own keys, the Secret has the mark that every test searches for.
        let headers: Vec<_> = on_bmc.iter().filter_map(|one| one["HttpHeaders"].as_array()).collect();
        let expected = json!({"Authorization": "Bearer hunter2"});
        assert!(
            matches!(headers[..], [of_one] if of_one.contains(&expected)),
            "{headers:?}"
        );
        assert!(!env.operator_log().contains("hunter2"), "headers are secrets");

        delete(&subscriptions, "plain").await;
        until_gone(&subscriptions, "plain").await;
        let left = env.sim.subscriptions(0);
        assert_eq!(
            left.iter().map(|one| &one["Context"]).collect::<Vec<_>>(),
            ["with-headers"]
        );
        // DEFECT 13: it could not be deleted without its host.
        let hosts: Api<BareMetalHost> = env.namespace.api();
        delete(&hosts, &name).await;
        until_gone(&hosts, &name).await;
        delete(&subscriptions, "with-headers").await;
        until_gone(&subscriptions, "with-headers").await;
    });
}

fn id(object: &BMCEventSubscription) -> &str {
    object
        .status
        .as_ref()
        .map_or("", |status| status.subscription_id.as_str())
}

fn error(object: &BMCEventSubscription) -> &str {
    object.status.as_ref().map_or("", |status| status.error.as_str())
}

#[test]
fn hosts_get_the_configured_ramdisk_with_their_network_data() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 23).await;
        env.config.args.push("--build-preprov-image".to_owned());
        env.start_operator().await;
        env.apply_hosts_with(|host| host["spec"]["preprovisioningNetworkDataName"] = json!("net"))
            .await;
        let name = env.sim.server(0).name;
        let images: Api<PreprovisioningImage> = env.namespace.api();
        until(&images, &name, "misses its network data", |image| {
            reason(image) == "MissingNetworkData"
        })
        .await;
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "net"},
            "stringData": {"networkData": "{\"links\": [], \"networks\": [], \"services\": []}"}});
        env.namespace.apply(&secret.to_string()).await;
        env.expect_all(ProvisioningState::Available).await;
        let image = until(&images, &name, "is ready", |image| {
            status(image)
                .conditions
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == ConditionStatus::True)
        })
        .await;
        assert_eq!(status(&image).image_url, "http://images.example/ipa.iso");
        assert_eq!(status(&image).network_data.name, "net");
        assert_eq!(reason(&image), "ImageSuccess");

        // It goes when the host is gone, and not before.
        delete(&images, &name).await;
        let hosts: Api<BareMetalHost> = env.namespace.api();
        let going = images.get(&name).await.expect("the host holds it");
        assert_eq!(going.finalizers().len(), 2);
        delete(&hosts, &name).await;
        until_gone(&hosts, &name).await;
        until_gone(&images, &name).await;
    });
}

#[test]
fn what_a_host_leaves_behind_goes_without_it() {
    // OWN 31mc: the finalizer of what builds ramdisks stayed without the flag. OWN 31md: the finalizers of a host stayed if
    // its own was removed, as `clusterctl move` does.
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 24).await;
        env.config.args.push("--build-preprov-image".to_owned());
        env.start_operator().await;
        env.apply_hosts().await;
        env.expect_all(ProvisioningState::Available).await;
        let name = env.sim.server(0).name;
        let images: Api<PreprovisioningImage> = env.namespace.api();
        let hardware: Api<HardwareData> = env.namespace.api();
        let image = until(&images, &name, "is held twice", |image| image.finalizers().len() == 2).await;
        assert!(image.metadata.deletion_timestamp.is_none());

        assert!(env.stop_operator().await);
        env.config.args.retain(|arg| arg != "--build-preprov-image");
        release_and_delete(&env.namespace.api::<BareMetalHost>(), &name).await;
        // There is no garbage collector here.
        delete(&images, &name).await;
        delete(&hardware, &name).await;
        assert!(hardware.get(&name).await.is_ok(), "it is held");
        env.start_operator().await;
        until_gone(&images, &name).await;
        until_gone(&hardware, &name).await;
    });
}

/// The reference to a host of this name and another UID.
pub(super) fn owner(name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "name": name, "uid": uid}])
}

/// Waits until what is created is younger than what exists: the API server counts in seconds.
pub(super) async fn another_second() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}

fn owners<K: NamespacedKind>(object: &K) -> Vec<&str> {
    object
        .owner_references()
        .iter()
        .map(|owner| owner.uid.as_str())
        .collect()
}

// OWN 31vg: it took over what the earlier host of its name had left. There is no garbage collector here.
#[test]
fn a_host_made_anew_inherits_nothing() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 25).await;
        env.config.args.push("--build-preprov-image".to_owned());
        let name = env.sim.server(0).name;
        let specs = [
            ("DataImage", json!({"url": "http://images.example/data.iso"})),
            (
                "HardwareData",
                json!({"hardware": {"hostname": "earlier", "cpu": {"arch": "x86_64"}}}),
            ),
            (
                "PreprovisioningImage",
                json!({"architecture": "x86_64", "acceptFormats": ["iso", "initrd"]}),
            ),
        ];
        for (kind, spec) in specs {
            let left = json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "spec": spec,
                "metadata": {"name": name, "ownerReferences": owner(&name, "gone"), "finalizers": [DATA_IMAGE]}});
            env.namespace.apply(&left.to_string()).await;
        }
        let images: Api<DataImage> = env.namespace.api();
        let ramdisks: Api<PreprovisioningImage> = env.namespace.api();
        let hardware: Api<HardwareData> = env.namespace.api();
        let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let status = Patch::Merge(
            json!({"status": {"attachedImage": {"url": "http://images.example/data.iso"}, "error": {"count": 0, "message": ""}}}),
        );
        images
            .patch_status(&name, &PatchParams::default(), &status)
            .await
            .expect("it is recorded");
        ramdisks
            .patch(&name, &PatchParams::default(), &release)
            .await
            .expect("it is released");
        hardware
            .patch(&name, &PatchParams::default(), &release)
            .await
            .expect("it is released");
        another_second().await;
        env.start_operator().await;
        env.apply_hosts_with(|host| host["spec"]["inspectionMode"] = json!("disabled"))
            .await;

        env.expect_waiting(&name, "RamdiskBuilding", "earlier host of this name")
            .await;
        let released = until(&images, &name, "is released", |image| image.finalizers().is_empty()).await;
        assert_eq!(owners(&released), ["gone"]);
        // As the garbage collector does it.
        delete(&ramdisks, &name).await;
        let hosts = env.expect_all(ProvisioningState::Available).await;
        let uid = hosts[0].uid().expect("it has one");
        assert_eq!(owners(&ramdisks.get(&name).await.expect("it is made anew")), [&uid]);
        assert!(
            hosts[0].status.as_ref().is_some_and(|status| status.hardware.is_none()),
            "{:?}",
            hosts[0]
        );
        let left = images.get(&name).await.expect("it is left alone");
        assert_eq!((owners(&left), left.finalizers().len()), (vec!["gone"], 0));
    });
}

// A backup as YAML has the references of the cluster that it was made in; clusterctl writes them anew.
#[test]
fn a_host_takes_up_what_is_restored_from_a_backup() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 26).await;
        env.start_operator().await;
        env.apply_hosts().await;
        let hosts = env.expect_all(ProvisioningState::Available).await;
        let (name, uid) = (env.sim.server(0).name, hosts[0].uid().expect("it has one"));
        let elsewhere = owner(&name, "elsewhere");
        let is_own = [uid.as_str()];

        let image = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "DataImage", "spec": {"url": "http://images.example/data.iso"},
            "metadata": {"name": name, "ownerReferences": elsewhere, "finalizers": [DATA_IMAGE]}});
        env.namespace.apply(&image.to_string()).await;
        until(&env.namespace.api::<DataImage>(), &name, "is the host's", |image| {
            owners(image) == is_own
        })
        .await;
        // The operator has made one already, which `kubectl apply` replaces.
        let api: Api<HostFirmwareSettings> = env.namespace.api();
        let before = until(&api, &name, "is made", |settings| settings.status.is_some()).await;
        let restored = json!({"metadata": {"ownerReferences": elsewhere}, "spec": {"settings": {"NumCores": 12}}});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(restored))
            .await
            .expect("it is restored");
        let after = until(&api, &name, "is the host's", |settings| owners(settings) == is_own).await;
        assert_eq!(after.uid(), before.uid());
        assert_eq!(after.spec.settings.len(), 1);
    });
}

fn status(image: &PreprovisioningImage) -> PreprovisioningImageStatus {
    image.status.clone().unwrap_or_default()
}

fn reason(image: &PreprovisioningImage) -> String {
    let status = status(image);
    let error = status
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == "Error");
    error.map(|error| error.reason).unwrap_or_default()
}
