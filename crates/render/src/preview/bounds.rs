//! Which templates are looked at: those that cannot ask for more memory than a few megabytes.
//!
//! A template comes from whoever may write Secrets, and is rendered in a process that works for others too. Fuel ends its
//! loops, but few steps are enough to double a text again and again. What such a text is kept in is refused here, and what
//! makes one text from several is refused where its result is kept; filters and methods have their own limit. What is left
//! grows with the square of [`CODE`] at most.

use minijinja::value::{Value, ValueKind};

use super::stand_in::{Missing, Unknown};
use crate::Metadata;

/// Bytes of a template between its delimiters, and of the metadata, each.
const CODE: usize = 16 * 1024;

/// Bytes, about, that a filter or a method may make.
const RESULT: usize = 64 * 1024;

/// Whether the template may be rendered with this metadata.
pub fn is_small(template: &str, metadata: &Metadata) -> bool {
    let texts = metadata.0.iter().map(|(key, value)| key.len() + value.len());
    let mut left = CODE;
    texts.sum::<usize>() <= CODE
        && codes(template).all(|code| {
            let is_left = left >= code.text.len();
            left = left.saturating_sub(code.text.len());
            is_left && code.keeps_nothing_that_grows()
        })
}

/// What stands between two delimiters.
struct Code<'a> {
    /// Whether it is a tag, such as `{% if … %}`, and not printed.
    is_tag: bool,
    text: &'a str,
}

/// The code of a template. Text that a tag excludes from interpretation is read as code, which is no harm: such tags are
/// refused.
fn codes(template: &str) -> impl Iterator<Item = Code<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_at(rest.find('{')?);
            let inner = after.get(2..);
            match (after.as_bytes().get(1), inner) {
                (Some(b'#'), Some(inner)) => rest = inner.split_once("#}")?.1,
                (Some(kind @ (b'%' | b'{')), Some(inner)) => {
                    let end = end_of(inner, if *kind == b'%' { "%}" } else { "}}" });
                    let (text, left) = inner.split_at(end);
                    rest = left;
                    let is_tag = *kind == b'%';
                    return Some(Code { is_tag, text });
                }
                _ => rest = &after[1..],
            }
        }
    })
}

/// Where the code ends that a text begins with.
fn end_of(text: &str, delimiter: &str) -> usize {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if text[at..].starts_with(delimiter) => return at,
            Some(_) | None => {}
        }
    }
    text.len()
}

impl Code<'_> {
    fn keeps_nothing_that_grows(&self) -> bool {
        let code = without_texts(self.text);
        // A literal map may hold what looks like the end of the code.
        if code.contains(['*', '{']) {
            return false;
        }
        if !self.is_tag {
            return true;
        }
        let tag = code.trim_start_matches(['-', '+']).trim();
        let tag = tag.trim_end_matches(['-', '+']);
        let word = tag.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
        match word {
            Some("if" | "elif" | "else" | "endif" | "endfor" | "break" | "continue") => true,
            Some("for") => tag.split_once(" in ").is_some_and(|(_, of)| is_passed_on(of)),
            Some("set") => tag.split_once('=').is_some_and(|(_, to)| is_passed_on(to)),
            // Macros and the like keep what is printed in them.
            _ => false,
        }
    }
}

/// Whether an expression makes no text and no list from several: its value is what something else has, or less, or comes
/// from a filter or a method.
fn is_passed_on(expression: &str) -> bool {
    let mut depth = 0_usize;
    for (at, c) in expression.char_indices() {
        match c {
            '~' | '+' => return false,
            '(' | '[' if !ends_with_value(&expression[..at]) => return false,
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return false,
            _ => {}
        }
    }
    !expression
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| word == "recursive")
}

/// Whether what follows in parentheses or brackets are arguments or a subscript, and no tuple or list.
fn ends_with_value(code: &str) -> bool {
    const KEYWORDS: [&str; 7] = ["in", "if", "else", "and", "or", "not", "is"];
    let code = code.trim_end();
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_';
    let word = code.trim_end_matches(is_in_word).len();
    let word = &code[word..];
    if word.is_empty() {
        code.ends_with([')', ']', '\''])
    } else {
        !KEYWORDS.contains(&word)
    }
}

/// Code with its literal texts empty, each as `''`.
fn without_texts(code: &str) -> String {
    let (mut left, mut quote, mut is_escaped) = (String::new(), None, false);
    for c in code.chars() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => {
                quote = None;
                left.push('\'');
            }
            Some(_) => {}
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                left.push('\'');
            }
            None => left.push(c),
        }
    }
    left
}

/// Whether a filter or a method cannot make more than a little of these values: their sizes multiplied, as of a list's
/// texts and what joins them.
pub fn is_little<'a>(values: impl IntoIterator<Item = &'a Value>) -> bool {
    let mut product = 1_usize;
    for value in values {
        let Some(size) = size(value, false) else { return false };
        product = product.saturating_mul(size.saturating_add(1));
    }
    product <= RESULT
}

/// Bytes of a value's text, about; nothing for what may be large.
fn size(value: &Value, is_item: bool) -> Option<usize> {
    if value.downcast_object_ref::<Missing>().is_some() || value.downcast_object_ref::<Unknown>().is_some() {
        return Some(8);
    }
    match value.kind() {
        ValueKind::Undefined | ValueKind::None | ValueKind::Bool => Some(8),
        // A width, perhaps.
        ValueKind::Number => usize::try_from(value.as_i64()?.unsigned_abs()).ok(),
        ValueKind::String => value.as_str().map(str::len),
        ValueKind::Seq | ValueKind::Iterable if !is_item => {
            let mut sum = 0_usize;
            for item in value.try_iter().ok()? {
                sum = sum.saturating_add(size(&item, true)?).saturating_add(2);
                if sum > RESULT {
                    return None;
                }
            }
            Some(sum)
        }
        _ => None,
    }
}
