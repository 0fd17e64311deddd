//! What is particular about hosts.

use kube::Api;
use kube::api::PostParams;
use metal3_api::metal3::{BareMetalHost, BareMetalHostSpec, BareMetalHostStatus};
use metal3_testkit::namespace;
use rstest::rstest;
use serde_json::{Value, json};

#[tokio::test]
async fn a_host_needs_no_spec_and_a_first_status_no_more_than_its_default() {
    let namespace = namespace!().await;
    namespace
        .apply("{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: bare}}")
        .await;
    let api: Api<BareMetalHost> = namespace.api();
    let mut host = api.get("bare").await.unwrap();
    assert_eq!((&host.spec, &host.status), (&BareMetalHostSpec::default(), &None));
    host.status = Some(BareMetalHostStatus::default());
    let written = api.replace_status("bare", &PostParams::default(), &host).await.unwrap();
    assert_eq!(written.status, host.status);
}

#[tokio::test]
async fn defaults_come_from_the_schema_and_nowhere_else() {
    let namespace = namespace!().await;
    let host = "{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: a}, \
                spec: {online: true, raid: {softwareRAIDVolumes: [{level: '1'}]}}}";
    let stored = namespace.apply(host).await.remove(0);
    let expected = json!({
        "online": true,
        "automatedCleaningMode": "metadata",
        "raid": { "softwareRAIDVolumes": [{ "level": "1", "rootVolume": false }] },
    });
    assert_eq!(stored.data["spec"], expected);
}

/// Go clients send both lists whatever they mean, so the API server must keep all three meanings.
#[rstest]
#[case::null("a", json!({ "online": true, "raid": { "hardwareRAIDVolumes": null, "softwareRAIDVolumes": null } }))]
#[case::empty("b", json!({ "online": true, "raid": { "hardwareRAIDVolumes": [], "softwareRAIDVolumes": null } }))]
#[case::absent("c", json!({ "online": true, "raid": {} }))]
#[tokio::test]
async fn raid_lists_are_stored_as_they_are(#[case] name: &str, #[case] mut spec: Value) {
    let namespace = namespace!().await;
    let object = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": { "name": name }, "spec": spec,
    });
    let stored = namespace.apply(&object.to_string()).await.remove(0);
    spec["automatedCleaningMode"] = json!("metadata");
    assert_eq!(stored.data["spec"], spec);
}

#[rstest]
#[case::boot_mode("{online: true, bootMode: UEFI2}", "spec.bootMode: Unsupported value: \"UEFI2\"")]
#[case::empty_enum("{online: true, bootMode: ''}", "spec.bootMode: Unsupported value: \"\"")]
#[case::cleaning(
    "{online: true, automatedCleaningMode: full}",
    "spec.automatedCleaningMode: Unsupported value"
)]
#[case::image_format(
    "{online: true, image: {url: a, format: iso}}",
    "spec.image.format: Unsupported value: \"iso\""
)]
#[case::online("{description: a}", "spec.online: Required value")]
#[case::bmc("{online: true, bmc: {address: a}}", "spec.bmc.credentialsName: Required value")]
#[case::mac(
    "{online: true, bootMACAddress: nonsense}",
    "spec.bootMACAddress: Invalid value: \"nonsense\""
)]
#[case::volumes(
    "{online: true, raid: {softwareRAIDVolumes: [{level: '1'}, {level: '1'}, {level: '1'}]}}",
    "spec.raid.softwareRAIDVolumes: Too many"
)]
#[case::raid_level(
    "{online: true, raid: {hardwareRAIDVolumes: [{level: '1'}, {level: '7'}]}}",
    "spec.raid.hardwareRAIDVolumes[1].level: Unsupported value: \"7\""
)]
#[tokio::test]
async fn what_is_wrong_is_refused_with_its_path(#[case] spec: &str, #[case] because: &str) {
    let namespace = namespace!().await;
    let host = format!("{{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {{name: a}}, spec: {spec}}}");
    namespace.expect_refused(&host, because).await;
}
