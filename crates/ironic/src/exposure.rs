//! Settings that allow others to intercept the traffic between us and Ironic, or to bypass us. They are reported at the
//! start, because they are acceptable in a lab only.

use std::fmt;

use url::Host;

use crate::client::Client;
use crate::config::{Auth, ClientConfig, ConfigError, Tls};

/// A way in which Ironic is exposed. Whoever reaches Ironic as an administrator controls every server that it manages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exposure {
    /// Credentials of BMCs, and ours, cross the network as plain text.
    PlainText,
    /// Any certificate is accepted, so whoever can redirect our calls receives them.
    AnyCertificate,
    /// We send no credentials.
    NoCredentials,
    /// Ironic answers unauthenticated callers.
    AnswersAnybody,
}

impl Exposure {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::PlainText,
        Self::AnyCertificate,
        Self::NoCredentials,
        Self::AnswersAnybody,
    ];

    /// A word for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::PlainText => "plain_text",
            Self::AnyCertificate => "any_certificate",
            Self::NoCredentials => "no_credentials",
            Self::AnswersAnybody => "answers_anybody",
        }
    }
}

impl fmt::Display for Exposure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PlainText => {
                "Ironic is reached over http: our credentials and those of BMCs can be read on the way. Serve Ironic over https"
            }
            Self::AnyCertificate => {
                "any certificate is taken for Ironic's: whoever stands in between reads and changes every call. Give the \
                 authority of its certificate instead"
            }
            Self::NoCredentials => "calls to Ironic carry no credentials: have Ironic ask for some, and give them here",
            Self::AnswersAnybody => {
                "Ironic answers calls without credentials: whoever can connect to it has every server. Have it ask for some"
            }
        })
    }
}

/// According to the configuration. A loopback connection cannot be intercepted.
pub(crate) fn exposures(config: &ClientConfig) -> Vec<Exposure> {
    let is_plain = config.endpoint.scheme() == "http";
    let is_local = match config.endpoint.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let has_user = !config.endpoint.username().is_empty();
    let has_credentials = config.auth.is_given() || config.tls.client_cert_file.is_some() || has_user;
    [
        (Exposure::PlainText, is_plain && !is_local),
        (Exposure::AnyCertificate, !is_plain && config.tls.insecure),
        (Exposure::NoCredentials, !has_credentials),
    ]
    .into_iter()
    .filter_map(|(exposure, is_so)| is_so.then_some(exposure))
    .collect()
}

impl Client {
    /// The exposures according to the configuration.
    pub fn exposures(&self) -> Vec<Exposure> {
        exposures(&self.shared.config)
    }

    /// Whether Ironic answers unauthenticated callers. This reads a node that does not exist. Ironic does answer if it
    /// reports that the node is unknown, and does not if it rejects the caller or
    /// demands a client certificate.
    /// Any other response is inconclusive. Call this when Ironic is known to be available.
    ///
    /// # Errors
    ///
    /// The configuration is not usable without the credentials.
    pub async fn answers_anybody(&self) -> Result<Option<bool>, ConfigError> {
        let config = &self.shared.config;
        let mut endpoint = config.endpoint.clone();
        // Neither fails for an address with a host.
        endpoint.set_username("").ok();
        endpoint.set_password(None).ok();
        let stranger = Self::new(ClientConfig {
            endpoint,
            auth: Auth::None,
            tls: Tls {
                client_cert_file: None,
                client_key_file: None,
                ..config.tls.clone()
            },
            retries: 0,
            observer: None,
            ..config.clone()
        })?;
        Ok(match stranger.node(NOBODYS).await {
            Ok(_) => Some(true),
            Err(error) if error.is_refusal_of_caller() => Some(false),
            Err(_) => None,
        })
    }
}

/// A node that does not exist.
const NOBODYS: &str = "00000000-0000-0000-0000-000000000000";

#[cfg(test)]
mod tests {
    use super::*;
    use url::Url;

    fn of(endpoint: &str, change: impl FnOnce(&mut ClientConfig)) -> Vec<Exposure> {
        let mut config = ClientConfig::new(Url::parse(endpoint).unwrap());
        config.auth = Auth::Basic {
            username: "u".to_owned(),
            password: "p".to_owned(),
        };
        change(&mut config);
        exposures(&config)
    }

    #[test]
    fn what_is_set_tells_how_ironic_stands_open() {
        assert_eq!(of("https://ironic:6385", |_| {}), []);
        assert_eq!(of("http://ironic:6385", |_| {}), [Exposure::PlainText]);
        for local in ["http://127.0.0.1:6385", "http://[::1]:6385", "http://localhost:6385"] {
            assert_eq!(of(local, |_| {}), []);
        }
        assert_eq!(
            of("https://ironic:6385", |config| config.tls.insecure = true),
            [Exposure::AnyCertificate]
        );
        assert_eq!(
            of("https://ironic:6385", |config| config.auth = Auth::None),
            [Exposure::NoCredentials]
        );
        let folder = tempfile::tempdir().unwrap();
        let by_files = |config: &mut ClientConfig| {
            let [username, password] = ["username", "password"].map(|name| folder.path().join(name));
            config.auth = Auth::Files { username, password };
        };
        assert_eq!(of("https://ironic:6385", by_files), [Exposure::NoCredentials]);
        std::fs::write(folder.path().join("username"), "u").unwrap();
        assert_eq!(of("https://ironic:6385", by_files), []);
        let by_certificate = |config: &mut ClientConfig| {
            config.auth = Auth::None;
            config.tls.client_cert_file = Some("tls.crt".into());
        };
        assert_eq!(of("https://ironic:6385", by_certificate), []);
    }
}
