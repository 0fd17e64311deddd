//! Whether the claim of a host may still be under way for a machine, as far as this process knows.
//!
//! A machine that has named a host and takes another must not get both. What others may have sent is fenced off by a mark on
//! the host, which makes a new version of it. Where the host takes no mark, because the API server refuses every write to it,
//! one has to know that no claim is under way: that only this process has sent any, and that all are answered.
//!
//! ```text
//!  names the host ──▶ claims it ──▶ refused, not written ──▶ names it no more
//!  another process claims a host that it has not named: counted on the machine first, so that the first one sees it
//! ```

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use crate::world::machine::host_of;
use kube::ResourceExt;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_api::metal3::BareMetalHost;
use metal3_runtime::store::ObjectKey;

/// On a Metal3Machine: how often the right to claim its host went to other hands, absent for never. With an even number only
/// the process that has named the host sends claims, with an odd one any may.
pub const CLAIM_TURN: &str = "infrastructure.cluster.x-k8s.io/claim-turn";

/// The number.
pub fn turn(machine: &Metal3Machine) -> u64 {
    let turn = machine.annotations().get(CLAIM_TURN);
    turn.and_then(|turn| turn.parse().ok()).unwrap_or_default()
}

/// Who may have sent claims of the host that a machine names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Claimant {
    /// Any process.
    #[default]
    Any,
    /// This process only, and the last one over this version of the host has no answer, if there is one. Older ones went
    /// over older versions, or are answered.
    Us(Option<String>),
}

impl Claimant {
    /// Whether a claim of this host may still be under way. The host was read from the API server just now: what goes over
    /// an older version comes too late.
    pub fn may_claim(&self, host: &BareMetalHost) -> bool {
        match self {
            Self::Any => true,
            Self::Us(None) => false,
            Self::Us(version) => *version == host.metadata.resource_version,
        }
    }
}

/// A host that this process has named for a machine.
#[derive(Clone, Debug)]
struct Naming {
    uid: Option<String>,
    host: ObjectKey,
    turn: u64,
    unanswered: Option<String>,
}

impl Naming {
    fn is_of(&self, machine: &Metal3Machine) -> bool {
        self.uid == machine.metadata.uid && host_of(machine).as_ref() == Some(&self.host)
    }
}

/// What this process has named and claimed, by machine. Lost with the process, after which any claim may be under way. Cheap
/// to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Claims(Arc<Mutex<HashMap<ObjectKey, Naming>>>);

impl Claims {
    /// Who may have sent claims of the host that the machine names.
    pub fn of(&self, machine: &Metal3Machine) -> Claimant {
        let namings = self.lock();
        let naming = namings.get(&ObjectKey::of(machine));
        let is_ours =
            |naming: &&Naming| naming.is_of(machine) && naming.turn == turn(machine) && naming.turn.is_multiple_of(2);
        naming
            .filter(is_ours)
            .map_or(Claimant::Any, |naming| Claimant::Us(naming.unanswered.clone()))
    }

    /// This process has written the machine over the version `before`.
    pub fn wrote(&self, before: &Metal3Machine, after: &Metal3Machine) {
        let (key, host) = (ObjectKey::of(after), host_of(after));
        if host == host_of(before) {
            return;
        }
        let mut namings = self.lock();
        let earlier = namings.remove(&key).filter(|naming| naming.is_of(after));
        if let Some(host) = host {
            let naming = Naming {
                uid: after.metadata.uid.clone(),
                host,
                turn: turn(after),
                unanswered: earlier.and_then(|naming| naming.unanswered),
            };
            namings.insert(key, naming);
        }
    }

    /// A claim over this version of the host is about to be sent for the machine. Whether it is the only one over that
    /// version that has no answer.
    pub fn send(&self, machine: &ObjectKey, version: &str) -> bool {
        let mut namings = self.lock();
        let Some(naming) = namings.get_mut(machine) else {
            return true;
        };
        let is_only = naming.unanswered.as_deref() != Some(version);
        naming.unanswered = Some(version.to_owned());
        is_only
    }

    /// That claim, the only one without an answer, was not written and will not be.
    pub fn was_not_written(&self, machine: &ObjectKey) {
        if let Some(naming) = self.lock().get_mut(machine) {
            naming.unanswered = None;
        }
    }

    /// The machine has its host, or is gone.
    pub fn forget(&self, machine: &ObjectKey) {
        self.lock().remove(machine);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Naming>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(host: Option<&str>, turn: Option<&str>) -> Metal3Machine {
        let annotations = json!({"metal3.io/BareMetalHost": host, CLAIM_TURN: turn});
        let annotations: serde_json::Map<_, _> = annotations
            .as_object()
            .unwrap()
            .clone()
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect();
        serde_json::from_value(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3Machine",
            "metadata": {"namespace": "ns", "name": "m", "uid": "u", "annotations": annotations}, "spec": {}}),
        )
        .unwrap()
    }

    fn host(version: &str) -> BareMetalHost {
        serde_json::from_value(
            json!({"metadata": {"name": "h", "resourceVersion": version}, "spec": {"online": false}}),
        )
        .unwrap()
    }

    #[test]
    fn only_of_a_host_that_this_process_has_named_it_knows_all_claims() {
        let (claims, named) = (Claims::default(), machine(Some("ns/h"), None));
        assert_eq!(
            claims.of(&named),
            Claimant::Any,
            "another process did, or an earlier one"
        );
        claims.wrote(&machine(None, None), &named);
        assert_eq!(claims.of(&named), Claimant::Us(None));
        assert_eq!(claims.of(&machine(Some("ns/other"), None)), Claimant::Any);
        for turn in ["1", "2"] {
            let taken = machine(Some("ns/h"), Some(turn));
            assert_eq!(
                claims.of(&taken),
                Claimant::Any,
                "another process claims it, or has named it"
            );
        }
        let mut namesake = named.clone();
        namesake.metadata.uid = Some("other".to_owned());
        assert_eq!(claims.of(&namesake), Claimant::Any);
        claims.wrote(&named, &machine(None, None));
        assert_eq!(claims.of(&named), Claimant::Any, "somebody has named it again");
    }

    #[test]
    fn a_claim_without_an_answer_may_be_done_until_the_host_is_another() {
        let (claims, named, key) = (
            Claims::default(),
            machine(Some("ns/h"), None),
            ObjectKey::new("ns", "m"),
        );
        claims.wrote(&machine(None, None), &named);
        assert!(claims.send(&key, "5"));
        assert!(claims.of(&named).may_claim(&host("5")));
        assert!(!claims.of(&named).may_claim(&host("6")));
        // What becomes of another one over that version says nothing of the first.
        assert!(!claims.send(&key, "5"));
        assert!(claims.send(&key, "6"));
        claims.was_not_written(&key);
        assert!(!claims.of(&named).may_claim(&host("6")));
    }
}
