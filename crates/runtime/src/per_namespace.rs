//! What the objects of a namespace share.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// One value for each namespace, for as long as anything uses it.
#[derive(Debug)]
pub struct PerNamespace<T>(Mutex<HashMap<String, Weak<T>>>);

impl<T> Default for PerNamespace<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> PerNamespace<T> {
    /// The value of this namespace, which is made if there is none.
    pub fn of(&self, namespace: &str, new: impl FnOnce() -> T) -> Arc<T> {
        let mut values = self.0.lock();
        values.retain(|_, value| value.strong_count() > 0);
        let known = values.get(namespace).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let value = Arc::new(new());
            values.insert(namespace.to_owned(), Arc::downgrade(&value));
            value
        })
    }
}
