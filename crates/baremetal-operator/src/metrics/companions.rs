//! The objects beside hosts, by what can be said of them. Counted as the watches change them, without a list.

use std::collections::HashMap;
use std::sync::Arc;

use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::condition::{data_image, firmware, preprovisioning_image, switch};
use metal3_api::metal3::{
    BMCEventSubscription, BareMetalSwitch, DataImage, HostFirmwareComponents, HostFirmwareSettings,
    PreprovisioningImage,
};
use metal3_runtime::conditions;
use metal3_runtime::metrics::{Catalogue, Kind};
use metal3_runtime::store::{Change, ObjectKey, Store};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: &'static str,
    state: &'static str,
}

/// It has what is asked for.
pub const READY: &str = "ready";
/// It waits for a user, or for its host.
pub const WAITING: &str = "waiting";
/// It asks for what cannot be had.
pub const INVALID: &str = "invalid";
/// What was tried has failed.
pub const FAILED: &str = "failed";
/// It is in deletion.
pub const DELETING: &str = "deleting";

/// A kind of objects that are counted.
pub trait Counted: kube::Resource<DynamicType = ()> + 'static {
    /// Its name.
    const NAME: &'static str;

    /// One of a few words about an object that is not in deletion.
    fn state(&self) -> &'static str;
}

impl Counted for HostFirmwareSettings {
    const NAME: &str = "HostFirmwareSettings";

    fn state(&self) -> &'static str {
        of_firmware(self.status.as_ref().map_or(&[][..], |status| &status.conditions))
    }
}

impl Counted for HostFirmwareComponents {
    const NAME: &str = "HostFirmwareComponents";

    fn state(&self) -> &'static str {
        of_firmware(self.status.as_ref().map_or(&[][..], |status| &status.conditions))
    }
}

fn of_firmware(found: &[Condition]) -> &'static str {
    let change = conditions::get(found, firmware::CHANGE_DETECTED);
    let change = change.filter(|change| change.status == ConditionStatus::True);
    if change.is_some_and(|change| change.reason == firmware::NOT_APPLIED) {
        return FAILED;
    }
    let is_changed = change.is_some();
    match conditions::get(found, firmware::VALID).map(|valid| &valid.status) {
        Some(ConditionStatus::False) => INVALID,
        Some(_) if !is_changed => READY,
        _ => WAITING,
    }
}

impl Counted for DataImage {
    const NAME: &str = "DataImage";

    fn state(&self) -> &'static str {
        let status = self.status.clone().unwrap_or_default();
        // With another reason its host does not try it again for the time being.
        let said = conditions::get(&status.conditions, data_image::ATTACHED);
        let is_tried = said.is_none_or(|said| {
            let tries = [
                data_image::ATTACHING,
                data_image::ATTACH_FAILED,
                data_image::DETACH_FAILED,
            ];
            tries.contains(&said.reason.as_str())
        });
        if status.error.count > 0 && is_tried {
            FAILED
        } else if conditions::is_true(&status.conditions, data_image::ATTACHED) {
            READY
        } else {
            WAITING
        }
    }
}

impl Counted for BMCEventSubscription {
    const NAME: &str = "BMCEventSubscription";

    fn state(&self) -> &'static str {
        let status = self.status.clone().unwrap_or_default();
        match (status.error.is_empty(), status.subscription_id.is_empty()) {
            (false, _) => FAILED,
            (true, false) => READY,
            (true, true) => WAITING,
        }
    }
}

impl Counted for PreprovisioningImage {
    const NAME: &str = "PreprovisioningImage";

    fn state(&self) -> &'static str {
        let found = self.status.as_ref().map_or(&[][..], |status| &status.conditions);
        if conditions::is_true(found, preprovisioning_image::ERROR) {
            FAILED
        } else if conditions::is_true(found, preprovisioning_image::READY) {
            READY
        } else {
            WAITING
        }
    }
}

impl Counted for BareMetalSwitch {
    const NAME: &str = "BareMetalSwitch";

    fn state(&self) -> &'static str {
        let found = self.status.as_ref().map_or(&[][..], |status| &status.conditions);
        match conditions::get(found, switch::VALID).map(|valid| &valid.status) {
            Some(ConditionStatus::True) => READY,
            Some(ConditionStatus::False) => INVALID,
            _ => WAITING,
        }
    }
}

/// How many objects there are beside hosts. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CompanionMetrics(Family<Labels, Gauge>);

impl CompanionMetrics {
    /// Registers them.
    pub fn new(catalogue: &mut Catalogue<'_>) -> Self {
        Self(catalogue.add(
            Kind::Gauge,
            "metal3_companions",
            &["kind", "state"],
            "Firmware objects, discs, subscriptions, ramdisks, claims, policies and switches beside hosts, by kind: they have what they ask for (ready), wait for a host or a user (waiting), ask for what cannot be had (invalid), have failed and are tried again (failed), or are on their way out (deleting)",
            Family::default(),
        ))
    }

    /// Counts the objects of a store from now on.
    pub fn follow<K: Counted, By>(&self, store: &Store<K, By>)
    where
        By: Eq + std::hash::Hash + Clone,
    {
        let counted = self.clone();
        store.listen(move |change| counted.count(change));
    }

    /// Counts the objects of a kind whose controller says in which state they are.
    pub fn tally(&self, kind: &'static str) -> Tally {
        Tally {
            kind,
            counted: self.clone(),
            known: Arc::default(),
        }
    }

    fn count<K: Counted>(&self, change: &Change<K>) {
        let state = |object: &K| match object.meta().deletion_timestamp {
            Some(_) => DELETING,
            None => object.state(),
        };
        self.moved(
            K::NAME,
            change.before.as_deref().map(state),
            change.after.as_deref().map(state),
        );
    }

    /// An object of this kind has changed its state, is new, or is gone.
    fn moved(&self, kind: &'static str, before: Option<&'static str>, after: Option<&'static str>) {
        if before == after {
            return;
        }
        for (state, by) in [(after, 1), (before, -1)] {
            if let Some(state) = state {
                self.0.get_or_create(&Labels { kind, state }).inc_by(by);
            }
        }
    }
}

/// Counts the objects of one kind, whose state does not only depend on themselves. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    kind: &'static str,
    counted: CompanionMetrics,
    known: Arc<Mutex<HashMap<ObjectKey, &'static str>>>,
}

impl Tally {
    /// An object is in this state, or gone.
    pub fn set(&self, object: &ObjectKey, state: Option<&'static str>) {
        let mut known = self.known.lock();
        let before = match state {
            Some(state) => known.insert(object.clone(), state),
            None => known.remove(object),
        };
        self.counted.moved(self.kind, before, state);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use metal3_runtime::metrics::{Build, Registry};
    use metal3_runtime::store::Sink as _;
    use rstest::rstest;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn of<K: Counted + DeserializeOwned>(version: &str, change: &Value) -> K {
        let mut object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": K::NAME,
            "metadata": {"name": "h", "namespace": "n", "uid": "u", "resourceVersion": version}, "spec": {}});
        json_patch::merge(&mut object, change);
        serde_json::from_value(object).unwrap()
    }

    fn conditions(found: &[(&str, &str)]) -> Value {
        let of = |(type_, status): &(&str, &str)| {
            json!({"type": type_, "status": status, "reason": "Any", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        json!({"status": {"conditions": found.iter().map(of).collect::<Vec<_>>()}})
    }

    #[test]
    fn what_a_bmc_did_not_apply_has_failed() {
        let mut found = conditions(&[("ChangeDetected", "True"), ("Valid", "True")]);
        found["status"]["conditions"][0]["reason"] = json!("NotApplied");
        assert_eq!(state::<HostFirmwareSettings>(&found), "failed");
        // A version that is the one from before counts as made.
        found["status"]["conditions"][0]["status"] = json!("False");
        assert_eq!(state::<HostFirmwareComponents>(&found), "ready");
    }

    fn state<K: Counted + DeserializeOwned + Clone + Debug>(change: &Value) -> &'static str {
        of::<K>("1", change).state()
    }

    #[rstest]
    #[case::not_judged(&[], "waiting")]
    #[case::as_wanted(&[("ChangeDetected", "False"), ("Valid", "True")], "ready")]
    #[case::pending(&[("ChangeDetected", "True"), ("Valid", "True")], "waiting")]
    #[case::invalid(&[("ChangeDetected", "True"), ("Valid", "False")], "invalid")]
    fn firmware_objects(#[case] found: &[(&str, &str)], #[case] expected: &str) {
        assert_eq!(state::<HostFirmwareSettings>(&conditions(found)), expected);
        assert_eq!(state::<HostFirmwareComponents>(&conditions(found)), expected);
    }

    #[test]
    fn discs_subscriptions_and_ramdisks() {
        assert_eq!(state::<DataImage>(&json!({})), "waiting");
        assert_eq!(state::<DataImage>(&conditions(&[("Attached", "False")])), "waiting");
        assert_eq!(state::<DataImage>(&conditions(&[("Attached", "True")])), "ready");
        let failed = json!({"status": {"error": {"count": 1, "message": "no"}}});
        assert_eq!(state::<DataImage>(&failed), "failed");
        let failed_and = |reason: &str| {
            let mut change = conditions(&[("Attached", "False")]);
            change["status"]["conditions"][0]["reason"] = json!(reason);
            change["status"]["error"] = json!({"count": 1, "message": "no"});
            state::<DataImage>(&change)
        };
        let states = ["AttachFailed", "DetachFailed", "Attaching", "HostOff"].map(failed_and);
        assert_eq!(states, ["failed", "failed", "failed", "waiting"]);
        assert_eq!(state::<BMCEventSubscription>(&json!({})), "waiting");
        assert_eq!(
            state::<BMCEventSubscription>(&json!({"status": {"subscriptionID": "1"}})),
            "ready"
        );
        let failed = json!({"status": {"subscriptionID": "1", "error": "no"}});
        assert_eq!(state::<BMCEventSubscription>(&failed), "failed");
        assert_eq!(state::<PreprovisioningImage>(&json!({})), "waiting");
        let ready = conditions(&[("Error", "False"), ("Ready", "True")]);
        assert_eq!(state::<PreprovisioningImage>(&ready), "ready");
        assert_eq!(
            state::<PreprovisioningImage>(&conditions(&[("Error", "True")])),
            "failed"
        );
    }

    #[rstest]
    #[case::not_judged(&[], "waiting")]
    #[case::written(&[("Valid", "True")], "ready")]
    #[case::left_out(&[("Valid", "False")], "invalid")]
    fn switches(#[case] found: &[(&str, &str)], #[case] expected: &str) {
        let mut change = conditions(found);
        change["spec"] = json!({"address": "switch.example", "macAddress": "00:11:22:33:44:55"});
        assert_eq!(state::<BareMetalSwitch>(&change), expected);
    }

    #[test]
    fn an_object_is_counted_in_the_state_that_its_controller_says() {
        let registry = Registry::new(Build {
            component: "test",
            version: "1",
        });
        let metrics = CompanionMetrics::new(&mut Catalogue::new(&registry));
        let tally = metrics.tally("HostClaim");
        let [one, other] = ["one", "other"].map(|name| ObjectKey::new("n", name));
        for (key, state, expected) in [
            (&one, Some(WAITING), [1, 0]),
            (&other, Some(WAITING), [2, 0]),
            (&one, Some(WAITING), [2, 0]),
            (&one, Some(READY), [1, 1]),
            (&other, None, [0, 1]),
            (&other, None, [0, 1]),
        ] {
            tally.set(key, state);
            let counts = [WAITING, READY].map(|state| count(&registry, "HostClaim", state));
            assert_eq!(counts, expected, "{key}: {state:?}");
        }
    }

    /// How many objects of a kind are in a state.
    fn count(registry: &Registry, kind: &str, state: &str) -> i64 {
        let text = registry.text().unwrap();
        let name = format!("metal3_companions{{kind=\"{kind}\",state=\"{state}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |number| number.parse().unwrap())
    }

    #[test]
    fn an_object_is_counted_once_in_the_state_that_it_has() {
        let registry = Registry::new(Build {
            component: "test",
            version: "1",
        });
        let metrics = CompanionMetrics::new(&mut Catalogue::new(&registry));
        let store: Store<DataImage> = Store::new(|_| Vec::new());
        metrics.follow(&store);
        let counts = || ["waiting", "ready", "failed", "deleting"].map(|state| count(&registry, "DataImage", state));
        store.put(of("1", &json!({})));
        assert_eq!(counts(), [1, 0, 0, 0]);
        let attached = conditions(&[("Attached", "True")]);
        store.put(of("2", &attached));
        store.put(of("3", &attached));
        assert_eq!(counts(), [0, 1, 0, 0]);
        let mut going = attached;
        going["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]});
        store.put(of("4", &going));
        assert_eq!(counts(), [0, 0, 0, 1]);
        store.remove(&ObjectKey::new("n", "h"), "u");
        assert_eq!(counts(), [0, 0, 0, 0]);
    }
}
