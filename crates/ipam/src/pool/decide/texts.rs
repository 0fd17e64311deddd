//! The texts in a claim's status.

use std::net::IpAddr;
use std::sync::Arc;

use metal3_api::capi::names::reason;
use metal3_api::condition::ConditionStatus;
use metal3_runtime::conditions;

use super::conditions::bounded;
use super::{Step, Turn};
use crate::alloc::Refusal;
use crate::pool::effect::{ClaimReport, Effect, Moment};
use crate::pool::objects::{Address, AddressId, Claim, Family};
use crate::pool::state::PoolState;

/// The field with a claim's requested address.
const REQUEST: &str = "metadata.annotations.ipAddress";

impl Turn<'_> {
    /// Why a claim gets no address: upstream's text, and in the condition also the fields concerned.
    pub(super) fn refusal(&self, claim: &Claim, refusal: &Refusal) -> ClaimReport {
        let text = refusal.to_string();
        let why = match refusal {
            Refusal::Exhausted => self.exhausted(),
            refusal => match self.fields_of(claim, refusal) {
                Some(fields) => format!("{text}: {fields}"),
                None => text.clone(),
            },
        };
        let word = if refusal.is_exhaustion() {
            reason::POOL_EXHAUSTED
        } else {
            reason::ALLOCATION_FAILED
        };
        ClaimReport {
            message: format!("{}: {why}", self.state.title()),
            ..failed(text, word, self.now)
        }
    }

    /// The fields that cause a refusal, and the remedy; nothing if the text is sufficient.
    fn fields_of(&self, claim: &Claim, refusal: &Refusal) -> Option<String> {
        let kept = format!("spec.preAllocations.{} of the pool", claim.key.name);
        Some(match refusal {
            Refusal::Conflict { requested, reserved } => {
                format!("{REQUEST} asks for {requested}, {kept} keeps {reserved}; change one or remove it")
            }
            Refusal::RequestedTaken(ip) => format!("{REQUEST} asks for {ip}, which {}", self.whose(*ip)),
            Refusal::ReservedOutside(ip) => format!("{kept} keeps {ip}, which is in no range of spec.pools"),
            Refusal::ReservedTaken(ip) => format!("{kept} keeps {ip}, which {}", self.whose(*ip)),
            Refusal::InvalidPrefix(prefix) => {
                format!("{prefix} is the prefix of the pool's entry, or else spec.prefix of the pool")
            }
            Refusal::InvalidRequest(_) | Refusal::RequestedOutside(_) | Refusal::Exhausted => return None,
        })
    }

    /// What blocks a claim's address.
    fn whose(&self, ip: IpAddr) -> String {
        if let Some(holder) = self.holdings.allocator().holder_of(ip) {
            return format!("{holder} has");
        }
        let mut foreign = self.state.foreign.iter();
        if let Some((id, _)) = foreign.find(|(_, address)| **address == ip) {
            return format!("cannot be given: its name is {}", taken_by(id));
        }
        let mut kept = self.state.plan.reserved().filter(|(_, address)| *address == ip);
        match kept.next() {
            Some((name, _)) => format!("spec.preAllocations.{name} of the pool keeps"),
            None => "is not free yet: it is being released".to_owned(),
        }
    }

    /// Names taken by another pool are not visible in this pool, so one of them is named.
    fn exhausted(&self) -> String {
        let text = "waits for an address: all are in use or kept for other claims";
        let Some((id, ip)) = self.state.foreign.first_key_value() else {
            return text.to_owned();
        };
        let taken = taken_by(id);
        format!("{text}, or their names are taken: that of {ip} is {taken} (spec.namePrefix of two pools may be equal)")
    }

    /// While the claim's object cannot be created, the claim reports that.
    pub(super) fn report_failure(&self, claim: &Arc<Claim>) -> Option<Effect> {
        let why = self.state.failures.claims.get(&claim.key)?.message.as_ref()?;
        if claim.address.is_some() || claim.meta.is_deleting || claim.is_paused {
            return None;
        }
        let text = "Failed to create associated IPAddress object";
        let report = ClaimReport {
            message: format!("{text}: {why}"),
            ..failed(text.to_owned(), reason::ALLOCATION_FAILED, self.now)
        };
        match report_to(claim, report) {
            Step::Do(effect) => Some(effect),
            Step::At(_) | Step::Done => None,
        }
    }

    /// A claim on a pool that does not exist reports that.
    pub(super) fn without_pool(&self, claim: &Arc<Claim>) -> Step {
        let (now, pool) = (self.now, self.state.title());
        if claim.address.is_some() {
            // The object keeps an address, even if the pool is gone.
            return Step::Done;
        }
        if self.state.name.is_empty() {
            let message = "spec.pool.name: cannot be empty; it says which IPPool of this namespace serves the claim";
            return report_to(claim, failed(message.to_owned(), reason::ALLOCATION_FAILED, now));
        }
        let field = match claim.key.family {
            Family::Metal3 => "spec.pool.name",
            Family::ClusterApi => "spec.poolRef.name",
        };
        let message = format!("{field}: {pool} does not exist; the claim waits for it");
        report_to(claim, not_ready(claim, message, now))
    }

    /// The object in a claim's way is being deleted. If finalizers of others hold it, that may last.
    pub(super) fn wait_for_end_of(&self, object: &Address, claim: &Arc<Claim>) -> Step {
        if claim.address.is_some() || object.meta.finalizers.is_empty() {
            return Step::Done;
        }
        let pool = self.state.title();
        let (name, keepers) = (&object.id.name, object.meta.finalizers.join(", "));
        let message = format!(
            "{pool}: IPAddress {name} of an earlier claim of this name is being deleted and kept by the \
             finalizers {keepers}; the claim waits until it is gone"
        );
        report_to(claim, not_ready(claim, message, self.now))
    }

    pub(super) fn why_failing(&self) -> Option<String> {
        why_failing(self.state, self.now)
    }
}

/// Why no claim can get an address for now; nothing if that is not so, or has just begun.
pub(super) fn why_failing(state: &PoolState, now: Moment) -> Option<String> {
    state.failures.pool.left(now.elapsed)?;
    let why = state.failures.pool.message.as_ref()?;
    Some(format!("{}: {why}; the claim waits until that works", state.title()))
}

fn taken_by(id: &AddressId) -> String {
    let (kind, name) = (id.family.api_version(), &id.name);
    format!("taken by {kind} IPAddress {name}, which is not for it")
}

/// A claim waits for its pool. That is no failure, and clears none.
pub(super) fn not_ready(claim: &Claim, message: String, now: Moment) -> ClaimReport {
    ClaimReport {
        address: None,
        error: claim.error.clone(),
        reason: reason::POOL_NOT_READY,
        message,
        now: now.wall,
    }
}

/// A claim has an address.
pub(super) fn served(object: &Address, now: Moment) -> ClaimReport {
    ClaimReport {
        address: Some(object.id.name.clone()),
        error: None,
        reason: conditions::READY,
        message: String::new(),
        now: now.wall,
    }
}

/// A pool in another namespace serves no claim here, whether or not it exists.
pub(super) fn elsewhere(claim: &Claim, now: Moment) -> Option<ClaimReport> {
    let namespace = claim.other_namespace.as_ref()?;
    let message = format!(
        "spec.pool.namespace: IPPool {namespace}/{} is in another namespace; a claim is served from its own only",
        claim.pool
    );
    Some(failed(message, reason::ALLOCATION_FAILED, now))
}

fn failed(message: String, reason: &'static str, now: Moment) -> ClaimReport {
    ClaimReport {
        address: None,
        error: Some(message.clone()),
        reason,
        message,
        now: now.wall,
    }
}

/// The claim's status, unless it is up to date.
///
/// It quotes users' texts of any length; the server rejects a status with an overlong one.
pub(super) fn report_to(claim: &Arc<Claim>, report: ClaimReport) -> Step {
    let report = ClaimReport {
        error: report.error.as_deref().map(bounded),
        message: bounded(&report.message),
        ..report
    };
    let ready = conditions::get(&claim.conditions, conditions::READY);
    let says =
        |status| ready.is_some_and(|c| c.status == status && c.reason == report.reason && c.message == report.message);
    let is_said = match (&report.address, claim.key.family) {
        // Claims that were served before there were conditions are left as they are.
        (Some(_), Family::Metal3) => ready.is_none() || says(ConditionStatus::True),
        (Some(_), Family::ClusterApi) => says(ConditionStatus::True),
        (None, _) => says(ConditionStatus::False),
    };
    let is_same =
        claim.address == report.address && (claim.error == report.error || claim.key.family == Family::ClusterApi);
    if is_same && is_said {
        Step::Done
    } else {
        Step::Do(Effect::Report(claim.clone(), report))
    }
}
