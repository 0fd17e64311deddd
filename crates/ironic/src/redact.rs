//! Text that may quote URLs, on its way to logs and people.

use crate::fields::MASK;

/// The text with the user info and the query of every URL in it masked: passwords and signatures stand there.
///
/// User info ends at the last `@` before the path. A query is masked wherever it follows a word, because errors of HTTP
/// clients quote the path of a URL without its host.
pub fn without_url_secrets(text: &str) -> String {
    let mut parts = text.split("://");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str("://");
        let end = part.find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '\\'));
        let (authority, rest) = part.split_at(end.unwrap_or(part.len()));
        match authority.rsplit_once('@') {
            Some((_, host)) => masked.extend([MASK, "@", host]),
            None => masked.push_str(authority),
        }
        masked.push_str(rest);
    }
    without_queries(&masked)
}

fn without_queries(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>')) {
        match word.split_once('?') {
            Some((before, query)) if query.contains('=') || is_query(before, query) => {
                masked.extend([before, "?", MASK]);
                masked.extend(
                    word.chars()
                        .next_back()
                        .filter(|c| c.is_whitespace() || matches!(c, '"' | '<' | '>')),
                );
            }
            _ => masked.push_str(word),
        }
    }
    masked
}

/// Whether what follows a question mark is a query without a key, and no sentence that ends with one: a path comes before it.
fn is_query(before: &str, query: &str) -> bool {
    before.contains('/') && query.contains(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_to_hide("http://h/a.img is gone; why?", "http://h/a.img is gone; why?")]
    #[case::user_info("http://u:canary@h/a", "http://******@h/a")]
    #[case::at_sign_in_the_password("http://u:can@ary@h:80", "http://******@h:80")]
    #[case::at_sign_in_the_path("http://h/a@sha256:0", "http://h/a@sha256:0")]
    #[case::two(
        "no http://u:canary@h/a, no oci://canary@r/b",
        "no http://******@h/a, no oci://******@r/b"
    )]
    #[case::signature("http://h/a?X-Sig=canary&e=1 failed", "http://h/a?****** failed")]
    #[case::no_key("http://h/a?canary failed", "http://h/a?****** failed")]
    #[case::no_key_and_no_word("is it http://h/a? No", "is it http://h/a? No")]
    #[case::path_alone("with url: /a?token=canary (refused)", "with url: /a?****** (refused)")]
    #[case::quoted(r#"of "http://h/a?t=canary": no"#, r#"of "http://h/a?******": no"#)]
    fn secrets_of_urls_are_masked(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(without_url_secrets(text), expected);
    }

    proptest! {
        #[test]
        fn no_password_survives(before in "[^@/]{0,9}", user in "[a-z:@]{0,6}", after in "(/[^@]{0,9})?") {
            let text = format!("{before} https://{user}canary@host{after}");
            prop_assert!(!without_url_secrets(&text).contains("canary"));
        }
    }
}
