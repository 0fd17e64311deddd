//! The history of a host, from watch events. Pure: the time comes with the event.

use jiff::Timestamp;
use metal3_api::condition::ConditionStatus;
use metal3_api::metal3::{BareMetalHost, ProvisioningState};

/// What a host is on its way through; at rest it is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Registering,
    Inspecting,
    Preparing,
    /// From the moment at which it is available and has an image.
    Provisioning,
    /// From the moment at which a provisioned host has no image any more.
    Deprovisioning,
    /// From the deletion by the user until the object is gone.
    Deleting,
}

impl Phase {
    pub const ALL: [Self; 6] = [
        Self::Registering,
        Self::Inspecting,
        Self::Preparing,
        Self::Provisioning,
        Self::Deprovisioning,
        Self::Deleting,
    ];
    /// Those between the creation of a host and its being provisioned.
    pub const UP: [Self; 4] = [Self::Registering, Self::Inspecting, Self::Preparing, Self::Provisioning];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registering => "registering",
            Self::Inspecting => "inspecting",
            Self::Preparing => "preparing",
            Self::Provisioning => "provisioning",
            Self::Deprovisioning => "deprovisioning",
            Self::Deleting => "deleting",
        }
    }

    fn of(state: &ProvisioningState, wants_image: bool, is_deleted: bool) -> Option<Self> {
        use ProvisioningState as S;
        match state {
            // Deletion goes through deprovisioning where there is something to take down.
            S::Deprovisioning => Some(Self::Deprovisioning),
            _ if is_deleted => Some(Self::Deleting),
            S::None | S::Unmanaged | S::Registering => Some(Self::Registering),
            S::MatchProfile | S::Inspecting => Some(Self::Inspecting),
            S::Preparing => Some(Self::Preparing),
            S::Ready | S::Available => wants_image.then_some(Self::Provisioning),
            S::Provisioning => Some(Self::Provisioning),
            S::Provisioned => (!wants_image).then_some(Self::Deprovisioning),
            S::PoweringOffBeforeDelete | S::Deleting => Some(Self::Deleting),
            S::ExternallyProvisioned | S::Other(_) => None,
        }
    }
}

/// A time spent in a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spell {
    pub phase: Phase,
    pub from: Timestamp,
    pub to: Timestamp,
}

/// What a host waits for, by its condition `Waiting`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub reason: String,
    pub message: String,
}

/// One host's story so far.
#[derive(Clone, Debug)]
pub struct Story {
    pub name: String,
    /// Ironic's node, by its UUID.
    pub node: Option<String>,
    pub state: ProvisioningState,
    /// When it came into the state.
    pub since: Timestamp,
    pub waiting: Option<Waiting>,
    pub error: Option<String>,
    /// What is installed.
    pub image: Option<String>,
    /// The machine that uses it.
    pub user: Option<String>,
    pub is_gone: bool,
    pub spells: Vec<Spell>,
    open: Option<(Phase, Timestamp)>,
}

impl Story {
    /// A host that was just created.
    pub fn new(name: &str, now: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            node: None,
            state: ProvisioningState::None,
            since: now,
            waiting: None,
            error: None,
            image: None,
            user: None,
            is_gone: false,
            spells: Vec::new(),
            open: Some((Phase::Registering, now)),
        }
    }

    /// The host as it is now. Returns what changed in a line, if a person wants to know.
    pub fn see(&mut self, host: &BareMetalHost, now: Timestamp) -> Option<String> {
        let status = host.status.clone().unwrap_or_default();
        let before = (self.state.clone(), self.reason(), self.error.clone(), self.user.clone());
        let spent = seconds(self.since, now);
        if !status.provisioning.id.is_empty() {
            self.node = Some(status.provisioning.id.clone());
        }
        let waiting = status
            .conditions
            .iter()
            .find(|c| c.type_ == "Waiting" && c.status == ConditionStatus::True);
        self.waiting = waiting.map(|c| Waiting {
            reason: c.reason.clone(),
            message: c.message.clone(),
        });
        self.error = Some(status.error_message).filter(|message| !message.is_empty());
        self.user = host.spec.consumer_ref.as_ref().map(|user| user.name.clone());
        self.image = status
            .provisioning
            .image
            .map(|image| image.url)
            .filter(|url| !url.is_empty());
        let state = status.provisioning.state;
        self.enter(
            Phase::of(
                &state,
                host.spec.image.is_some(),
                host.metadata.deletion_timestamp.is_some(),
            ),
            now,
        );
        if state != self.state {
            self.state = state;
            self.since = now;
        }
        let after = (self.state.clone(), self.reason(), self.error.clone(), self.user.clone());
        if before == after {
            return None;
        }
        let mut parts = vec![format!("{:<15}", self.state_text())];
        if before.0 != after.0 && before.0 != ProvisioningState::None {
            parts.push(format!("after {spent:.1} s {}", before.0.as_str()));
        }
        if before.3 != after.3 {
            parts.push(match &self.user {
                Some(user) => format!("for {user}"),
                None => "free".to_owned(),
            });
        }
        parts.extend(
            self.waiting
                .as_ref()
                .map(|waiting| format!("waits: {}: {}", waiting.reason, waiting.message)),
        );
        parts.extend(self.error.as_ref().map(|error| format!("error: {error}")));
        Some(parts.join("  "))
    }

    /// The host is not there any more.
    pub fn vanish(&mut self, now: Timestamp) -> String {
        let line = format!(
            "{:<15}  after {:.1} s {}",
            "gone",
            seconds(self.since, now),
            self.state_text()
        );
        self.enter(None, now);
        self.is_gone = true;
        self.waiting = None;
        line
    }

    /// The state in a word, also where it is empty.
    pub fn state_text(&self) -> &str {
        match &self.state {
            _ if self.is_gone => "gone",
            ProvisioningState::None => "new",
            state => state.as_str(),
        }
    }

    fn reason(&self) -> Option<String> {
        self.waiting.as_ref().map(|waiting| waiting.reason.clone())
    }

    fn enter(&mut self, phase: Option<Phase>, now: Timestamp) {
        if self.open.map(|(open, _)| open) == phase {
            return;
        }
        if let Some((phase, from)) = self.open {
            self.spells.push(Spell { phase, from, to: now });
        }
        self.open = phase.map(|phase| (phase, now));
    }
}

/// The time between two moments, in seconds.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn host(state: &str, image: bool, deleted: bool) -> BareMetalHost {
        let image = image.then(|| json!({"url": "http://x/y", "checksum": "z"}));
        let mut value = json!({
            "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "a"},
            "spec": {"online": true, "image": image},
            "status": {"provisioning": {"state": state, "ID": "node"}, "conditions": [{
                "type": "Waiting", "status": "True", "reason": "Verifying", "message": "for the BMC",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        });
        if value["spec"]["image"].is_null() {
            value["spec"].as_object_mut().unwrap().remove("image");
        }
        if deleted {
            value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        serde_json::from_value(value).unwrap()
    }

    /// Two states without work of their own belong to what the host is on its way to.
    #[test]
    fn a_life_is_told_in_phases_without_gaps_where_work_is_under_way() {
        let mut story = Story::new("a", at(0));
        let life = [
            (1, "registering", true, false),
            (3, "inspecting", true, false),
            (7, "preparing", true, false),
            (12, "available", true, false),
            (13, "provisioning", true, false),
            (20, "provisioned", true, false),
            (30, "provisioned", false, false),
            (31, "deprovisioning", false, false),
            (36, "available", false, false),
            (40, "available", false, true),
            (41, "deleting", false, true),
        ];
        for (second, state, image, deleted) in life {
            story.see(&host(state, image, deleted), at(second));
        }
        assert_eq!(story.vanish(at(42)), "gone             after 1.0 s deleting");
        let spells: Vec<_> = story
            .spells
            .iter()
            .map(|s| (s.phase.as_str(), seconds(at(0), s.from), seconds(s.from, s.to)))
            .collect();
        let wanted = [
            ("registering", 0.0, 3.0),
            ("inspecting", 3.0, 4.0),
            ("preparing", 7.0, 5.0),
            ("provisioning", 12.0, 8.0),
            ("deprovisioning", 30.0, 6.0),
            ("deleting", 40.0, 2.0),
        ];
        assert_eq!(spells, wanted);
        assert!(story.is_gone);
        assert_eq!(story.node.as_deref(), Some("node"));
    }

    #[test]
    fn only_what_a_person_wants_to_know_makes_a_line() {
        let mut story = Story::new("a", at(0));
        let first = story.see(&host("registering", true, false), at(1)).unwrap();
        assert_eq!(first, "registering      waits: Verifying: for the BMC");
        assert_eq!(story.see(&host("registering", true, false), at(2)), None);
        let next = story.see(&host("inspecting", true, false), at(3)).unwrap();
        assert_eq!(
            next,
            "inspecting       after 2.0 s registering  waits: Verifying: for the BMC"
        );
    }
}
