//! User data that is a template: which keys of the metadata it asks for in vain.
//!
//! cloud-init renders user data whose first line is `## template: jinja`, with the metadata as `ds.meta_data`. A key that
//! is not there does not fail: it comes out as `CI_MISSING_JINJA_VAR/key`, the machine boots with that text somewhere in
//! its configuration, and mostly never joins its cluster.
//!
//! The template is rendered here with stand-ins for the keys that are missing. A stand-in behaves as Jinja's undefined
//! value does, and remembers when its text is asked for: being asked whether it is defined, having a default and
//! being compared are what careful templates do, and no fault. Whatever only the machine knows is a stand-in of its own,
//! which says yes to everything. The result of the rendering is thrown away.

mod bounds;
mod environment;
mod instance;
mod stand_in;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Metadata;

/// A key of the metadata, as a template names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub String);

/// Such as `ds.meta_data.rack`, or `ds.meta_data["rack/row"]` where the first form would not do.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if plain(&self.0) {
            write!(f, "ds.meta_data.{}", self.0)
        } else {
            write!(f, "ds.meta_data[{:?}]", self.0)
        }
    }
}

/// The keys that user data takes from the metadata although they are not there, in the order of their first use.
///
/// Only the branches that are taken are looked at. What is no template (cloud-config, scripts, Ignition, archives), or one
/// that cannot be understood or could take much memory, is not judged: nothing is missing then.
pub fn missing_keys(user_data: &str, metadata: &Metadata) -> Vec<Key> {
    let Some(template) = template_in(user_data) else {
        return Vec::new();
    };
    if !bounds::is_small(template, metadata) {
        return Vec::new();
    }
    let found = Found::default();
    let environment = environment::like_cloud_init();
    let rendered = environment
        .template_from_str(template)
        .and_then(|template| template.render_captured_to(instance::data(metadata, &found), io::sink()));
    if rendered.is_err() {
        // Mostly an operator that no undefined value has, such as minus in `ds.meta_data.local-hostname`: cloud-init
        // would drop the whole user data.
        found.blame_last();
    }
    found.keys()
}

/// Whether cloud-init takes this user data for a template, so that [`missing_keys`] may have something to say.
pub fn is_template(user_data: &str) -> bool {
    template_in(user_data).is_some()
}

/// The template without the line that says that it is one. cloud-init is as strict about that line.
fn template_in(user_data: &str) -> Option<&str> {
    const HEADER: &str = "## template: jinja";
    let (first, rest) = user_data.split_once('\n')?;
    first.trim_end().eq_ignore_ascii_case(HEADER).then_some(rest)
}

/// What rendering has come across; shared by all stand-ins.
#[derive(Debug, Clone, Default)]
struct Found(Arc<Mutex<Keys>>);

#[derive(Debug, Default)]
struct Keys {
    used: Vec<Key>,
    looked_up_last: Option<String>,
}

impl Found {
    /// A missing key is looked up; what for, is not known yet.
    fn look_up(&self, key: &str) {
        self.lock(|keys| keys.looked_up_last = Some(key.to_owned()));
    }

    /// A missing key is asked for its text.
    fn is_used(&self, key: &str) {
        self.lock(|keys| keys.use_key(key));
    }

    /// Rendering stopped; the key that was looked up last is why.
    fn blame_last(&self) {
        self.lock(|keys| {
            if let Some(key) = keys.looked_up_last.take() {
                keys.use_key(&key);
            }
        });
    }

    fn keys(&self) -> Vec<Key> {
        self.lock(|keys| keys.used.clone())
    }

    /// No panic can leave the keys in disorder, so a poisoned lock is as good as any.
    fn lock<T>(&self, act: impl FnOnce(&mut Keys) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Keys {
    fn use_key(&mut self, key: &str) {
        if !self.used.iter().any(|used| used.0 == key) {
            self.used.push(Key(key.to_owned()));
        }
    }
}
