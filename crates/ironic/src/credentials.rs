//! Our own user at Ironic's API: from the configuration, or from files that may be replaced under a running process.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::config::{Auth, ConfigError};
use crate::fields::MASK;

const USERNAME: &str = "user name file";
const PASSWORD: &str = "password file";

/// The user to authenticate as. Never printed.
#[derive(PartialEq, Eq)]
pub(crate) struct User {
    pub name: String,
    pub password: String,
}

impl User {
    /// The current user; `None` if Ironic needs none, or if neither file exists and none `was_used`: a Secret that is replaced
    /// is away for a moment.
    pub fn read(auth: &Auth, was_used: bool) -> Result<Option<Self>, ConfigError> {
        let user = match auth {
            Auth::None => return Ok(None),
            Auth::Basic { username, password } => Self {
                name: username.clone(),
                password: password.clone(),
            },
            // If they are replaced between the two reads they do not match. Ironic then rejects them, and the next read
            // fixes this.
            Auth::Files { username, password } => match (content(USERNAME, username), content(PASSWORD, password)) {
                (Err(name), Err(password)) if !was_used && name.is_absence() && password.is_absence() => {
                    return Ok(None);
                }
                (name, password) => Self {
                    name: name?,
                    password: password?,
                },
            },
        };
        if user.name.is_empty() || user.password.is_empty() {
            return Err(ConfigError::Credentials("user name and password must not be empty"));
        }
        if user.name.contains(':') {
            return Err(ConfigError::Credentials("a user name with a colon cannot be sent"));
        }
        Ok(Some(user))
    }

    /// A text with the password masked, as it is and as a header has it.
    pub fn masked_in(&self, text: &str) -> String {
        let header = STANDARD.encode(format!("{}:{}", self.name, self.password));
        text.replace(&header, MASK).replace(&self.password, MASK)
    }
}

/// What a file holds, without the end of the line that editors leave there.
fn content(what: &'static str, path: &Path) -> Result<String, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        what,
        path: path.to_owned(),
        source,
    })?;
    let text = text.trim();
    if text.is_empty() {
        let path = path.to_owned();
        return Err(ConfigError::Empty { what, path });
    }
    Ok(text.to_owned())
}
