//! Which hosts somebody may take, and which of them first. The same rules and the same order for machines and for HostClaims.
//!
//! ```text
//!  selector ─▶ kept for others ─▶ in use ─▶ reserved ─▶ deleted ─▶ error ─▶ paused ─▶ detached ─▶ unhealthy
//!                                                                                                     │
//!                        kept for the requester, else free ◀─ has an image ◀─ state ◀─ failure domain, if strict
//! ```

use std::sync::Arc;

use kube::ResourceExt;

use super::{BareMetalHost, Unfit};
use crate::infra::names::label::{FAILURE_DOMAIN, NODE_REUSE};
use crate::labels::selector::{Requirement, Selector};
use crate::reference::ObjectReference;

/// What somebody requires of a host.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The label selector.
    pub selector: &'a Selector,
    /// The preferred failure domain; empty for any.
    pub failure_domain: &'a str,
    /// Whether the failure domain is required.
    pub is_domain_strict: bool,
    /// Value of the node-reuse label on hosts kept for the requester; none if there are none.
    pub reuse: Option<&'a str>,
}

/// Whether a host may be taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It is free.
    Free,
    /// It is kept for the requester, and ready.
    Kept,
    /// It is kept for the requester, and suitable apart from its state.
    Coming(Unfit),
    /// It may not be taken.
    Rejected(Rejection<'a>),
}

/// The first rule that rejects a host.
#[derive(Debug, PartialEq, Eq)]
pub enum Rejection<'a> {
    /// Its labels do not meet this requirement.
    Label(Arc<Requirement>),
    /// It is kept for another control plane or deployment: the value of its node-reuse label.
    KeptFor(&'a str),
    /// This consumer uses it.
    InUse(&'a ObjectReference),
    /// Somebody is about to take it.
    Reserved,
    /// It is in this failure domain instead of the required one; empty for none.
    FailureDomain(&'a str),
    /// Nobody may take it.
    Unfit(Unfit),
}

/// The place of a host among those that may be taken. The least comes first: in the preferred failure domain before outside, then
/// by number, then by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank<'a> {
    is_elsewhere: bool,
    number: u64,
    namespace: &'a str,
    name: &'a str,
}

impl Wanted<'_> {
    /// Whether a host is in the preferred failure domain, if there is one.
    fn is_met_by_domain(&self, host: &BareMetalHost) -> bool {
        self.failure_domain.is_empty() || domain(host) == self.failure_domain
    }

    /// The place of a host. The number decides among equal hosts: it is the requester's, so that requesters spread over them.
    pub fn rank<'h>(&self, host: &'h BareMetalHost, number: u64) -> Rank<'h> {
        Rank {
            is_elsewhere: !self.is_met_by_domain(host),
            number,
            namespace: host.metadata.namespace.as_deref().unwrap_or_default(),
            name: host.metadata.name.as_deref().unwrap_or_default(),
        }
    }
}

impl BareMetalHost {
    /// Whether the requester may take the host. `is_reserved` is asked only if nothing in the host says no before.
    pub fn judge<'a>(&'a self, wanted: &Wanted<'_>, is_reserved: impl FnOnce() -> bool) -> Verdict<'a> {
        let labels = self.labels();
        if let Some(unmet) = wanted.selector.first_unmet(labels) {
            return Verdict::Rejected(Rejection::Label(unmet.clone()));
        }
        let kept_for = labels.get(NODE_REUSE).map(String::as_str);
        let is_kept = kept_for.is_some() && kept_for == wanted.reuse;
        if let Some(other) = kept_for.filter(|_| !is_kept) {
            return Verdict::Rejected(Rejection::KeptFor(other));
        }
        // While a host is kept for a cluster's machines, its consumer is the Cluster.
        let is_keeper = |consumer: &&ObjectReference| is_kept && consumer.kind == "Cluster";
        if let Some(consumer) = self.consumer().filter(|consumer| !is_keeper(consumer)) {
            return Verdict::Rejected(Rejection::InUse(consumer));
        }
        if is_reserved() {
            return Verdict::Rejected(Rejection::Reserved);
        }
        if let Some(unfit) = self.unfit() {
            return Verdict::Rejected(Rejection::Unfit(unfit));
        }
        if wanted.is_domain_strict && !wanted.is_met_by_domain(self) {
            return Verdict::Rejected(Rejection::FailureDomain(domain(self)));
        }
        match (self.unready(), is_kept) {
            (None | Some(Unfit::HasImage), true) => Verdict::Kept,
            (None, false) => Verdict::Free,
            (Some(unready), true) => Verdict::Coming(unready),
            (Some(unready), false) => Verdict::Rejected(Rejection::Unfit(unready)),
        }
    }
}

/// The failure domain of a host; empty for none.
fn domain(host: &BareMetalHost) -> &str {
    host.labels().get(FAILURE_DOMAIN).map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::metal3::ProvisioningState;

    fn host(name: &str, labels: &Value) -> BareMetalHost {
        serde_json::from_value(json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
            "metadata": {"namespace": "ns", "name": name, "labels": labels},
            "spec": {"online": false}, "status": {"provisioning": {"state": "available", "ID": ""}, "errorMessage": ""},
        }))
        .unwrap()
    }

    fn in_domain(selector: &Selector) -> Wanted<'_> {
        Wanted {
            selector,
            failure_domain: "x",
            is_domain_strict: false,
            reuse: None,
        }
    }

    #[test]
    fn the_domain_decides_then_the_number_then_the_name() {
        let selector = Selector::default();
        let wanted = in_domain(&selector);
        let (inside, outside) = (json!({FAILURE_DOMAIN: "x"}), json!({}));
        let hosts = [
            (host("b", &inside), 1),
            (host("a", &inside), 2),
            (host("c", &inside), 2),
            (host("d", &outside), 0),
        ];
        let ranks: Vec<_> = hosts.iter().map(|(host, number)| wanted.rank(host, *number)).collect();
        assert!(ranks.is_sorted(), "{ranks:?}");
        let anywhere = Wanted {
            failure_domain: "",
            ..wanted
        };
        assert!(anywhere.rank(&hosts[3].0, 0) < anywhere.rank(&hosts[0].0, 1));
    }

    /// A host in the domain x that is kept for md-x, with one change.
    fn kept(path: &str, value: &Value) -> BareMetalHost {
        let mut object = json!(host("h", &json!({NODE_REUSE: "md-x", FAILURE_DOMAIN: "x"})));
        let (parent, field) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
        serde_json::from_value(object).unwrap()
    }

    #[rstest]
    #[case::as_it_is("/spec/online", json!(true), Verdict::Kept)]
    #[case::by_its_cluster("/spec/consumerRef", json!({"kind": "Cluster", "name": "c"}), Verdict::Kept)]
    // It is about to lose the image of the machine before.
    #[case::with_an_image("/spec/image", json!({"url": "http://i"}), Verdict::Kept)]
    #[case::coming("/status/provisioning/state", json!("deprovisioning"),
        Verdict::Coming(Unfit::State(ProvisioningState::Deprovisioning)))]
    #[case::for_nobody("/metadata/labels", json!({FAILURE_DOMAIN: "x"}), Verdict::Free)]
    #[case::for_others("/metadata/labels", json!({NODE_REUSE: "md-y"}), Verdict::Rejected(Rejection::KeptFor("md-y")))]
    #[case::elsewhere("/metadata/labels", json!({NODE_REUSE: "md-x", FAILURE_DOMAIN: "y"}),
        Verdict::Rejected(Rejection::FailureDomain("y")))]
    #[case::nowhere("/metadata/labels", json!({NODE_REUSE: "md-x"}), Verdict::Rejected(Rejection::FailureDomain("")))]
    #[case::unfit("/metadata/annotations", json!({"baremetalhost.metal3.io/paused": ""}),
        Verdict::Rejected(Rejection::Unfit(Unfit::Paused)))]
    fn the_first_rule_that_rejects_a_host_decides(
        #[case] path: &str,
        #[case] value: Value,
        #[case] expected: Verdict<'static>,
    ) {
        let selector = Selector::default();
        let wanted = Wanted {
            is_domain_strict: true,
            reuse: Some("md-x"),
            ..in_domain(&selector)
        };
        assert_eq!(kept(path, &value).judge(&wanted, || false), expected);
    }

    #[test]
    fn a_free_host_must_be_ready_and_without_a_consumer() {
        let selector = Selector::default();
        let verdict = |change: &Value| {
            let mut object = json!(host("h", &json!({})));
            json_patch::merge(&mut object, change);
            let host: BareMetalHost = serde_json::from_value(object).unwrap();
            format!("{:?}", host.judge(&in_domain(&selector), || false))
        };
        for (change, word) in [
            (json!({"spec": {"image": {"url": "http://i"}}}), "HasImage"),
            (
                json!({"status": {"provisioning": {"state": "inspecting"}}}),
                "Inspecting",
            ),
            (
                json!({"spec": {"consumerRef": {"kind": "Cluster", "name": "c"}}}),
                "InUse",
            ),
        ] {
            let found = verdict(&change);
            assert!(found.starts_with("Rejected") && found.contains(word), "{found}");
        }
    }

    #[test]
    fn nobody_is_asked_about_reservations_of_a_host_that_does_not_fit() {
        let selector = Selector::default();
        let kept = host("h", &json!({NODE_REUSE: "md-x"}));
        let verdict = kept.judge(&in_domain(&selector), || panic!("it is kept"));
        assert_eq!(verdict, Verdict::Rejected(Rejection::KeptFor("md-x")));
        let free = host("h", &json!({}));
        assert_eq!(free.judge(&in_domain(&selector), || false), Verdict::Free);
        let verdict = free.judge(&in_domain(&selector), || true);
        assert_eq!(verdict, Verdict::Rejected(Rejection::Reserved));
    }
}
