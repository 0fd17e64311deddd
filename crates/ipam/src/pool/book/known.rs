//! What the server has said about a claim beyond what the watches show. Watches lag, and what is missing in them may be
//! new rather than gone; before something is taken away, the server itself is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Book;
use crate::pool::effect::Effect;
use crate::pool::seen::{Address, AddressId, Claim, ClaimKey};

/// About one claim, by name.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// UIDs of claims that had this name and are gone. They never come back.
    dead: BTreeSet<String>,
    /// Names of objects that the server did not have, when it was asked after the last news of the claim.
    missing: BTreeSet<String>,
    /// The object that the claim has been told, which is one of another pool.
    elsewhere: Option<Arc<Address>>,
    /// There was no claim of this name, when that was asked after the last news of it.
    is_absent: bool,
}

impl Book {
    /// Whether a claim of this name and UID is gone for certain.
    pub(in crate::pool) fn is_dead(&self, key: &ClaimKey, uid: &str) -> bool {
        self.known.get(key).is_some_and(|known| known.dead.contains(uid))
    }

    /// Whether the server said that there is no claim of this name.
    pub(in crate::pool) fn is_absent(&self, key: &ClaimKey) -> bool {
        self.known.get(key).is_some_and(|known| known.is_absent)
    }

    /// Whether the server said that there is no such object for a claim.
    pub(in crate::pool) fn is_missing(&self, key: &ClaimKey, object: &str) -> bool {
        self.known.get(key).is_some_and(|known| known.missing.contains(object))
    }

    /// Of what there is for claims of a name: the UIDs of those that may be living, the one at hand left out.
    ///
    /// A claim of another UID than the one that the watch shows may be an earlier one, or a later one.
    pub(in crate::pool) fn strangers(&self, key: &ClaimKey) -> Vec<String> {
        let is_open = |uid: &&str| !self.is_uid_of(key, uid) && !self.is_dead(key, uid);
        let mut uids: Vec<String> = self.uids_of(key).filter(is_open).map(str::to_owned).collect();
        uids.sort_unstable();
        uids.dedup();
        uids
    }

    /// The question to the server which of the claims of a name there is.
    pub(in crate::pool) fn ask_for_claim(&self, key: &ClaimKey) -> Effect {
        let mut uids = self.strangers(key);
        uids.extend(self.claims.get(key).map(|claim| claim.meta.uid.clone()));
        Effect::LookAtClaim(key.clone(), uids)
    }

    /// There is no claim of this name, and so none of those that had been heard of before the question.
    pub(in crate::pool) fn claim_is_absent(&mut self, key: &ClaimKey, heard_of: &[String]) {
        self.bury(key, heard_of);
        if !self.claims.contains_key(key) {
            self.known.entry(key.clone()).or_default().is_absent = true;
        }
    }

    /// This is the claim of its name, and so those that had been heard of before the question are gone.
    pub(in crate::pool) fn claim_is(&mut self, claim: &Arc<Claim>, heard_of: &[String]) {
        let others: Vec<String> = heard_of.iter().filter(|uid| **uid != claim.meta.uid).cloned().collect();
        self.bury(&claim.key, &others);
    }

    fn bury(&mut self, key: &ClaimKey, uids: &[String]) {
        for uid in uids {
            self.lose_claim(key, uid);
        }
        let known = self.known.entry(key.clone()).or_default();
        known.dead.extend(uids.iter().cloned());
        // What was theirs may now be a later claim's of their name.
        self.is_displaced = true;
        self.dirty.insert(key.clone());
    }

    /// A claim has gone before our eyes.
    pub(in crate::pool) fn claim_died(&mut self, key: &ClaimKey, uid: &str) {
        self.lose_claim(key, uid);
        if self.uids_of(key).next().is_some() {
            self.known.entry(key.clone()).or_default().dead.insert(uid.to_owned());
        }
    }

    /// The server does not have an object for a claim.
    pub(in crate::pool) fn object_is_missing(&mut self, key: &ClaimKey, object: &str) {
        self.known
            .entry(key.clone())
            .or_default()
            .missing
            .insert(object.to_owned());
        self.dirty.insert(key.clone());
    }

    /// Whether an object of another pool serves a claim on this one: the claim was on that pool when it got its address.
    pub(in crate::pool) fn serves_from_elsewhere(&self, object: &Address) -> bool {
        let claim = self.claims.get(&object.claim).filter(|claim| !claim.meta.is_deleting);
        object.pool != self.name && claim.is_some_and(|claim| object.owner.as_ref() == Some(&claim.meta.uid))
    }

    /// The server has an object of another pool for a claim.
    pub(in crate::pool) fn object_is_elsewhere(&mut self, object: Arc<Address>) {
        let key = object.claim.clone();
        self.known.entry(key.clone()).or_default().elsewhere = Some(object);
        self.dirty.insert(key);
    }

    /// The object of another pool that the claim has been told.
    pub(in crate::pool) fn told_elsewhere(&self, claim: &Claim) -> Option<&Arc<Address>> {
        let object = self.known.get(&claim.key)?.elsewhere.as_ref()?;
        (claim.address.as_ref() == Some(&object.id.name) && self.serves_from_elsewhere(object)).then_some(object)
    }

    /// News of a claim: earlier answers about its existence, and about the object that it names, are out of date.
    pub(super) fn news_of_claim(&mut self, claim: &Claim) {
        if let Some(known) = self.known.get_mut(&claim.key) {
            known.is_absent = false;
            known.elsewhere = None;
            if let Some(name) = &claim.address {
                known.missing.remove(name);
            }
        }
    }

    /// News of an object for a claim.
    pub(super) fn news_of_object(&mut self, key: &ClaimKey, id: &AddressId) {
        if let Some(known) = self.known.get_mut(key) {
            known.is_absent = false;
            known.missing.remove(&id.name);
        }
    }

    /// Nothing is open about a claim: what was asked is forgotten, unless something of a claim that is gone is left.
    pub(in crate::pool) fn tidy(&mut self, key: &ClaimKey) {
        if self.known.contains_key(key) && self.uids_of(key).all(|uid| self.is_uid_of(key, uid)) {
            self.known.remove(key);
        }
    }

    /// The claims that objects and promises for a name are meant for.
    fn uids_of(&self, key: &ClaimKey) -> impl Iterator<Item = &str> {
        let owners = self.objects_of(key).filter_map(|object| object.owner.as_deref());
        owners.chain(self.promises.of_claim(key).map(|promise| promise.uid.as_str()))
    }

    fn is_uid_of(&self, key: &ClaimKey, uid: &str) -> bool {
        self.claims.get(key).is_some_and(|claim| claim.meta.uid == uid)
    }
}
