//! The claims that wait for a host. A host that becomes free wakes the first of them that it suits, and not all of them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;
use metal3_api::metal3::{BareMetalHost, HostClaim};
use metal3_runtime::store::ObjectKey;
use parking_lot::Mutex;

use super::choose::Request;

/// A place in the line: by age.
type Place = (Timestamp, ObjectKey);

/// The line. Cheap to clone.
#[derive(Clone, Default)]
pub struct Waiting(Arc<Mutex<Line>>);

#[derive(Default)]
struct Line {
    requests: BTreeMap<Place, Request>,
    places: HashMap<ObjectKey, Place>,
    /// The host that each woken claim was woken for.
    offers: HashMap<ObjectKey, ObjectKey>,
}

impl Waiting {
    /// Adds a claim, or replaces its request.
    pub fn add(&self, claim: &HostClaim, request: Request) {
        let key = ObjectKey::of(claim);
        let created = claim.metadata.creation_timestamp.as_ref();
        let place = (created.map_or(Timestamp::UNIX_EPOCH, |time| time.0), key.clone());
        let mut line = self.0.lock();
        if let Some(before) = line.places.insert(key, place.clone()) {
            line.requests.remove(&before);
        }
        line.requests.insert(place, request);
    }

    /// Removes a claim that no longer waits.
    pub fn remove(&self, claim: &ObjectKey) {
        let mut line = self.0.lock();
        if let Some(place) = line.places.remove(claim) {
            line.requests.remove(&place);
        }
    }

    /// The first claim that this host suits, behind another one if one is given. It is the one to wake.
    pub fn offer(&self, host: &BareMetalHost, behind: Option<&HostClaim>) -> Option<ObjectKey> {
        let mut line = self.0.lock();
        let start = behind.map_or(Bound::Unbounded, |claim| {
            let created = claim.metadata.creation_timestamp.as_ref();
            let created = created.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
            Bound::Excluded((created, ObjectKey::of(claim)))
        });
        let Line { requests, offers, .. } = &mut *line;
        let mut behind = requests.range((start, Bound::Unbounded));
        // One that was woken for another host has not looked yet: of two hosts each wakes a claim.
        let is_next = |(place, request): &(&Place, &Request)| !offers.contains_key(&place.1) && request.suits(host);
        let claim = behind.find(is_next)?.0.1.clone();
        offers.insert(claim.clone(), ObjectKey::of(host));
        Some(claim)
    }

    /// The host that a claim was woken for. It is taken from the record.
    pub fn offered(&self, claim: &ObjectKey) -> Option<ObjectKey> {
        self.0.lock().offers.remove(claim)
    }
}
