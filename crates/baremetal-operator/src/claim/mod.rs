//! The HostClaim controller: hosts of one namespace for users of another, as far as HostDeployPolicies permit it.
//!
//! ```text
//!  claim without a host ─▶ choose (pure) ─▶ 1. consumerRef of the host, on the version that was judged
//!  claim with a host ────▶ 2. copies of its Secrets ─▶ 3. image, power, reboots of the host ─▶ 4. status of the claim
//!  deleted claim ────────▶ 1. no image ─▶ (deprovisioned) ─▶ 2. no copies ─▶ 3. no consumerRef ─▶ 4. no finalizer
//! ```
//!
//! A host has one consumer because it is written on the version that was evaluated. The host leads to everything that must be
//! undone, so it is written first and released last, and a kill between any two steps is harmless. A policy is about taking hosts:
//! a claim keeps its host when the policy changes.
//!
//! A host whose claim is gone, and with it whatever would lead to the host, is released by `orphans.rs`.
//!
//! Without `--hostclaims` only claims in deletion are processed: those that an operator with it left would hang, and with them
//! their namespaces.

mod apply;
mod choose;
mod decide;
mod moving;
mod observe;
mod observed;
mod orphans;
mod policies;
mod rings;
mod run;
mod state;
mod stores;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::metal3::names::condition::host_claim::{HOST_NOT_SYNCHRONIZED, NO_HOST};
use metal3_api::metal3::{BareMetalHost, HostClaim, HostClaimStatus};
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Next, Outcome, Plan, Report};
use metal3_runtime::error::{Class, Classified};
use metal3_runtime::secrets::{SecretKey, SecretVersions};
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::{DEBOUNCE, RELEASE};
use metal3_runtime::work::Queue;
use parking_lot::Mutex;

use self::apply::Writer;
use self::choose::is_free;
use self::decide::status::{Problem, associated};
use self::decide::{Answer, Effect, Read, decide};
use self::observed::{Bound, Copied, Data, Observed, Version};
use self::policies::Policies;
pub use self::run::run;
use self::stores::{HostIndex, Namespaces, claim_of, version_of};
use self::waiting::Waiting;
use crate::live;
use crate::metrics::ClaimMetrics;

/// The controller. Cheap to clone.
#[derive(Clone)]
struct Claims {
    clock: Clock,
    is_enabled: bool,
    writer: Writer,
    hosts: HostIndex,
    policies: Policies,
    namespaces: Namespaces,
    secrets: SecretVersions<ObjectKey>,
    /// The versions of the Secrets that were copied for each claim.
    copied: Arc<Mutex<HashMap<ObjectKey, BTreeMap<Data, Copied>>>>,
    /// The refusals of hosts to each claim that waits.
    refused: Arc<Mutex<HashMap<ObjectKey, BTreeMap<Version, u32>>>>,
    /// The hosts that passes under way may take, with their claims.
    reserved: Arc<Mutex<HashMap<ObjectKey, ObjectKey>>>,
    waiting: Waiting,
    metrics: ClaimMetrics,
    queue: Queue<ObjectKey>,
}

impl Claims {
    /// Wakes the next claim that a host suits.
    fn offer(&self, host: &ObjectKey, behind: Option<&HostClaim>) {
        let host = self.writer.hosts.get(host).filter(|host| is_free(host));
        if let Some(claim) = host.and_then(|host| self.waiting.offer(&host, behind)) {
            self.queue.push(claim);
        }
    }

    /// After a pass: a claim without a host waits in line.
    fn settle(&self, key: &ObjectKey, seen: &Observed) {
        self.copied.lock().insert(key.clone(), seen.copied.clone());
        self.remember_refusals(key, seen);
        let request = seen.request.as_ref().and_then(|request| request.as_ref().ok());
        match request.filter(|_| seen.own.is_empty()) {
            None => self.waiting.remove(key),
            Some(request) => {
                self.waiting.add(&seen.claim, request.clone());
                // A host may have become free before the claim was in line. What this pass has judged is no reason to look again.
                let found = self.hosts.candidates(request, seen.refused.len() + 1, |_| false);
                if found.hosts.iter().any(|(change, _)| *change > seen.changes) {
                    self.queue.push(key.clone());
                }
            }
        }
        self.pass_on(key, seen);
    }

    /// Wakes the next claim for the host that this one was woken for, and may not have taken.
    fn pass_on(&self, key: &ObjectKey, seen: &Observed) {
        if let Some(host) = self.waiting.offered(key) {
            self.offer(&host, Some(&seen.claim));
        }
    }

    /// Keeps the refusals of the versions of hosts that are still free.
    fn remember_refusals(&self, key: &ObjectKey, seen: &Observed) {
        let free = seen.free.iter().chain(&seen.named);
        let free = free.map(|host| version_of(&host.metadata));
        let counts = free.filter_map(|version| Some((version.clone(), *seen.refused.get(&version)?)));
        let counts: BTreeMap<Version, u32> = counts.collect();
        let mut refused = self.refused.lock();
        if counts.is_empty() {
            refused.remove(key);
        } else {
            refused.insert(key.clone(), counts);
        }
    }

    fn forget(&self, key: &ObjectKey) {
        self.waiting.remove(key);
        self.metrics.forget(key);
        self.copied.lock().remove(key);
        self.refused.lock().remove(key);
        self.secrets.remove_owner(key);
        if let Some(host) = self.waiting.offered(key) {
            self.offer(&host, None);
        }
    }
}

impl Controller for Claims {
    const NAME: &'static str = "hostclaim";
    type Observed = Observed;
    type Read = Read;
    type Effect = Effect;
    type Status = HostClaimStatus;
    type Error = kube::Error;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let of_claim = queue.clone();
        self.writer.claims.listen(move |change| {
            let read = |claim: &HostClaim| {
                let metadata = &claim.metadata;
                let annotations = metadata.annotations.clone();
                (
                    metadata.uid.clone(),
                    metadata.generation,
                    metadata.deletion_timestamp.is_some(),
                    metadata.finalizers.clone(),
                    annotations,
                )
            };
            if change.affects(read) {
                of_claim.push_in(change.key.clone(), DEBOUNCE);
            }
        });
        let (of_host, own) = (queue.clone(), self.clone());
        self.writer.hosts.listen(move |change| {
            let claims: BTreeSet<_> = change.states().filter_map(|host| claim_of(host)).collect();
            for claim in claims {
                of_host.push_in(claim, DEBOUNCE);
            }
            let read = |host: &BareMetalHost| (is_free(host), host.metadata.labels.clone());
            if change.after.as_deref().is_some_and(is_free) && change.affects(read) {
                own.offer(&change.key, None);
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        self.writer.claims.all()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, kube::Error> {
        let Some(claim) = self.writer.claims.get(key) else {
            self.forget(key);
            return Ok(None);
        };
        Ok(self.look(key, claim))
    }

    fn decide(seen: &Observed, now: Timestamp) -> Answer {
        decide(seen, now)
    }

    async fn fetch(&self, seen: &mut Observed, read: Read) -> Result<(), kube::Error> {
        match read {
            Read::Host(host) => seen.bound = Bound::NotKnown(Some(live::host(&self.writer.client, &host).await)),
            Read::Survey => {
                let request = seen.request.as_ref().and_then(|request| request.as_ref().ok());
                seen.survey = request.map(|request| self.hosts.survey(request));
            }
            Read::Secret(data) => {
                let secret = self.writer.read(seen, data).await?;
                let name = data.of_claim(&seen.claim).map(|reference| reference.name.clone());
                let key = SecretKey {
                    namespace: seen.claim.namespace().unwrap_or_default(),
                    name: name.unwrap_or_default(),
                };
                if let Some(secret) = &secret {
                    seen.versions.insert(data, version_of(&secret.metadata));
                    self.secrets.learn(&key, Some(&secret.metadata));
                }
            }
        }
        Ok(())
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        let done = match effect {
            Effect::Copy(data) => self.copy(seen, *data).await,
            other => self.writer.apply(seen, other).await,
        };
        match (&done, effect) {
            (Ok(()), Effect::Take(_)) => self.metrics.bound(state::age(&seen.claim, self.clock.now())),
            (Ok(()), _) => {}
            (Err(error), _) => count_refusal(seen, effect, error),
        }
        done
    }

    async fn report(&self, seen: &mut Observed, report: Report<HostClaimStatus>) -> Result<(), kube::Error> {
        self.writer.report(seen, report).await
    }

    /// What a user or an administrator must mend is reported on the claim; the server's words may be about the host, and are logged.
    fn outcome(
        seen: &Observed,
        _: &Plan<Effect, HostClaimStatus>,
        effect: &Effect,
        error: &kube::Error,
        now: Timestamp,
    ) -> Option<Outcome<HostClaimStatus>> {
        if !is_refusal(error) {
            return None;
        }
        let report = match effect {
            Effect::Copy(data) => {
                let message = format!(
                    "spec.{}: the operator may not copy the Secret to the namespace of the host",
                    data.field()
                );
                associated(seen, &Err(problem(data.failure(), message)), now)
            }
            Effect::Free(_) | Effect::SetHost(..) | Effect::DeleteCopy(..) | Effect::RemoveFinalizer
                if seen.claim.metadata.deletion_timestamp.is_some() =>
            {
                decide::status::not_released(seen, effect, now)
            }
            Effect::SetHost(0, _) => {
                let message =
                    "the API server rejects what the claim says for the host; the operator's log has its words";
                associated(seen, &Err(problem(HOST_NOT_SYNCHRONIZED, message.to_owned())), now)
            }
            Effect::Take(_) => {
                let words =
                    "a host was found, but the API server rejects the claim for it; the operator's log has its words";
                match decide::status::unassociated(seen, NO_HOST, words, now) {
                    Answer::Act(plan) => plan.report,
                    Answer::Fetch(_) => Report::default(),
                }
            }
            Effect::Mark(_)
            | Effect::Free(_)
            | Effect::SetHost(..)
            | Effect::DeleteCopy(..)
            | Effect::DeleteOld(_)
            | Effect::Forget(_)
            | Effect::RemoveFinalizer => {
                return None;
            }
        };
        Some(Outcome {
            report,
            next: Next::After(RELEASE),
        })
    }

    fn ended(&self, key: &ObjectKey, seen: Option<&Observed>, done: &Result<Next, kube::Error>) {
        self.reserved.lock().retain(|_, claim| claim != key);
        if let Some(seen) = seen {
            self.metrics
                .is(key, state::of(seen), state::since(&seen.claim, self.clock.now()));
        }
        match (seen, done) {
            (Some(seen), Ok(_)) => self.settle(key, seen),
            (Some(seen), Err(_)) => self.pass_on(key, seen),
            (None, _) => {}
        }
    }
}

/// Whether the API server would give the same answer again.
fn is_refusal(error: &kube::Error) -> bool {
    let is_for_good = matches!(error, kube::Error::Api(status) if [400, 403, 422].contains(&status.code));
    is_for_good && !matches!(error.class(), Class::Stale | Class::Throttled(_))
}

/// The next pass tries another host, if there is one.
fn count_refusal(seen: &mut Observed, effect: &Effect, error: &kube::Error) {
    if let Effect::Take(host) = effect
        && is_refusal(error)
    {
        *seen.refused.entry(version_of(&host.metadata)).or_default() += 1;
    }
}

fn problem(reason: &'static str, message: String) -> Problem {
    Problem {
        reason,
        message,
        is_rechecked: true,
    }
}
