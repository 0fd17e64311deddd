use super::*;
use crate::{
    args::{TlsArgs, TlsVersion},
    metrics::Build,
};
use rstest::rstest;
use tokio::task::JoinSet;

struct Fixed;

impl Access for Fixed {
    async fn judge(&self, token: &str) -> Result<Decision, kube::Error> {
        Ok(match token {
            "good" => Decision::Allowed,
            "poor" => Decision::Forbidden,
            _ => Decision::Unauthenticated,
        })
    }
}

fn open(addr: &str, plain: bool, min: TlsVersion) -> Result<Option<Endpoint<Fixed>>, EndpointError> {
    let args = MetricsArgs {
        metrics_addr: addr.parse().unwrap(),
        metrics_cert_dir: "/does/not/exist".into(),
        metrics_plain_http: plain,
    };
    let tls = TlsArgs {
        tls_min_version: min,
        tls_max_version: TlsVersion::Tls13,
        tls_cipher_suites: String::new(),
        tls_curve_preferences: "CurveP256".into(),
    };
    let registry = Registry::new(Build {
        component: "test",
        version: "0",
    });
    Endpoint::open(
        &args,
        Policy::from_args(&tls).unwrap(),
        Fixed,
        registry,
        Clock::system(),
    )
}

fn client(max: reqwest::tls::Version) -> reqwest::Client {
    rustls::crypto::ring::default_provider().install_default().ok();
    reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .tls_version_max(max)
        .build()
        .unwrap()
}

#[tokio::test]
async fn only_those_who_may_get_the_metrics_over_tls() {
    let endpoint = open("127.0.0.1:0", false, TlsVersion::Tls13).unwrap().unwrap();
    let url = format!("https://{}/metrics", endpoint.local_addr().unwrap());
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(endpoint.serve(stop.clone()));

    let new = client(reqwest::tls::Version::TLS_1_3);
    for (token, status) in [("good", 200), ("poor", 403), ("bad", 401)] {
        let answer = new.get(&url).bearer_auth(token).send().await.unwrap();
        assert_eq!(answer.status(), status, "{token}");
    }
    assert_eq!(new.get(&url).send().await.unwrap().status(), 401);
    let answer = new.get(&url).bearer_auth("good").send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], OPENMETRICS);
    assert!(answer.text().await.unwrap().ends_with("# EOF\n"));

    // --tls-min-version is not decoration.
    client(reqwest::tls::Version::TLS_1_2)
        .get(&url)
        .bearer_auth("good")
        .send()
        .await
        .unwrap_err();
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
}

// OWN 18a: Deployments of upstream serve plain HTTP on every address.
#[rstest]
#[case("127.0.0.1:0")]
#[case(":0")]
#[tokio::test]
async fn plain_http_is_served_on_any_address(#[case] address: &str) {
    let endpoint = open(address, true, TlsVersion::Tls12).unwrap().unwrap();
    let url = format!("http://127.0.0.1:{}/metrics", endpoint.local_addr().unwrap().port());
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(endpoint.serve(stop.clone()));
    let text = client(reqwest::tls::Version::TLS_1_3)
        .get(&url)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(text.contains("metal3_build_info"));
    stop.cancel();
    tasks.join_next().await.unwrap().unwrap().unwrap();
}

#[test]
fn metrics_can_be_switched_off() {
    assert!(open("0", false, TlsVersion::Tls12).unwrap().is_none());
    assert!(open("0", true, TlsVersion::Tls12).unwrap().is_none());
}

#[test]
fn tokens_are_read_from_the_header() {
    let with = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        bearer(&headers).map(str::to_owned)
    };
    assert_eq!(with("Bearer abc").as_deref(), Some("abc"));
    assert_eq!(with("bearer abc").as_deref(), Some("abc"));
    assert_eq!(with("Basic abc"), None);
    assert_eq!(with("Bearer "), None);
}
