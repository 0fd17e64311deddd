//! TLS of the servers in this process: what the flags ask for, and certificates that may change on disk.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum_server::tls_rustls::RustlsConfig;
use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, SupportedKxGroup, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    args::{TlsArgs, TlsVersion},
    error::chain,
    timing::webhooks::{RELOAD, SETTLED, TRUSTED_WITHIN},
};

mod names;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The oldest version is newer than the newest one.
    #[error("--tls-min-version is newer than --tls-max-version")]
    Versions,
    /// Not a name of a cipher suite.
    #[error("--tls-cipher-suites: unknown cipher suite {0:?}")]
    Suite(String),
    /// Not a name of a key exchange group.
    #[error("--tls-curve-preferences: unknown curve {0:?}")]
    Curve(String),
    /// All requested names are known, but this build supports none of them.
    #[error("{0}: none of the given names can be served by this build")]
    NothingLeft(&'static str),
    /// A certificate file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A certificate file holds something else.
    #[error("cannot use the certificate or key in {path}")]
    Pem {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// Certificate and key, or versions and cipher suites, do not go together.
    #[error("cannot serve with this certificate and these TLS settings")]
    Config(#[source] rustls::Error),
    /// No certificate could be made.
    #[error("cannot make a self-signed certificate")]
    SelfSigned(#[source] rcgen::Error),
}

/// Versions, cipher suites and groups that servers offer.
#[derive(Clone, Debug)]
pub struct Policy {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static rustls::SupportedProtocolVersion>,
}

impl Policy {
    /// Reads the flags. Names that Go knows and this build does not support are skipped with a warning; unknown names
    /// are an error.
    pub fn from_args(args: &TlsArgs) -> Result<Self, TlsError> {
        if args.tls_min_version > args.tls_max_version {
            return Err(TlsError::Versions);
        }
        let served = |version| args.tls_min_version <= version && version <= args.tls_max_version;
        let mut versions = Vec::new();
        if served(TlsVersion::Tls13) {
            versions.push(&TLS13);
        }
        if served(TlsVersion::Tls12) {
            versions.push(&TLS12);
        }
        let mut provider = ring::default_provider();
        if !args.tls_cipher_suites.is_empty() {
            if args.tls_min_version == TlsVersion::Tls13 {
                warn!("--tls-cipher-suites is ignored: the suites of TLS 1.3 cannot be chosen");
            } else {
                provider.cipher_suites = suites(&args.tls_cipher_suites, served(TlsVersion::Tls13))?;
            }
        }
        if !args.tls_curve_preferences.is_empty() {
            provider.kx_groups = groups(&args.tls_curve_preferences)?;
        }
        Ok(Self {
            provider: Arc::new(provider),
            versions,
        })
    }

    fn config(&self, pair: Pair) -> Result<Arc<ServerConfig>, TlsError> {
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&self.versions)
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(pair.chain, pair.key))
            .map_err(TlsError::Config)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn suites(list: &str, with_tls13: bool) -> Result<Vec<rustls::SupportedCipherSuite>, TlsError> {
    let mut chosen: Vec<_> = ring::ALL_CIPHER_SUITES.to_vec();
    chosen.retain(|suite| with_tls13 && suite.tls13().is_some());
    let mut any = !chosen.is_empty();
    for name in list.split(',').map(str::trim) {
        if names::INSECURE_SUITES.contains(&name) {
            warn!(
                suite = name,
                "--tls-cipher-suites names an insecure cipher suite, which this build does not serve"
            );
        } else if !names::SUITES.contains(&name) {
            return Err(TlsError::Suite(name.to_owned()));
        } else if let Some(suite) = ring::ALL_CIPHER_SUITES
            .iter()
            .find(|suite| names::iana(suite.suite()) == Some(name))
        {
            any = true;
            if !chosen.contains(suite) && suite.tls13().is_none() {
                chosen.push(*suite);
            }
        } else {
            warn!(
                suite = name,
                "--tls-cipher-suites names a cipher suite that this build does not serve"
            );
        }
    }
    if any && !chosen.is_empty() {
        Ok(chosen)
    } else {
        Err(TlsError::NothingLeft("--tls-cipher-suites"))
    }
}

fn groups(list: &str) -> Result<Vec<&'static dyn SupportedKxGroup>, TlsError> {
    let mut chosen: Vec<&'static dyn SupportedKxGroup> = Vec::new();
    for name in list.split(',').map(str::trim) {
        match name {
            "X25519" => chosen.push(ring::kx_group::X25519),
            "CurveP256" => chosen.push(ring::kx_group::SECP256R1),
            "CurveP384" => chosen.push(ring::kx_group::SECP384R1),
            "CurveP521" | "X25519MLKEM768" | "SecP256r1MLKEM768" | "SecP384r1MLKEM1024" => {
                warn!(
                    curve = name,
                    "--tls-curve-preferences names a curve that this build does not serve"
                );
            }
            _ => return Err(TlsError::Curve(name.to_owned())),
        }
    }
    if chosen.is_empty() {
        Err(TlsError::NothingLeft("--tls-curve-preferences"))
    } else {
        Ok(chosen)
    }
}

/// The content of `tls.crt` and `tls.key`.
pub type Pem = (Vec<u8>, Vec<u8>);

/// A certificate chain and its key.
#[derive(Debug)]
struct Pair {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Pair {
    fn from_pem(pem: &Pem, directory: &Path) -> Result<Self, TlsError> {
        let failed = |source| TlsError::Pem {
            path: directory.to_owned(),
            source,
        };
        let chain = CertificateDer::pem_slice_iter(&pem.0)
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        Ok(Self {
            chain,
            key: PrivateKeyDer::from_pem_slice(&pem.1).map_err(failed)?,
        })
    }

    fn self_signed() -> Result<Self, TlsError> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(TlsError::SelfSigned)?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Ok(Self {
            chain: vec![made.cert.der().clone()],
            key,
        })
    }
}

/// A certificate, and what vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The authorities that callers need, in PEM. `None` if the files do not name one: some of cert-manager's issuers leave
    /// `ca.crt` empty.
    pub authorities: Option<String>,
    /// The certificate and those between it and its authority.
    pub chain: Vec<CertificateDer<'static>>,
}

/// Says of which offer every caller trusts the certificate and has the authorities; `None` of none.
pub type Trusted = watch::Receiver<Option<Offer>>;

/// The certificate of one server: `tls.crt` and `tls.key` in a directory, or self-signed while they are not there.
#[derive(Debug)]
pub struct Certificate {
    policy: Policy,
    directory: PathBuf,
    current: Option<Pem>,
    config: RustlsConfig,
    /// What the files offer. Only what can be served is offered.
    offer: watch::Sender<Option<Offer>>,
}

impl Certificate {
    /// Reads the files, or makes a self-signed certificate if neither exists.
    pub fn load(policy: Policy, directory: &Path) -> Result<Self, TlsError> {
        let current = files(directory)?;
        let pair = match &current {
            Some(pem) => Pair::from_pem(pem, directory)?,
            None => Pair::self_signed()?,
        };
        let offer = current.is_some().then(|| Offer {
            authorities: authority(directory),
            chain: pair.chain.clone(),
        });
        let config = RustlsConfig::from_config(policy.config(pair)?);
        Ok(Self {
            policy,
            directory: directory.to_owned(),
            current,
            config,
            offer: watch::Sender::new(offer),
        })
    }

    /// What the files offer, with the authority that cert-manager writes beside the certificate. Follows their changes.
    pub fn offer(&self) -> watch::Receiver<Option<Offer>> {
        self.offer.subscribe()
    }

    /// Whether it is self-signed because there are no files, so that no client trusts it.
    pub fn is_self_signed(&self) -> bool {
        self.current.is_none()
    }

    /// For `axum_server`; follows every change of the certificate.
    pub fn server_config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// Serves new files as they appear, until cancelled. A broken file is reported and the old certificate stays. A
    /// certificate is served when its callers trust it, if that can be told, and after [`TRUSTED_WITHIN`] at the latest.
    pub async fn follow(mut self, mut trusted: Option<Trusted>, stop: CancellationToken) {
        let follow = async {
            loop {
                tokio::time::sleep(RELOAD).await;
                match self.refresh(trusted.as_mut()).await {
                    Ok(true) => info!(directory = %self.directory.display(), "serving a new certificate"),
                    Ok(false) => {}
                    Err(error) => warn!(error = %chain(&error), "keeping the old certificate"),
                }
            }
        };
        stop.run_until_cancelled(follow).await;
    }

    async fn refresh(&mut self, trusted: Option<&mut Trusted>) -> Result<bool, TlsError> {
        let Some(pem) = files(&self.directory)? else {
            return Ok(false);
        };
        let authorities = authority(&self.directory);
        if self.serves(&pem) && self.offer.borrow().as_ref().map(|offer| &offer.authorities) == Some(&authorities) {
            return Ok(false);
        }
        let pair = Pair::from_pem(&pem, &self.directory)?;
        let offer = Offer {
            authorities,
            chain: pair.chain.clone(),
        };
        let config = self.policy.config(pair)?;
        self.offer.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&offer);
            *known = Some(offer.clone());
            is_new
        });
        if self.serves(&pem) {
            return Ok(false);
        }
        if let Some(trusted) = trusted {
            are_trusted(trusted, |trusted| *trusted == offer).await;
        }
        self.config.reload_from_config(config);
        self.current = Some(pem);
        Ok(true)
    }

    /// Whether this is what it serves.
    pub fn serves(&self, pem: &Pem) -> bool {
        self.current.as_ref() == Some(pem)
    }

    /// Serves another certificate from now on; errors name its source. Returns whether it differs.
    pub fn replace(&mut self, pem: Pem, source: &Path) -> Result<bool, TlsError> {
        if self.serves(&pem) {
            return Ok(false);
        }
        self.config
            .reload_from_config(self.policy.config(Pair::from_pem(&pem, source)?)?);
        self.current = Some(pem);
        Ok(true)
    }
}

/// Waits until callers trust such an offer, but not for long: who may not write what they trust can wait for ever.
pub async fn are_trusted(trusted: &mut Trusted, such: impl Fn(&Offer) -> bool) {
    let waits = trusted.wait_for(|trusted| trusted.as_ref().is_some_and(&such));
    let are_trusted = matches!(tokio::time::timeout(TRUSTED_WITHIN, waits).await, Ok(Ok(_)));
    if are_trusted {
        tokio::time::sleep(SETTLED).await;
    }
}

/// The authority in the files. Some of cert-manager's issuers leave it empty.
fn authority(directory: &Path) -> Option<String> {
    let text = std::fs::read_to_string(directory.join("ca.crt")).ok()?;
    let has_one = CertificateDer::pem_slice_iter(text.as_bytes()).any(|certificate| certificate.is_ok());
    has_one.then_some(text)
}

/// Certificate and key, or nothing if neither is there.
fn files(directory: &Path) -> Result<Option<Pem>, TlsError> {
    let read = |name: &str| {
        let path = directory.join(name);
        match std::fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(TlsError::Read { path, source }),
        }
    };
    match (read("tls.crt")?, read("tls.key")?) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (certificate, _) => {
            let path = directory.join(if certificate.is_none() { "tls.crt" } else { "tls.key" });
            Err(TlsError::Read {
                path,
                source: io::ErrorKind::NotFound.into(),
            })
        }
    }
}

#[cfg(test)]
mod tests;
