//! The program itself, as two processes: manifests of users go through it, one of the two is replaced, and one dies.

use std::path::Path;

use cluster_api_provider_metal3::{rbac, webhooks};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use metal3_api::infra::v1beta1;
use metal3_testkit::{Processes, parse};

use crate::webhooks::{machine, trusts, write};

const OLD: &str = "infrastructure.cluster.x-k8s.io/v1beta1";

/// The manifests in `tests/corpus`, in the namespace `default`.
fn corpus() -> Vec<DynamicObject> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
    let files = std::fs::read_dir(folder).unwrap();
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let here = |text: String| text.replace("namespace: metal3", "namespace: default");
    texts.flat_map(|text| parse(&here(text)).unwrap()).collect()
}

fn is_old(object: &DynamicObject) -> bool {
    object.types.as_ref().is_some_and(|types| types.api_version == OLD)
}

/// Applies the manifests, and reads those of v1beta1 in their version.
async fn apply(processes: &Processes, manifests: &[DynamicObject]) {
    let applied = processes.apply(manifests).await;
    assert_eq!(applied.len(), manifests.len());
    for object in applied.iter().filter(|object| is_old(object)) {
        let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(processes.client.clone(), "default", &resource);
        let stored = api.get(object.metadata.name.as_ref().unwrap()).await.unwrap();
        assert_eq!(stored.data["spec"], object.data["spec"], "{kind:?}");
    }
}

// OWN 31sl: a process that was asked to end refused connections after two seconds, while Services may still choose it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_of_v1beta1_go_through_the_program_and_one_of_two_may_end_or_die() {
    let binary = Path::new(env!("CARGO_BIN_EXE_cluster-api-provider-metal3"));
    let of = webhooks::installed::certificates(rbac::NAMESPACE);
    let rights = rbac::objects().base;
    let mut processes = Processes::start(binary, &webhooks::all(), &of, &rights, rbac::SERVICE_ACCOUNT).await;
    let machines: Api<v1beta1::Metal3Machine> = Api::namespaced(processes.client.clone(), "default");
    trusts(&machines).await;
    let manifests = corpus();
    let old = manifests.iter().filter(|object| is_old(object)).count();
    assert!(old > 15, "{old}");
    apply(&processes, &manifests).await;

    let request = move || write(machines.clone(), machine("https://e/i"));
    processes.rotate_under_load(request.clone()).await;
    processes.replace_one_under_load(request.clone()).await;
    let repeated = processes.kill_one_under_load(request).await;
    println!("{repeated} requests were on their way to the process that was killed");
    // The other one answers alone.
    apply(&processes, &manifests).await;
    processes.expect_no_secrets().await;
}
