//! Which authorities a webhook trusts, and whether they vouch for a certificate. Pure.
//!
//! Replicas of one program can have certificates of different authorities: while one with certificate files replaces one that
//! makes its own, or the reverse, and while files are renewed. Each adds its authority to those that are trusted; the leader
//! takes the others away when they are no longer in use.

use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// One certificate of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// What identifies it: the same certificate can be written in several ways.
    pub der: CertificateDer<'static>,
    pem: &'a str,
}

/// The certificates of a bundle. Anything else is left out.
pub fn authorities(bundle: &str) -> Vec<Authority<'_>> {
    let mut found = Vec::new();
    let mut rest = bundle;
    while let Some((from, to)) = rest.find(BEGIN).zip(rest.find(END)) {
        let to = to + END.len();
        // An end without a beginning.
        let pem = rest.get(from..to).unwrap_or_default();
        if let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) {
            found.push(Authority { der, pem });
        }
        rest = &rest[to..];
    }
    found
}

/// The authorities of a bundle that are not among those offered.
pub fn others<'a>(bundle: &'a str, offered: &str) -> Vec<Authority<'a>> {
    let (mut others, offered) = (authorities(bundle), authorities(offered));
    others.retain(|other| !has(&offered, &other.der));
    others
}

/// The bundle with the authorities that are offered and the others that stay; `None` if it is like that already.
pub fn merged(bundle: &str, offered: &str, stays: impl Fn(&CertificateDer<'_>) -> bool) -> Option<String> {
    let present = authorities(bundle);
    let missing = authorities(offered)
        .into_iter()
        .any(|offered| !has(&present, &offered.der));
    let others = others(bundle, offered);
    let (staying, leaving): (Vec<_>, Vec<_>) = others.into_iter().partition(|other| stays(&other.der));
    if !missing && leaving.is_empty() {
        return None;
    }
    let mut merged = offered.trim_end().to_owned() + "\n";
    for other in staying {
        merged += other.pem;
        merged.push('\n');
    }
    Some(merged)
}

fn has(bundle: &[Authority<'_>], certificate: &CertificateDer<'_>) -> bool {
    bundle.iter().any(|authority| authority.der == *certificate)
}

/// Whether the subject of an authority contains this name.
pub fn is_named(authority: &CertificateDer<'_>, name: &str) -> bool {
    let mut store = RootCertStore::empty();
    store.add(authority.clone()).is_ok()
        && store
            .roots
            .iter()
            .any(|root| root.subject.windows(name.len()).any(|part| part == name.as_bytes()))
}

/// Whether an API server that trusts a bundle accepts a certificate for a name at this time. The error says why not.
pub fn verify(bundle: &str, chain: &[CertificateDer<'static>], name: &str, now: Timestamp) -> Result<(), Error> {
    let not_trusted = || Error::from(CertificateError::UnknownIssuer);
    let (leaf, between) = chain.split_first().ok_or_else(not_trusted)?;
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(authorities(bundle).into_iter().map(|authority| authority.der));
    let verifier = WebPkiServerVerifier::builder_with_provider(trusted.into(), Arc::new(default_provider()));
    let verifier = verifier.build().map_err(|_| not_trusted())?;
    let at = UnixTime::since_unix_epoch(now.duration_since(Timestamp::UNIX_EPOCH).unsigned_abs());
    let server = ServerName::try_from(name).map_err(|_| CertificateError::NotValidForName)?;
    verifier.verify_server_cert(leaf, between, &server, &[], at).map(drop)
}

/// Whether an authority of a bundle vouches for a certificate, whatever its names and dates.
pub fn vouches(bundle: &str, chain: &[CertificateDer<'static>], now: Timestamp) -> bool {
    let unknown = Error::from(CertificateError::UnknownIssuer);
    match verify(bundle, chain, "localhost", now) {
        Err(error) => error != unknown || !is_refused(bundle, chain, &error),
        Ok(()) => true,
    }
}

/// Whether the API server is sure to refuse such a certificate. It is Go's; of what the two judge differently, such as a
/// certificate that is its own authority, nothing is said.
pub fn is_refused(bundle: &str, chain: &[CertificateDer<'static>], error: &Error) -> bool {
    let Error::InvalidCertificate(reason) = error else {
        return false;
    };
    match reason {
        CertificateError::UnknownIssuer => {
            let bundle = authorities(bundle);
            !chain.first().is_some_and(|leaf| has(&bundle, leaf))
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. }
        | CertificateError::NotValidForName
        | CertificateError::NotValidForNameContext { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
pub mod made {
    //! Certificates for tests.

    use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};

    use super::authorities;
    use crate::tls::Offer;

    /// An authority with this name, and a certificate of it for the Services `s` and `p-webhook-service` in `n`.
    pub fn offer(name: &str) -> Offer {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let names = ["s.n.svc", "p-webhook-service.n.svc"].map(str::to_owned);
        let leaf = CertificateParams::new(names).unwrap();
        let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        Offer {
            authorities: Some(authority.pem()),
            chain: vec![leaf.der().clone()],
        }
    }

    pub fn authority(offer: &Offer) -> &str {
        offer.authorities.as_deref().unwrap()
    }

    /// Whether a bundle has exactly the authorities of these.
    pub fn is_of(bundle: &str, offers: &[&Offer]) -> bool {
        let wanted = offers.iter().map(|offer| authorities(authority(offer)).remove(0).der);
        let found = authorities(bundle).into_iter().map(|authority| authority.der);
        found.collect::<std::collections::HashSet<_>>() == wanted.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::made::{authority, is_of, offer};
    use super::*;

    #[test]
    fn an_authority_is_added_to_those_that_are_trusted() {
        let (a, b) = (offer("a"), offer("b"));
        let both = [authority(&a), authority(&b)].concat();
        for (present, stays, wanted) in [
            ("", true, Some(vec![&a])),
            ("no certificate", true, Some(vec![&a])),
            (
                "-----END CERTIFICATE----- -----BEGIN CERTIFICATE-----",
                true,
                Some(vec![&a]),
            ),
            (authority(&a), true, None),
            (authority(&b), true, Some(vec![&a, &b])),
            (authority(&b), false, Some(vec![&a])),
            (&both, true, None),
            (&both, false, Some(vec![&a])),
        ] {
            let merged = merged(present, authority(&a), |_| stays);
            match (&merged, wanted) {
                (None, None) => {}
                (Some(merged), Some(wanted)) => assert!(is_of(merged, &wanted), "{present:?}: {merged}"),
                (merged, wanted) => panic!("{present:?}: {merged:?} instead of {wanted:?}"),
            }
        }
        // However it is written.
        let windows = authority(&a).replace('\n', "\r\n");
        assert_eq!(super::merged(&windows, authority(&a), |_| false), None);
    }

    #[test]
    fn a_certificate_is_refused_that_the_api_server_would_refuse() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let (a, b) = (offer("a"), offer("b"));
        let refused = |bundle: &str, name: &str, now| {
            verify(bundle, &a.chain, name, now).is_err_and(|error| is_refused(bundle, &a.chain, &error))
        };
        assert!(!refused(authority(&a), "s.n.svc", now));
        assert!(!refused(&[authority(&b), authority(&a)].concat(), "s.n.svc", now));
        assert!(refused(authority(&b), "s.n.svc", now), "of another authority");
        assert!(refused("", "s.n.svc", now));
        assert!(refused(authority(&a), "other.n.svc", now));
        assert!(refused(
            authority(&a),
            "s.n.svc",
            "1970-01-01T00:00:00Z".parse().unwrap()
        ));
        // cert-manager's issuer SelfSigned: Go accepts the certificate itself as an authority.
        let own = rcgen::generate_simple_self_signed(["s.n.svc".to_owned()]).unwrap();
        let chain = [own.cert.der().clone()];
        let checked = verify(&own.cert.pem(), &chain, "s.n.svc", now);
        assert!(!checked.is_err_and(|error| is_refused(&own.cert.pem(), &chain, &error)));
    }

    #[test]
    fn an_authority_is_known_by_its_name() {
        let named = |name: &str| authorities(authority(&offer(name))).remove(0).der;
        assert!(is_named(&named("metal3 webhooks"), "metal3 webhooks"));
        assert!(!is_named(&named("cert-manager"), "metal3 webhooks"));
        assert!(!is_named(&CertificateDer::from(vec![1, 2, 3]), "metal3 webhooks"));
    }
}
