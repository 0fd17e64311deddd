//! Collects what a decision about a claim depends on, without a request.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use metal3_api::metal3::names::label::TAKES_SECRETS;
use metal3_api::metal3::{BareMetalHost, HostClaim, HostRef};
use metal3_runtime::secrets::{Known, SecretKey};
use metal3_runtime::store::ObjectKey;

use super::Claims;
use super::choose::{Request, is_free_without_consumer};
use super::moving::{is_moved_here, is_moved_with};
use super::observed::{Bound, Copied, Data, Observed, Source, Version, refusals};
use super::stores::{has_uid, has_uid_of, is_of};

impl Claims {
    /// The claim and its surroundings; `None` if nothing is to be done with it.
    pub fn look(&self, key: &ObjectKey, claim: Arc<HostClaim>) -> Option<Observed> {
        let is_deleted = claim.metadata.deletion_timestamp.is_some();
        if !self.is_enabled && !is_deleted {
            return None;
        }
        let bound = claim.status.as_ref().and_then(|status| status.bare_metal_host.as_ref());
        let is_known = |host: &HostRef| {
            self.writer
                .hosts
                .get(&ObjectKey::new(&host.namespace, &host.name))
                .is_some()
        };
        let is_known = bound.is_some_and(is_known);
        let is_without = !is_deleted && bound.is_none() && !is_moved_here(&claim);
        let permitted = is_without.then(|| self.permitted(&claim));
        let is_withheld = permitted
            .as_ref()
            .is_some_and(|all| all.iter().any(|one| !self.trusts(&claim, one)));
        let request = permitted.map(|mut permitted| {
            permitted.retain(|namespace| self.trusts(&claim, namespace));
            Request::of(&claim, permitted)
        });
        let own = self.own(key, &claim);
        let named = self.named(key, &claim);
        let refused = self.refused.lock().get(key).cloned().unwrap_or_default();
        let changes = self.hosts.changes();
        let request_of = request.as_ref().and_then(|request| request.as_ref().ok());
        let seeking = request_of.filter(|_| own.is_empty());
        let free = seeking.map_or_else(Vec::new, |request| self.reserve(key, request, &refused));
        let versions = if is_deleted {
            BTreeMap::new()
        } else {
            self.versions(key, &claim, own.first())
        };
        let place = own.first().and_then(|host| host.namespace()).unwrap_or_default();
        Some(Observed {
            is_enabled: self.is_enabled,
            is_trusted: self.trusts(&claim, &place),
            is_withheld,
            versions,
            copied: self.copies(key, &claim, own.first()),
            bound: if is_known { Bound::Known } else { Bound::NotKnown(None) },
            refused,
            read: BTreeMap::new(),
            survey: None,
            free,
            changes,
            claim,
            own,
            named,
            request,
        })
    }

    /// The namespaces with a policy that permits the claim.
    pub fn permitted(&self, claim: &HostClaim) -> BTreeSet<String> {
        let namespace = claim.namespace().unwrap_or_default();
        let own = self.namespaces.get(&ObjectKey::new("", &namespace));
        let label = |key: &str| own.as_ref()?.labels().get(key).cloned();
        let only = &claim.spec.host_selector.in_namespace;
        self.policies.permitting(&namespace, label, only)
    }

    /// The hosts that come first for a claim. Until its pass ends, other passes look last at the one that it takes.
    fn reserve(&self, key: &ObjectKey, request: &Request, refused: &BTreeMap<Version, u32>) -> Vec<Arc<BareMetalHost>> {
        let mut reserved = self.reserved.lock();
        let is_of_another = |host: &BareMetalHost| reserved.get(&ObjectKey::of(host)).is_some_and(|claim| claim != key);
        let found = self.hosts.candidates(request, refused.len() + 1, is_of_another);
        let hosts: Vec<_> = found.hosts.into_iter().map(|(_, host)| host).collect();
        if let Some(host) = request.choose(&hosts, |host| refusals(refused, host)) {
            reserved.insert(ObjectKey::of(&**host), key.clone());
        }
        hosts
    }

    /// Whether the Secrets that a claim names may be copied to a namespace. Its policies do not say so: anybody may write one in a
    /// namespace of their own, and a host that only looks like one. So the claim names the namespace, or an administrator does.
    fn trusts(&self, claim: &HostClaim, namespace: &str) -> bool {
        let is_accepted = || {
            let namespace = self.namespaces.get(&ObjectKey::new("", namespace));
            namespace.is_some_and(|namespace| namespace.labels().contains_key(TAKES_SECRETS))
        };
        let has_secrets = Data::ALL.into_iter().any(|data| data.of_claim(claim).is_some());
        let is_named = claim.spec.host_selector.in_namespace == namespace;
        !has_secrets || is_named || claim.metadata.namespace.as_deref() == Some(namespace) || is_accepted()
    }

    /// The hosts of a claim, the one in its status first. Not every user who may name the claim in a host of their own may have its
    /// Secrets or delay its deletion: another host counts only where a policy permits the claim, and only with the claim's UID, or with
    /// the UID that a moved claim had. Without `--hostclaims` no policy is watched, and the UID suffices.
    fn own(&self, key: &ObjectKey, claim: &HostClaim) -> Vec<Arc<BareMetalHost>> {
        let bound = claim.status.as_ref().and_then(|status| status.bare_metal_host.as_ref());
        let place = |host: &BareMetalHost| (host.namespace().unwrap_or_default(), host.name_any());
        let is_bound = |host: &BareMetalHost| {
            bound.is_some_and(|bound| (&bound.namespace, &bound.name) == (&place(host).0, &place(host).1))
        };
        let permitted = LazyCell::new(|| self.permitted(claim));
        let mut own = self.hosts.of_claim(key);
        own.retain(|host| {
            let is_permitted = || !self.is_enabled || permitted.contains(&place(host).0);
            let is_known = has_uid_of(host, claim) && is_of(host, claim) || is_moved_with(host, claim);
            is_of(host, claim) && is_bound(host) || is_known && is_permitted()
        });
        own.sort_by_key(|host| (!is_bound(host), place(host)));
        own
    }

    /// The hosts that name a claim without a UID, and would be free if they did not. Upstream's operator binds a host so, and stores
    /// that in the claim afterwards, or does not come to it. Such a host is not the claim's until the claim takes it as any other;
    /// what is on its way out of an earlier claim of the same name is not free.
    fn named(&self, key: &ObjectKey, claim: &HostClaim) -> Vec<Arc<BareMetalHost>> {
        if !self.is_enabled {
            return Vec::new();
        }
        let bound = claim.status.as_ref().and_then(|status| status.bare_metal_host.as_ref());
        let is_bound = |host: &ObjectKey| {
            bound.is_some_and(|bound| (&bound.namespace, &bound.name) == (&host.namespace, &host.name))
        };
        let permitted = LazyCell::new(|| self.permitted(claim));
        let mut named = self.hosts.of_claim(key);
        named.retain(|host| {
            let key = ObjectKey::of(&**host);
            !has_uid(host) && is_free_without_consumer(host) && !is_bound(&key) && permitted.contains(&key.namespace)
        });
        named.sort_by_key(|host| (host.namespace(), host.name_any()));
        named
    }

    /// The known versions of the Secrets that a claim refers to. From now on their changes wake the claim, and those of their copies
    /// beside its host.
    fn versions(
        &self,
        key: &ObjectKey,
        claim: &HostClaim,
        host: Option<&Arc<BareMetalHost>>,
    ) -> BTreeMap<Data, Version> {
        let named = Data::ALL.into_iter().filter_map(|data| {
            let reference = data.of_claim(claim)?.local(&key.namespace).ok()?;
            let secret = SecretKey {
                namespace: reference.namespace().to_owned(),
                name: reference.name().to_owned(),
            };
            Some((data, secret))
        });
        let named: Vec<(Data, SecretKey)> = named.collect();
        let copies = named.iter().filter_map(|(data, _)| Some(copy_of(*data, claim, host?)));
        let sources = named.iter().map(|(_, secret)| secret.clone());
        self.secrets.set_references(key.clone(), sources.chain(copies));
        let version = |(data, secret): (Data, SecretKey)| match self.secrets.get(&secret) {
            Known::Present(outline) => {
                let text = |part: &Option<String>| part.clone().unwrap_or_default();
                Some((data, [secret.name, text(&outline.uid), text(&outline.resource_version)]))
            }
            Known::Absent | Known::Unknown => None,
        };
        named.into_iter().filter_map(version).collect()
    }

    /// What was copied, and whether it is still as it was written.
    fn copies(&self, key: &ObjectKey, claim: &HostClaim, host: Option<&Arc<BareMetalHost>>) -> BTreeMap<Data, Copied> {
        let mut copied = self.copied.lock().get(key).cloned().unwrap_or_default();
        // An earlier claim of this name had copies of its own.
        copied.retain(|data, copied| copied.copy.first() == Some(&data.copy(claim)));
        if let Some(host) = host {
            for (data, copied) in &mut copied {
                copied.compare(self.secrets.get(&copy_of(*data, claim, host)));
            }
        }
        copied
    }

    /// Writes a copy, and remembers it.
    pub async fn copy(&self, seen: &mut Observed, data: Data) -> Result<(), kube::Error> {
        let Some(host) = seen.own.first() else { return Ok(()) };
        let Some(Source::Found { version: source, .. }) = seen.read.get(&data) else {
            return Ok(());
        };
        let (key, source) = (copy_of(data, &seen.claim, host), source.clone());
        let before = Some(self.secrets.get(&key)).filter(|known| *known != Known::Unknown);
        let Some(metadata) = self.writer.copy(seen, data).await? else {
            return Ok(());
        };
        self.secrets.learn(&key, Some(&metadata));
        let copied = Copied {
            source,
            copy: super::stores::version_of(&metadata),
            before,
            is_damaged: false,
        };
        seen.copied.insert(data, copied);
        Ok(())
    }
}

/// Where the copy for a host is.
fn copy_of(data: Data, claim: &HostClaim, host: &BareMetalHost) -> SecretKey {
    SecretKey {
        namespace: host.namespace().unwrap_or_default(),
        name: data.copy(claim),
    }
}
