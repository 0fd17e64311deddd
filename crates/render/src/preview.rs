//! User data that is a template: which missing metadata keys it uses.
//!
//! cloud-init renders user data whose first line is `## template: jinja`, with the metadata as `ds.meta_data`. A
//! missing key does not fail: it renders as `CI_MISSING_JINJA_VAR/key`, the machine boots with that text somewhere in
//! its configuration, and mostly never joins its cluster.
//!
//! The template is not executed, because any user who may write Secrets can supply it, and this process also serves
//! other users. Instead, printed expressions and assigned text outside of blocks such as `{% if %}` are extracted by
//! their delimiters, and minijinja reports the names in each expression. A long or deep expression is not parsed. An
//! expression that handles missing values, by a default, a test or an alternative, is not judged.

mod code;

use std::collections::HashSet;
use std::fmt;

use minijinja::Environment;

use self::code::{Piece, pieces};
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

/// The maximum number of bytes between a template's delimiters.
const CODE: usize = 16 * 1024;

/// Metadata that is always there: what baremetal-operator adds, and what cloud-init makes of it on a config drive.
const ALWAYS: &[&str] = &[
    "uuid",
    "metal3-namespace",
    "metal3-name",
    "local-hostname",
    "local_hostname",
    "name",
    "instance-id",
    "dsmode",
];

/// The methods of Python's dictionaries.
const METHODS: &[&str] = &["get", "items", "keys", "values"];

/// The missing keys that user data uses from the metadata, in the order of their first use.
///
/// User data that is no template (cloud-config, scripts, Ignition, archives), or that cannot be parsed, is not judged:
/// then nothing is missing.
pub fn missing_keys(user_data: &str, metadata: &Metadata) -> Vec<Key> {
    let named = template_in(user_data).and_then(named_keys).unwrap_or_default();
    let always = ALWAYS.iter().copied();
    let given = metadata.0.keys().map(String::as_str).chain(always);
    let known: HashSet<String> = given.flat_map(|key| [key.to_owned(), alias(key)]).collect();
    let mut missing = Vec::new();
    for key in named {
        if !known.contains(&key) && !missing.iter().any(|Key(other)| *other == key) {
            missing.push(Key(key));
        }
    }
    missing
}

/// Whether cloud-init treats this user data as a template, so that [`missing_keys`] may return something.
pub fn is_template(user_data: &str) -> bool {
    template_in(user_data).is_some()
}

/// The template without its marker line. cloud-init is as strict about that line.
fn template_in(user_data: &str) -> Option<&str> {
    const HEADER: &str = "## template: jinja";
    let (first, rest) = user_data.split_once('\n')?;
    first.trim_end().eq_ignore_ascii_case(HEADER).then_some(rest)
}

/// The keys that a template always uses; `None` if it cannot be parsed, or has too much code.
fn named_keys(template: &str) -> Option<Vec<String>> {
    let (mut named, mut depth, mut left) = (Vec::new(), 0_usize, CODE);
    for piece in pieces(template) {
        let piece = piece?;
        left = left.checked_sub(piece.code().len())?;
        match piece {
            Piece::Print(code) if depth == 0 => named.extend(keys_in(code)?),
            Piece::Tag("set", code) => match code.split_once('=').filter(|(to, _)| !to.contains('|')) {
                Some((to, _)) if code::words(to).any(|word| word == "ds") => return None,
                // An assigned value may get a default where it is printed.
                Some((_, value)) if depth == 0 && value.contains(['~', '|']) => named.extend(keys_in(value)?),
                Some(_) => {}
                None => depth += 1,
            },
            Piece::Print(_) | Piece::Tag("else" | "elif" | "break" | "continue" | "do", _) => {}
            Piece::Tag(word, _) if word.starts_with("end") => depth = depth.saturating_sub(1),
            Piece::Tag(..) => depth += 1,
        }
    }
    Some(named)
}

/// The keys that an expression uses; `None` if it cannot be parsed.
fn keys_in(code: &str) -> Option<Vec<String>> {
    if !code::is_simple(code) {
        return Some(Vec::new());
    }
    let environment = Environment::empty();
    let names = environment.compile_expression(code).ok()?.undeclared_variables(true);
    let dotted = names.iter().filter_map(|name| name.strip_prefix("ds.meta_data."));
    let dotted = dotted.filter_map(|rest| rest.split('.').next());
    let dotted = dotted.filter(|key| !METHODS.contains(key)).map(str::to_owned);
    let mut keys: Vec<(Option<usize>, String)> = dotted
        .chain(subscripts(code))
        .map(|key| (code.find(&key), key))
        .collect();
    keys.sort();
    Some(keys.into_iter().map(|(_, key)| key).collect())
}

/// Keys that are named as `ds.meta_data['rack/row']`.
fn subscripts(code: &str) -> impl Iterator<Item = String> {
    code.split("ds.meta_data[").skip(1).filter_map(|rest| {
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|c| ['"', '\''].contains(c))?;
        let (key, rest) = rest[1..].split_once(quote)?;
        (rest.trim_start().starts_with(']') && !key.contains('\\')).then(|| key.to_owned())
    })
}

/// The second name of a key that has an operator of Jinja in it: each operator becomes an underscore.
fn alias(key: &str) -> String {
    const OF_TWO: [&str; 6] = ["//", "**", "==", "!=", ">=", "<="];
    const OF_ONE: &str = "+-/*%~[](){}=<>.:|,;";
    let (mut alias, mut rest) = (String::new(), key);
    while let Some(next) = rest.chars().next() {
        let length = if OF_TWO.iter().any(|operator| rest.starts_with(operator)) {
            2
        } else {
            next.len_utf8()
        };
        alias.push(if length == 2 && next.is_ascii() || OF_ONE.contains(next) {
            '_'
        } else {
            next
        });
        rest = &rest[length..];
    }
    alias
}

#[cfg(test)]
mod tests {
    use super::alias;
    use rstest::rstest;

    #[rstest]
    #[case("rack", "rack")]
    #[case("rack_1", "rack_1")]
    #[case("local-hostname", "local_hostname")]
    #[case("topology.kubernetes.io/zone", "topology_kubernetes_io_zone")]
    #[case("a//b==c!d", "a_b_c!d")]
    #[case("é-é", "é_é")]
    fn second_names(#[case] key: &str, #[case] second: &str) {
        assert_eq!(alias(key), second);
    }
}
