//! The real cause of a missing response, extracted from the layers that wrap it.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

/// Why an exchange failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Bounded label: `refused`, `tls`, `tls_files`, `dns`, `timeout`, `connect_timeout`, `connect`, `interrupted`, `crowded`.
    pub label: &'static str,
    /// One readable line.
    pub text: String,
    /// Whether the server cannot have seen the request, so that a retry is safe whatever it was.
    pub unsent: bool,
    /// Whether an immediate retry may help.
    pub passing: bool,
}

impl Cause {
    /// There is no memory for the answer at the moment.
    pub fn crowded(text: String) -> Self {
        Self {
            label: "crowded",
            text,
            unsent: false,
            passing: true,
        }
    }

    /// Reads what went wrong in a call that had `timeout` for the whole and `connect_timeout` for the connection.
    pub fn of(error: &reqwest::Error, timeout: Duration, connect_timeout: Duration) -> Self {
        let unsent = error.is_connect();
        if error.is_timeout() {
            return if unsent {
                let limit = connect_timeout.min(timeout);
                Self {
                    label: "connect_timeout",
                    text: format!("no connection within {limit:?}"),
                    unsent,
                    passing: false,
                }
            } else {
                Self {
                    label: "timeout",
                    text: format!("no complete answer within {timeout:?}"),
                    unsent,
                    passing: false,
                }
            };
        }
        for layer in chain(error) {
            if let Some(tls) = tls_error(layer) {
                let text = format!("TLS: {}", tls_text(tls));
                return Self {
                    label: "tls",
                    text,
                    unsent: true,
                    passing: false,
                };
            }
        }
        let text = innermost(error);
        if chain(error).any(|layer| layer.to_string().contains("dns error")) {
            return Self {
                label: "dns",
                text: format!("name resolution: {text}"),
                unsent: true,
                passing: false,
            };
        }
        match chain(error).find_map(io_kind) {
            Some(io::ErrorKind::ConnectionRefused) => Self {
                label: "refused",
                text: "connection refused".to_owned(),
                unsent,
                passing: true,
            },
            // A TLS alert during the handshake arrives here as an end of file when the peer closes silently.
            _ if unsent => Self {
                label: "connect",
                text: format!("cannot connect: {text}"),
                unsent,
                passing: true,
            },
            _ => Self {
                label: "interrupted",
                text: format!("connection lost: {text}"),
                unsent,
                passing: true,
            },
        }
    }
}

pub(crate) fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&layer| next_layer(layer))
}

fn next_layer<'a>(layer: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    // The source of an I/O error is the source of what it wraps; what it wraps would be skipped.
    match layer.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => layer.source(),
    }
}

fn io_kind(layer: &(dyn StdError + 'static)) -> Option<io::ErrorKind> {
    layer
        .downcast_ref::<io::Error>()
        .map(io::Error::kind)
        .filter(|kind| *kind != io::ErrorKind::Other)
}

fn tls_error<'a>(layer: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    layer.downcast_ref::<rustls::Error>()
}

fn innermost(error: &reqwest::Error) -> String {
    let text = chain(error).last().map(ToString::to_string).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Common certificate problems, in words that say where to look.
fn tls_text(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error as Tls};
    match error {
        Tls::InvalidCertificate(Bad::UnknownIssuer) => {
            "certificate verify failed: unknown issuer (is this the CA that signed the server's certificate?)"
                .to_owned()
        }
        Tls::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "certificate verify failed: expired".to_owned()
        }
        Tls::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "certificate verify failed: not valid yet".to_owned()
        }
        Tls::InvalidCertificate(Bad::NotValidForName) => {
            "certificate verify failed: not issued for this host name".to_owned()
        }
        Tls::InvalidCertificate(Bad::NotValidForNameContext { expected, presented }) => format!(
            "certificate verify failed: not issued for {} but for {}",
            expected.to_str(),
            if presented.is_empty() {
                "no name at all".to_owned()
            } else {
                presented.join(", ")
            }
        ),
        Tls::InvalidCertificate(other) => format!("certificate verify failed: {other}"),
        Tls::AlertReceived(Alert::CertificateRequired) => "the server wants a client certificate".to_owned(),
        Tls::AlertReceived(Alert::UnknownCA | Alert::BadCertificate | Alert::DecryptError) => {
            format!("the server did not accept our client certificate ({error})")
        }
        Tls::InvalidMessage(_) => format!("{error} (does the server speak plain HTTP there?)"),
        other => other.to_string(),
    }
}
