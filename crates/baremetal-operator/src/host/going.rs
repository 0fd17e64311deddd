//! Objects in deletion.

use kube::Resource;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt};
use metal3_runtime::store::{ObjectKey, Sink, Store};

/// The objects of one kind that are in deletion: the others are of no interest.
#[derive(Clone)]
pub struct Going<K: Resource<DynamicType = ()>>(pub Store<PartialObjectMeta<K>>);

impl<K: Resource<DynamicType = ()>> Default for Going<K> {
    fn default() -> Self {
        Self(Store::new(|_| Vec::new()))
    }
}

impl<K: Resource<DynamicType = ()>, Seen: Resource<DynamicType = ()>> Sink<Seen> for Going<K> {
    fn put(&self, object: Seen) {
        if object.meta().deletion_timestamp.is_some() {
            self.0.put(object.meta().clone().into_response_partial());
        }
    }

    fn remove(&self, key: &ObjectKey, uid: &str) {
        self.0.remove(key, uid);
    }
}
