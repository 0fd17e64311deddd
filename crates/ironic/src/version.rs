//! API versions: what a server offers, what we use with it, and what that allows.

use std::fmt;

use serde_json::Value;

use crate::view::View;

/// An API version, written `1.89`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// Always 1 so far.
    pub major: u32,
    /// The part that increases.
    pub minor: u32,
}

impl ApiVersion {
    pub(crate) const fn minor(minor: u32) -> Self {
        Self { major: 1, minor }
    }

    fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The oldest version we can work with: it brought attaching virtual media.
pub const MINIMUM: ApiVersion = ApiVersion::minor(89);

/// Features that not every supported server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Reading back which virtual media are inserted.
    ReadVirtualMedia,
    /// Nodes that must never be switched off.
    DisablePowerOff,
    /// The `health` field.
    Health,
    /// `abort` while a deployment waits for the ramdisk.
    AbortDeployWait,
}

impl Feature {
    /// The version that brought it.
    pub const fn since(self) -> ApiVersion {
        match self {
            Self::ReadVirtualMedia => ApiVersion::minor(93),
            Self::DisablePowerOff => ApiVersion::minor(95),
            Self::Health => ApiVersion::minor(109),
            Self::AbortDeployWait => ApiVersion::minor(110),
        }
    }
}

/// Every version that we use, best first: the minimum and those that introduced a [`Feature`]. Versions in between
/// would change responses without any benefit.
const SPOKEN: &[ApiVersion] = &[
    Feature::AbortDeployWait.since(),
    Feature::Health.since(),
    Feature::DisablePowerOff.since(),
    Feature::ReadVirtualMedia.since(),
    MINIMUM,
];

/// The outcome of version negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The oldest that the server speaks.
    pub min: ApiVersion,
    /// The newest that the server speaks.
    pub max: ApiVersion,
    /// What we send with every call.
    pub sent: ApiVersion,
}

impl Versions {
    /// Whether calls may use this.
    pub fn supports(&self, feature: Feature) -> bool {
        self.sent >= feature.since()
    }

    /// Picks the version from a discovery document: that of the server's root or that of its `/v1`. The error is the
    /// reason in words.
    pub(crate) fn negotiate(document: &Value) -> Result<Self, String> {
        let view = View::of(document);
        let mut offers: Vec<View<'_>> = view.list("versions").collect();
        if offers.is_empty() && view.at("version").is_present() {
            offers.push(view.at("version"));
        }
        let [offer] = offers[..] else {
            return Err(match offers.len() {
                0 => "the answer lists no API version; is the endpoint an Ironic API?".to_owned(),
                n => format!("the answer lists {n} API versions where one was expected"),
            });
        };
        let read = |key: &str| {
            let text = offer
                .text(key)
                .ok_or_else(|| format!("the answer has no \"{key}\" of the API"))?;
            ApiVersion::parse(&text).ok_or_else(|| format!("the answer has an unreadable \"{key}\" {text:?}"))
        };
        let (max, min) = (read("version")?, read("min_version")?);
        if max.major != MINIMUM.major || max < MINIMUM {
            return Err(format!(
                "the server speaks API {min} to {max}, at least {MINIMUM} is needed"
            ));
        }
        let sent = SPOKEN.iter().copied().find(|version| (min..=max).contains(version));
        let sent = sent.ok_or_else(|| format!("the server speaks API {min} to {max}, which is too new"))?;
        Ok(Self { min, max, sent })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn offer(min: &str, max: &str) -> Value {
        json!({"id": "v1", "links": [], "status": "CURRENT", "min_version": min, "version": max})
    }

    #[rstest]
    #[case("1.89", 89)]
    #[case("1.92", 89)]
    #[case("1.93", 93)]
    #[case("1.94", 93)]
    #[case("1.95", 95)]
    #[case("1.108", 95)]
    #[case("1.109", 109)]
    #[case("1.110", 110)]
    #[case("1.115", 110)]
    fn the_best_known_version_is_spoken(#[case] max: &str, #[case] sent: u32) {
        for document in [
            json!({"name": "OpenStack Ironic API", "default_version": offer("1.1", max), "versions": [offer("1.1", max)]}),
            json!({"id": "v1", "nodes": [], "version": offer("1.1", max)}),
        ] {
            let versions = Versions::negotiate(&document).unwrap();
            assert_eq!(versions.sent, ApiVersion::minor(sent));
            assert_eq!(versions.max.to_string(), max);
        }
    }

    #[test]
    fn features_follow_the_spoken_version() {
        let versions = Versions::negotiate(&json!({"version": offer("1.1", "1.109")})).unwrap();
        assert!(versions.supports(Feature::Health) && versions.supports(Feature::ReadVirtualMedia));
        assert!(!versions.supports(Feature::AbortDeployWait));
    }

    #[rstest]
    #[case(json!({"version": offer("1.1", "1.88")}), "at least 1.89")]
    #[case(json!({"version": offer("2.1", "2.88")}), "at least 1.89")]
    #[case(json!({"version": offer("1.111", "1.120")}), "too new")]
    #[case(json!({"version": offer("1.1", "latest")}), "unreadable \"version\" \"latest\"")]
    #[case(json!({"version": {"version": "1.100"}}), "no \"min_version\"")]
    #[case(json!({"versions": [offer("1.1", "1.100"), offer("1.1", "1.100")]}), "2 API versions")]
    #[case(json!({"versions": []}), "no API version")]
    #[case(json!({"kind": "APIVersions"}), "no API version")]
    #[case(json!("hello"), "no API version")]
    fn what_cannot_be_used_says_why(#[case] document: Value, #[case] reason: &str) {
        // D24 of upstream's: the documentation allows an Ironic that the code refuses.
        let error = Versions::negotiate(&document).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}
