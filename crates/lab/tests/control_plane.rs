//! The control plane: identities, two side by side, audit counts, restarts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use metal3_lab::{ControlPlane, ControlPlaneConfig};
use serde_json::json;

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("key".to_owned(), "value".to_owned())])),
        ..ConfigMap::default()
    }
}

#[tokio::test]
async fn two_instances_run_side_by_side_and_know_nothing_of_each_other() {
    let start = |()| ControlPlane::start(ControlPlaneConfig::default());
    let (one, other) = tokio::join!(start(()), start(()));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_ne!(one.url(), other.url());

    let maps = |client: Client| Api::<ConfigMap>::namespaced(client, "default");
    let (in_one, in_other) = (maps(one.client().await.unwrap()), maps(other.client().await.unwrap()));
    in_one
        .create(&PostParams::default(), &config_map("mine"))
        .await
        .unwrap();
    assert!(in_other.get_opt("mine").await.unwrap().is_none());

    let folders = [one.folder().to_owned(), other.folder().to_owned()];
    one.stop().await;
    in_other
        .create(&PostParams::default(), &config_map("still-here"))
        .await
        .unwrap();
    other.stop().await;
    for folder in folders {
        assert!(
            !folder.exists(),
            "a temporary folder goes with its instance: {}",
            folder.display()
        );
    }
}

#[tokio::test]
async fn a_service_account_can_do_what_its_role_says_and_no_more() {
    let config = ControlPlaneConfig {
        audit: true,
        ..ControlPlaneConfig::default()
    };
    let lab = ControlPlane::start(config).await.unwrap();
    let admin = lab.client().await.unwrap();
    let role: Role = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
    }))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    }))
    .unwrap();
    Api::namespaced(admin.clone(), "default")
        .create(&PostParams::default(), &role)
        .await
        .unwrap();
    Api::namespaced(admin.clone(), "default")
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    Api::namespaced(admin.clone(), "default")
        .create(&PostParams::default(), &config_map("seen"))
        .await
        .unwrap();

    let audit = lab.audit_log().unwrap();
    let before = audit.end().unwrap();
    let robot = Client::try_from(lab.service_account("default", "robot").await.unwrap()).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(robot.clone(), "default");
    for _ in 0..3 {
        maps.get("seen").await.unwrap();
    }
    let forbidden = |err: kube::Error| matches!(&err, kube::Error::Api(status) if status.is_forbidden());
    assert!(forbidden(
        maps.create(&PostParams::default(), &config_map("own"))
            .await
            .unwrap_err()
    ));
    assert!(forbidden(
        Api::<Secret>::namespaced(robot.clone(), "default")
            .list(&ListParams::default())
            .await
            .unwrap_err()
    ));
    assert!(forbidden(
        Api::<ConfigMap>::namespaced(robot, "kube-system")
            .get("seen")
            .await
            .unwrap_err()
    ));

    // The log is exact: what the robot did, counted, and nothing else of it.
    let counted = || -> Vec<String> {
        let (requests, _) = audit.since(before).unwrap();
        metal3_lab::audit::count(
            requests
                .iter()
                .filter(|r| r.user == "system:serviceaccount:default:robot"),
        )
        .into_iter()
        .map(|(kind, number)| format!("{} {} {} {number}", kind.verb, kind.resource, kind.status))
        .collect()
    };
    let wanted = [
        "create configmaps 403 1",
        "get configmaps 200 3",
        "get configmaps 403 1",
        "list secrets 403 1",
    ];
    let start = Instant::now();
    while counted() != wanted {
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", counted());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lab.stop().await;
}

#[tokio::test]
async fn a_user_has_the_groups_of_its_certificate() {
    let lab = ControlPlane::start(ControlPlaneConfig::default()).await.unwrap();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&review).unwrap())
        .unwrap();
    let jo = Client::try_from(lab.user("jo", &["operators", "people"]).await.unwrap()).unwrap();
    let answer: serde_json::Value = jo.request(request).await.unwrap();
    assert_eq!(answer["status"]["userInfo"]["username"], "jo");
    assert_eq!(
        answer["status"]["userInfo"]["groups"],
        json!(["operators", "people", "system:authenticated"])
    );
    assert!(
        lab.user("jo", &["a", "b", "c"]).await.is_err(),
        "three groups do not fit, and are not dropped silently"
    );
}

#[tokio::test]
async fn an_instance_survives_restarts_of_its_api_server_and_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let config = || ControlPlaneConfig {
        folder: Some(folder.path().join("lab")),
        ..ControlPlaneConfig::default()
    };
    let mut lab = ControlPlane::start(config()).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(lab.client().await.unwrap(), "default");
    maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    let taken = ControlPlane::start(config()).await.unwrap_err().to_string();
    assert!(
        taken.contains(&format!("in use by process {}", std::process::id())),
        "{taken}"
    );

    lab.stop_api_server().await;
    maps.get("kept").await.expect_err("nobody answers");
    lab.start_api_server().await.unwrap();
    maps.get("kept")
        .await
        .expect("the same client, the same address, the same data");
    let url = lab.url();
    lab.stop().await;

    let lab = ControlPlane::start(config()).await.unwrap();
    assert_eq!(lab.url(), url, "kubeconfigs in other hands stay good");
    maps.get("kept").await.expect("the CA is the same too");

    // The file for other programs works with them.
    let binaries = metal3_lab::binaries::ensure_complete().unwrap();
    let output = std::process::Command::new(binaries.kubectl.unwrap())
        .args(["get", "configmap", "kept", "-o", "jsonpath={.data.key}", "--kubeconfig"])
        .arg(lab.admin_kubeconfig())
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "value",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn the_controller_manager_finishes_what_the_api_server_only_notes_down() {
    let config = ControlPlaneConfig {
        controller_manager: true,
        ..ControlPlaneConfig::default()
    };
    let lab = ControlPlane::start(config).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(lab.client().await.unwrap());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "short-lived"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    namespaces
        .delete("short-lived", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let start = Instant::now();
    while let Some(left) = namespaces.get_opt("short-lived").await.unwrap() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "still there: {:?}",
            left.status
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lab.ensure_alive().unwrap();
    lab.stop().await;
}
