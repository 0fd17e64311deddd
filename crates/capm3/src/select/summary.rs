//! A selection as text: "0 of 14 hosts: 9 in use by a, b, c and 6 more; 3 lack label rack=b; 2 not available: inspecting".

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use metal3_api::metal3::{ProvisioningState, Unfit};

use super::{Outcome, Refusal, Requirement, Selection};

/// Maximum names in a list before the rest is only counted.
const NAMED: usize = 3;

/// The result for all requesters with the same requirements.
#[derive(Clone, Debug)]
pub struct Survey {
    fit: usize,
    considered: usize,
    groups: Vec<String>,
    reasons: BTreeSet<String>,
}

impl Selection {
    /// Why hosts are rejected, as text.
    pub fn survey(&self) -> Survey {
        let mut counts: HashMap<Rule<'_>, Details<'_>> = HashMap::new();
        for (_, refusal) in &self.refused {
            let (rule, detail) = Rule::of(refusal);
            let details = counts.entry(rule).or_default();
            details.count += 1;
            *details.details.entry(detail).or_default() += 1;
        }
        let mut groups: Vec<(Rule<'_>, Details<'_>)> = counts.into_iter().collect();
        groups.sort_by(|(rule, details), (other_rule, other)| {
            (Reverse(details.count), rule).cmp(&(Reverse(other.count), other_rule))
        });
        Survey {
            fit: self.considered - self.refused.len(),
            considered: self.considered,
            groups: groups.iter().map(|(rule, details)| rule.text(details)).collect(),
            reasons: groups.iter().map(|(rule, details)| rule.reason(details)).collect(),
        }
    }
}

impl Survey {
    /// How many hosts of the namespace fit, and why the others do not. Rules are ordered by how many hosts they reject.
    pub fn text(&self, namespace: &str, outcome: &Outcome) -> String {
        let mut text = format!("{} of {} hosts", self.fit, self.considered);
        if self.considered == 0 {
            write!(text, ": there is no BareMetalHost in namespace {namespace}").ok();
            return text;
        }
        if let Some(name) = awaited(outcome) {
            write!(text, ": waiting for {name}, which is kept for this machine").ok();
        }
        if !self.groups.is_empty() {
            let separator = if awaited(outcome).is_some() { "; " } else { ": " };
            write!(text, "{separator}{}", self.groups.join("; ")).ok();
        }
        text
    }

    /// Whether the report differs, apart from numbers and from which consumers use the hosts.
    pub fn differs(&self, outcome: &Outcome, other: &Self, other_outcome: &Outcome) -> bool {
        let reasons = |survey: &Self| (survey.considered == 0, survey.fit == 0, survey.reasons.clone());
        reasons(self) != reasons(other) || awaited(outcome) != awaited(other_outcome)
    }
}

/// The host that is kept for the machine, and not ready yet.
fn awaited(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Await(host) => host.metadata.name.as_deref(),
        Outcome::Own(_) | Outcome::Chosen { .. } | Outcome::None => None,
    }
}

/// Refusals that are told together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Rule<'a> {
    Lacks(&'a Requirement),
    Unmet(&'a Requirement),
    InUse,
    Predecessor,
    BeingClaimed,
    Kept,
    Unavailable,
    Failed,
    HasImage,
    OtherDomain,
    Unhealthy,
    Paused,
    Detached,
    Deleting,
}

/// How often, and how often with each detail.
#[derive(Default)]
struct Details<'a> {
    count: usize,
    details: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Rule<'a> {
    fn of(refusal: &'a Refusal) -> (Self, Cow<'a, str>) {
        const NONE: Cow<'_, str> = Cow::Borrowed("");
        match refusal {
            Refusal::Label(requirement) if requirement.is_positive() => (Self::Lacks(requirement), NONE),
            Refusal::Label(requirement) => (Self::Unmet(requirement), NONE),
            Refusal::KeptFor(who) => (Self::Kept, who.into()),
            Refusal::InUse(consumer) if consumer.is_predecessor => (Self::Predecessor, NONE),
            Refusal::InUse(consumer) if consumer.kind == "Metal3Machine" => (Self::InUse, (&consumer.name).into()),
            Refusal::InUse(consumer) => (Self::InUse, format!("{} {}", consumer.kind, consumer.name).into()),
            Refusal::BeingClaimed(machine) => (Self::BeingClaimed, (&machine.name).into()),
            Refusal::Unfit(Unfit::Deleting) => (Self::Deleting, NONE),
            Refusal::Unfit(Unfit::Error(kind)) => (Self::Failed, kind.into()),
            Refusal::Unfit(Unfit::Paused) => (Self::Paused, NONE),
            Refusal::Unfit(Unfit::Detached) => (Self::Detached, NONE),
            Refusal::Unfit(Unfit::Unhealthy) => (Self::Unhealthy, NONE),
            Refusal::FailureDomain(domain) if domain.is_empty() => (Self::OtherDomain, "none".into()),
            Refusal::FailureDomain(domain) => (Self::OtherDomain, domain.into()),
            Refusal::Unfit(Unfit::HasImage) => (Self::HasImage, NONE),
            Refusal::Unfit(Unfit::State(state)) if state.as_str().is_empty() => {
                (Self::Unavailable, "not looked at yet".into())
            }
            Refusal::Unfit(Unfit::State(state)) => (Self::Unavailable, state.as_str().into()),
        }
    }

    fn text(&self, of: &Details<'_>) -> String {
        let count = of.count;
        match self {
            Self::Lacks(label) if count == 1 => format!("1 lacks label {label}"),
            Self::Lacks(label) => format!("{count} lack label {label}"),
            Self::Unmet(label) if count == 1 => format!("1 does not meet {label}"),
            Self::Unmet(label) => format!("{count} do not meet {label}"),
            Self::InUse => format!("{count} in use by {}", of.names()),
            Self::Predecessor => format!(
                "{count} still in use by an earlier machine of this name, which is gone: clear its spec.consumerRef to free it"
            ),
            Self::BeingClaimed => format!("{count} being claimed by {}", of.names()),
            Self::Kept => format!("{count} kept for {}", of.names()),
            Self::Unavailable => format!("{count} not available: {}", of.counted()),
            Self::Failed => format!("{count} failed: {}", of.counted()),
            Self::HasImage => format!("{count} with an image that no machine has asked for"),
            Self::OtherDomain => format!("{count} in another failure domain: {}", of.counted()),
            Self::Unhealthy => format!("{count} marked as unhealthy"),
            Self::Paused => format!("{count} paused"),
            Self::Detached => format!("{count} detached"),
            Self::Deleting => format!("{count} being deleted"),
        }
    }
}

impl Rule<'_> {
    /// The rule, with what is behind it where that is of a few kinds and says what to do.
    fn reason(&self, of: &Details<'_>) -> String {
        match self {
            // Who is claiming a host uses it next.
            Self::InUse | Self::BeingClaimed => "in use".to_owned(),
            Self::Lacks(label) | Self::Unmet(label) => label.to_string(),
            Self::Unavailable => {
                let details: BTreeSet<&str> = of.details.keys().map(|state| phase(state)).collect();
                format!("{self:?} {details:?}")
            }
            Self::Failed | Self::OtherDomain => {
                let details: BTreeSet<&str> = of.details.keys().map(Cow::as_ref).collect();
                format!("{self:?} {details:?}")
            }
            Self::Predecessor
            | Self::Kept
            | Self::HasImage
            | Self::Unhealthy
            | Self::Paused
            | Self::Detached
            | Self::Deleting => format!("{self:?}"),
        }
    }
}

/// A state in which a host stays until somebody does something; others follow each other by themselves, as where a rack is
/// inspected.
fn phase(state: &str) -> &str {
    const LASTING: [ProvisioningState; 3] = [
        ProvisioningState::Unmanaged,
        ProvisioningState::Provisioned,
        ProvisioningState::ExternallyProvisioned,
    ];
    let is_lasting = LASTING.iter().any(|lasting| lasting.as_str() == state);
    if is_lasting { state } else { "in transit" }
}

impl Details<'_> {
    /// The first of the names.
    fn names(&self) -> String {
        let mut named: Vec<&str> = self.details.keys().map(Cow::as_ref).collect();
        if named.len() > NAMED {
            named.select_nth_unstable(NAMED - 1);
            named.truncate(NAMED);
        }
        named.sort_unstable();
        let more = self.details.len() - named.len();
        let named = named.join(", ");
        if more == 0 {
            named
        } else {
            format!("{named} and {more} more")
        }
    }

    /// Each detail with how often there is, where there are several.
    fn counted(&self) -> String {
        if self.details.len() == 1 {
            return self.names();
        }
        let mut details: Vec<(&str, usize)> = self.details.iter().map(|(detail, count)| (&**detail, *count)).collect();
        details.sort_unstable();
        let counted: Vec<String> = details
            .iter()
            .map(|(detail, count)| format!("{count} {detail}"))
            .collect();
        counted.join(", ")
    }
}
