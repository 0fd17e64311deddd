//! A HostClaim and its host move to another management cluster by clusterctl, each with its own namespace. Both management clusters
//! run an operator and share one Ironic.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use metal3_api::capi::names::annotation::{BLOCK_MOVE, PAUSED};
use metal3_api::metal3::{BareMetalHost, HostClaim, ProvisioningState};
use metal3_ironic_sim::Counters;
use metal3_lab::cluster_api;
use metal3_lab::clusterctl::{Clusterctl, Entry};
use metal3_scenarios::{FleetEnv, LIMIT, run, state};
use metal3_testkit::{TestNamespace, eventually, namespace};
use serde_json::{Value, json};

use crate::claims::{accept_secrets, claim, delete, expect_copies, running, user_data};

const OURS: Entry<'static> = Entry {
    type_: "InfrastructureProvider",
    provider: "metal3",
    name: "infrastructure-metal3",
    namespace: "capm3-system",
    version: concat!("v", env!("CARGO_PKG_VERSION")),
};

/// A management cluster: the namespace of the hosts with an operator, and that of the claims.
struct Side {
    env: FleetEnv,
    tenant: TestNamespace,
}

impl Side {
    async fn start(mut env: FleetEnv, tenant: TestNamespace, clusterctl: &Clusterctl) -> Self {
        env.watch_also(&tenant);
        env.bind_secrets_of(&tenant).await;
        env.config.args.push("--hostclaims".to_owned());
        accept_secrets(&env.namespace).await;
        cluster_api::define(&tenant.client).await.unwrap();
        label_contract(&tenant.client).await;
        clusterctl.take_stock(tenant.server(), &[OURS]).await.unwrap();
        env.start_operator().await;
        Self { env, tenant }
    }

    async fn pause(&self, name: &str, value: Value) {
        let change = json!({"metadata": {"annotations": {PAUSED: value}}});
        let claims = self.tenant.api::<HostClaim>();
        claims
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .unwrap();
    }
}

/// What clusterctl compares before it moves anything, as its own installation has it.
async fn label_contract(client: &Client) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let labels = json!({"metadata": {"labels": {
        "cluster.x-k8s.io/provider": "cluster-api", "clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/v1beta2": "v1beta2",
    }}});
    let name = "clusters.cluster.x-k8s.io";
    definitions
        .patch(name, &PatchParams::default(), &Patch::Merge(labels))
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in [
        "capi-system",
        "capi-kubeadm-bootstrap-system",
        "capi-kubeadm-control-plane-system",
        "capm3-system",
    ] {
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.ok();
    }
}

#[test]
fn a_claim_and_its_host_move_to_another_cluster_and_the_server_does_not_notice() {
    run(async {
        let (tenant, hosts) = (namespace!().await, namespace!().await);
        let env = FleetEnv::new(hosts, 2, 9).await;
        let clusterctl = Clusterctl::ensure(&tenant.server().folder().join("clusterctl"))
            .await
            .unwrap();
        let away = env.namespace.elsewhere().await;
        let tenant_away = tenant.at(&away).await;
        let env_away = env.beside(away).await;
        let from = Side::start(env, tenant, &clusterctl).await;
        let to = Side::start(env_away, tenant_away, &clusterctl).await;

        let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy", "metadata": {"name": "p"},
            "spec": {"hostClaimNamespaces": {"names": [from.tenant.name]}}});
        from.env.namespace.apply(&policy.to_string()).await;
        from.env.apply_hosts().await;
        from.env.expect_all(ProvisioningState::Available).await;
        let mut secret: Value = serde_json::from_str(&user_data("first")).unwrap();
        secret["metadata"]["labels"] = json!({"clusterctl.cluster.x-k8s.io/move": ""});
        from.tenant.apply(&secret.to_string()).await;
        from.tenant.apply(&claim("a")).await;
        let host = running(&from.tenant, "a").await;
        let number = (0..2).find(|number| from.env.sim.server(*number).name == host).unwrap();
        let went = from.env.sim.all_counters()[&number];
        let blocks = |claim: &HostClaim| claim.annotations().contains_key(BLOCK_MOVE);
        from.tenant.expect("a", "holds back a move", blocks).await;

        from.pause("a", json!("")).await;
        from.tenant
            .expect("a", "can be moved", |claim: &HostClaim| !blocks(claim))
            .await;
        for namespace in [&from.env.namespace, &from.tenant] {
            let servers = [namespace.server(), to.tenant.server()];
            let said = clusterctl
                .move_namespace(&namespace.name, servers[0], servers[1])
                .await
                .unwrap();
            println!("{said}");
        }
        let left = from
            .tenant
            .api::<HostClaim>()
            .list(&ListParams::default())
            .await
            .unwrap();
        assert!(left.items.is_empty(), "left behind");
        let left = from
            .env
            .namespace
            .api::<BareMetalHost>()
            .list(&ListParams::default())
            .await
            .unwrap();
        assert!(left.items.is_empty(), "left behind");

        // Another claim of the same tenant does not get the host that waits for its own.
        to.tenant.apply(&claim("b")).await;
        let other = running(&to.tenant, "b").await;
        assert_ne!(other, host);
        delete(&to.tenant, "b").await;
        to.pause("a", json!(null)).await;
        assert_eq!(running(&to.tenant, "a").await, host);
        expect_copies(&to.env.namespace, &["first"]).await;
        eventually(LIMIT, "the host is provisioned", || async {
            let host: BareMetalHost = to
                .env
                .namespace
                .api()
                .get(&host)
                .await
                .map_err(|error| error.to_string())?;
            let is_provisioned = state(&host) == ProvisioningState::Provisioned;
            is_provisioned
                .then_some(())
                .ok_or_else(|| format!("{:?}", state(&host)))
        })
        .await;
        // Of it only its BMC has noticed anything: it was asked once, through a node of its own, whether it accepts the Secret.
        let asked_once = Counters {
            creates: went.creates + 1,
            deletes: went.deletes + 1,
            ..went
        };
        let counters = || to.env.sim.all_counters()[&number];
        eventually(LIMIT, "the BMC was asked", || async {
            let is_asked = counters() == asked_once;
            is_asked.then_some(()).ok_or_else(|| format!("{:?}", counters()))
        })
        .await;
        // The host is the claim's as before: its end deprovisions the host.
        delete(&to.tenant, "a").await;
        assert_eq!((counters().undeploys, counters().creates), (1, asked_once.creates));
    });
}
