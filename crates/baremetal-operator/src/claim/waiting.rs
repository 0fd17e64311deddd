//! The claims that wait for a host. A host that becomes free wakes the first of them that it suits, and not all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use metal3_api::metal3::{BareMetalHost, HostClaim};
use metal3_runtime::store::ObjectKey;
use parking_lot::Mutex;

use super::choose::Request;
use super::rings::Label;

/// A place in the line: by age.
type Place = (Timestamp, ObjectKey);

/// The claims that may look in the same namespaces.
type Lines = HashMap<BTreeSet<String>, BTreeMap<Place, Arc<Request>>>;

/// The line. Cheap to clone.
#[derive(Clone, Default)]
pub struct Waiting(Arc<Mutex<Line>>);

#[derive(Default)]
struct Line {
    /// The claims that wait, by a label that they ask for.
    lines: HashMap<Option<Label>, Lines>,
    places: HashMap<ObjectKey, (Place, Arc<Request>)>,
    /// The host that each woken claim was woken for. Such a claim has not looked yet: of two hosts each wakes a claim.
    offers: HashMap<ObjectKey, ObjectKey>,
}

impl Waiting {
    /// Adds a claim, or replaces its request.
    pub fn add(&self, claim: &HostClaim, request: Request) {
        let key = ObjectKey::of(claim);
        let mut line = self.0.lock();
        line.leave(&key);
        line.places.insert(key.clone(), (place(claim), Arc::new(request)));
        if !line.offers.contains_key(&key) {
            line.enter(&key);
        }
    }

    /// Removes a claim that no longer waits.
    pub fn remove(&self, claim: &ObjectKey) {
        let mut line = self.0.lock();
        line.leave(claim);
        line.places.remove(claim);
    }

    /// The first claim that this host suits, behind another one if one is given. It is the one to wake.
    pub fn offer(&self, host: &BareMetalHost, behind: Option<&HostClaim>) -> Option<ObjectKey> {
        let mut line = self.0.lock();
        let start = behind.map_or(Bound::Unbounded, |claim| Bound::Excluded(place(claim)));
        let namespace = host.metadata.namespace.as_deref().unwrap_or_default();
        let labels = host
            .labels()
            .iter()
            .map(|(key, value)| Some((key.clone(), value.clone())));
        let first = |label: Option<Label>| {
            let lines = line.lines.get(&label)?.iter();
            let lines = lines.filter(|(namespaces, _)| namespaces.contains(namespace));
            let firsts = lines.filter_map(|(_, line)| {
                let mut behind = line.range((start.clone(), Bound::Unbounded));
                behind.find(|(_, request)| request.suits(host)).map(|(place, _)| place)
            });
            firsts.min()
        };
        let claim = std::iter::once(None).chain(labels).filter_map(first).min()?.1.clone();
        line.leave(&claim);
        line.offers.insert(claim.clone(), ObjectKey::of(host));
        Some(claim)
    }

    /// The host that a claim was woken for. It is taken from the record; if the claim still waits, it is in line again.
    pub fn offered(&self, claim: &ObjectKey) -> Option<ObjectKey> {
        let mut line = self.0.lock();
        let host = line.offers.remove(claim)?;
        line.enter(claim);
        Some(host)
    }
}

impl Line {
    fn enter(&mut self, claim: &ObjectKey) {
        if let Some((place, request)) = self.places.get(claim) {
            let lines = self.lines.entry(request.label()).or_default();
            let line = lines.entry(request.namespaces.clone()).or_default();
            line.insert(place.clone(), request.clone());
        }
    }

    fn leave(&mut self, claim: &ObjectKey) {
        let Some((place, request)) = self.places.get(claim) else {
            return;
        };
        let label = request.label();
        let Some(lines) = self.lines.get_mut(&label) else {
            return;
        };
        if let Some(line) = lines.get_mut(&request.namespaces) {
            line.remove(place);
            if line.is_empty() {
                lines.remove(&request.namespaces);
            }
        }
        if lines.is_empty() {
            self.lines.remove(&label);
        }
    }
}

fn place(claim: &HostClaim) -> Place {
    let created = claim.metadata.creation_timestamp.as_ref();
    (
        created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        ObjectKey::of(claim),
    )
}
