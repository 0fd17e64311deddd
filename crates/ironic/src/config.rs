//! How to reach Ironic.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::observe::Observer;

/// Everything a [`crate::Client`] needs to know. Start from [`ClientConfig::new`] and change fields.
#[derive(Clone)]
pub struct ClientConfig {
    /// The API, with or without `/v1` at the end: `https://ironic.example:6385/v1/`.
    pub endpoint: Url,
    /// Credentials. Sent with every call but version discovery.
    pub auth: Auth,
    /// TLS settings; without meaning for `http` endpoints.
    pub tls: Tls,
    /// For one whole exchange, from connecting to the last byte.
    pub timeout: Duration,
    /// The same for calls during which Ironic talks to a BMC before it answers.
    pub bmc_timeout: Duration,
    /// Time limit of the TCP and TLS handshakes.
    pub connect_timeout: Duration,
    /// Maximum number of concurrent calls; further ones queue. Ironic serves few in parallel (ten by default), so more
    /// would only wait there.
    pub max_concurrent: usize,
    /// How often a call is retried after a refused connection, a locked node or a busy server.
    pub retries: usize,
    /// For how long a successful [`crate::Client::ready`] is trusted. Zero: ask every time.
    pub ready_ttl: Duration,
    /// Nodes or ports per page of a list. The server caps it at 1000 by default.
    pub page_limit: u32,
    /// `User-Agent` header.
    pub user_agent: String,
    /// Notified of every exchange.
    pub observer: Option<Arc<dyn Observer>>,
}

impl ClientConfig {
    /// Defaults that suit an operator: no credentials, 30 s for a call, 20 calls at once.
    pub fn new(endpoint: Url) -> Self {
        Self {
            endpoint,
            auth: Auth::None,
            tls: Tls::default(),
            timeout: Duration::from_secs(30),
            bmc_timeout: Duration::from_secs(90),
            connect_timeout: Duration::from_secs(10),
            max_concurrent: 20,
            retries: 2,
            ready_ttl: Duration::from_secs(5),
            page_limit: 500,
            user_agent: concat!("metal3-baremetal-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
            observer: None,
        }
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The endpoint of a built client has no user-info, but this configuration may be printed before.
        let mut endpoint = self.endpoint.clone();
        if endpoint.password().is_some() {
            endpoint.set_password(Some("redacted")).ok();
        }
        f.debug_struct("ClientConfig")
            .field("endpoint", &endpoint.as_str())
            .field("auth", &self.auth)
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .field("bmc_timeout", &self.bmc_timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("max_concurrent", &self.max_concurrent)
            .field("retries", &self.retries)
            .field("ready_ttl", &self.ready_ttl)
            .field("page_limit", &self.page_limit)
            .field("user_agent", &self.user_agent)
            .finish_non_exhaustive()
    }
}

/// Credentials for Ironic. `Debug` does not show the password.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    /// Ironic's `noauth`.
    None,
    /// Ironic's `http_basic`.
    Basic {
        /// User name.
        username: String,
        /// Password.
        password: String,
    },
    /// The same in files, which are reloaded like those of [`Tls`], and immediately when Ironic rejects their content.
    /// Surrounding white space is ignored. While neither file exists no credentials are sent.
    Files {
        /// The file with the user name.
        username: PathBuf,
        /// The file with the password.
        password: PathBuf,
    },
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Basic { username, .. } => f
                .debug_struct("Basic")
                .field("username", username)
                .finish_non_exhaustive(),
            Self::Files { username, password } => f
                .debug_struct("Files")
                .field("username", username)
                .field("password", password)
                .finish(),
        }
    }
}

/// TLS towards Ironic, at least TLS 1.2.
///
/// Files are checked every few seconds; when their content has changed, new connections use the new content, so that
/// certificates may be rotated under a running process. Unusable new content is logged and the old content kept. Until
/// the content has been usable once, calls fail with what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file with the only certificate authorities to trust. None, or while it does not exist: those of the system.
    pub ca_file: Option<PathBuf>,
    /// The same in PEM text instead of a file, for authorities that do not come in one.
    pub ca_pem: Option<String>,
    /// PEM file with our certificate, followed by intermediate ones.
    pub client_cert_file: Option<PathBuf>,
    /// PEM file with the key that belongs to it.
    pub client_key_file: Option<PathBuf>,
    /// Accept any server certificate.
    pub insecure: bool,
}

/// A configuration that no client can be built from.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Not `http` or `https`, without a host, or with user-info, a query or a fragment in it.
    #[error("the Ironic endpoint cannot be used: {0}")]
    Endpoint(&'static str),
    /// A limit of zero.
    #[error("{0} must be greater than zero")]
    Zero(&'static str),
    /// User name or password is empty, or the user name has a colon.
    #[error("the Ironic credentials cannot be used: {0}")]
    Credentials(&'static str),
    /// The user agent cannot stand in a header.
    #[error("{0:?} cannot be used as User-Agent")]
    UserAgent(String),
    /// One of certificate and key is missing.
    #[error("a client certificate needs both its certificate file and its key file; only the {given} is set")]
    HalfIdentity {
        /// Which of the two is there.
        given: &'static str,
    },
    /// A file cannot be read.
    #[error("the {what} {} cannot be read", path.display())]
    Read {
        /// What the file holds.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file with nothing in it.
    #[error("the {what} {} is empty", path.display())]
    Empty {
        /// What the file should hold.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
    },
    /// A file does not hold what it should.
    #[error("the {what} {} cannot be used: {reason}", path.display())]
    Pem {
        /// What the file should hold.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The authorities that were given as text are none.
    #[error("the CA certificates cannot be used: {0}")]
    Authorities(String),
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
}

impl Auth {
    /// Whether there are credentials at the moment.
    pub(crate) fn is_given(&self) -> bool {
        match self {
            Self::None => false,
            Self::Basic { .. } => true,
            Self::Files { username, password } => username.exists() || password.exists(),
        }
    }

    /// Whether the credentials may change.
    pub(crate) fn has_files(&self) -> bool {
        matches!(self, Self::Files { .. })
    }
}

impl Tls {
    /// Whether something here may change.
    pub(crate) fn has_files(&self) -> bool {
        self.ca_file.is_some() || self.client_cert_file.is_some()
    }
}

impl ConfigError {
    /// Whether a file does not exist.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

impl ClientConfig {
    /// All checks that need no I/O.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let endpoint = &self.endpoint;
        if !matches!(endpoint.scheme(), "http" | "https") {
            return Err(ConfigError::Endpoint("its scheme must be http or https"));
        }
        if endpoint.host_str().is_none_or(str::is_empty) {
            return Err(ConfigError::Endpoint("it names no host"));
        }
        if !endpoint.username().is_empty() || endpoint.password().is_some() {
            return Err(ConfigError::Endpoint(
                "it holds credentials, which belong into the credential files",
            ));
        }
        if endpoint.query().is_some() || endpoint.fragment().is_some() {
            return Err(ConfigError::Endpoint("it must end after the path"));
        }
        let times = [
            ("timeout", self.timeout),
            ("bmc_timeout", self.bmc_timeout),
            ("connect_timeout", self.connect_timeout),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(ConfigError::Zero(name));
        }
        if self.max_concurrent == 0 {
            return Err(ConfigError::Zero("max_concurrent"));
        }
        if self.page_limit == 0 {
            return Err(ConfigError::Zero("page_limit"));
        }
        match (&self.tls.client_cert_file, &self.tls.client_key_file) {
            (Some(_), None) => Err(ConfigError::HalfIdentity { given: "certificate" }),
            (None, Some(_)) => Err(ConfigError::HalfIdentity { given: "key" }),
            _ => Ok(()),
        }
    }
}
