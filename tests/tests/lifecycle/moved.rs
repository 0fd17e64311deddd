//! A host moved to another cluster, with its status in an annotation.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use metal3_api::metal3::{BareMetalHost, ProvisioningState, names};
use metal3_lab::ironic::{Mark, Request, count};
use metal3_scenarios::{LIMIT, TestEnv, condition, id, run, state, status, waits_for_nothing};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

use super::{IRONIC, annotate, annotation, history};

/// As in `clusterctl move`: the object is deleted unreconciled, and recreated without a status.
async fn create_again(env: &TestEnv, name: &str, annotations: Value) {
    let mut host = env.host(name).await;
    env.patch(name, json!({"metadata": {"finalizers": null}})).await;
    env.delete(name).await;
    let hosts = env.hosts();
    eventually(LIMIT, "the old object is gone", || async {
        match hosts.get_opt(name).await.map_err(|e| e.to_string())? {
            None => Ok(()),
            Some(_) => Err("it is still there".to_owned()),
        }
    })
    .await;
    host.metadata = kube::core::ObjectMeta {
        name: Some(name.to_owned()),
        annotations: serde_json::from_value(annotations).unwrap_or_default(),
        ..kube::core::ObjectMeta::default()
    };
    host.status = None;
    let created = hosts
        .patch(name, &PatchParams::apply("move").force(), &Patch::Apply(&host))
        .await;
    assert!(created.is_ok(), "the host is created: {created:?}");
}

/// The Secret as another cluster has it: the same credentials under another version.
async fn create_secret_again(env: &TestEnv) {
    let (secrets, name) = (env.namespace.api::<Secret>(), env.secret_name(0));
    let none = json!({"metadata": {"finalizers": null}});
    secrets
        .patch(&name, &PatchParams::default(), &Patch::Merge(none))
        .await
        .unwrap();
    secrets.delete(&name, &DeleteParams::default()).await.unwrap();
    let credentials = env.server(0).credentials.clone();
    env.apply_credentials(0, &credentials).await;
}

fn is_provisioned_and_at_rest(host: &BareMetalHost) -> bool {
    state(host) == ProvisioningState::Provisioned && waits_for_nothing(host)
}

/// Changes to a node requested by operators since then.
fn changes(env: &TestEnv, node: &str, since: Mark) -> BTreeMap<String, u64> {
    let (requests, _) = env.ironic.requests(since).unwrap();
    let is_change = |r: &&Request| r.member.contains(node) && !r.is_of_a_ramdisk() && r.method != "GET";
    count(requests.iter().filter(is_change))
}

#[test]
fn a_moved_host_brings_its_status_along_and_a_broken_one_is_not_touched() {
    run(async {
        let mut env = TestEnv::shared(namespace!().await, &IRONIC, 1).await;
        let name = env.apply_with_image(0).await;
        env.expect_state(&name, ProvisioningState::Provisioned).await;
        let host = env.expect(&name, "is at rest", waits_for_nothing).await;
        let (before, node) = (env.machine(0).await, id(&host));
        let text = serde_json::to_string(&host.status).unwrap();

        env.kill_operator();
        let (_, mark) = env.ironic.requests(Mark::default()).unwrap();
        let half = &text[..text.len() / 2];
        create_again(&env, &name, json!({names::annotation::STATUS: half})).await;
        env.start_operator().await;
        let words = [names::annotation::STATUS, "mend the annotation"];
        let host = env.expect_waiting(&name, "InvalidAnnotation", &words).await;
        assert_eq!(state(&host), ProvisioningState::None);
        assert_eq!(
            annotation(&host, names::annotation::STATUS).map(String::as_str),
            Some(half)
        );
        env.expect_event(&name, "InvalidAnnotationValue", names::annotation::STATUS)
            .await;

        annotate(&env, &name, names::annotation::STATUS, json!(text)).await;
        let host = env
            .expect(&name, "is provisioned and at rest", is_provisioned_and_at_rest)
            .await;
        assert_eq!(annotation(&host, names::annotation::STATUS), None);
        assert_eq!((id(&host), status(&host).error_type), (node.clone(), None));
        assert!(status(&host).hardware.is_some());
        // A user may have written what the status says of credentials: Ironic is given those of the Secret.
        let access = BTreeMap::from([("PATCH /v1/nodes/{id}".to_owned(), 1)]);
        assert_eq!(changes(&env, &node, mark), access, "nothing else was asked for");

        // In another cluster the Secret has another version, and only Ironic knows whether it says the same.
        env.kill_operator();
        let (_, mark) = env.ironic.requests(Mark::default()).unwrap();
        create_secret_again(&env).await;
        create_again(&env, &name, json!({names::annotation::STATUS: text})).await;
        env.start_operator().await;
        let host = env
            .expect(&name, "is provisioned with the new Secret, and at rest", |host| {
                let credentials = status(host).good_credentials;
                is_provisioned_and_at_rest(host) && credentials == status(host).tried_credentials && {
                    let version = credentials.credentials_version;
                    !version.is_empty() && !text.contains(&format!("\"{version}\""))
                }
            })
            .await;
        assert_eq!(id(&host), node);
        assert!(condition(&host, "Provisioned").is_some_and(|c| c.reason == "Provisioned"));
        assert_eq!(
            changes(&env, &node, mark),
            access,
            "the credentials were given to Ironic"
        );
        assert_eq!(
            history(&env.machine(0).await),
            history(&before),
            "nobody touched the server"
        );
        env.delete(&name).await;
        env.expect_gone(&name).await;
    });
}
