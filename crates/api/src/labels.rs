//! The syntax of labels and of selectors.

pub mod selector;

/// Checks a key, which is a qualified name: an optional DNS subdomain and a slash, then up to 63 letters, digits, `-`, `_`,
/// `.` with a letter or a digit at both ends.
///
/// # Errors
///
/// The text cannot be a key.
pub fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key
        .split_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if !name.is_empty() && is_name(name) && prefix.is_none_or(is_subdomain) {
        Ok(())
    } else {
        Err(format!("{key:?} cannot be the key of a label"))
    }
}

/// Whether a text is a valid prefix of a label key.
pub fn is_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_edge = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        label
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && is_edge(label.bytes().next())
            && is_edge(label.bytes().last())
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Checks a value: empty, or as the name in a key.
///
/// # Errors
///
/// The text cannot be a value.
pub fn check_value(value: &str) -> Result<(), String> {
    if is_name(value) {
        Ok(())
    } else {
        Err(format!("{value:?} cannot be the value of a label"))
    }
}

/// Validates label values, and key names after the prefix. A value may be empty.
fn is_name(text: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_none_or(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && is_edge(text.bytes().next())
        && is_edge(text.bytes().last())
}
