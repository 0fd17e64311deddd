//! URIs as Go's `url.ParseRequestURI` reads them, which upstream checks URLs with. No error quotes more than a scheme: a URL may
//! contain a password.

/// The schemes of images and of firmware.
const SCHEMES: [&str; 5] = ["http", "https", "ftp", "gopher", "oci"];

/// The parts that rules read.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestUri<'a> {
    /// In lower case; empty for an absolute path.
    pub scheme: String,
    /// Empty if there is none, as in `http://host` and `mailto:name`.
    pub path: &'a str,
}

impl<'a> RequestUri<'a> {
    /// Reads an absolute URI, or an absolute path.
    pub fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err("is required");
        }
        if text.contains(|c: char| c.is_ascii_control()) {
            return Err("has a control character in it");
        }
        let (scheme, rest) = split_scheme(text);
        let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
        if !rest.starts_with('/') {
            return if scheme.is_empty() {
                Err("is neither an absolute URL nor an absolute path")
            } else {
                Ok(Self { scheme, path: "" })
            };
        }
        let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            None => rest,
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                check_authority(authority)?;
                path
            }
        };
        if has_broken_escape(path) {
            return Err("has a % that two hexadecimal digits must follow");
        }
        Ok(Self { scheme, path })
    }
}

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

fn split_scheme(text: &str) -> (String, &str) {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), text),
    }
}

fn check_authority(authority: &str) -> Result<(), &'static str> {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.contains(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%@".contains(c)) {
        return Err("has a character in its host that must be escaped");
    }
    let port = match host.rsplit_once(']') {
        Some((_, port)) => port.strip_prefix(':').unwrap_or(port),
        None => host.rsplit_once(':').map_or("", |(_, port)| port),
    };
    if port.chars().all(|c| c.is_ascii_digit()) {
        Ok(())
    } else {
        Err("has a port that is not a number")
    }
}

fn has_broken_escape(path: &str) -> bool {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = path.as_bytes();
    let percents = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    percents
        .into_iter()
        .any(|(at, _)| !is_hex(bytes.get(at + 1)) || !is_hex(bytes.get(at + 2)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("HTTP://host:80/a%20b?x=%zz", "http", "/a%20b")]
    #[case("https://user:pa%ss@host", "https", "")]
    #[case("http://[2001:db8::1]:8080/a", "http", "/a")]
    #[case("http://[2001:db8::1]/a", "http", "/a")]
    #[case("oci:///a", "oci", "/a")]
    #[case("http:opaque", "http", "")]
    #[case("/a/b", "", "/a/b")]
    #[case("http://host/a b", "http", "/a b")]
    fn a_uri_is_split(#[case] text: &str, #[case] scheme: &str, #[case] path: &str) {
        let scheme = scheme.to_owned();
        assert_eq!(RequestUri::parse(text), Ok(RequestUri { scheme, path }));
    }

    #[rstest]
    #[case("", "required")]
    #[case("images/a", "neither")]
    #[case("1http://h/a", "neither")]
    #[case("host:80", "scheme")]
    #[case("http://h/a\n", "control")]
    #[case("http://h:port/a", "port")]
    #[case("http://[::1]x/a", "port")]
    #[case("http://h h/a", "host")]
    #[case("http://h/%zz", "%")]
    #[case("http://h/%a", "%")]
    #[case(
        "file:///etc/passwd",
        "\"file\" cannot be used; it must be one of http, https, ftp, gopher, oci"
    )]
    #[case("/a", "scheme")]
    fn what_go_rejects_is_rejected(#[case] text: &str, #[case] words: &str) {
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
