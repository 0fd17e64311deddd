//! The certificate that a program creates for its own webhooks: what is due for renewal, and creating it.
//!
//! Rotation never fails a call. A new authority is first trusted beside the old one, for [`SPREAD`], and only then
//! signs; a new certificate of the same authority is trusted at once, and the old one stays valid until every replica
//! serves the new one.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

const DAY: SignedDuration = SignedDuration::from_hours(24);
/// The validity of a certificate, and the age at which it is replaced.
const LEAF_DAYS: (i32, i32) = (365, 240);
/// The same for an authority.
const AUTHORITY_DAYS: (i32, i32) = (3650, 3000);
/// How long a new authority is trusted before it signs: the leader distributes it within minutes.
const SPREAD: i32 = 1;

/// The content of the Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Held {
    /// The authorities to trust, newest first.
    pub bundle: String,
    /// The key of the newest.
    authority_key: String,
    /// The certificate that is served.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// When the certificate is to be replaced.
    leaf_due: Timestamp,
    /// When the authority is.
    authority_due: Timestamp,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (leaf, authority) = (self.leaf_due, self.authority_due);
        f.debug_struct("Held")
            .field("leaf_due", &leaf)
            .field("authority_due", &authority)
            .finish_non_exhaustive()
    }
}

/// What has to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A certificate, signed by the newest authority.
    Leaf,
    /// An authority, which is trusted from now on and signs later.
    Authority,
    /// Both: nothing exists yet, or nothing usable.
    Everything,
}

/// Compares with the time of day, so that time spent suspended counts.
pub fn due(held: Option<&Held>, now: Timestamp) -> Due {
    match held {
        None => Due::Everything,
        Some(held) if held.authority_due <= now => Due::Authority,
        Some(held) if held.leaf_due <= now => Due::Leaf,
        Some(_) => Due::Nothing,
    }
}

/// Creates what is due; `None` if nothing is.
pub fn renewed(held: Option<&Held>, names: &[String], now: Timestamp) -> Result<Option<Held>, rcgen::Error> {
    let in_days = |days: i32| now + DAY * days;
    match (due(held, now), held) {
        (Due::Nothing, _) => Ok(None),
        (Due::Leaf, Some(held)) => {
            let authority_key = KeyPair::from_pem(&held.authority_key)?;
            let (certificate, key) = leaf(&authority_key, names, now)?;
            Ok(Some(Held {
                certificate,
                key,
                leaf_due: in_days(LEAF_DAYS.1),
                ..held.clone()
            }))
        }
        (Due::Authority, Some(held)) => {
            let (authority, key) = authority(now)?;
            Ok(Some(Held {
                bundle: authority + newest(&held.bundle),
                authority_key: key.serialize_pem(),
                leaf_due: in_days(SPREAD),
                authority_due: in_days(AUTHORITY_DAYS.1),
                ..held.clone()
            }))
        }
        (Due::Everything, _) | (_, None) => {
            let (bundle, authority_key) = authority(now)?;
            let (certificate, key) = leaf(&authority_key, names, now)?;
            Ok(Some(Held {
                bundle,
                authority_key: authority_key.serialize_pem(),
                certificate,
                key,
                leaf_due: in_days(LEAF_DAYS.1),
                authority_due: in_days(AUTHORITY_DAYS.1),
            }))
        }
    }
}

/// The first certificate of a bundle.
fn newest(bundle: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----\n";
    bundle.find(END).map_or(bundle, |at| &bundle[..at + END.len()])
}

fn authority(now: Timestamp) -> Result<(String, KeyPair), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = authority_params()?;
    valid(&mut params, now, AUTHORITY_DAYS.0);
    Ok((params.self_signed(&key)?.pem(), key))
}

fn authority_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "metal3 webhooks");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// A serving certificate for these DNS names.
fn leaf(authority: &KeyPair, names: &[String], now: Timestamp) -> Result<(String, String), rcgen::Error> {
    let issuer = Issuer::new(authority_params()?, authority);
    let mut params = CertificateParams::new(names)?;
    valid(&mut params, now, LEAF_DAYS.0);
    params.distinguished_name = DistinguishedName::new();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}

/// Valid from yesterday, because clocks differ.
fn valid(params: &mut CertificateParams, now: Timestamp, days: i32) {
    let day = |at: Timestamp| {
        let date = at.to_zoned(TimeZone::UTC).date();
        date_time_ymd(
            date.year().into(),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    params.not_before = day(now - DAY);
    params.not_after = day(now + DAY * days);
}

const KEYS: [&str; 6] = ["ca.crt", "ca.key", "tls.crt", "tls.key", "tls.due", "ca.due"];

impl Held {
    /// Reads the content of a Secret; `None` if something is missing or invalid.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Option<Self> {
        let [bundle, authority_key, certificate, key, leaf_due, authority_due] =
            KEYS.map(|key| String::from_utf8(data.get(key)?.0.clone()).ok());
        Some(Self {
            bundle: bundle?,
            authority_key: authority_key?,
            certificate: certificate?,
            key: key?,
            leaf_due: leaf_due?.parse().ok()?,
            authority_due: authority_due?.parse().ok()?,
        })
    }

    /// The data of the Secret.
    pub fn write(&self) -> BTreeMap<String, ByteString> {
        let due = [self.leaf_due.to_string(), self.authority_due.to_string()];
        let texts = [
            &self.bundle,
            &self.authority_key,
            &self.certificate,
            &self.key,
            &due[0],
            &due[1],
        ];
        let data = KEYS.iter().zip(texts);
        data.map(|(key, text)| ((*key).to_owned(), ByteString(text.clone().into_bytes())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["service.namespace.svc".to_owned()]
    }

    fn days(days: i32) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + DAY * days
    }

    #[test]
    fn a_new_authority_is_trusted_for_a_day_before_it_signs() {
        let first = renewed(None, &names(), days(0)).unwrap().unwrap();
        assert_eq!(renewed(Some(&first), &names(), days(239)).unwrap(), None);

        let second = renewed(Some(&first), &names(), days(240)).unwrap().unwrap();
        assert_eq!(second.bundle, first.bundle);
        assert_ne!(second.certificate, first.certificate);

        let trusted = renewed(Some(&second), &names(), days(3000)).unwrap().unwrap();
        assert!(trusted.bundle.ends_with(&first.bundle) && trusted.bundle != first.bundle);
        assert_eq!((&trusted.certificate, &trusted.key), (&second.certificate, &second.key));
        assert_eq!(due(Some(&trusted), days(3000)), Due::Nothing);

        let signed = renewed(Some(&trusted), &names(), days(3001)).unwrap().unwrap();
        assert_eq!(signed.bundle, trusted.bundle);
        assert_ne!(signed.certificate, trusted.certificate);

        let third = renewed(Some(&signed), &names(), days(6000)).unwrap().unwrap();
        assert!(!third.bundle.contains(&first.bundle), "no more than two are trusted");
        assert!(third.bundle.ends_with(newest(&signed.bundle)));
    }

    #[test]
    fn a_secret_holds_all_of_it_or_nothing() {
        let held = renewed(None, &names(), days(0)).unwrap().unwrap();
        let mut data = held.write();
        assert_eq!(Held::read(&data), Some(held));
        data.insert("ca.due".to_owned(), ByteString(b"soon".to_vec()));
        assert_eq!(Held::read(&data), None);
        data.remove("ca.due");
        assert_eq!(Held::read(&data), None);
    }
}
