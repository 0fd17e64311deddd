//! The client of a workload cluster. A tenant writes its kubeconfig, so the addresses that its server's name resolves to are checked
//! for each connection: an earlier lookup could have had another answer. Redirects are not followed, and no proxy is used.

use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use metal3_runtime::BoxError;
use metal3_runtime::args::ClientArgs;
use metal3_runtime::denied::{DeniedRanges, FLAG};
use metal3_runtime::lookups::Places;
use metal3_runtime::metrics::Requests;
use metal3_runtime::timing::provider::WORKLOAD_CONNECT;
use tower::{Service, ServiceBuilder, ServiceExt};

use super::metered::Metered;
use super::pace::Pace;

/// How workload clusters may be accessed.
#[derive(Clone, Debug)]
pub struct Access {
    /// The request rate limits for each of them.
    pub limits: ClientArgs,
    /// Where none of them may be.
    pub denied: DeniedRanges,
}

impl From<ClientArgs> for Access {
    fn from(limits: ClientArgs) -> Self {
        let denied = DeniedRanges::default();
        Self { limits, denied }
    }
}

/// The name of the server resolves only to denied addresses. The message omits them, because a tenant must not learn what names
/// resolve to in the management cluster's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of its server leads to an address in a range that may not be connected to ({FLAG})")]
pub struct Denied;

/// The client, which looks names up within these places and reads at this pace. Sends no request.
pub fn client(config: &Config, access: &Access, places: Places, pace: &Pace) -> Result<Client, kube::Error> {
    let mut http = HttpConnector::new_with_resolver(Checked {
        places,
        denied: access.denied.clone(),
    });
    http.enforce_http(false);
    let pace = pace.clone();
    let http = http.map_response(move |connected| Metered::over(connected, pace.clone()));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(http)?);
    connector.set_connect_timeout(Some(WORKLOAD_CONNECT));
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let client = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    let builder = ClientBuilder::new(service, config.default_namespace.clone());
    Ok(access.limits.layered(builder, &Requests::default()))
}

/// Resolves names and omits denied addresses. An address in the kubeconfig itself is not resolved: reading the kubeconfig checks it.
#[derive(Clone)]
struct Checked {
    places: Places,
    denied: DeniedRanges,
}

impl Service<Name> for Checked {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (places, denied) = (self.places.clone(), self.denied.clone());
        Box::pin(async move {
            let addresses = places.run(move || (name.as_str(), 0).to_socket_addrs()).await?;
            let allowed: Vec<_> = addresses.filter(|address| !denied.contain(address.ip())).collect();
            if allowed.is_empty() {
                return Err(Denied.into());
            }
            Ok(allowed.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use metal3_runtime::lookups::{Crowded, Lookups};
    use metal3_runtime::store::ObjectKey;
    use tokio::net::TcpListener;

    use super::super::pace::Paces;
    use super::super::words;
    use super::*;

    fn asking(url: &str, access: &Access, lookups: &Lookups) -> Client {
        rustls::crypto::ring::default_provider().install_default().ok();
        let config = Config::new(url.parse().unwrap());
        let pace = Paces::default().of(ObjectKey::new("ns", "c"));
        client(&config, access, lookups.of("ns"), &pace).unwrap()
    }

    // OWN 23m: a name in a kubeconfig led to the metadata of the management cluster's cloud.
    #[tokio::test]
    async fn a_name_that_leads_to_a_denied_address_is_not_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://localhost:{}", listener.local_addr().unwrap().port());
        let lookups = Lookups::new(WORKLOAD_CONNECT / 2);
        let refused = Access {
            denied: "127.0.0.0/8,::1/128".parse().unwrap(),
            ..crate::sim::limits().into()
        };
        let refused = asking(&url, &refused, &lookups);
        let error = refused.apiserver_version().await.unwrap_err();
        assert_eq!(words::told(&error), Denied.to_string());
        let allowed = asking(&url, &crate::sim::limits().into(), &lookups);
        tokio::select! {
            answer = allowed.apiserver_version() => panic!("the server does not answer: {answer:?}"),
            caller = listener.accept() => drop(caller.unwrap()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_without_a_place_for_its_lookup_is_told() {
        let client = asking(
            "http://localhost:1",
            &crate::sim::limits().into(),
            &Lookups::of_at_most(0, 1, WORKLOAD_CONNECT / 2),
        );
        let error = client.apiserver_version().await.unwrap_err();
        assert_eq!(words::told(&error), Crowded::Namespace.to_string());
    }
}
