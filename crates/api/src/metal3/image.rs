//! What a host is provisioned with.

use crate::wire::wire_enum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

wire_enum! {
    /// Digest algorithm of an image's checksum.
    closed enum ChecksumType {
        /// MD5.
        Md5 = "md5",
        /// SHA-256.
        Sha256 = "sha256",
        /// SHA-512.
        Sha512 = "sha512",
        /// Ironic tells the algorithm from the checksum's length; absent means the same.
        Auto = "auto",
    }
}

wire_enum! {
    /// File format of an image.
    closed enum ImageFormat {
        /// Disk image as it is.
        Raw = "raw",
        /// QEMU copy-on-write disk image.
        Qcow2 = "qcow2",
        /// VirtualBox disk image.
        Vdi = "vdi",
        /// VMware disk image.
        Vmdk = "vmdk",
        /// ISO that the host boots and runs from; nothing is written to a disk.
        LiveIso = "live-iso",
    }
}

/// An image and how to check it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Image {
    /// Location of the image: a URL with scheme http, https, ftp or oci.
    pub url: String,

    /// Digest of the image, or a URL of a file of digests. Required unless the image is a live ISO, where it is
    /// ignored, or an oci URL, where it must be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checksum: String,

    /// Algorithm of the checksum. Absent and auto both let Ironic find out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checksum_type: Option<ChecksumType>,

    /// Format of the image. live-iso boots the image instead of writing it to a disk. Absent lets Ironic find out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ImageFormat>,

    /// Name of a Secret of type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg in the namespace of the host,
    /// with credentials for the registry of an oci URL. Ignored for other URLs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub oci_auth_secret_name: String,
}

/// Deployment by a step of a site's own ramdisk instead of writing an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomDeploy {
    /// Name of the deploy step that the ramdisk offers.
    pub method: String,
}

/// How to check an image, as Ironic wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum<'a> {
    /// A digest, or a URL of a file of digests.
    pub value: &'a str,

    /// The algorithm, or none to let Ironic find out.
    pub algorithm: Option<&'a ChecksumType>,
}

/// Why an image cannot be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// The registry already says what an oci image's digest is.
    #[error("checksum must be empty for an oci image")]
    NotForOci,

    /// An ordinary image needs a checksum.
    #[error("checksum is missing")]
    Missing,

    /// The algorithm is none that Ironic knows.
    #[error("checksumType {0:?} is unknown, must be one of md5, sha256, sha512 and auto")]
    UnknownType(String),
}

impl Image {
    /// Whether the host boots and runs from this image instead of having it written to a disk.
    pub fn is_live_iso(&self) -> bool {
        self.format == Some(ImageFormat::LiveIso)
    }

    /// Whether the image lies in a container registry.
    pub fn is_oci(&self) -> bool {
        self.url
            .as_bytes()
            .get(..6)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"oci://"))
    }

    /// Why something else than the image that was meant may be installed, if so.
    pub fn doubt(&self) -> Option<&'static str> {
        if self.is_oci() {
            // Before the last part there may be something else that looks like a digest, such as the user info of the registry.
            let image = self.url.rsplit('/').next().unwrap_or_default();
            let is_pinned = image.contains("@sha256:") || image.contains("@sha512:");
            return (!is_pinned)
                .then_some("a tag can be given to another image: name the digest as well, image@sha256:…");
        }
        let checksum = self.resolve_checksum().ok()??;
        // Ironic tells the algorithm of a plain checksum by its length.
        let is_short = || checksum.value.len() == 32 && checksum.value.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_md5 = match checksum.algorithm {
            Some(ChecksumType::Md5) => true,
            None => is_short(),
            Some(_) => false,
        };
        is_md5.then_some("another image can be made for an MD5 checksum: give one of SHA-256 or SHA-512")
    }

    /// How to check this image; none where nothing is to be checked.
    ///
    /// # Errors
    ///
    /// The checksum is missing or out of place, or its type is unknown.
    pub fn resolve_checksum(&self) -> Result<Option<Checksum<'_>>, ChecksumError> {
        if self.is_oci() {
            return if self.checksum.is_empty() {
                Ok(None)
            } else {
                Err(ChecksumError::NotForOci)
            };
        }
        if self.is_live_iso() {
            return Ok(None);
        }
        if self.checksum.is_empty() {
            return Err(ChecksumError::Missing);
        }
        let algorithm = match &self.checksum_type {
            None | Some(ChecksumType::Auto) => None,
            Some(ChecksumType::Other(text)) => return Err(ChecksumError::UnknownType(text.clone())),
            known @ Some(ChecksumType::Md5 | ChecksumType::Sha256 | ChecksumType::Sha512) => known.as_ref(),
        };
        Ok(Some(Checksum {
            value: &self.checksum,
            algorithm,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn image(url: &str, checksum: &str, checksum_type: Option<&str>, format: Option<&str>) -> Image {
        Image {
            url: url.to_owned(),
            checksum: checksum.to_owned(),
            checksum_type: checksum_type.map(ChecksumType::from),
            format: format.map(ImageFormat::from),
            ..Default::default()
        }
    }

    #[rstest]
    #[case::plain("http://h/i", "abc", None, None, Ok(Some(("abc", None))))]
    #[case::auto("http://h/i", "abc", Some("auto"), None, Ok(Some(("abc", None))))]
    #[case::md5("http://h/i", "abc", Some("md5"), Some("raw"), Ok(Some(("abc", Some("md5")))))]
    #[case::sha512("http://h/i", "abc", Some("sha512"), None, Ok(Some(("abc", Some("sha512")))))]
    #[case::unknown("http://h/i", "abc", Some("crc"), None, Err(ChecksumError::UnknownType("crc".to_owned())))]
    #[case::missing("http://h/i", "", Some("md5"), None, Err(ChecksumError::Missing))]
    #[case::live_iso("http://h/i", "abc", Some("crc"), Some("live-iso"), Ok(None))]
    #[case::oci("oci://h/i", "", Some("crc"), None, Ok(None))]
    #[case::oci_upper_case("OCI://h/i", "", None, None, Ok(None))]
    #[case::oci_with_checksum("oci://h/i", "abc", None, Some("live-iso"), Err(ChecksumError::NotForOci))]
    fn checksums(
        #[case] url: &str,
        #[case] checksum: &str,
        #[case] checksum_type: Option<&str>,
        #[case] format: Option<&str>,
        #[case] expected: Result<Option<(&str, Option<&str>)>, ChecksumError>,
    ) {
        let image = image(url, checksum, checksum_type, format);
        let resolved = image.resolve_checksum();
        assert_eq!(
            resolved.map(|c| c.map(|c| (c.value, c.algorithm.map(ChecksumType::as_str)))),
            expected
        );
    }

    #[rstest]
    #[case("oci://", true)]
    #[case("Oci://r/i:tag", true)]
    #[case("oci:/r", false)]
    #[case("", false)]
    #[case("\u{fc}\u{fc}\u{fc}\u{fc}", false)]
    fn oci_urls(#[case] url: &str, #[case] expected: bool) {
        assert_eq!(image(url, "", None, None).is_oci(), expected);
    }

    // OWN 26: nobody was told that another image than the one that was meant can be installed.
    #[rstest]
    #[case::sha("http://i/a", &"a".repeat(64), None, None)]
    #[case::sha_by_name("http://i/a", "http://i/sums", Some("sha512"), None)]
    #[case::unknown("http://i/a", "http://i/sums", None, None)]
    #[case::md5("http://i/a", "http://i/sums", Some("md5"), Some("MD5"))]
    #[case::md5_by_its_length("http://i/a", &"A".repeat(32), None, Some("MD5"))]
    #[case::not_hex("http://i/a", &"x".repeat(32), Some("auto"), None)]
    #[case::tag("oci://r/i:latest", "", None, Some("digest"))]
    #[case::digest("oci://r/i:latest@sha256:00", "", None, None)]
    #[case::no_digest("oci://u@sha256:00/i:latest", "", None, Some("digest"))]
    fn what_cannot_be_told_apart_is_doubted(
        #[case] url: &str,
        #[case] checksum: &str,
        #[case] kind: Option<&str>,
        #[case] word: Option<&str>,
    ) {
        let doubt = image(url, checksum, kind, None).doubt();
        assert_eq!(doubt.is_some(), word.is_some(), "{doubt:?}");
        assert!(doubt.unwrap_or_default().contains(word.unwrap_or_default()));
    }
}
