//! Reading one's own writes although the cache lags behind.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};

use kube::{Resource, ResourceExt};

/// The objects that were written and that the cache has not shown yet.
///
/// After a write, [`Written::record`] remembers the object that the server returned. The next pass asks
/// [`Written::newest`] with what the cache shows: as long as that is older than our write, it gets ours. An entry goes
/// away when the cache has caught up, so the memory is bounded by the writes that are under way.
#[derive(Debug)]
pub struct Written<K>(Mutex<HashMap<(String, String), Entry<K>>>);

#[derive(Debug)]
struct Entry<K> {
    /// The versions that our writes replaced, oldest first.
    over: Vec<String>,
    object: K,
}

/// More writes than this in a row without the cache moving do not happen; the bound is there to have one.
const MAX_VERSIONS: usize = 32;

impl<K> Default for Written<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Resource<DynamicType = ()> + Clone> Written<K> {
    /// Remembers `after`, which the server returned for a write over the version `before`.
    pub fn record(&self, before: &str, after: K) {
        let mut entries = self.lock();
        let key = key(&after);
        let mut over = match entries.remove(&key) {
            Some(entry) if entry.object.resource_version().as_deref() == Some(before) => entry.over,
            _ => Vec::new(),
        };
        // A write that changed nothing leaves the version as it is, and nothing to wait for.
        if after.resource_version().as_deref() != Some(before) {
            over.push(before.to_owned());
            if over.len() > MAX_VERSIONS {
                over.remove(0);
            }
        }
        if !over.is_empty() {
            entries.insert(key, Entry { over, object: after });
        }
    }

    /// The newer one of what the cache shows and what we wrote last.
    pub fn newest(&self, cached: &K) -> K {
        let mut entries = self.lock();
        let key = key(cached);
        match entries.get(&key) {
            None => cached.clone(),
            Some(entry) if entry.is_newer_than(cached) => entry.object.clone(),
            Some(_) => {
                entries.remove(&key);
                cached.clone()
            }
        }
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        self.lock().remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// The number of objects whose write the cache has not shown yet.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether the cache has caught up with everything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, String), Entry<K>>> {
        self.0.lock()
    }
}

impl<K: Resource<DynamicType = ()>> Entry<K> {
    fn is_newer_than(&self, cached: &K) -> bool {
        // A deleted and recreated object has another uid; ours is history then.
        if self.object.uid() != cached.uid() {
            return false;
        }
        let Some(cached) = cached.resource_version() else {
            return false;
        };
        if self.over.contains(&cached) {
            return true;
        }
        // Somebody else may have written between what the cache shows and our write, if ours did not insist on a
        // version. Versions of one resource are ordered decimal numbers (Kubernetes guarantees it since 1.35, and etcd
        // has always made it so); one that is not a number simply ends our memory of the object.
        let number = |version: &str| version.parse::<u64>().ok();
        let ours = self.object.resource_version().as_deref().and_then(number);
        number(&cached).zip(ours).is_some_and(|(cached, ours)| cached < ours)
    }
}

fn key<K: Resource>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::ObjectMeta;

    fn version(uid: &str, version: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some("a".into()),
                namespace: Some("ns".into()),
                uid: Some(uid.into()),
                resource_version: Some(version.into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn seen(written: &Written<ConfigMap>, cached: &str) -> String {
        written.newest(&version("u", cached)).resource_version().unwrap()
    }

    #[test]
    fn our_writes_win_until_the_cache_has_them() {
        let written = Written::default();
        assert_eq!(seen(&written, "1"), "1");
        written.record("1", version("u", "2"));
        written.record("2", version("u", "3"));
        assert_eq!(seen(&written, "1"), "3");
        assert_eq!(seen(&written, "2"), "3");
        assert_eq!(written.len(), 1);
        assert_eq!(seen(&written, "3"), "3");
        assert!(written.is_empty());
        assert_eq!(seen(&written, "4"), "4");
    }

    #[test]
    fn a_foreign_write_before_ours_does_not_hide_ours_and_one_after_ends_it() {
        let written = Written::default();
        written.record("1", version("u", "12"));
        assert_eq!(seen(&written, "9"), "12");
        assert_eq!(seen(&written, "13"), "13");
        assert!(written.is_empty());
    }

    #[test]
    fn opaque_versions_work_too() {
        let written = Written::default();
        written.record("one", version("u", "two"));
        assert_eq!(seen(&written, "one"), "two");
        assert_eq!(seen(&written, "foreign"), "foreign");
    }

    #[test]
    fn a_recreated_object_is_another_object() {
        let written = Written::default();
        written.record("1", version("old", "2"));
        assert_eq!(seen(&written, "1"), "1");
        assert!(written.is_empty());
    }

    #[test]
    fn a_write_without_effect_and_a_deletion_leave_nothing() {
        let written = Written::default();
        written.record("1", version("u", "1"));
        assert!(written.is_empty());
        written.record("1", version("u", "2"));
        written.forget("ns", "a");
        assert_eq!(seen(&written, "1"), "1");
    }
}
