//! URLs in users' objects.

use crate::bounded::is_bounded;
use baremetal_operator::host::named_url::{DeniedRanges, NamedUrl, UrlField};
use metal3_api::metal3::Image;
use metal3_ironic::{Url, without_url_secrets};

const FIELDS: [UrlField; 6] = [
    UrlField::Image,
    UrlField::Checksum,
    UrlField::DataImage,
    UrlField::Firmware,
    UrlField::RamdiskImage,
    UrlField::RamdiskKernel,
];

/// An accepted URL is accepted in every spelling of it, and no message is longer for a longer URL.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let denied = DeniedRanges::default();
    for field in FIELDS {
        match NamedUrl::parse(field, text, &denied) {
            Ok(url) => is_whole(field, text, &url, &denied),
            Err(problem) => is_bounded(&[], problem.len()),
        }
    }
    let masked = without_url_secrets(text);
    assert_eq!(without_url_secrets(&masked), masked, "masked twice");
    is_bounded(input, masked.len());
    let half = text.len() / 2;
    if let Some((url, checksum)) = text.split_at_checked(half) {
        let image = Image {
            url: url.to_owned(),
            checksum: checksum.to_owned(),
            ..Image::default()
        };
        if let Err(error) = image.resolve_checksum() {
            is_bounded(input, error.to_string().len());
        }
        image.doubt();
    }
}

/// What Ironic gets is what was checked.
fn is_whole(field: UrlField, text: &str, url: &NamedUrl, denied: &DeniedRanges) {
    assert_eq!(url.as_str(), text);
    assert_eq!(NamedUrl::parse(field, url.as_str(), denied).as_ref(), Ok(url));
    let parsed = Url::parse(text).expect("an accepted URL can be parsed");
    assert_eq!(Url::parse(parsed.as_str()).as_ref(), Ok(&parsed));
    let normal = NamedUrl::parse(field, parsed.as_str(), denied);
    assert!(normal.is_ok(), "{text:?} is accepted, {parsed} is not: {normal:?}");
    let shown = format!("{url} {url:?}");
    if let Some(password) = parsed.password().filter(|password| password.len() > 5) {
        let elsewhere = text.matches(password).count() > 1;
        assert!(elsewhere || !shown.contains(password), "{shown}");
    }
}
