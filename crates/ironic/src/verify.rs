//! Server certificates checked against a given CA file only.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The usual verification, plus this: a certificate in the CA file itself is also accepted as the server's.
///
/// A self-signed one is what `openssl req -x509` creates and what small Ironic installations use for both roles. One
/// issued by another CA is what an Ironic resource provides: the server's certificate in the Secret. The underlying
/// verifier rejects the first because it is marked as a CA, and the second because its issuer is missing; OpenSSL and
/// Go accept both, so people rely on it.
#[derive(Debug)]
pub(crate) struct GivenAuthorities {
    authorities: Vec<CertificateDer<'static>>,
    inner: Arc<WebPkiServerVerifier>,
}

impl GivenAuthorities {
    pub fn new(
        authorities: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut roots = RootCertStore::empty();
        for certificate in &authorities {
            roots.add(certificate.clone())?;
        }
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build()?;
        Ok(Self { authorities, inner })
    }
}

/// Whether the only problem of a certificate is its unknown issuer.
fn lacks_issuer_only(why: &CertificateError) -> bool {
    match why {
        CertificateError::UnknownIssuer => true,
        CertificateError::Other(other) => other.to_string() == "CaUsedAsEndEntity",
        _ => false,
    }
}

impl ServerCertVerifier for GivenAuthorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict = self
            .inner
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        // The period of validity is checked before the role and the issuer, so these verdicts mean that the certificate is
        // current; tests with expired ones watch that this stays so. What remains to be checked is the name.
        match verdict {
            Err(Error::InvalidCertificate(ref why))
                if lacks_issuer_only(why) && self.authorities.iter().any(|ca| ca == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
