//! A ramdisk built for each host by an image builder.

use kube::Api;
use kube::api::{Patch, PatchParams};
use metal3_api::metal3::{PreprovisioningImage, ProvisioningState};
use metal3_scenarios::{LIMIT, TestEnv, run};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

use super::IRONIC;

#[test]
fn a_host_waits_for_its_own_ramdisk_and_is_inspected_by_it() {
    run(async {
        let env = TestEnv::shared_with(namespace!().await, &IRONIC, 1, |config, _| {
            config.args.push("--build-preprov-image".to_owned());
            // Without a configured ramdisk the operator answers no PreprovisioningImage itself.
            config.env.push(("DEPLOY_ISO_URL".into(), "".into()));
        })
        .await;
        let name = env.apply_host(0, |_| {}).await;
        let full = format!("PreprovisioningImage {}/{name}", env.namespace.name);
        env.expect_waiting(&name, "RamdiskBuilding", &[&full, "image builder"])
            .await;
        assert_eq!(env.machine(0).await.times_switched_on(), 0);
        let images: Api<PreprovisioningImage> = env.namespace.api();
        let image = eventually(LIMIT, "the image is asked for", || async {
            images.get(&name).await.map_err(|e| e.to_string())
        })
        .await;
        assert_eq!(json!(image.spec.accept_formats), json!(["iso", "initrd"]));
        assert_eq!(image.spec.architecture, std::env::consts::ARCH);

        // The status written by an image builder.
        let built = format!("{}?for={name}", env.ironic.ramdisk_iso_url());
        let ready = |type_: &str, status: &str| {
            json!({"type": type_, "status": status, "reason": "ImageSuccess", "message": "",
                "observedGeneration": image.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let status = json!({"status": {
            "imageUrl": built, "format": "iso", "architecture": image.spec.architecture,
            "conditions": [ready("Ready", "True"), ready("Error", "False")],
        }});
        images
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("the status is accepted");
        env.expect_state(&name, ProvisioningState::Available).await;
        assert_eq!(env.node(&name).await["driver_info"]["deploy_iso"], built);
        assert_eq!(env.machine(0).await.inspections(), 1);
        env.delete(&name).await;
        env.expect_gone(&name).await;
        let image = images.get(&name).await.unwrap();
        assert_eq!(image.metadata.finalizers, None, "nothing of ours holds it");
    });
}
