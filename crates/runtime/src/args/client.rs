//! How to reach the API server, and which namespaces to look at.

use std::{convert::Infallible, str::FromStr, time::Duration};

use axum::body::{Bytes, HttpBody};
use axum::http::{Request, Response};
use clap::Args;
use kube::{
    Api, Client, Config, Resource,
    client::{Body, ClientBuilder},
    config::{KubeConfigOptions, Kubeconfig},
    core::NamespaceResourceScope,
};
use tower::Service;
use tower::limit::{ConcurrencyLimitLayer, RateLimitLayer};
use tower::timeout::TimeoutLayer;

use super::guard::Guard;
use crate::BoxError;
use crate::metrics::Requests;

/// How to reach the API server.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kubernetes client")]
pub struct ClientArgs {
    /// Path of a kubeconfig file; without it the pod's service account or the user's default is taken
    #[arg(long, env = "KUBECONFIG")]
    pub kubeconfig: Option<String>,

    /// Requests per second to the API server on average; 0 is 20, negative means no limit. Without it there is none: the
    /// server shares itself out among its clients by priority and fairness
    #[arg(long, env = "KUBE_API_QPS", default_value_t = -1.0, allow_negative_numbers = true)]
    pub kube_api_qps: f32,

    /// Requests to the API server that may be sent at once before --kube-api-qps holds them back
    #[arg(long, env = "KUBE_API_BURST", default_value_t = ClientArgs::BURST)]
    pub kube_api_burst: u32,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig cannot be read or used.
    #[error("cannot use kubeconfig {path}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// Neither a kubeconfig nor a service account was found.
    #[error("found no way to reach an API server")]
    Infer(#[source] kube::config::InferConfigError),
    /// The configuration does not make a client, for example because of unusable certificates.
    #[error("cannot build an API client")]
    Build(#[source] kube::Error),
}

impl ClientArgs {
    const QPS: f32 = 20.0;
    const BURST: u32 = 30;
    /// Requests that are under way at once; a watch counts until it has begun. Each takes a connection of its own, which costs
    /// some 140 KB and stays for a minute and a half. A server that answers in 20 ms gets 800 requests a second by this.
    const AT_ONCE: usize = 16;
    /// Until an answer begins; a server gives up by itself after a minute. What a frozen server or a lost connection never
    /// answers must not take the place of other requests for good.
    const ANSWER: Duration = Duration::from_secs(70);

    /// Reads the configuration. No request is made.
    ///
    /// The KUBECONFIG variable may hold a list of paths; a list is left to kube's own rules (the files are merged).
    pub async fn config(&self) -> Result<Config, ClientError> {
        match self.kubeconfig.as_deref() {
            None | Some("") => Config::infer().await.map_err(ClientError::Infer),
            Some(path) if path.contains(':') => Config::infer().await.map_err(ClientError::Infer),
            Some(path) => {
                let failed = |source| ClientError::Kubeconfig {
                    path: path.to_owned(),
                    source,
                };
                let file = Kubeconfig::read_from(path).map_err(failed)?;
                Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                    .await
                    .map_err(failed)
            }
        }
    }

    /// A client for the controllers, limited as asked. No request is made.
    ///
    /// Up to `burst` requests pass in every `burst / qps` seconds, watches being one request each. Leader election must
    /// not queue behind the controllers: give it [`ClientArgs::unlimited`].
    ///
    /// Each request is sent once. kube would send it again after a timeout of the server, which may do it yet, and show
    /// only the last answer: a refusal would not mean that nothing was or will be written.
    pub fn limited(&self, config: Config) -> Result<Client, ClientError> {
        self.counted(config, &Requests::default())
    }

    /// The same, with its requests counted.
    pub fn counted(&self, mut config: Config, requests: &Requests) -> Result<Client, ClientError> {
        config.default_retry = false;
        let builder = ClientBuilder::try_from(config).map_err(ClientError::Build)?;
        Ok(self.layered(builder.with_layer(&Guard), requests))
    }

    /// The same, for a client that is connected in another way.
    pub fn layered<S, B>(&self, builder: ClientBuilder<S>, requests: &Requests) -> Client
    where
        S: Service<Request<Body>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let builder = builder
            .with_layer(requests)
            .with_layer(&TimeoutLayer::new(Self::ANSWER))
            .with_layer(&ConcurrencyLimitLayer::new(Self::AT_ONCE));
        match self.window() {
            Some((requests, per)) => builder.with_layer(&RateLimitLayer::new(requests, per)).build(),
            None => builder.build(),
        }
    }

    /// A client without a limit, for leader election. No request is made.
    pub fn unlimited(config: Config) -> Result<Client, ClientError> {
        Client::try_from(config).map_err(ClientError::Build)
    }

    fn window(&self) -> Option<(u64, Duration)> {
        if self.kube_api_qps < 0.0 {
            return None;
        }
        let qps = if self.kube_api_qps > 0.0 {
            self.kube_api_qps
        } else {
            Self::QPS
        };
        let burst = if self.kube_api_burst > 0 {
            self.kube_api_burst
        } else {
            Self::BURST
        };
        let seconds = f64::from(burst) / f64::from(qps);
        Some((
            burst.into(),
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(60)),
        ))
    }
}

/// Which namespaces the controllers look at.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Controllers")]
pub struct NamespaceArgs {
    /// Namespaces to watch, separated by commas; empty watches all of them
    #[arg(long, env = "WATCH_NAMESPACE", default_value = "")]
    pub namespace: Namespaces,
}

/// The namespaces that are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// The whole cluster.
    All,
    /// These only; at least one.
    Only(Vec<String>),
}

impl FromStr for Namespaces {
    type Err = Infallible;

    /// Splits at commas. Blanks are kept, as upstream does: a name with a blank is wrong and shall be seen to be wrong. A name
    /// that is there twice counts once: two watches would have two controllers for the same objects.
    fn from_str(list: &str) -> Result<Self, Infallible> {
        if list.is_empty() {
            return Ok(Self::All);
        }
        let mut names: Vec<String> = Vec::new();
        for name in list.split(',') {
            if !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(Self::Only(names))
    }
}

impl Namespaces {
    /// One [`Api`] for each watch that is needed: one for the cluster, or one for each namespace.
    pub fn apis<K>(&self, client: &Client) -> Vec<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        match self {
            Self::All => vec![Api::all(client.clone())],
            Self::Only(names) => names.iter().map(|name| Api::namespaced(client.clone(), name)).collect(),
        }
    }

    /// The namespace for things that a process has once, such as its lease, when nothing else names one: the watched
    /// namespace if there is exactly one.
    pub fn single(&self) -> Option<&str> {
        match self {
            Self::Only(names) if names.len() == 1 => names.first().map(String::as_str),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::chain;
    use axum::http::StatusCode;
    use k8s_openapi::api::core::v1::Secret;
    use rstest::rstest;
    use tower::ServiceExt;

    #[rstest]
    #[case("", Namespaces::All, None)]
    #[case("a", Namespaces::Only(vec!["a".into()]), Some("a"))]
    #[case("a,b,a", Namespaces::Only(vec!["a".into(), "b".into()]), None)]
    #[case("a,a", Namespaces::Only(vec!["a".into()]), Some("a"))]
    #[case("a, b", Namespaces::Only(vec!["a".into(), " b".into()]), None)]
    fn namespaces_are_split_but_not_trimmed(
        #[case] text: &str,
        #[case] expected: Namespaces,
        #[case] single: Option<&str>,
    ) {
        let parsed: Namespaces = text.parse().unwrap();
        assert_eq!(parsed.single(), single);
        assert_eq!(parsed, expected);
    }

    #[rstest]
    #[case(20.0, 30, Some((30, 1500)))]
    #[case(0.0, 0, Some((30, 1500)))]
    #[case(0.5, 1, Some((1, 2000)))]
    #[case(-1.0, 30, None)]
    fn the_limit_is_a_window(#[case] qps: f32, #[case] burst: u32, #[case] window: Option<(u64, u64)>) {
        let args = ClientArgs {
            kubeconfig: None,
            kube_api_qps: qps,
            kube_api_burst: burst,
        };
        assert_eq!(
            args.window(),
            window.map(|(requests, millis)| (requests, Duration::from_millis(millis)))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait() {
        let args = ClientArgs {
            kubeconfig: None,
            kube_api_qps: 2.0,
            kube_api_burst: 4,
        };
        let (requests, per) = args.window().unwrap();
        let service = tower::service_fn(|()| async { Ok::<_, std::convert::Infallible>(()) });
        let mut limited = tower::limit::RateLimit::new(service, tower::limit::rate::Rate::new(requests, per));
        let start = tokio::time::Instant::now();
        for _ in 0..12 {
            limited.ready().await.unwrap().call(()).await.unwrap();
        }
        // 4 at once, and 2 a second after that.
        assert_eq!(start.elapsed().as_secs(), 4);
    }

    const WITHOUT_RATE: ClientArgs = ClientArgs {
        kubeconfig: None,
        kube_api_qps: -1.0,
        kube_api_burst: 1,
    };

    /// How to reach a server of these paths, which ends with what is returned besides.
    async fn serve(router: axum::Router) -> (Config, tokio::task::JoinSet<()>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        (config, tasks)
    }

    async fn get(client: &Client, path: &str) -> Result<String, kube::Error> {
        let request = axum::http::Request::get(path).body(Vec::new()).unwrap();
        client.request_text(request).await
    }

    #[tokio::test]
    async fn only_so_many_requests_are_under_way_at_once() {
        let (arrived, counted) = tokio::sync::watch::channel(0_usize);
        let (open, gate) = tokio::sync::watch::channel(false);
        let held = async move || {
            arrived.send_modify(|count| *count += 1);
            gate.clone().wait_for(|open| *open).await.unwrap();
            "ok"
        };
        let router = axum::Router::new()
            .route("/held", axum::routing::get(held))
            .route("/now", axum::routing::get(async || "ok"));
        let (config, _server) = serve(router).await;
        let get = async |client: &Client, path: &str| get(client, path).await.unwrap();
        let client = WITHOUT_RATE.limited(config.clone()).unwrap();
        let all = futures::future::join_all((0..3 * ClientArgs::AT_ONCE).map(|_| get(&client, "/held")));
        let rest = async {
            counted
                .clone()
                .wait_for(|count| *count == ClientArgs::AT_ONCE)
                .await
                .unwrap();
            // Time enough for one more.
            let other = ClientArgs::unlimited(config).unwrap();
            for _ in 0..20 {
                get(&other, "/now").await;
            }
            assert_eq!(*counted.borrow(), ClientArgs::AT_ONCE);
            open.send_replace(true);
        };
        let (answers, ()) = futures::future::join(all, rest).await;
        assert_eq!(answers.len(), 3 * ClientArgs::AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_holds_up_no_request_for_good() {
        let silent = async || std::future::pending::<&str>().await;
        let router = axum::Router::new()
            .route("/silent", axum::routing::get(silent))
            .route("/now", axum::routing::get(async || "ok"));
        let (config, _server) = serve(router).await;
        let client = WITHOUT_RATE.limited(config).unwrap();
        let silent = futures::future::join_all((0..ClientArgs::AT_ONCE).map(|_| get(&client, "/silent")));
        let (silent, now) = futures::future::join(silent, get(&client, "/now")).await;
        assert!(silent.iter().all(Result::is_err));
        assert_eq!(now.unwrap(), "ok");
    }

    // OWN 31sa: an answer that does not end held its caller for ever, and all of it stayed in memory.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_end_is_given_up_unless_it_is_a_watch() {
        let endless = async || {
            let pieces = futures::stream::unfold((), async |()| {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Some((Ok::<_, Infallible>("x"), ()))
            });
            axum::body::Body::from_stream(pieces)
        };
        let (config, _server) = serve(axum::Router::new().route("/api/v1/endless", axum::routing::get(endless))).await;
        let client = WITHOUT_RATE.limited(config).unwrap();
        let error = get(&client, "/api/v1/endless?").await.unwrap_err();
        assert!(chain(&error).to_string().contains("within 60 s"), "{error:?}");
        let watch = tokio::time::timeout(Duration::from_secs(3600), get(&client, "/api/v1/endless?&watch=true"));
        watch.await.expect_err("it goes on");
    }

    #[rstest]
    #[case("?watch=true&timeoutSeconds=999999999")]
    #[case("../configmaps/c")]
    #[case("a/../b")]
    #[case("%2e%2e")]
    #[case("a//b")]
    #[case("#")]
    #[case("s?x=1")]
    #[case("s/status")]
    #[tokio::test]
    async fn a_name_that_would_be_another_request_is_not_sent(#[case] name: &str) {
        let (config, _server) = serve(axum::Router::new()).await;
        let secrets: Api<Secret> = Api::namespaced(WITHOUT_RATE.limited(config).unwrap(), "ns");
        let sent = secrets.get("s").await.unwrap_err();
        assert!(
            !chain(&sent).to_string().contains("no object can have this name"),
            "{sent:?}"
        );
        let error = secrets.get(name).await.unwrap_err();
        assert!(
            chain(&error).to_string().contains("no object can have this name"),
            "{error:?}"
        );
        assert!(secrets.get_metadata_opt(name).await.unwrap().is_none());
    }

    #[rstest]
    #[case(StatusCode::TOO_MANY_REQUESTS)]
    #[case(StatusCode::SERVICE_UNAVAILABLE)]
    #[case(StatusCode::GATEWAY_TIMEOUT)]
    #[tokio::test]
    async fn a_request_is_sent_once(#[case] code: StatusCode) {
        let arrived = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = arrived.clone();
        let busy = async move || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            code
        };
        let (config, _server) = serve(axum::Router::new().route("/busy", axum::routing::get(busy))).await;
        let client = WITHOUT_RATE.limited(config).unwrap();
        get(&client, "/busy").await.expect_err("the server is busy");
        assert_eq!(arrived.load(std::sync::atomic::Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let args = ClientArgs {
            kubeconfig: Some("/does/not/exist".into()),
            kube_api_qps: 1.0,
            kube_api_burst: 1,
        };
        let error = args.config().await.unwrap_err();
        assert!(error.to_string().contains("/does/not/exist"));
    }
}
