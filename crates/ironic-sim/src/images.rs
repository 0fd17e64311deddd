//! How Ironic resolves image URLs: its client follows redirects and normalizes the URL, and the result replaces the original URL.
//! Redirects are requested by path, as with the lab's image server (`lab/ironic/ironic_lab/image_server.py`); nothing is
//! downloaded.

use url::Url;

/// So many redirects are followed.
const REDIRECTS: usize = 30;

/// Where the image is, or why it cannot be had. What is no URL of a web server stays as it is.
pub(crate) fn found(asked: &str) -> Result<String, String> {
    let failed = |why: &str| format!("Validation of image href {asked} failed, reason: {why}");
    let Ok(mut url) = Url::parse(asked) else {
        return Ok(asked.to_owned());
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Ok(asked.to_owned());
    }
    for _ in 0..=REDIRECTS {
        let path = url.path().replace("%7E", "~");
        let (kind, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        let (rest, is_https) = match kind {
            "redirect" => (rest.split_once('/').map_or("", |(_, rest)| rest), false),
            "relative" => (rest, false),
            "to-https" => (rest, true),
            "loop" => (&path[1..], false),
            "no-head" => return Err(failed("Got HTTP code 405 instead of 200 in response to HEAD request.")),
            _ => {
                url.set_path(&path);
                return Ok(url.into());
            }
        };
        let target = format!("/{rest}");
        url.set_path(&target);
        url.set_query(None);
        if is_https {
            url.set_scheme("https").ok(); // a web server's URL can have it
        }
    }
    Err(failed(&format!("Exceeded {REDIRECTS} redirects.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_what_a_client_finds() {
        for (asked, expected) in [
            ("http://Images:80//a.img", "http://images//a.img"),
            ("http://images/%7Ea.img?x=1", "http://images/~a.img?x=1"),
            ("http://images", "http://images/"),
            (
                "http://images/redirect/301/relative/to-https/a.img",
                "https://images/a.img",
            ),
            ("oci://Images/a:1", "oci://Images/a:1"),
        ] {
            assert_eq!(found(asked).as_deref(), Ok(expected));
        }
        assert!(found("http://images/loop/a.img").unwrap_err().contains("30 redirects"));
        assert!(found("http://images/no-head/a.img").unwrap_err().contains("HEAD"));
    }
}
