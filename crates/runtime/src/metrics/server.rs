//! Serving `/metrics`.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use axum_server::Handle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    Registry,
    access::{Access, Decision, Gate},
};
use crate::{
    Clock,
    args::MetricsArgs,
    error::chain,
    listen::BindError,
    serve::bounded,
    tls::{Certificate, Policy, TlsError},
};

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The port.
    #[error("metrics")]
    Bind(#[from] BindError),
    /// The certificate or the TLS settings.
    #[error("metrics")]
    Tls(#[from] TlsError),
}

/// An open port on which metrics will be served.
#[derive(Debug)]
pub struct Endpoint<A> {
    listener: TcpListener,
    registry: Registry,
    /// `None` for plain HTTP, where everybody may read.
    secure: Option<(Certificate, Gate<A>)>,
}

/// How long scrapes in progress may take to finish at shutdown.
const LAST_SCRAPE: Duration = Duration::from_secs(2);

impl<A: Access> Endpoint<A> {
    /// Opens the port. `Ok(None)` if metrics are disabled.
    pub fn open(
        args: &MetricsArgs,
        policy: Policy,
        access: A,
        registry: Registry,
        clock: Clock,
    ) -> Result<Option<Self>, EndpointError> {
        let Some(listener) = args.metrics_addr.bind()? else {
            return Ok(None);
        };
        let secure = if args.metrics_plain_http {
            if !args.metrics_addr.is_loopback() {
                warn!(
                    address = %args.metrics_addr,
                    "metrics are served over plain HTTP to every caller that reaches this address; use TLS (the default) or a loopback address"
                );
            }
            None
        } else {
            Some((
                Certificate::load(policy, &args.metrics_cert_dir)?,
                Gate::new(access, clock),
            ))
        };
        Ok(Some(Self {
            listener,
            registry,
            secure,
        }))
    }

    /// The listen address, for tests that let the system choose a port.
    pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is cancelled.
    pub async fn serve(self, stop: CancellationToken) -> io::Result<()> {
        let handle = Handle::new();
        let (gate, certificate) = match self.secure {
            Some((certificate, gate)) => (Some(gate), Some(certificate)),
            None => (None, None),
        };
        let state = Arc::new(Served {
            registry: self.registry,
            gate,
        });
        let router = Router::new()
            .route("/metrics", get(metrics::<A>))
            .with_state(state)
            .into_make_service();
        let closing = async {
            stop.cancelled().await;
            handle.graceful_shutdown(Some(LAST_SCRAPE));
        };
        match certificate {
            None => {
                let server = bounded(axum_server::from_tcp(self.listener)?)
                    .handle(handle.clone())
                    .serve(router);
                tokio::join!(server, closing).0
            }
            Some(certificate) => {
                let config = certificate.server_config();
                let server = bounded(axum_server::from_tcp_rustls(self.listener, config)?)
                    .handle(handle.clone())
                    .serve(router);
                tokio::join!(server, closing, certificate.follow(None, stop.clone())).0
            }
        }
    }
}

struct Served<A> {
    registry: Registry,
    gate: Option<Gate<A>>,
}

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

async fn metrics<A: Access>(State(served): State<Arc<Served<A>>>, headers: HeaderMap) -> Response {
    if let Some(gate) = &served.gate {
        let Some(token) = bearer(&headers) else {
            return StatusCode::UNAUTHORIZED.into_response();
        };
        match gate.judge(token).await {
            Ok(Decision::Allowed) => {}
            Ok(Decision::Forbidden) => return StatusCode::FORBIDDEN.into_response(),
            Ok(Decision::Unauthenticated) => return StatusCode::UNAUTHORIZED.into_response(),
            Err(error) => {
                warn!(error = %chain(&error), "cannot tell whether a caller may read the metrics");
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
        }
    }
    match served.registry.text() {
        Ok(text) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
