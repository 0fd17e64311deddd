//! Every rule of the webhooks, as the API server tells it: an object that is refused, and one like it that is admitted.

use cluster_api_provider_metal3::webhooks;
use metal3_testkit::TestNamespace;
use serde_json::{Value, json};

use crate::webhooks::{new, object, served};

/// A kind, a specification that a rule refuses with these words, and one like it that is admitted. Where only the field is given,
/// or the words contain `Invalid value`, the definition has the same rule and is first to refuse. `ROW` is the number of the row.
const RULES: [(&str, &str, &str, &str); 28] = [
    (
        "Metal3Cluster",
        "{}",
        "spec.controlPlaneEndpoint.host: Invalid value: is required",
        "{controlPlaneEndpoint: {host: h}}",
    ),
    (
        "Metal3ClusterTemplate",
        "{template: {spec: {controlPlaneEndpoint: {port: 1}}}}",
        "spec.template.spec.controlPlaneEndpoint.host: Invalid value: is required",
        "{template: {spec: {controlPlaneEndpoint: {host: h, port: 1}}}}",
    ),
    (
        "Metal3ClusterTemplate",
        "{template: {spec: {controlPlaneEndpoint: {host: h}}}}",
        "spec.template.spec.controlPlaneEndpoint.port: Invalid value: is required",
        "{template: {spec: {controlPlaneEndpoint: {host: h, port: 1}}}}",
    ),
    (
        "Metal3Machine",
        "{automatedCleaningMode: metadata}",
        "spec.image: Invalid value: either an image",
        "{customDeploy: {method: mine}}",
    ),
    (
        "Metal3Machine",
        "{image: {url: i, checksum: a}}",
        "spec.image.url: ",
        "{image: {url: /i, checksum: a}}",
    ),
    (
        "Metal3Machine",
        "{image: {url: 'https://e/i'}}",
        "spec.image.checksum: Invalid value: is required",
        "{image: {url: 'https://e/i', diskFormat: live-iso}}",
    ),
    (
        "Metal3Machine",
        "{image: {url: 'https://e/i', checksum: 'https://e/%zz'}}",
        "spec.image.checksum: has a % that",
        "{image: {url: 'https://e/i', checksum: 'https://e/sums'}}",
    ),
    (
        "Metal3Machine",
        "{image: {url: 'OCI://e/i', checksum: a}}",
        "spec.image.checksum: Invalid value: must not be set",
        "{image: {url: 'OCI://e/i'}}",
    ),
    (
        "Metal3Machine",
        "{image: {url: 'oci://e/i', checksumType: sha256}}",
        "spec.image.checksumType: Invalid value: must not be set",
        "{image: {url: 'https://e/i', checksum: a, checksumType: sha256}}",
    ),
    (
        "Metal3Machine",
        "{customDeploy: {method: m}, userData: {name: a, namespace: other}}",
        "spec.userData.namespace: \"other\" is another namespace",
        "{customDeploy: {method: m}, userData: {name: a, namespace: HERE}}",
    ),
    (
        "Metal3Machine",
        "{customDeploy: {method: m}, metaData: {name: a, namespace: other}}",
        "spec.metaData.namespace: \"other\" is another namespace",
        "{customDeploy: {method: m}, metaData: {name: a}}",
    ),
    (
        "Metal3Machine",
        "{customDeploy: {method: m}, networkData: {name: a, namespace: other}}",
        "spec.networkData.namespace: \"other\" is another namespace",
        "{customDeploy: {method: m}, networkData: {name: a}}",
    ),
    (
        "Metal3MachineTemplate",
        "{template: {spec: {}}}",
        "spec.template.spec.image: Invalid value: either an image",
        // Warned of, as in a move of what an upstream provider has stored.
        "{template: {spec: {customDeploy: {method: m}, networkData: {name: a, namespace: other}}}}",
    ),
    (
        "Metal3MachineTemplate",
        "{template: {spec: {image: {url: i, checksum: a}}}}",
        "spec.template.spec.image.url: ",
        "{template: {spec: {image: {url: 'http://e/i', checksum: a}}}}",
    ),
    (
        "Metal3MachineTemplate",
        "{template: {spec: {image: {url: 'https://e/i'}}}}",
        "spec.template.spec.image.checksum: Invalid value: is required",
        "{template: {spec: {image: {url: 'https://e/i', checksum: a}}}}",
    ),
    (
        "Metal3MachineTemplate",
        "{template: {spec: {image: {url: 'oci://e/i', checksumType: md5}}}}",
        "spec.template.spec.image.checksumType: Invalid value: must not be set",
        "{template: {spec: {image: {url: 'oci://e/i'}}}}",
    ),
    (
        "Metal3DataTemplate",
        "{metaData: {fromHostInterfaces: [{key: a}]}}",
        "spec.metaData.fromHostInterfaces: Invalid value: each entry needs",
        "{metaData: {fromHostInterfaces: [{key: a, interface: eth0}]}}",
    ),
    (
        "Metal3DataTemplate",
        "{metaData: {fromHostInterfaces: [{key: a, interface: eth0, fromBootMAC: true}]}}",
        "spec.metaData.fromHostInterfaces: Invalid value: each entry needs",
        "{metaData: {fromHostInterfaces: [{key: a, fromBootMAC: true}]}}",
    ),
    (
        "Metal3DataTemplate",
        "{networkData: {networks: {ipv4: [{id: a, link: b}]}}}",
        "spec.networkData.networks.ipv4: Invalid value: each network needs one of",
        "{networkData: {networks: {ipv4: [{id: a, link: b, ipAddressFromIPPool: p}]}}}",
    ),
    (
        "Metal3DataTemplate",
        "{networkData: {networks: {ipv6: [{id: a, link: b}]}}}",
        "spec.networkData.networks.ipv6: Invalid value: each network needs one of",
        "{networkData: {networks: {ipv6: [{id: a, link: b, ipAddressFromIPPool: p}]}}}",
    ),
    (
        "Metal3DataClaim",
        "{template: {name: ''}}",
        "spec.template.name: ",
        "{template: {name: t}}",
    ),
    (
        "Metal3DataClaim",
        "{template: {name: t, namespace: other}}",
        "spec.template.namespace: \"other\" is another namespace",
        "{template: {name: t, namespace: HERE}}",
    ),
    (
        "Metal3Data",
        "{index: -1, template: {name: right}}",
        "spec.index: ",
        "{index: ROW, template: {name: right}}",
    ),
    (
        "Metal3Data",
        "{index: 1, template: {name: t}}",
        "metadata.name: \"wrong-ROW\" must be \"t-1\"",
        "{index: ROW, template: {name: right}, claim: {name: c}}",
    ),
    (
        "Metal3Remediation",
        "{strategy: {retryLimit: 1}}",
        "spec.strategy.type: only Reboot",
        "{strategy: {type: Reboot, retryLimit: 1}}",
    ),
    (
        "Metal3Remediation",
        "{strategy: {type: Reboot, retryLimit: 1, timeoutSeconds: 99}}",
        "spec.strategy.timeoutSeconds: ",
        "{strategy: {type: Reboot, retryLimit: 1, timeoutSeconds: 100}}",
    ),
    (
        "Metal3Remediation",
        "{strategy: {type: Reboot, retryLimit: -1}}",
        "spec.strategy.retryLimit: ",
        "{strategy: {type: Reboot, retryLimit: 1}}",
    ),
    (
        "Metal3RemediationTemplate",
        "{template: {spec: {strategy: {type: Reboot, timeoutSeconds: 99}}}}",
        "spec.template.spec.strategy.timeoutSeconds: ",
        "{template: {spec: {strategy: {timeoutSeconds: 100}}}}",
    ),
];

/// The same for changes: what is stored, a change that is refused, and one that is admitted.
const CHANGES: [(&str, &str, &str, &str, &str); 6] = [
    (
        "Metal3Data",
        "{index: ROW, template: {name: stored}, claim: {name: c}}",
        "{index: 99}",
        "spec.index",
        "{metaData: {name: s}}",
    ),
    (
        "Metal3Data",
        "{index: ROW, template: {name: stored}, claim: {name: c}}",
        "{claim: {name: d}}",
        "spec.claim",
        "{networkData: {name: s}}",
    ),
    (
        "Metal3Data",
        "{index: ROW, template: {name: stored}, claim: {name: c}}",
        "{template: {namespace: other}}",
        "spec.template: cannot be changed",
        "{metaData: {name: s}}",
    ),
    (
        "Metal3DataClaim",
        "{template: {name: t}}",
        "{template: {namespace: HERE}}",
        "spec.template: cannot be changed",
        "{template: {name: t}}",
    ),
    (
        "Metal3DataTemplate",
        "{metaData: {strings: [{key: a, value: b}]}}",
        "{metaData: {strings: [{key: a, value: c}]}}",
        "metaData cannot be changed",
        "{clusterName: c}",
    ),
    (
        "Metal3DataTemplate",
        "{networkData: {links: {bonds: [{bondMode: 802.3ad, id: a, macAddress: {string: '52:54:00:12:34:56'}, parameters: [{name: a, value: {b: c}}]}]}}}",
        "{networkData: {links: {bonds: [{bondMode: active-backup, id: a, macAddress: {string: '52:54:00:12:34:56'}, parameters: [{name: a, value: {b: c}}]}]}}}",
        "spec.networkData: cannot be changed",
        "{clusterName: c}",
    ),
];

/// A row's text in this namespace.
fn filled(text: &str, row: usize, namespace: &TestNamespace) -> String {
    text.replace("HERE", &namespace.name).replace("ROW", &row.to_string())
}

#[tokio::test]
async fn every_rule_refuses_with_its_field_and_admits() {
    let namespace = served().await;
    let rows = RULES.into_iter().enumerate().map(|(row, (kind, wrong, words, right))| {
        let fill = |text: &str| filled(text, row, &namespace);
        let object = |name: &str, spec: &str| -> Value {
            serde_saphyr::from_str(&new(kind, &format!("{name}-{row}"), &fill(spec))).unwrap()
        };
        (object("wrong", wrong), fill(words), object("right", right))
    });
    namespace.expect_rules(&rows.collect::<Vec<_>>()).await;
    // The same rules for who writes the old version.
    let old = "{image: {url: 'https://e/i', checksum: ''}}";
    let old = object("v1beta1", "Metal3Machine", "m", old);
    let cases = [(old, "spec.image.checksum: Invalid value: is required")];
    namespace.expect_all_refused(&cases).await;
    let (mut stored, mut changes) = (Vec::new(), Vec::new());
    for (row, (kind, old, wrong, words, right)) in CHANGES.into_iter().enumerate() {
        let old: Value =
            serde_saphyr::from_str(&new(kind, &format!("stored-{row}"), &filled(old, row, &namespace))).unwrap();
        let with = |change: &str| {
            let change: Value = serde_saphyr::from_str(&filled(change, row, &namespace)).unwrap();
            let mut object = old.clone();
            json_patch::merge(&mut object, &json!({ "spec": change }));
            object
        };
        changes.push((with(wrong), words.to_owned(), with(right)));
        stored.push(old);
    }
    let refused: Vec<_> = namespace
        .apply_by_kubectl(&stored)
        .await
        .into_iter()
        .flatten()
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    namespace.expect_rules(&changes).await;
}

/// No kind is left out.
#[test]
fn every_kind_has_a_row() {
    for path in webhooks::all().paths() {
        let Some(kind) = path.strip_prefix("/validate-infrastructure-cluster-x-k8s-io-v1beta2-") else {
            continue;
        };
        let has_row = RULES.iter().any(|(row, ..)| row.to_lowercase() == kind);
        assert!(has_row, "{kind}");
    }
}
