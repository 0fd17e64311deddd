//! The HTTP connection pool and our user, from files that may be rotated.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::cause::{Cause, chain};
use crate::config::{Auth, ClientConfig, ConfigError, Tls};
use crate::credentials::User;
use crate::error::Reason;
use crate::verify::GivenAuthorities;

/// How long the content of files is used without a check.
const FILE_CHECK: Duration = Duration::from_secs(5);

/// What files are for, in logs.
const TLS_FILES: &str = "TLS files";
const CREDENTIALS: &str = "credentials";

const CA: &str = "CA file";
const CERTIFICATE: &str = "client certificate file";
const KEY: &str = "client key file";

/// What calls are made with, renewed when files change.
pub(crate) struct Transport {
    auth: Auth,
    tls: Tls,
    settings: Settings,
    current: Mutex<Current>,
}

/// What a call is made with. Clones share it.
#[derive(Clone)]
pub(crate) struct Access {
    /// The connections.
    pub pool: reqwest::Client,
    /// Whom to call as; none where Ironic takes anybody.
    pub user: Option<Arc<User>>,
}

struct Settings {
    connect_timeout: Duration,
    user_agent: String,
}

struct Current {
    pool: Kept<Pool>,
    user: Kept<Option<Arc<User>>>,
    looked: Instant,
}

impl Current {
    fn access(&self) -> Result<Access, Reason> {
        let pool = self.pool.used.as_ref().map_err(|text| {
            Reason::NoAnswer(Cause {
                label: "tls_files",
                text: text.clone(),
                unsent: true,
                passing: false,
            })
        })?;
        let user = self.user.used.clone().map_err(Reason::NoCredentials)?;
        Ok(Access {
            pool: pool.client.clone(),
            user,
        })
    }
}

/// What is made of files that may change. What can be used stays in use while the files cannot.
struct Kept<T> {
    /// What is used; until there is something, what is wrong with the files.
    used: Result<T, String>,
    /// The last logged problem, so that it is logged once.
    complaint: Option<String>,
}

impl<T> Kept<T> {
    fn nothing() -> Self {
        Self {
            used: Err(String::new()),
            complaint: None,
        }
    }

    /// Takes what a look at the files has `found`: `None` if they are as before.
    fn renew(&mut self, what: &str, found: Result<Option<T>, ConfigError>) {
        let error = match found {
            Ok(found) => {
                if let Some(new) = found {
                    if self.used.is_ok() || self.complaint.is_some() {
                        info!("the {what} for Ironic have changed, calls use them from now on");
                    }
                    self.used = Ok(new);
                }
                self.complaint = None;
                return;
            }
            Err(error) => error,
        };
        let error = chain(&error).map(ToString::to_string).collect::<Vec<_>>().join(": ");
        if self.complaint.as_ref() != Some(&error) {
            let until = if self.used.is_ok() {
                "keeping the former"
            } else {
                "no calls are made until they can"
            };
            warn!(error, "the {what} for Ironic cannot be used, {until}");
            self.complaint = Some(error.clone());
        }
        if self.used.is_err() {
            self.used = Err(error);
        }
    }
}

/// Connections, and the files that they were built with.
struct Pool {
    client: reqwest::Client,
    files: Files,
}

/// The content of the files, as last used. Never printed: one is a private key.
#[derive(PartialEq, Eq)]
struct Files {
    ca: Option<Authorities>,
    certificate: Option<(PathBuf, Vec<u8>)>,
    key: Option<(PathBuf, Vec<u8>)>,
}

/// PEM text with authorities.
#[derive(PartialEq, Eq)]
struct Authorities {
    /// The file that it came from; none for text of the configuration.
    file: Option<PathBuf>,
    text: Vec<u8>,
}

impl Authorities {
    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
        parse(&self.text).map_err(|reason| self.unusable(reason))
    }

    fn unusable(&self, reason: impl Into<String>) -> ConfigError {
        match &self.file {
            Some(path) => pem(CA, path, reason),
            None => ConfigError::Authorities(reason.into()),
        }
    }
}

impl Transport {
    pub fn new(config: &ClientConfig) -> Result<Self, ConfigError> {
        let settings = Settings {
            connect_timeout: config.connect_timeout,
            user_agent: config.user_agent.clone(),
        };
        if reqwest::header::HeaderValue::from_str(&settings.user_agent).is_err() {
            return Err(ConfigError::UserAgent(settings.user_agent));
        }
        let (auth, tls) = (config.auth.clone(), config.tls.clone());
        let (pool, user) = (Pool::read(&settings, &tls), User::read(&auth, false));
        let mut current = Current {
            pool: Kept::nothing(),
            user: Kept::nothing(),
            looked: Instant::now(),
        };
        // Files may be corrected while the process runs, text of the configuration may not.
        match pool {
            Err(error) if !tls.has_files() || matches!(error, ConfigError::Authorities(_)) => return Err(error),
            pool => current.pool.renew(TLS_FILES, pool.map(Some)),
        }
        match user {
            Err(error) if !auth.has_files() => return Err(error),
            user => current
                .user
                .renew(CREDENTIALS, user.map(|user| Some(user.map(Arc::new)))),
        }
        Ok(Self {
            auth,
            tls,
            settings,
            current: Mutex::new(current),
        })
    }

    /// What to make a call with now.
    ///
    /// # Errors
    /// What is wrong with files that have not been usable so far.
    pub async fn access(&self) -> Result<Access, Reason> {
        let mut current = self.current.lock().await;
        if current.looked.elapsed() >= FILE_CHECK {
            current.looked = Instant::now();
            // A few kilobytes, a few times a minute: not worth a trip to a blocking thread.
            self.look_at_tls(&mut current);
            self.look_at_user(&mut current);
        }
        current.access()
    }

    /// New access data after Ironic rejected these credentials; `None` while there are no others.
    pub async fn instead_of(&self, refused: &Access) -> Option<Access> {
        let mut current = self.current.lock().await;
        self.look_at_user(&mut current);
        current.access().ok().filter(|access| access.user != refused.user)
    }

    fn look_at_tls(&self, current: &mut Current) {
        if !self.tls.has_files() {
            return;
        }
        let used = current.pool.used.as_ref();
        let has_ca = used.is_ok_and(|pool| pool.files.ca.is_some());
        let found = Files::read(&self.tls, has_ca).and_then(|files| match &current.pool.used {
            Ok(pool) if pool.files == files => Ok(None),
            _ => Pool::build(&self.settings, files, &self.tls).map(Some),
        });
        current.pool.renew(TLS_FILES, found);
    }

    fn look_at_user(&self, current: &mut Current) {
        if !self.auth.has_files() {
            return;
        }
        let has_user = current.user.used.as_ref().is_ok_and(Option::is_some);
        let found = User::read(&self.auth, has_user).map(|user| {
            let user = user.map(Arc::new);
            (current.user.used.as_ref() != Ok(&user)).then_some(user)
        });
        current.user.renew(CREDENTIALS, found);
    }
}

impl Pool {
    fn read(settings: &Settings, tls: &Tls) -> Result<Self, ConfigError> {
        Self::build(settings, Files::read(tls, false)?, tls)
    }

    fn build(settings: &Settings, files: Files, tls: &Tls) -> Result<Self, ConfigError> {
        let client = build(settings, &files, tls.insecure)?;
        Ok(Self { client, files })
    }
}

impl Files {
    /// The files as they are. No CA file means the system's authorities, unless one `was_used`: a Secret that is replaced is
    /// away for a moment, and must not make other authorities count meanwhile.
    fn read(tls: &Tls, was_used: bool) -> Result<Self, ConfigError> {
        let read = |what: &'static str, path: &Option<PathBuf>| match path {
            None => Ok(None),
            Some(path) => match std::fs::read(path) {
                Ok(content) => Ok(Some((path.clone(), content))),
                Err(source) => Err(ConfigError::Read {
                    what,
                    path: path.clone(),
                    source,
                }),
            },
        };
        let given = tls.ca_pem.as_ref().map(|text| Authorities {
            file: None,
            text: text.clone().into_bytes(),
        });
        let ca = match given {
            Some(given) => Some(given),
            None => match read(CA, &tls.ca_file) {
                Err(error) if error.is_absence() && !was_used => None,
                found => found?.map(|(path, text)| Authorities { file: Some(path), text }),
            },
        };
        Ok(Self {
            ca,
            certificate: read(CERTIFICATE, &tls.client_cert_file)?,
            key: read(KEY, &tls.client_key_file)?,
        })
    }

    fn identity(&self) -> Result<Option<Identity>, ConfigError> {
        let (Some((cert_path, cert)), Some((key_path, key))) = (&self.certificate, &self.key) else {
            return Ok(None);
        };
        let chain = certificates(CERTIFICATE, cert_path, cert)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| pem(KEY, key_path, "it holds no private key in PEM form that can be read"))?;
        Ok(Some(Identity { chain, key }))
    }
}

struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn pem(what: &'static str, path: &Path, reason: impl Into<String>) -> ConfigError {
    ConfigError::Pem {
        what,
        path: path.to_owned(),
        reason: reason.into(),
    }
}

fn certificates(what: &'static str, path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    parse(content).map_err(|reason| pem(what, path, reason))
}

fn parse(content: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    match found {
        Ok(found) if found.is_empty() => Err("it holds no certificate in PEM form".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

fn build(settings: &Settings, files: &Files, insecure: bool) -> Result<reqwest::Client, ConfigError> {
    if CryptoProvider::get_default().is_none() {
        // The HTTP client panics without one. A process that cares has installed its own before.
        ring::default_provider().install_default().ok();
    }
    let mut builder = reqwest::Client::builder()
        .user_agent(&settings.user_agent)
        .connect_timeout(settings.connect_timeout)
        // Following a redirect would turn a PUT into a GET and report success. Ironic has no reason to redirect.
        .redirect(reqwest::redirect::Policy::none())
        // Repeats are decided in one place, ours.
        .retry(reqwest::retry::never())
        // Shorter than the five seconds after which Apache, in front of Ironic, drops an idle connection. A change sent
        // over a connection that is being dropped cannot be retried, because it is unknown whether it arrived.
        .pool_idle_timeout(Duration::from_secs(4))
        .tcp_keepalive(Duration::from_secs(30));
    let identity = files.identity()?;
    // Parsed in any case: a broken file is an error even where it is not needed.
    let authorities = files.ca.as_ref().map(Authorities::certificates).transpose()?;
    builder = match (authorities, &files.ca) {
        (Some(certificates), Some(authorities)) if !insecure => {
            builder.tls_backend_preconfigured(with_authorities(certificates, authorities, identity, files)?)
        }
        _ => {
            if let Some((_, certificate)) = files.certificate.as_ref().filter(|_| identity.is_some()) {
                let mut both = certificate.clone();
                both.push(b'\n');
                both.extend(files.key.iter().flat_map(|(_, key)| key));
                let identity = reqwest::Identity::from_pem(&both);
                builder = builder.identity(identity.map_err(|error| ConfigError::Client(error.to_string()))?);
            }
            builder.tls_danger_accept_invalid_certs(insecure)
        }
    };
    builder.build().map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        ConfigError::Client(cause.unwrap_or_else(|| error.to_string()))
    })
}

fn with_authorities(
    certificates: Vec<CertificateDer<'static>>,
    authorities: &Authorities,
    identity: Option<Identity>,
    files: &Files,
) -> Result<rustls::ClientConfig, ConfigError> {
    let provider = Arc::new(ring::default_provider());
    let verifier =
        GivenAuthorities::new(certificates, &provider).map_err(|error| authorities.unusable(error.to_string()))?;
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError::Client(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let Some(Identity { chain, key }) = identity else {
        return Ok(tls.with_no_client_auth());
    };
    tls.with_client_auth_cert(chain, key).map_err(|error| {
        let path = files
            .certificate
            .as_ref()
            .map(|(path, _)| path.clone())
            .unwrap_or_default();
        pem(CERTIFICATE, &path, error.to_string())
    })
}
