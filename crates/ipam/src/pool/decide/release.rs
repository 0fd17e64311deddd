//! A claim that is being deleted: first its address goes, then our finalizer.

use std::sync::Arc;

use super::{Book, Next};
use crate::pool::effect::Effect;
use crate::pool::seen::{AddressId, Claim, address_name};

impl Book {
    pub(super) fn releasing(&mut self, claim: &Arc<Claim>) -> Next {
        let key = &claim.key;
        if self.proposed.contains(key) {
            self.vacate(key);
        }
        if claim.is_kept_by_others() {
            // It is in use: that is how a consumer protects its address.
            return Next::Settled;
        }
        if !self.strangers(key).is_empty() {
            return Next::Do(self.ask_for_claim(key));
        }
        if !claim.is_ours() && !self.objects.contains_key(key) {
            self.vacate(key);
            return Next::Settled;
        }
        if let Some(object) = self.objects_of(key).find(|object| object.is_removable()) {
            return Next::Do(Effect::removal(object));
        }
        if let Some(look) = self.look_for_told(claim).or_else(|| self.look_for_promised(claim)) {
            return look;
        }
        // What others keep is theirs to end, and nobody's address until then. The claim need not wait for it.
        if !self.objects.contains_key(key) {
            self.vacate(key);
        }
        if claim.is_ours() {
            Next::Do(Effect::Release(claim.clone()))
        } else {
            Next::Settled
        }
    }

    /// Another manager may have made an object a moment ago that the watch has not shown yet.
    fn look_for_promised(&self, claim: &Claim) -> Option<Next> {
        let prefix = &self.pool.as_ref()?.spec.name_prefix;
        let (key, family) = (&claim.key, claim.key.family);
        let mut names = self.promises.of_claim(key).map(|p| address_name(prefix, p.address));
        let name = names.find(|name| !self.is_missing(key, name))?;
        Some(Next::Do(Effect::Look(key.clone(), AddressId { family, name })))
    }
}
