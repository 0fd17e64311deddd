//! What an API server refuses for good is told by the object that it concerns: no try will mend it. So is what it fails to do
//! for half a minute, which may have the same causes.
//!
//! A kind with conditions, or with a message in its status, says it there and by an event. The others have an event only,
//! once for each refusal. The passes go on as after any other failure, and what they say when they succeed takes the place
//! of it.

pub(crate) mod lasting;

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use metal3_api::condition::Condition;
use metal3_runtime::conditions;
use metal3_runtime::events::{Note, Severity};

pub use self::lasting::Failures;
use crate::context::Context;
use crate::error::PassError;

/// Reason of a condition and of an event: a write was refused.
pub const UPDATE_ERROR: &str = "UpdateError";

/// So many are remembered.
const MOST: usize = 1_000;

/// Whether a message says the same as one before, whatever the numbers in it. With a time or the number of the request in
/// them, each attempt would be news, and as an object that is written is looked at again, the next one would follow at once.
pub fn is_same(before: &str, message: &str) -> bool {
    gist(before).eq(gist(message))
}

fn gist(message: &str) -> impl Iterator<Item = &str> {
    let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    message.split_whitespace().filter(move |word| !has_digit(word))
}

/// Whether a condition says it already.
pub fn is_told(list: &[Condition], type_: &str, reason: &str, message: &str) -> bool {
    let before = conditions::get(list, type_);
    before.is_some_and(|before| before.reason == reason && is_same(&before.message, message))
}

/// What one controller has told of refusals by events, by the UID of the object. Cheap to clone; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Told {
    messages: Arc<Mutex<HashMap<String, String>>>,
    /// Its own: what another controller has done for the object says nothing of this one's failures.
    failures: Failures,
}

impl Told {
    /// Tells a refusal of what was to be done with or for this object, if it is news.
    pub async fn hear(&self, ctx: &Context, regarding: &ObjectReference, error: &PassError) {
        let Some(message) = self.refusal(ctx, regarding.uid.as_deref(), error) else {
            return;
        };
        if !self.is_news(regarding.uid.as_deref().unwrap_or_default(), &message) {
            return;
        }
        let note = Note {
            reason: UPDATE_ERROR,
            message,
            severity: Severity::Warning,
        };
        ctx.recorder.publish(regarding, None, &note).await;
    }

    /// What has to be told of an error of the object with this UID, as [`Context::refusal`] says it.
    pub fn refusal(&self, ctx: &Context, uid: Option<&str>, error: &PassError) -> Option<String> {
        self.failures.hear(uid, error, ctx.clock.elapsed())
    }

    /// Nothing of this object is refused any more.
    pub fn forget(&self, uid: Option<&str>) {
        self.failures.forget(uid);
        if let Some(uid) = uid {
            self.lock().remove(uid);
        }
    }

    /// Whether this was not told of it yet; it is then.
    pub fn is_news(&self, uid: &str, message: &str) -> bool {
        let mut told = self.lock();
        if told.get(uid).is_some_and(|before| is_same(before, message)) {
            return false;
        }
        // What is told twice does no harm.
        if told.len() >= MOST {
            told.clear();
        }
        told.insert(uid.to_owned(), message.to_owned());
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.messages.lock()
    }
}

#[cfg(test)]
mod tests;
