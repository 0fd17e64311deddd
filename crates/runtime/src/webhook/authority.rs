//! The certificate that a program creates for its own webhooks: what is due for renewal, and creating it.
//!
//! Rotation never fails a call. A new authority is first trusted beside the old one, for [`SPREAD`] and until everything that
//! calls this program trusts it, and only then signs; a new certificate of the same authority is trusted at once, and the old one stays valid until every replica
//! serves the new one. What the API server would not trust anyway is replaced at once.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::trust;

const DAY: SignedDuration = SignedDuration::from_hours(24);
/// The validity of a certificate, and the age at which it is replaced.
const LEAF_DAYS: (i32, i32) = (365, 240);
/// The same for an authority.
const AUTHORITY_DAYS: (i32, i32) = (3650, 3000);
/// The name of every authority that this program creates.
pub const AUTHORITY: &str = "metal3 webhooks";
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

/// What has to be created, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A certificate, signed by the newest authority: its time has come, or the API server does not trust it.
    Leaf(Option<Unusable>),
    /// An authority, which is trusted from now on and signs later.
    Authority,
    /// Both: nothing exists yet, or the authority has expired.
    Everything,
}

/// Why the API server cannot trust a certificate, or the server cannot serve it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// Not PEM, or no certificate.
    #[error("its content cannot be read")]
    Unreadable,
    /// The key belongs to another certificate.
    #[error("tls.key is not the key of tls.crt")]
    AnotherKey,
    /// Not signed by what the API server trusts, expired, or for other names.
    #[error("the API server would not trust tls.crt for {name}: {reason}")]
    NotTrusted {
        /// The name by which the API server calls.
        name: String,
        /// The answer of the verification.
        reason: String,
    },
}

/// Compares with the time of day, so that time spent suspended counts. The certificate comes before its authority: a new
/// authority signs only after a day, and the certificate must last until then.
pub fn due(held: Option<&Held>, names: &[String], now: Timestamp) -> Due {
    let Some(held) = held else {
        return Due::Everything;
    };
    // Later than this program ever writes: somebody else has.
    if held.authority_due > in_days(now, AUTHORITY_DAYS.1 + SPREAD) {
        return Due::Authority;
    }
    // Verification below does not look at the dates of an authority; the API server does.
    if in_days(held.authority_due, AUTHORITY_DAYS.0 - AUTHORITY_DAYS.1) <= now {
        return Due::Everything;
    }
    if let Err(unusable) = held.check(names, now) {
        return Due::Leaf(Some(unusable));
    }
    if held.leaf_due <= now || held.leaf_due > in_days(now, LEAF_DAYS.1 + SPREAD) {
        Due::Leaf(None)
    } else if held.authority_due <= now {
        Due::Authority
    } else {
        Due::Nothing
    }
}

/// Creates what is due; `None` if nothing is.
pub fn renewed(held: Option<&Held>, names: &[String], now: Timestamp) -> Result<Option<Held>, rcgen::Error> {
    let Some(held) = held else {
        return Held::new(names, now).map(Some);
    };
    match due(Some(held), names, now) {
        Due::Nothing => Ok(None),
        Due::Authority => held.with_authority(now).map(Some),
        Due::Everything => Held::new(names, now).map(Some),
        // An authority that cannot sign what the API server trusts (without its key, for example) is replaced as well.
        Due::Leaf(_) => match held.with_leaf(names, now) {
            Ok(renewed) if renewed.check(names, now).is_ok() => Ok(Some(renewed)),
            _ => Held::new(names, now).map(Some),
        },
    }
}

/// The last date there is, if this is later.
fn in_days(now: Timestamp, days: i32) -> Timestamp {
    now.checked_add(DAY * days).unwrap_or(Timestamp::MAX)
}

impl Held {
    /// An authority and a certificate.
    fn new(names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let (bundle, authority_key) = authority(now)?;
        let (certificate, key) = leaf(&authority_key, names, now)?;
        Ok(Self {
            bundle,
            authority_key: authority_key.serialize_pem(),
            certificate,
            key,
            leaf_due: in_days(now, LEAF_DAYS.1),
            authority_due: in_days(now, AUTHORITY_DAYS.1),
        })
    }

    /// Another certificate of the same authority.
    fn with_leaf(&self, names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let authority_key = KeyPair::from_pem(&self.authority_key)?;
        let (certificate, key) = leaf(&authority_key, names, now)?;
        Ok(Self {
            certificate,
            key,
            leaf_due: in_days(now, LEAF_DAYS.1),
            ..self.clone()
        })
    }

    /// Another authority beside the newest; it signs after [`SPREAD`].
    fn with_authority(&self, now: Timestamp) -> Result<Self, rcgen::Error> {
        let (authority, key) = authority(now)?;
        Ok(Self {
            bundle: authority + newest(&self.bundle),
            authority_key: key.serialize_pem(),
            leaf_due: in_days(now, SPREAD),
            authority_due: in_days(now, AUTHORITY_DAYS.1),
            ..self.clone()
        })
    }

    /// The date of the next renewal.
    pub fn next(&self) -> Timestamp {
        self.leaf_due.min(self.authority_due)
    }

    /// Whether a certificate made now would be the first of the newest authority, which must be trusted by then.
    pub fn changes_authority(&self, names: &[String], now: Timestamp) -> bool {
        let newest = Self {
            bundle: newest(&self.bundle).to_owned(),
            ..self.clone()
        };
        newest.check(names, now).is_err()
    }

    /// The certificate that is served.
    pub fn chain(&self) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
        CertificateDer::pem_slice_iter(self.certificate.as_bytes()).collect()
    }

    /// Whether the certificate can be served, and an API server that trusts the bundle accepts it for all of these names.
    fn check(&self, names: &[String], now: Timestamp) -> Result<(), Unusable> {
        let chain = self.chain().map_err(|_| Unusable::Unreadable)?;
        if chain.is_empty() {
            return Err(Unusable::Unreadable);
        }
        let provider = default_provider();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|_| Unusable::Unreadable)?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|_| Unusable::Unreadable)?;
        CertifiedKey::new(chain.clone(), key)
            .keys_match()
            .map_err(|_| Unusable::AnotherKey)?;
        for name in names {
            trust::verify(&self.bundle, &chain, name, now).map_err(|reason| Unusable::NotTrusted {
                name: name.clone(),
                reason: reason.to_string(),
            })?;
        }
        Ok(())
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
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
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

    fn renewed_at(held: &Held, day: i32) -> Held {
        renewed(Some(held), &names(), days(day)).unwrap().unwrap()
    }

    #[test]
    fn a_new_authority_is_trusted_for_a_day_before_it_signs() {
        let first = renewed(None, &names(), days(0)).unwrap().unwrap();
        assert_eq!(renewed(Some(&first), &names(), days(239)).unwrap(), None);

        let second = renewed_at(&first, 240);
        assert_eq!(second.bundle, first.bundle);
        assert_ne!(second.certificate, first.certificate);

        // The certificate has expired long before: it is replaced first, because nothing else is of use.
        let expired = due(Some(&second), &names(), days(3000));
        assert!(
            matches!(expired, Due::Leaf(Some(Unusable::NotTrusted { .. }))),
            "{expired:?}"
        );
        let served = renewed_at(&second, 3000);
        assert_eq!(served.bundle, first.bundle);

        let trusted = renewed_at(&served, 3000);
        assert!(trusted.bundle.ends_with(&first.bundle) && trusted.bundle != first.bundle);
        assert_eq!((&trusted.certificate, &trusted.key), (&served.certificate, &served.key));
        assert_eq!(due(Some(&trusted), &names(), days(3000)), Due::Nothing);
        assert_eq!(trusted.next(), days(3001));

        let signed = renewed_at(&trusted, 3001);
        assert_eq!(signed.bundle, trusted.bundle);
        assert_ne!(signed.certificate, trusted.certificate);

        let third = renewed_at(&renewed_at(&signed, 6001), 6001);
        assert!(!third.bundle.contains(&first.bundle), "no more than two are trusted");
        assert!(third.bundle.ends_with(newest(&signed.bundle)));
    }

    // OWN 30c: a Secret whose content nobody could use was kept until its date.
    #[test]
    fn what_the_api_server_would_not_trust_is_replaced_at_once() {
        let right = renewed(None, &names(), days(0)).unwrap().unwrap();
        let other = renewed(None, &names(), days(0)).unwrap().unwrap();
        let elsewhere = renewed(None, &["other.namespace.svc".to_owned()], days(0)).unwrap();
        let broken = || "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
        let (bundle, authority_key) = (other.bundle.clone(), "no key".to_owned());
        let cases = [
            (
                "the key of another",
                Held {
                    key: other.key.clone(),
                    ..right.clone()
                },
                true,
            ),
            (
                "another authority",
                Held {
                    bundle: other.bundle.clone(),
                    ..right.clone()
                },
                false,
            ),
            (
                "no certificate",
                Held {
                    certificate: String::new(),
                    ..right.clone()
                },
                true,
            ),
            (
                "no authority",
                Held {
                    bundle: String::new(),
                    ..right.clone()
                },
                false,
            ),
            (
                "a broken certificate",
                Held {
                    certificate: broken(),
                    ..right.clone()
                },
                true,
            ),
            (
                "a lost key of the authority",
                Held {
                    bundle,
                    authority_key,
                    ..right.clone()
                },
                false,
            ),
            ("other names", elsewhere.unwrap(), true),
        ];
        for (what, held, keeps_authority) in cases {
            let reason = due(Some(&held), &names(), days(1));
            assert!(matches!(reason, Due::Leaf(Some(_))), "{what}: {reason:?}");
            let renewed = renewed_at(&held, 1);
            assert_eq!(due(Some(&renewed), &names(), days(1)), Due::Nothing, "{what}");
            assert_eq!(renewed.bundle == held.bundle, keeps_authority, "{what}");
        }
    }

    #[test]
    fn an_expired_authority_is_replaced_with_its_certificate() {
        let first = renewed(None, &names(), days(0)).unwrap().unwrap();
        let new = renewed_at(&first, 3651);
        assert_ne!(new.bundle, first.bundle);
        assert_eq!(due(Some(&new), &names(), days(3651)), Due::Nothing);
    }

    // OWN 31sn: a date that somebody had put far into the future ended every replica, because no date is later.
    #[test]
    fn an_authority_is_due_whatever_date_its_secret_has() {
        let mut held = renewed(None, &names(), days(0)).unwrap().unwrap();
        for far in [Timestamp::MAX, "9998-12-31T00:00:00Z".parse().unwrap(), days(4000)] {
            held.authority_due = far;
            assert_eq!(due(Some(&held), &names(), days(1)), Due::Authority, "{far}");
            let next = renewed(Some(&held), &names(), days(1)).unwrap().unwrap();
            assert_eq!(next.authority_due, in_days(days(1), AUTHORITY_DAYS.1));
        }
        held.authority_due = days(3000);
        held.leaf_due = Timestamp::MAX;
        assert_eq!(due(Some(&held), &names(), days(1)), Due::Leaf(None));
        held.authority_due = Timestamp::MIN;
        assert_eq!(due(Some(&held), &names(), days(1)), Due::Everything);
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
