//! Checks a machine's boot data before the host gets it: which keys does its user data use that the metadata lacks?
//!
//! No Secret content leaves this check: decisions see only the names of keys.

use std::fmt;

use metal3_render::Key;

/// A machine's boot data: Secrets in its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The user-data Secret.
    pub user_data: String,
    /// The metadata Secret, if there is one.
    pub meta_data: Option<String>,
}

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preview {
    /// No key is missing as far as can be determined: most user data is not a template.
    Complete,
    /// The metadata lacks these keys.
    Lacks(Vec<Key>),
    /// The user data is a template, and its metadata cannot be read. The reason as text.
    NoMetadata(String),
}

/// Maximum number of keys listed.
const MOST_NAMED: usize = 10;
/// Maximum characters of each key.
const LONGEST_NAME: usize = 100;

/// The list of keys as text.
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
