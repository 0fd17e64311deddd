//! Reports, in the log and by a metric, whether Ironic accepts unauthenticated calls: at the start, and whenever its
//! address or credentials change.

use std::time::Duration;

use metal3_ironic::{Exposure, Link};
use metal3_runtime::timing::operator::{EXPOSURE, EXPOSURE_KNOWN};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tokio_util::sync::CancellationToken;

use crate::metrics::{Catalogue, Kind};

/// Retry interval while Ironic does not answer, or the result is inconclusive.
const AGAIN: Duration = if cfg!(test) {
    Duration::from_millis(50)
} else {
    EXPOSURE
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Way {
    way: &'static str,
}

/// Which endpoints are open.
#[derive(Clone, Debug)]
pub struct Exposures(Family<Way, Gauge>);

impl Exposures {
    /// Registers the metric.
    pub fn new(catalogue: &mut Catalogue<'_>) -> Self {
        catalogue.ours();
        Self(catalogue.add(
            Kind::Gauge,
            "metal3_ironic_exposed",
            &["way"],
            "1 where Ironic stands open in this way: plain_text, any_certificate, no_credentials or answers_anybody",
            Family::default(),
        ))
    }

    fn set(&self, exposure: Exposure, is_so: bool) {
        let way = exposure.label();
        self.0.get_or_create(&Way { way }).set(is_so.into());
        if is_so {
            tracing::warn!(way, "{exposure}");
        }
    }

    /// Checks until stopped.
    pub async fn watch(self, link: Link, stop: CancellationToken) {
        loop {
            let exchanged = link.exchanged();
            let look = async {
                self.look(&link).await;
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = stop.cancelled() => return,
                // What was found out of the former Ironic says nothing of the next.
                () = exchanged => drop(self.0.remove(&Way {
                    way: Exposure::AnswersAnybody.label(),
                })),
                () = look => {}
            }
        }
    }

    async fn look(&self, link: &Link) {
        link.told().await;
        let Ok(client) = link.client() else { return };
        let mut reported = None;
        loop {
            // Files with credentials may appear.
            let set = client.exposures();
            if reported.as_ref() != Some(&set) {
                for exposure in Exposure::ALL {
                    if exposure != Exposure::AnswersAnybody {
                        self.set(exposure, set.contains(&exposure));
                    }
                }
                reported = Some(set);
            }
            if client.ready().await.is_err() {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
            let pause = match client.answers_anybody().await {
                Ok(Some(is_so)) => {
                    self.set(Exposure::AnswersAnybody, is_so);
                    EXPOSURE_KNOWN
                }
                // Keep the earlier result.
                Ok(None) => AGAIN,
                Err(error) => {
                    tracing::warn!(%error, "it cannot be tried whether Ironic answers calls without credentials");
                    return;
                }
            };
            tokio::time::sleep(pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::Request;
    use axum::http::{HeaderMap, StatusCode};
    use axum::response::{IntoResponse, Json, Response};
    use metal3_ironic::{Auth, Client, ClientConfig, Url};
    use metal3_runtime::metrics::{Build, Registry};
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// An Ironic that fails the first unauthenticated call and answers the second.
    fn ironic(strangers: &AtomicUsize, request: &Request) -> Response {
        let is_known = HeaderMap::contains_key(request.headers(), "authorization");
        let version = json!({"id": "v1", "min_version": "1.1", "version": "1.109"});
        match request.uri().path() {
            "/" | "/v1" => Json(json!({"default_version": version, "versions": [version]})).into_response(),
            "/v1/drivers" => Json(json!({"drivers": [{"name": "redfish"}]})).into_response(),
            _ if !is_known && strangers.fetch_add(1, Ordering::SeqCst) == 0 => {
                StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
            _ => {
                let fault = json!({"faultstring": "Node could not be found.", "faultcode": "Client"}).to_string();
                (StatusCode::NOT_FOUND, Json(json!({"error_message": fault}))).into_response()
            }
        }
    }

    // OWN 29g: the metric stayed 0 forever after one call that came at a bad time.
    #[tokio::test]
    async fn trouble_is_no_refusal_and_is_tried_again() {
        metal3_testkit::init();
        let strangers = Arc::new(AtomicUsize::new(0));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let counted = strangers.clone();
        let router = Router::new().fallback(move |request: Request| {
            let answer = ironic(&counted, &request);
            async move { answer }
        });
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let client = Client::new(ClientConfig {
            auth: Auth::Basic {
                username: "u".to_owned(),
                password: "p".to_owned(),
            },
            ..ClientConfig::new(endpoint)
        });
        let registry = Registry::new(Build {
            component: "test",
            version: "1",
        });
        let exposures = Exposures::new(&mut Catalogue::new(&registry));
        let (stop, link) = (CancellationToken::new(), Link::to(client.unwrap()));
        tasks.spawn(exposures.watch(link, stop.clone()));
        let series = r#"metal3_ironic_exposed{way="answers_anybody"} 1"#;
        let is_told = || registry.text().unwrap().contains(series);
        for _ in 0..400 {
            if is_told() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        assert!(is_told(), "{}", registry.text().unwrap());
        assert_eq!(
            strangers.load(Ordering::SeqCst),
            2,
            "what is known is asked for again in an hour"
        );
        stop.cancel();
    }
}
