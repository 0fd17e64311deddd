//! URLs as Go's `url.ParseRequestURI` reads them (Go 1.26), which upstream's webhooks check URLs with. No error quotes any part
//! of a URL, because a URL may contain a password.

use std::net::Ipv6Addr;

/// The parts that rules read.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestUri<'a> {
    /// In lower case; empty for an absolute path.
    pub scheme: String,
    /// Still escaped. Empty if there is none, as in `http://host` and `mailto:name`.
    pub path: &'a str,
}

impl<'a> RequestUri<'a> {
    /// Reads an absolute URI, or an absolute path.
    ///
    /// # Errors
    ///
    /// Go rejects the text; the error says why.
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
            return match (scheme.is_empty(), text) {
                (false, _) => Ok(Self { scheme, path: "" }),
                // All of a server, in a request of HTTP.
                (true, "*") => Ok(Self { scheme, path: text }),
                (true, _) => Err("is neither an absolute URL nor an absolute path"),
            };
        }
        let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            None => rest,
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                check_authority(&scheme, authority)?;
                path
            }
        };
        if escapes(path).all(|byte| byte.is_some()) {
            Ok(Self { scheme, path })
        } else {
            Err(BROKEN_ESCAPE)
        }
    }
}

const BROKEN_ESCAPE: &str = "has a % that two hexadecimal digits must follow";

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

fn check_authority(scheme: &str, authority: &str) -> Result<(), &'static str> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return check_host(scheme, authority);
    };
    let is_user = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(is_user) {
        return Err("has a character before its host that must be escaped");
    }
    if escapes(user).any(|byte| byte.is_none()) {
        return Err(BROKEN_ESCAPE);
    }
    check_host(scheme, host)
}

fn check_host(scheme: &str, host: &str) -> Result<(), &'static str> {
    if let Some(literal) = host.strip_prefix('[').filter(|rest| !rest.contains('[')) {
        return check_literal(literal);
    }
    if host.contains('[') {
        return Err("has a bracket that does not enclose its host");
    }
    // Go allows a list of hosts with ports, for databases, but not in the URLs of the web.
    let is_web = matches!(scheme, "http" | "https");
    let colon = if is_web { host.find(':') } else { host.rfind(':') };
    check_port(host.split_at(colon.unwrap_or(host.len())).1)?;
    check_part(host, |byte| !byte.is_ascii() || byte == b'%')
}

/// An IPv6 address in brackets, without the first one.
fn check_literal(literal: &str) -> Result<(), &'static str> {
    let (inside, port) = literal.rsplit_once(']').ok_or("has a bracket that is not closed")?;
    check_port(port)?;
    let address = match inside.split_once("%25") {
        None => inside,
        Some((_, "")) => return Err("has an IPv6 address with an empty zone"),
        Some((address, zone)) => {
            check_part(zone, |byte| matches!(byte, b'%' | b' ') || is_of_host(char::from(byte)))?;
            address
        }
    };
    let address: Result<Ipv6Addr, _> = address.parse();
    address
        .map(|_| ())
        .map_err(|_| "has brackets around a host that is no IPv6 address")
}

fn check_port(port: &str) -> Result<(), &'static str> {
    let digits = port.strip_prefix(':').or(port.is_empty().then_some(""));
    if digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        Ok(())
    } else {
        Err("has a port that is not a number")
    }
}

/// A part of the host, where only certain bytes may be escaped.
fn check_part(part: &str, may_be_escaped: impl Fn(u8) -> bool) -> Result<(), &'static str> {
    if !part.chars().all(|c| !c.is_ascii() || c == '%' || is_of_host(c)) {
        return Err("has a character in its host that cannot stand there");
    }
    if escapes(part).all(|byte| byte.is_some_and(&may_be_escaped)) {
        Ok(())
    } else {
        Err("has a % in its host that cannot stand there")
    }
}

fn is_of_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"".contains(c)
}

/// What each % of the text stands for; none without two hexadecimal digits.
fn escapes(text: &str) -> impl Iterator<Item = Option<u8>> {
    text.split('%').skip(1).map(|after| {
        let digits = after.get(..2)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    // OWN 30r: the two programs read URLs by rules of their own, and neither as Go does. The verdicts are those of Go 1.26.8.
    #[rstest]
    #[case("HTTP://host:80/a%20b?x=%zz", "http", "/a%20b")]
    #[case("http://[2001:db8::1]:8080/a", "http", "/a")]
    #[case("http://[fe80::1%25eth0]/a", "http", "/a")]
    #[case("http://[fe80::1%25a%20b]/a", "http", "/a")]
    #[case("http://[::ffff:192.0.2.1]/a", "http", "/a")]
    #[case("oci:///a", "oci", "/a")]
    #[case("http:opaque", "http", "")]
    #[case("http://", "http", "")]
    #[case("http://h", "http", "")]
    #[case("http://h:/a", "http", "/a")]
    #[case("ftp://a:1,b:2/a", "ftp", "/a")]
    #[case("/a/b", "", "/a/b")]
    #[case("//h:port/%20", "", "//h:port/%20")]
    #[case("*", "", "*")]
    #[case("http://host/a b", "http", "/a b")]
    #[case("https://us%65r:p%40ss@h/", "https", "/")]
    #[case("https://user:p@ss@h/", "https", "/")]
    #[case("http://h%c3%a9/a", "http", "/a")]
    #[case("http://hé%25/a", "http", "/a")]
    #[case("http://a]b/a", "http", "/a")]
    fn what_go_accepts_is_accepted(#[case] text: &str, #[case] scheme: &str, #[case] path: &str) {
        let scheme = scheme.to_owned();
        assert_eq!(RequestUri::parse(text), Ok(RequestUri { scheme, path }));
    }

    #[rstest]
    #[case("", "required")]
    #[case("images/a", "neither")]
    #[case("1http://h/a", "neither")]
    #[case(":a", "neither")]
    #[case("?a", "neither")]
    #[case("http://h/a\n", "control")]
    #[case("http://h/a\u{7f}", "control")]
    #[case("http://h:port/a", "port")]
    #[case("http://a:1:2/a", "port")]
    #[case("http://::1/a", "port")]
    #[case("ftp://a:1,b:c/a", "port")]
    #[case("http://[::1]x/a", "port")]
    #[case("http://[::1]:x/a", "port")]
    #[case("http://[::1", "not closed")]
    #[case("http://h[::1]/a", "bracket that does not enclose")]
    #[case("http://[[::1]/a", "bracket that does not enclose")]
    #[case("http://[h]/a", "no IPv6 address")]
    #[case("http://[192.0.2.1]/a", "no IPv6 address")]
    #[case("http://[fe80::1%eth0]/a", "no IPv6 address")]
    #[case("http://[fe80::1%25]/a", "empty zone")]
    #[case("http://[fe80::1%25a%2f]/a", "% in its host")]
    #[case("http://h h/a", "character in its host")]
    #[case("http://h|/a", "character in its host")]
    #[case("http://h%20/a", "% in its host")]
    #[case("http://h%zz/a", "% in its host")]
    #[case("http://us er@h/", "before its host")]
    #[case("http://usér@h/", "before its host")]
    #[case("http://us[er@h/", "before its host")]
    #[case("https://user:pa%ss@h/", "hexadecimal")]
    #[case("http://h/%zz", "hexadecimal")]
    #[case("http://h/%a", "hexadecimal")]
    #[case("http://h/%%41", "hexadecimal")]
    #[case("http://h/a#%zz", "hexadecimal")]
    #[case("/a%", "hexadecimal")]
    fn what_go_rejects_is_rejected(#[case] text: &str, #[case] words: &str) {
        let problem = RequestUri::parse(text).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
}
