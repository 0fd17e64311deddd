//! Checks what a machine would boot with before its host is told: which keys its user data takes from the metadata although
//! they are not there.
//!
//! No content of a Secret leaves this check: decisions see the names of keys only.

use std::fmt;

use metal3_render::Key;

/// What a machine boots with: Secrets of its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The one with user data.
    pub user_data: String,
    /// The one with metadata, if there is to be any.
    pub meta_data: Option<String>,
}

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preview {
    /// No key is missing, as far as can be known: most user data is no template.
    Complete,
    /// The metadata lacks these keys.
    Lacks(Vec<Key>),
    /// The user data is a template, and its metadata cannot be read. Why, in words.
    NoMetadata(String),
}

/// The most keys that are named.
const MOST_NAMED: usize = 10;
/// The most characters of each.
const LONGEST_NAME: usize = 100;

/// The keys in words.
pub(super) struct Keys<'a>(pub &'a [Key]);

impl fmt::Display for Keys<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, key) in self.0.iter().take(MOST_NAMED).enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            let mut name = key.to_string();
            crate::conditions::cut(&mut name, LONGEST_NAME);
            write!(out, "{separator}{name}")?;
        }
        match self.0.len().saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(out, " and {more} more"),
        }
    }
}
