//! URLs of images and of firmware. No error quotes more than a scheme: a URL may contain a password.

use metal3_runtime::go_url::RequestUri;

/// The schemes of images and of firmware.
const SCHEMES: [&str; 5] = ["http", "https", "ftp", "gopher", "oci"];

/// What is wrong with the URL of an image or of firmware.
pub fn problem(text: &str) -> Option<String> {
    match RequestUri::parse(text) {
        Err(problem) => Some(problem.to_owned()),
        Ok(uri) if SCHEMES.contains(&uri.scheme.as_str()) => None,
        Ok(uri) => Some(format!(
            "scheme {:?} cannot be used; it must be one of {}",
            uri.scheme,
            SCHEMES.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("images/a", "neither")]
    #[case("https://user:pa%ss@h/", "%")]
    #[case("host:80", "scheme \"host\"")]
    #[case(
        "file:///etc/passwd",
        "\"file\" cannot be used; it must be one of http, https, ftp, gopher, oci"
    )]
    #[case("/a", "scheme")]
    #[case("*", "scheme")]
    fn what_go_or_the_list_of_schemes_rejects_is_rejected(#[case] text: &str, #[case] words: &str) {
        let problem = problem(text).unwrap();
        assert!(problem.contains(words), "{problem}");
    }

    #[rstest]
    #[case("http://h/a")]
    #[case("FTP://h")]
    #[case("gopher://h/a")]
    #[case("oci://registry/a:b")]
    #[case("http:foo")]
    fn what_go_accepts_is_accepted(#[case] text: &str) {
        assert_eq!(problem(text), None);
    }
}
