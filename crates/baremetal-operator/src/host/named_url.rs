//! URLs in users' objects that Ironic, or a BMC, fetches from within the provisioning network.
//!
//! Nothing is resolved here: only addresses in the URL itself are checked, and the well-known names of cloud metadata
//! services. User info is allowed, as in upstream, because Ironic logs in with it; it is masked wherever the URL is
//! shown.

use std::fmt;

use metal3_ironic::without_url_secrets;
pub use metal3_runtime::denied::DeniedRanges;
use metal3_runtime::denied::FLAG;
use url::Url;

/// The field of a URL. Each field has its own schemes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlField {
    /// The image of a host.
    Image,
    /// The file of digests of an image.
    Checksum,
    /// The disc of a DataImage.
    DataImage,
    /// An update in HostFirmwareComponents.
    Firmware,
    /// Where a BMC sends its events.
    Destination,
    /// What a ramdisk builder has built; any writer of the PreprovisioningImage's status can set it.
    RamdiskImage,
    /// Its kernel.
    RamdiskKernel,
}

/// What upstream's webhook accepts for every URL.
const UPSTREAMS: &[&str] = &["http", "https", "ftp", "gopher", "oci"];

impl UrlField {
    const fn name(self) -> &'static str {
        match self {
            Self::Image => "spec.image.url",
            Self::Checksum => "spec.image.checksum",
            Self::DataImage => "spec.url",
            Self::Firmware => "spec.updates[].url",
            Self::Destination => "spec.destination",
            Self::RamdiskImage => "status.imageUrl",
            Self::RamdiskKernel => "status.kernelUrl",
        }
    }

    /// Never `file`: that would be a local file of Ironic.
    const fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Image | Self::Firmware => UPSTREAMS,
            // Ironic fetches the first two; a custom deploy step gets the text unchanged.
            Self::Checksum => &["http", "https", "ftp", "gopher"],
            // The last three are fetched by BMCs; only upstream's webhook rejects them.
            Self::DataImage => &["http", "https", "ftp", "gopher", "oci", "nfs", "cifs", "smb"],
            // Redfish events are sent by HTTP. Ironic, or a BMC, fetches the others; `file` is reserved for the
            // administrator, who sets it by the operator's flags.
            Self::Destination | Self::RamdiskImage | Self::RamdiskKernel => &["http", "https"],
        }
    }
}

/// A URL that a user names and that may be passed to Ironic. It is displayed without its secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedUrl(String);

impl NamedUrl {
    /// Reads the URL of a field. The error begins with the field's name and quotes the scheme or a bare address at most.
    pub fn parse(field: UrlField, text: &str, denied: &DeniedRanges) -> Result<Self, String> {
        match check(field, text, denied) {
            Ok(()) => Ok(Self(text.to_owned())),
            Err(problem) => Err(format!("{}: {problem}", field.name())),
        }
    }

    /// What is wrong with the URL of a field, without the field's name.
    pub fn problem(field: UrlField, text: &str, denied: &DeniedRanges) -> Option<String> {
        check(field, text, denied).err()
    }

    /// The URL as the user wrote it, with its secrets: for Ironic only.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NamedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&without_url_secrets(&self.0))
    }
}

impl fmt::Debug for NamedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&without_url_secrets(&self.0), f)
    }
}

/// Characters of a scheme in a message: anyone may write megabytes into an object, and a condition holds 32 KiB.
const LONGEST_QUOTE: usize = 40;

fn check(field: UrlField, text: &str, denied: &DeniedRanges) -> Result<(), String> {
    if text.contains(char::is_control) {
        return Err("it has a control character in it, such as the end of a line".to_owned());
    }
    let schemes = field.schemes();
    let url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
    if !schemes.contains(&url.scheme()) {
        let scheme: String = url.scheme().chars().take(LONGEST_QUOTE).collect();
        let known = schemes.join(", ");
        return Err(format!("scheme {scheme:?} cannot be used; it must be one of {known}"));
    }
    // Where else it stands, some parsers see a host before it.
    let after_scheme = text.get(url.scheme().len()..);
    let Some(rest) = after_scheme.and_then(|rest| rest.strip_prefix("://")) else {
        return Err(format!("it names no host; write {}://host/path", url.scheme()));
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // Parsers disagree about the host of such a URL, and Ironic's parser differs from ours: some skip further slashes.
    if authority.is_empty() {
        return Err("it names no host".to_owned());
    }
    if authority.contains(|c: char| c == '\\' || c.is_whitespace()) {
        return Err("it has a backslash or a space before its path".to_owned());
    }
    match denied.judge(url.host_str().unwrap_or_default()) {
        Err(_) => Err("it names no host".to_owned()),
        Ok(None) => Ok(()),
        Ok(Some(address)) => Err(format!(
            "address {address} is in a range that URLs may not name ({FLAG})"
        )),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(field: UrlField, text: &str) -> Result<NamedUrl, String> {
        NamedUrl::parse(field, text, &DeniedRanges::default())
    }

    #[rstest]
    #[case(UrlField::Image, "http file https ftp gopher oci nfs", "http https ftp gopher oci")]
    #[case(
        UrlField::Firmware,
        "http file https ftp gopher oci nfs",
        "http https ftp gopher oci"
    )]
    #[case(UrlField::Checksum, "http file https ftp gopher oci", "http https ftp gopher")]
    #[case(
        UrlField::DataImage,
        "http file https ftp gopher oci nfs cifs smb javascript",
        "http https ftp gopher oci nfs cifs smb"
    )]
    fn each_field_has_its_schemes(#[case] field: UrlField, #[case] tried: &str, #[case] accepted: &str) {
        let accepts = |scheme: &&str| parse(field, &format!("{scheme}://h/a")).is_ok();
        let found: Vec<_> = tried.split(' ').filter(accepts).collect();
        assert_eq!(found.join(" "), accepted);
    }

    #[rstest]
    #[case("HTTP://images/a%20b.qcow2?x=1#y")]
    #[case("http://u:p@127.0.0.1:8080/a")]
    #[case("http://[2001:db8::1]/a")]
    #[case("http://169.254.example/a")]
    #[case("http://metadata.google.internal.example.org/a")]
    #[case("oci://registry.example:5000/a/b@sha256:0")]
    #[case("http://images/a b")]
    fn usual_urls_are_taken_as_they_are(#[case] text: &str) {
        assert_eq!(parse(UrlField::Image, text).unwrap().as_str(), text);
    }

    #[rstest]
    #[case("http://169.254.169.254/latest")]
    #[case("http://169.254.169.254./latest")]
    #[case("http://u:p@169.254.169.254/latest")]
    #[case("http://2852039166/")]
    #[case("http://0xa9.0xfe.0xa9.0xfe/")]
    #[case("http://0251.0376.0251.0376/")]
    #[case("http://169.16689662/")]
    #[case("http://%31%36%39.254.169.254/")]
    #[case("http://１６９.254.169.254/")]
    #[case("http://[fe80::1]/")]
    #[case("http://[fd00:ec2::254]/")]
    #[case("http://[::ffff:169.254.169.254]/")]
    #[case("http://[::ffff:a9fe:a9fe]/")]
    #[case("http://[::169.254.169.254]/")]
    #[case("http://[64:ff9b::a9fe:a9fe]/")]
    #[case("oci://169.254.169.254/a")]
    #[case("oci://2852039166/a")]
    #[case("oci://0xa9fea9fe/a")]
    #[case("oci://%3169.254.169.254/a")]
    #[case("gopher://[fe80::1]/a")]
    #[case("http://metadata.google.internal/computeMetadata/v1")]
    #[case("https://METADATA.goog./")]
    #[case("oci://Metadata.Google.Internal/a")]
    fn denied_addresses_are_refused_however_they_are_written(#[case] text: &str) {
        let problem = parse(UrlField::Image, text).unwrap_err();
        assert!(problem.starts_with("spec.image.url: address "), "{text}: {problem}");
    }

    // OWN 30u: a URL with more than two slashes was accepted, whatever stood before its host.
    #[rstest]
    #[case("")]
    #[case("images/a.qcow2")]
    #[case("http:canary@h/a")]
    #[case("http:/canary@h/a")]
    #[case("http://u:canary@/a")]
    #[case("http:////u:canary@h/a")]
    #[case("http::u:canary@h/a://b")]
    #[case(" http://u:canary@h/a")]
    #[case("http:///u:canary@h\\@169.254.169.254/a")]
    #[case("oci:///canary")]
    #[case("http://u:canary/x@h/a")]
    #[case("http://u:canary@h:port/a")]
    #[case("http://u:canary@h/a\n")]
    #[case("http://u:canary@h/\u{7f}a")]
    #[case("http://u:canary@h\\@169.254.169.254/a")]
    #[case("http://u: canary@h/a")]
    #[case("file://u:canary@h/a")]
    fn other_urls_are_refused_without_a_quotation(#[case] text: &str) {
        let problem = parse(UrlField::Image, text).unwrap_err();
        assert!(
            problem.starts_with("spec.image.url: ") && !problem.contains("canary"),
            "{problem}"
        );
    }

    #[rstest]
    #[case("", "http://169.254.169.254/", true)]
    #[case("10.0.0.0/8, 127.0.0.0/8", "http://127.1/", false)]
    #[case("10.0.0.0/8, 127.0.0.0/8", "http://169.254.169.254/", true)]
    fn other_ranges_replace_the_default(#[case] ranges: &str, #[case] url: &str, #[case] is_accepted: bool) {
        let ranges = ranges.parse().unwrap();
        assert_eq!(NamedUrl::parse(UrlField::Image, url, &ranges).is_ok(), is_accepted);
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = parse(UrlField::Image, "http://u:canary@h/a?sig=canary").unwrap();
        assert!(!format!("{url} {url:?}").contains("canary"));
    }
}
