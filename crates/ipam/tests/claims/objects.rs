//! The objects of a site: making them, and what is expected of them.

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::{capi, ipam};
use serde_json::{Value, json};

use crate::support::{Kind, Site};

impl Site {
    pub async fn pool(&self, name: &str, spec: Value) -> ipam::IPPool {
        let mut spec = spec;
        if spec.get("namePrefix").is_none() {
            spec["namePrefix"] = json!(name);
        }
        let pool = json!({"metadata": {"name": name}, "spec": spec});
        let pool: ipam::IPPool = serde_json::from_value(pool).unwrap();
        self.namespace
            .api()
            .create(&PostParams::default(), &pool)
            .await
            .unwrap()
    }

    /// A Metal3 claim.
    pub async fn claim(&self, name: &str, pool: &str) -> ipam::IPClaim {
        self.claim_with(name, json!({"name": pool}), json!({})).await
    }

    pub async fn claim_with(&self, name: &str, pool: Value, metadata: Value) -> ipam::IPClaim {
        let mut metadata = metadata;
        metadata["name"] = json!(name);
        let claim = json!({"metadata": metadata, "spec": {"pool": pool}});
        let claim: ipam::IPClaim = serde_json::from_value(claim).unwrap();
        self.namespace
            .api()
            .create(&PostParams::default(), &claim)
            .await
            .unwrap()
    }

    /// A claim without a specification.
    pub async fn claim_without_spec(&self, name: &str) {
        let claim = format!("{{apiVersion: ipam.metal3.io/v1alpha1, kind: IPClaim, metadata: {{name: {name}}}}}");
        self.namespace.apply(&claim).await;
    }

    /// A Cluster API claim.
    pub async fn capi_claim(&self, name: &str, pool: &str) -> capi::IPAddressClaim {
        let reference = json!({"apiGroup": "ipam.metal3.io", "kind": "IPPool", "name": pool});
        self.capi_claim_with(name, reference, json!({}), json!({})).await
    }

    pub async fn capi_claim_with(&self, name: &str, pool: Value, spec: Value, metadata: Value) -> capi::IPAddressClaim {
        let (mut metadata, mut spec) = (metadata, spec);
        metadata["name"] = json!(name);
        spec["poolRef"] = pool;
        let claim = json!({"metadata": metadata, "spec": spec});
        let claim: capi::IPAddressClaim = serde_json::from_value(claim).unwrap();
        self.namespace
            .api()
            .create(&PostParams::default(), &claim)
            .await
            .unwrap()
    }

    /// A Cluster API Cluster.
    pub async fn cluster(&self, name: &str, paused: bool) {
        // What its schema insists on, and of no meaning here.
        let reference = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "Metal3Cluster", "name": name});
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"paused": paused, "infrastructureRef": reference}});
        self.namespace.apply(&cluster.to_string()).await;
    }

    /// The address that a Metal3 claim has got.
    pub async fn served(&self, name: &str) -> ipam::IPAddress {
        let is_served = |claim: &ipam::IPClaim| {
            let status = claim.status.as_ref();
            status.is_some_and(|s| s.address.is_some() && s.error_message.is_none())
        };
        let claim: ipam::IPClaim = self.namespace.expect(name, "is served", is_served).await;
        let address = claim.status.unwrap().address.unwrap();
        assert_eq!(address.namespace, self.namespace.name.as_str().into());
        self.namespace.api().get(&address.name).await.unwrap()
    }

    /// The address that a Cluster API claim has got.
    pub async fn capi_served(&self, name: &str) -> capi::IPAddress {
        let is_served = |claim: &capi::IPAddressClaim| {
            let status = claim.status.as_ref();
            let has_address = status.is_some_and(|s| s.address_ref.is_some());
            has_address && condition(status.map(|s| &s.conditions), &ConditionStatus::True).is_some()
        };
        let claim: capi::IPAddressClaim = self.namespace.expect(name, "is served", is_served).await;
        let address = claim.status.unwrap().address_ref.unwrap();
        self.namespace.api().get(&address.name).await.unwrap()
    }

    /// Waits for a Metal3 claim's error, and returns the words of its condition.
    pub async fn refused(&self, name: &str, error: &str) -> Condition {
        let error = error.to_owned();
        let says = move |claim: &ipam::IPClaim| {
            let status = claim.status.as_ref();
            status.is_some_and(|s| s.error_message.as_ref() == Some(&error) && s.address.is_none())
        };
        let claim: ipam::IPClaim = self.namespace.expect(name, "is refused", says).await;
        let conditions = claim.status.unwrap().conditions;
        condition(Some(&conditions), &ConditionStatus::False).unwrap().clone()
    }

    /// Waits until a Metal3 claim says that it waits, which is no error, and returns the words of its condition.
    pub async fn waits(&self, name: &str) -> Condition {
        let says = |claim: &ipam::IPClaim| {
            let status = claim.status.as_ref();
            let is_free_of_error = status.is_some_and(|s| s.error_message.is_none());
            is_free_of_error && condition(status.map(|s| &s.conditions), &ConditionStatus::False).is_some()
        };
        let claim: ipam::IPClaim = self.namespace.expect(name, "says that it waits", says).await;
        let conditions = claim.status.unwrap().conditions;
        condition(Some(&conditions), &ConditionStatus::False).unwrap().clone()
    }

    /// Waits for a Cluster API claim's condition with this reason, and returns it.
    pub async fn capi_refused(&self, name: &str, reason: &str) -> Condition {
        let reason = reason.to_owned();
        let says = move |claim: &capi::IPAddressClaim| {
            let list = claim.status.as_ref().map(|s| &s.conditions);
            condition(list, &ConditionStatus::False).is_some_and(|c| c.reason == reason)
        };
        let claim: capi::IPAddressClaim = self.namespace.expect(name, "is refused", says).await;
        let conditions = claim.status.unwrap().conditions;
        condition(Some(&conditions), &ConditionStatus::False).unwrap().clone()
    }

    pub async fn delete<K: Kind>(&self, name: &str) {
        self.namespace
            .api::<K>()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub async fn patch<K: Kind>(&self, name: &str, patch: Value) -> K {
        let patch = Patch::Merge(patch);
        self.namespace
            .api::<K>()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap()
    }

    /// Empties a status, as a move does.
    pub async fn wipe<K: Kind>(&self, name: &str) {
        self.status::<K>(name, Value::Null).await;
    }

    /// Writes a status, as an earlier manager may have done.
    pub async fn status<K: Kind>(&self, name: &str, status: Value) {
        let patch: Patch<Value> = Patch::Merge(json!({"status": status}));
        let api = self.namespace.api::<K>();
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Every address object, as family, name, claim and address.
    pub async fn addresses(&self) -> Vec<(&'static str, String, String, String)> {
        let metal3: Api<ipam::IPAddress> = self.namespace.api();
        let cluster_api: Api<capi::IPAddress> = self.namespace.api();
        let all = ListParams::default();
        let mut list: Vec<_> = metal3
            .list(&all)
            .await
            .unwrap()
            .items
            .iter()
            .map(|a| {
                (
                    "metal3",
                    a.name_any(),
                    a.spec.claim.name.clone(),
                    a.spec.address.clone(),
                )
            })
            .collect();
        list.extend(cluster_api.list(&all).await.unwrap().items.iter().map(|a| {
            (
                "capi",
                a.name_any(),
                a.spec.claim_ref.name.clone(),
                a.spec.address.clone(),
            )
        }));
        list.sort();
        list
    }

    /// Waits until the pool's `indexes` are these.
    pub async fn indexes(&self, pool: &str, expected: &[(&str, &str)]) -> ipam::IPPool {
        let expected: Vec<(String, String)> = expected
            .iter()
            .map(|(n, a)| ((*n).to_owned(), (*a).to_owned()))
            .collect();
        let has = move |pool: &ipam::IPPool| {
            let status = pool.status.clone().unwrap_or_default();
            status.allocations.into_iter().collect::<Vec<_>>() == expected && status.allocating.is_empty()
        };
        self.namespace.expect(pool, "has these indexes", has).await
    }
}

fn condition<'a>(list: Option<&'a Vec<Condition>>, status: &ConditionStatus) -> Option<&'a Condition> {
    list?.iter().find(|c| c.type_ == "Ready" && c.status == *status)
}
