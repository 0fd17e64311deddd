//! The listen address of a server, in Go's notation.

use std::{fmt, io, net::TcpListener, str::FromStr};

/// A listen address such as `:8443`, `127.0.0.1:9440` or `localhost:0`; `0` and the empty text disable a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// The server is disabled.
    Off,
    /// All addresses of the machine, IPv6 and IPv4.
    Any(u16),
    /// One host name or address with its port.
    Host(String),
}

/// The text is neither an address with a port nor `0`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT, :PORT or 0, got {0:?}")]
pub struct ListenAddrError(String);

impl FromStr for ListenAddr {
    type Err = ListenAddrError;

    fn from_str(text: &str) -> Result<Self, ListenAddrError> {
        if text.is_empty() || text == "0" {
            return Ok(Self::Off);
        }
        let wrong = || ListenAddrError(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        match host {
            "" | "[::]" => Ok(Self::Any(port)),
            _ if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) => Err(wrong()),
            _ => Ok(Self::Host(text.to_owned())),
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => out.write_str("0"),
            Self::Any(port) => write!(out, ":{port}"),
            Self::Host(host) => out.write_str(host),
        }
    }
}

/// The socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr}")]
pub struct BindError {
    addr: ListenAddr,
    #[source]
    source: io::Error,
}

impl ListenAddr {
    /// Opens the socket, or returns `None` if the server is disabled. Call it before starting the server's task, so
    /// that a port in use is a clear start-up error.
    pub fn bind(&self) -> Result<Option<TcpListener>, BindError> {
        let listener = match self {
            Self::Off => return Ok(None),
            // Linux serves IPv4 from a socket on [::] as well; a machine without IPv6 gets the plain one.
            Self::Any(port) => TcpListener::bind(("::", *port)).or_else(|_| TcpListener::bind(("0.0.0.0", *port))),
            Self::Host(host) => TcpListener::bind(host),
        };
        let listener = listener.and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        listener.map(Some).map_err(|source| BindError {
            addr: self.clone(),
            source,
        })
    }

    /// Whether only this machine can connect.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Off | Self::Any(_) => false,
            Self::Host(host) => {
                let name = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
                let name = name.trim_start_matches('[').trim_end_matches(']');
                name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0", Ok(ListenAddr::Off), false)]
    #[case("", Ok(ListenAddr::Off), false)]
    #[case(":8443", Ok(ListenAddr::Any(8443)), false)]
    #[case("127.0.0.1:9440", Ok(ListenAddr::Host("127.0.0.1:9440".into())), true)]
    #[case("[::1]:9440", Ok(ListenAddr::Host("[::1]:9440".into())), true)]
    #[case("localhost:0", Ok(ListenAddr::Host("localhost:0".into())), true)]
    #[case("10.0.0.1:1", Ok(ListenAddr::Host("10.0.0.1:1".into())), false)]
    #[case("8443", Err(()), false)]
    #[case(":port", Err(()), false)]
    #[case("::1:80", Err(()), false)]
    fn go_addresses(#[case] text: &str, #[case] expected: Result<ListenAddr, ()>, #[case] loopback: bool) {
        let parsed = text.parse::<ListenAddr>();
        assert_eq!(parsed.as_ref().is_ok_and(ListenAddr::is_loopback), loopback);
        assert_eq!(parsed.map_err(|_| ()), expected);
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr: ListenAddr = taken.local_addr().unwrap().to_string().parse().unwrap();
        let error = addr.bind().unwrap_err();
        assert!(error.to_string().ends_with(&addr.to_string()));
        assert!(ListenAddr::Off.bind().unwrap().is_none());
    }
}
