//! Releases the hosts of claims that are gone: somebody removed the finalizer of a claim, or removed the claim from etcd, and nothing
//! but the host is left of it.
//!
//! The host itself says what is to be done: it names the claim with its UID, and it was claimed where it is now. That the claim is
//! gone is read from the API server; a claim of the same name with another UID is another one, and has no part in the host.
//!
//! A paused host is not released. Its claim may have been moved to another cluster ahead of it, and nothing here says how long that
//! move takes: a host that is released in the middle of it loses what it runs. So the host only reports by an event that its claim is
//! gone, and is released once somebody ends its pause.
//!
//! A host from which somebody has removed the claim loses what it carries for a claim, and nothing else.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{Api, Resource, ResourceExt};
use metal3_api::capi::names::annotation::DELETE_FOR_MOVE;
use metal3_api::metal3::names::annotation::{CLAIMED, PAUSED};
use metal3_api::metal3::{BareMetalHost, HostClaim};
use metal3_runtime::Clock;
use metal3_runtime::controller::{Controller, Decision, Next, Plan, Report};
use metal3_runtime::events::Event;
use metal3_runtime::store::ObjectKey;
use metal3_runtime::timing::operator::{DEBOUNCE, RELEASE};
use metal3_runtime::work::Queue;
use serde_json::Value;

use super::apply::Writer;
use super::decide::release::{cleared, freed, is_wound_down, unclaimed};
use super::moving::{is_claimed_here, is_moved_with};
use super::observed::Data;
use super::stores::{HostIndex, claim_of, claim_uid, has_uid, has_uid_of};
use crate::host::is_paused;
use crate::live::{Live, judged};

/// The controller. Cheap to clone.
#[derive(Clone)]
pub struct Orphans {
    pub clock: Clock,
    pub writer: Writer,
    pub hosts: HostIndex,
}

/// A host, and its claim as far as it was read.
pub struct Observed {
    pub host: Arc<BareMetalHost>,
    /// `None` if the host no longer has one.
    pub claim: Option<ObjectKey>,
    /// Whether it came from another cluster, and its claim did not, or not yet.
    pub is_moved: bool,
    pub read: Option<Live>,
}

/// Read the claim.
#[derive(Debug, PartialEq)]
pub struct ReadClaim;

/// One write.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Change the host, on the version that was seen.
    Set(Value),
    /// Delete a copy of a Secret of the claim.
    Delete(String),
}

pub fn decide(seen: &Observed) -> Decision<ReadClaim, Effect, ()> {
    let Some(claim) = &seen.claim else {
        return Plan::of(Effect::Set(unclaimed(&seen.host))).into();
    };
    if seen.is_moved {
        let words = format!(
            "the host was moved from another cluster and waits for HostClaim {claim}, which must be moved, too; to release it without the claim, remove spec.consumerRef, spec.image and its annotation {PAUSED}"
        );
        return Plan::default().with(Event::warning("HostClaimAwaited", words)).into();
    }
    match seen.read {
        None => return Decision::Fetch(ReadClaim),
        Some(Live::Exists) => return Decision::idle(),
        Some(Live::Unknown) => {
            let plan = Plan {
                next: Next::After(RELEASE),
                ..Plan::default()
            };
            return plan.into();
        }
        Some(Live::Gone) => {}
    }
    release(&seen.host, claim).into()
}

/// The next step to release a host whose claim is gone.
fn release(host: &BareMetalHost, claim: &ObjectKey) -> Plan<Effect, ()> {
    if is_paused(host) {
        let words = format!(
            "HostClaim {claim} no longer exists, and the host keeps what it runs because it is paused: if the claim was moved to another cluster, move the host, too; otherwise remove its annotation {PAUSED}, and the host is deprovisioned and released"
        );
        return Plan::default().with(Event::warning("HostClaimGone", words));
    }
    if host.has_image() && host.metadata.deletion_timestamp.is_none() {
        let words = format!("HostClaim {claim} no longer exists: the host is deprovisioned and released");
        return Plan::of(Effect::Set(cleared(host))).with(Event::warning("HostClaimGone", words));
    }
    if !is_wound_down(host) {
        return Plan::default();
    }
    let copies = Data::ALL.into_iter().map(|data| data.copy_for(claim_uid(host)));
    let effects = copies.map(Effect::Delete).chain([Effect::Set(freed(host))]).collect();
    let words = format!("the host is released: HostClaim {claim} no longer exists");
    let plan = Plan {
        effects,
        ..Plan::default()
    };
    plan.with(Event::normal("HostReleased", words))
}

/// Whether the host's claim can be missed, with the permission to release the host.
fn may_be_orphan(host: &BareMetalHost) -> bool {
    has_uid(host) && is_claimed_here(host)
}

/// Whether the host was claimed in another cluster.
fn is_of_another_cluster(host: &BareMetalHost) -> bool {
    has_uid(host) && host.annotations().contains_key(CLAIMED) && !is_claimed_here(host)
}

/// Whether a host has a claim, or carries the mark of one.
fn is_marked(host: &BareMetalHost) -> bool {
    claim_of(host).is_some() || host.annotations().contains_key(CLAIMED)
}

impl Controller for Orphans {
    const NAME: &'static str = "hostclaim_orphan";
    type Observed = Observed;
    type Read = ReadClaim;
    type Effect = Effect;
    type Status = ();
    type Error = kube::Error;

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn listen(&self, queue: &Queue<ObjectKey>) {
        let of_host = queue.clone();
        self.writer.hosts.listen(move |change| {
            if change.after.as_deref().is_some_and(is_marked) {
                of_host.push_in(change.key.clone(), DEBOUNCE);
            }
        });
        let (of_claim, hosts) = (queue.clone(), self.hosts.clone());
        self.writer.claims.listen(move |change| {
            if change.affects(|claim| claim.metadata.uid.clone()) {
                for host in hosts.of_claim(&change.key) {
                    of_claim.push_in(ObjectKey::of(&*host), DEBOUNCE);
                }
            }
        });
    }

    fn all(&self) -> Vec<ObjectKey> {
        let hosts = self.writer.hosts.objects().into_iter();
        let marked = hosts.filter(|host| is_marked(host));
        marked.map(|host| ObjectKey::of(&*host)).collect()
    }

    async fn observe(&self, key: &ObjectKey) -> Result<Option<Observed>, kube::Error> {
        // A host that was copied to another cluster is about to be deleted.
        let host = self.writer.hosts.get(key);
        let Some(host) = host.filter(|host| is_marked(host) && !host.annotations().contains_key(DELETE_FOR_MOVE))
        else {
            return Ok(None);
        };
        let claim = claim_of(&host);
        let is_moved = is_of_another_cluster(&host);
        let known = claim.as_ref().and_then(|claim| self.writer.claims.get(claim));
        let is_known = known.is_some_and(|known| has_uid_of(&host, &known) || is_moved_with(&host, &known));
        let is_missed = claim.is_none() || !is_known && (is_moved || may_be_orphan(&host));
        Ok(is_missed.then_some(Observed {
            host,
            claim,
            is_moved,
            read: None,
        }))
    }

    fn decide(seen: &Observed, _: Timestamp) -> Decision<ReadClaim, Effect, ()> {
        decide(seen)
    }

    async fn fetch(&self, seen: &mut Observed, _: ReadClaim) -> Result<(), kube::Error> {
        let Some(claim) = &seen.claim else { return Ok(()) };
        let claims: Api<HostClaim> = Api::namespaced(self.writer.client.clone(), &claim.namespace);
        let answer = claims.get_metadata(&claim.name).await;
        let answer = answer.map(|claim| claim.metadata.uid.as_deref() == Some(claim_uid(&seen.host)));
        let live = judged(answer, claim);
        if live == Live::Unknown {
            tracing::info!(host = %ObjectKey::of(&*seen.host), %claim, "it is not known whether the claim of a host is gone; the host stays as it is");
        }
        seen.read = Some(live);
        Ok(())
    }

    async fn apply(&self, seen: &mut Observed, effect: &Effect) -> Result<(), kube::Error> {
        match effect {
            Effect::Set(change) => seen.host = self.writer.patch_host(&seen.host, change.clone()).await?,
            Effect::Delete(name) => self.writer.delete_secret(&seen.host, name).await?,
        }
        Ok(())
    }

    async fn report(&self, seen: &mut Observed, report: Report<()>) -> Result<(), kube::Error> {
        let regarding = seen.host.object_ref(&());
        for event in &report.events {
            tracing::info!(host = %ObjectKey::of(&*seen.host), "{}", event.message);
            self.writer.recorder.publish(&regarding, None, event).await;
        }
        Ok(())
    }
}
