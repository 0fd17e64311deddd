//! Foreign text on its way to a person.

use metal3_ironic::without_url_secrets;

/// The longest message that is put into a status: Ironic can answer with whole tracebacks.
const LONGEST: usize = 1024;

/// One line, of bounded length, without control characters and without what is secret in URLs.
pub fn for_people(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(LONGEST));
    for word in text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
    {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&without_url_secrets(word));
        if line.len() > LONGEST {
            let cut = (0..=LONGEST).rev().find(|i| line.is_char_boundary(*i)).unwrap_or(0);
            line.truncate(cut);
            line.push('…');
            break;
        }
    }
    line
}

/// The beginning of a text that is longer than this many bytes.
pub fn cut(text: &str, longest: usize) -> String {
    let mut ends = (0..=longest.min(text.len())).rev();
    let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    if end == text.len() {
        text.to_owned()
    } else {
        format!("{}…", &text[..end])
    }
}

/// The same on an object of this namespace.
pub fn for_tenant(text: &str, namespace: &str) -> String {
    for_people(&without_others(text, namespace))
}

/// The text without the names that nodes of other namespaces have in Ironic, `<namespace>~<name>`: Ironic's own words may have
/// them, and one tenant is not to read which hosts another one has.
pub fn without_others(text: &str, namespace: &str) -> String {
    let is_label = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('~') {
        let words = before.trim_end_matches(is_label);
        let owner = &before[words.len()..];
        let end = after
            .find(|c| !is_label(c) && !matches!(c, '.' | '~'))
            .unwrap_or(after.len());
        // A full stop behind a name ends the sentence.
        let name = after[..end].trim_end_matches(['.', '-', '~']);
        told.push_str(words);
        // A version, a file or an address is no name of a node.
        let is_part = words.ends_with(['.', '/', '\\', '_']) && !words.ends_with("/nodes/");
        let is_name = owner.chars().all(|c| !c.is_ascii_uppercase());
        if is_part || !is_name || owner.is_empty() || name.is_empty() || owner == namespace {
            told.extend([owner, "~", name]);
        } else {
            told.push_str(OTHER);
        }
        rest = &after[name.len()..];
    }
    told + rest
}

/// What stands for a host of another namespace.
const OTHER: &str = "another host";

#[cfg(test)]
mod tests {
    use super::*;

    // OWN 22d: what Ironic says of a node named hosts of other tenants.
    #[test]
    fn hosts_of_other_namespaces_are_not_named() {
        for (text, told) in [
            (
                "Node victim~node-0 is locked by host conductor-1, please retry.",
                "Node another host is locked by host conductor-1, please retry.",
            ),
            ("Node own~node-0 is locked", "Node own~node-0 is locked"),
            (
                "A node with name victim~a.b already exists.",
                "A node with name another host already exists.",
            ),
            ("own~a, victim~a, own-2~a.", "own~a, another host, another host."),
            (
                "'victim~a~b' /v1/nodes/victim~a/states",
                "'another host' /v1/nodes/another host/states",
            ),
            ("node:victim~a is locked", "node:another host is locked"),
            ("about ~5 s, a~ and ~", "about ~5 s, a~ and ~"),
            (
                "http://i/ubuntu~22.04.img 2.6.4~rc1 C:\\PROGRA~1",
                "http://i/ubuntu~22.04.img 2.6.4~rc1 C:\\PROGRA~1",
            ),
            ("kein Knoten: äöü~ß", "kein Knoten: äöü~ß"),
        ] {
            assert_eq!(without_others(text, "own"), told);
            assert_eq!(without_others(told, "own"), told, "it is in its last form");
        }
    }

    #[test]
    fn long_text_is_cut_between_characters_and_lines_are_joined() {
        assert_eq!(for_people(" a\n b\t\u{7} c "), "a b c");
        assert_eq!(for_people("no http://u:p@h/a"), "no http://******@h/a");
        let long = for_people(&"ä".repeat(4000));
        assert!(long.len() <= LONGEST + '…'.len_utf8() && long.ends_with('…'));
    }
}
