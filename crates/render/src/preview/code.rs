//! The code of a template, cut out by its delimiters, and which of it may be parsed.

/// Bytes of an expression. Each level of nesting takes at least one.
const LONGEST: usize = 512;

/// Levels of brackets, and operators in a row.
const DEEPEST: usize = 8;

/// What stands between two delimiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// It is printed.
    Print(&'a str),
    /// A tag such as `{% if … %}`: its first word, and the rest.
    Tag(&'a str, &'a str),
}

impl<'a> Piece<'a> {
    /// Its text.
    pub fn code(self) -> &'a str {
        match self {
            Self::Print(code) | Self::Tag(_, code) => code,
        }
    }
}

/// The pieces of a template, in order. Comments are left out, and what a `raw` block keeps from being code. Nothing, as the last
/// one, stands for a piece without an end.
pub fn pieces(template: &str) -> impl Iterator<Item = Option<Piece<'_>>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_at(rest.find('{')?);
            let inner = after.get(2..);
            let (Some(kind), Some(inner)) = (after.as_bytes().get(1), inner) else {
                rest = after.get(1..)?;
                continue;
            };
            let piece = match kind {
                b'#' => {
                    rest = inner.split_once("#}").map_or("", |(_, rest)| rest);
                    continue;
                }
                b'{' => cut(inner, "}}").map(|(code, rest)| (Piece::Print(code), rest)),
                b'%' => cut(inner, "%}").map(|(code, rest)| (tag(code), rest)),
                _ => {
                    rest = &after[1..];
                    continue;
                }
            };
            let Some((piece, left)) = piece else {
                rest = "";
                return Some(None);
            };
            rest = match piece {
                Piece::Tag("raw", _) => after_raw(left),
                _ => left,
            };
            return Some(Some(piece));
        }
    })
}

fn tag(code: &str) -> Piece<'_> {
    let end = code.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let (word, rest) = code.split_at(end.unwrap_or(code.len()));
    Piece::Tag(word, rest.trim())
}

/// What follows the tag that ends a `raw` block, with that tag.
fn after_raw(text: &str) -> &str {
    let ends = text.match_indices("{%").find(|(at, _)| {
        let inner = text[at + 2..].trim_start_matches(['-', '+']);
        inner.trim_start().starts_with("endraw")
    });
    ends.map_or("", |(at, _)| &text[at..])
}

/// The code that a text begins with, without the signs that trim the text around it, and what follows its delimiter.
fn cut<'a>(text: &'a str, delimiter: &str) -> Option<(&'a str, &'a str)> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if text[at..].starts_with(delimiter) => {
                let code = text[..at].strip_prefix(['-', '+']).unwrap_or(&text[..at]);
                let code = code.strip_suffix(['-', '+']).unwrap_or(code);
                return Some((code.trim(), &text[at + delimiter.len()..]));
            }
            Some(_) | None => {}
        }
    }
    None
}

/// The words of code, those in its texts as well.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty())
}

/// Whether an expression is short and flat, calculates nothing large, and takes no care of what is missing.
///
/// minijinja's parser guards its depth, except where operators follow each other, and works out at once what consists of
/// constants only: a text that is multiplied would be made.
pub fn is_simple(code: &str) -> bool {
    const CAREFUL: [&str; 11] = [
        "default", "d", "is", "in", "or", "and", "not", "if", "else", "get", "defined",
    ];
    if code.len() > LONGEST {
        return false;
    }
    let bare = without_texts(code);
    let is_careful = words(&bare).any(|word| CAREFUL.contains(&word)) || bare.contains(['=', '<', '>', '!']);
    !is_careful && !bare.contains(['*', '{']) && is_flat(&bare)
}

fn is_flat(bare: &str) -> bool {
    let (mut brackets, mut operators) = (0_usize, 0_usize);
    for c in bare.chars().filter(|c| !c.is_whitespace()) {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        operators = if "+-~/%".contains(c) { operators + 1 } else { 0 };
        if brackets > DEEPEST || operators > DEEPEST {
            return false;
        }
    }
    true
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
