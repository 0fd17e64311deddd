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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters_and_lines_are_joined() {
        assert_eq!(for_people(" a\n b\t\u{7} c "), "a b c");
        assert_eq!(for_people("no http://u:p@h/a"), "no http://******@h/a");
        let long = for_people(&"ä".repeat(4000));
        assert!(long.len() <= LONGEST + '…'.len_utf8() && long.ends_with('…'));
    }
}
