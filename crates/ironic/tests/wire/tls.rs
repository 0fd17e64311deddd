//! TLS: whom the client trusts, who it says it is, and what it says when that fails.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;
use metal3_ironic::{Client, ClientConfig, ConfigError, ErrorClass, Tls, Url};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::server::{config, ready_router};

/// A certificate and its key, in PEM.
struct Pair {
    certificate: String,
    key: String,
}

struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    fn issue(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        Pair {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params
}

fn expired(mut params: CertificateParams) -> CertificateParams {
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    params
}

/// As `openssl req -x509` makes them: self-signed, marked as a CA, used by a server.
fn self_signed(mut params: CertificateParams) -> Pair {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Pair {
        certificate: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

struct TlsServer {
    url: Url,
    _task: JoinSet<()>,
}

impl TlsServer {
    /// With `clients` only clients with a certificate of that authority are let in.
    fn start(pair: &Pair, clients: Option<&Authority>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots
                    .add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap())
                    .unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        let tls = RustlsConfig::from_config(Arc::new(builder.with_single_cert(chain, key).unwrap()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = Url::parse(&format!(
            "https://localhost:{}/v1/",
            listener.local_addr().unwrap().port()
        ))
        .unwrap();
        let server = axum_server::from_tcp_rustls(listener, tls).unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move { server.serve(ready_router().into_make_service()).await.unwrap() });
        Self { url, _task: task }
    }

    fn config(&self, tls: Tls) -> ClientConfig {
        ClientConfig {
            tls,
            ready_ttl: Duration::ZERO,
            retries: 0,
            ..config(&self.url)
        }
    }

    async fn ask(&self, tls: Tls) -> Result<(), String> {
        let result = Client::new(self.config(tls)).unwrap().ready().await;
        result.map(|_| ()).map_err(|error| {
            assert_eq!(error.class(), ErrorClass::Unreachable);
            error.to_string()
        })
    }
}

pub struct Files(pub TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn put(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn trusting(ca_file: &Path) -> Tls {
    Tls {
        ca_file: Some(ca_file.to_owned()),
        ..Tls::default()
    }
}

#[tokio::test]
async fn only_the_given_authority_is_trusted() {
    let (files, right, wrong) = (Files::new(), Authority::new("right"), Authority::new("wrong"));
    let server = TlsServer::start(&right.issue(&named("ironic", &["localhost"])), None);
    let right = files.put("right.pem", &right.certificate);
    let wrong = files.put("wrong.pem", &wrong.certificate);
    server.ask(trusting(&right)).await.unwrap();
    for tls in [trusting(&wrong), Tls::default()] {
        let error = server.ask(tls).await.unwrap_err();
        assert!(error.contains("certificate verify failed: unknown issuer"), "{error}");
    }
    server
        .ask(Tls {
            insecure: true,
            ..trusting(&wrong)
        })
        .await
        .unwrap();
    server
        .ask(Tls {
            insecure: true,
            ..Tls::default()
        })
        .await
        .unwrap();
}

#[tokio::test]
async fn names_and_dates_are_checked() {
    let (files, authority) = (Files::new(), Authority::new("ca"));
    let ca = files.put("ca.pem", &authority.certificate);
    let server = TlsServer::start(&authority.issue(&named("ironic", &["ironic.example"])), None);
    let error = server.ask(trusting(&ca)).await.unwrap_err();
    assert!(
        error.contains("not issued for localhost but for") && error.contains("ironic.example"),
        "{error}"
    );
    let server = TlsServer::start(&authority.issue(&expired(named("ironic", &["localhost"]))), None);
    let error = server.ask(trusting(&ca)).await.unwrap_err();
    assert!(error.contains("certificate verify failed: expired"), "{error}");
}

/// A self-signed certificate may be its own authority, but not without a look at its name and dates.
#[tokio::test]
async fn a_self_signed_certificate_vouches_for_itself() {
    let files = Files::new();
    let pair = self_signed(named("ironic", &["localhost"]));
    let server = TlsServer::start(&pair, None);
    server
        .ask(trusting(&files.put("self.pem", &pair.certificate)))
        .await
        .unwrap();
    let other = files.put("other.pem", &self_signed(named("ironic", &["localhost"])).certificate);
    server.ask(trusting(&other)).await.unwrap_err();

    let pair = self_signed(expired(named("ironic", &["localhost"])));
    let server = TlsServer::start(&pair, None);
    let error = server
        .ask(trusting(&files.put("expired.pem", &pair.certificate)))
        .await
        .unwrap_err();
    assert!(error.contains("expired"), "{error}");

    let pair = self_signed(named("ironic", &["elsewhere.example"]));
    let server = TlsServer::start(&pair, None);
    let error = server
        .ask(trusting(&files.put("name.pem", &pair.certificate)))
        .await
        .unwrap_err();
    assert!(error.contains("not issued for"), "{error}");
}

/// As a Secret of cert-manager has it: the server's certificate alone, without the authority that issued it.
#[tokio::test]
async fn a_certificate_given_as_text_vouches_for_itself_whoever_issued_it() {
    let authority = Authority::new("ca");
    let given = |pair: &Pair| Tls {
        ca_pem: Some(pair.certificate.clone()),
        ..Tls::default()
    };
    let issue = |params| authority.issue(&params);
    let right = issue(named("ironic", &["localhost"]));
    let server = TlsServer::start(&right, None);
    server.ask(given(&right)).await.unwrap();
    let other = issue(named("ironic", &["localhost"]));
    let error = server.ask(given(&other)).await.unwrap_err();
    assert!(error.contains("unknown issuer"), "{error}");

    let expired = issue(expired(named("ironic", &["localhost"])));
    let error = TlsServer::start(&expired, None).ask(given(&expired)).await.unwrap_err();
    assert!(error.contains("expired"), "{error}");
    let elsewhere = issue(named("ironic", &["elsewhere.example"]));
    let error = TlsServer::start(&elsewhere, None)
        .ask(given(&elsewhere))
        .await
        .unwrap_err();
    assert!(error.contains("not issued for"), "{error}");
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let (files, authority, clients) = (Files::new(), Authority::new("ca"), Authority::new("clients"));
    let server = TlsServer::start(&authority.issue(&named("ironic", &["localhost"])), Some(&clients));
    let ca = files.put("ca.pem", &authority.certificate);
    let error = server.ask(trusting(&ca)).await.unwrap_err();
    assert!(error.contains("TLS: the server wants a client certificate"), "{error}");

    let identity = |pair: &Pair, tls: Tls| Tls {
        client_cert_file: Some(files.put("client.pem", &pair.certificate)),
        client_key_file: Some(files.put("client.key", &pair.key)),
        ..tls
    };
    let right = clients.issue(&named("metal3", &[]));
    server.ask(identity(&right, trusting(&ca))).await.unwrap();
    server
        .ask(identity(
            &right,
            Tls {
                insecure: true,
                ..Tls::default()
            },
        ))
        .await
        .unwrap();
    let wrong = authority.issue(&named("stranger", &[]));
    let error = server.ask(identity(&wrong, trusting(&ca))).await.unwrap_err();
    assert!(error.contains("did not accept our client certificate"), "{error}");
}

/// Certificates may be rotated under a running process, and a half-written file does no harm.
#[tokio::test]
async fn changed_files_are_noticed() {
    // D2 of upstream's: the client is made anew every few seconds, with a copy of the CA in a file.
    let (files, authority, clients) = (Files::new(), Authority::new("ca"), Authority::new("clients"));
    let server = TlsServer::start(&authority.issue(&named("ironic", &["localhost"])), Some(&clients));
    let stranger = authority.issue(&named("stranger", &[]));
    let tls = Tls {
        ca_file: Some(files.put("ca.pem", &Authority::new("old").certificate)),
        client_cert_file: Some(files.put("client.pem", &stranger.certificate)),
        client_key_file: Some(files.put("client.key", &stranger.key)),
        ..Tls::default()
    };
    let client = Client::new(server.config(tls)).unwrap();
    let error = client.ready().await.unwrap_err();
    assert!(error.to_string().contains("unknown issuer"), "{error}");

    files.put("ca.pem", &authority.certificate);
    client.ready().await.unwrap_err(); // not looked at again yet
    later().await;
    let error = client.ready().await.unwrap_err();
    assert!(
        error.to_string().contains("did not accept our client certificate"),
        "{error}"
    );

    let member = clients.issue(&named("metal3", &[]));
    files.put("client.pem", &member.certificate); // does not fit the key
    later().await;
    client.ready().await.unwrap_err();
    files.put("client.key", &member.key);
    later().await;
    client.ready().await.unwrap();
    files.put("ca.pem", "-----BEGIN CERT");
    later().await;
    client.ready().await.unwrap();
}

/// Lets the time pass after which files are looked at again.
pub async fn later() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(6)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn plain_http_is_recognised() {
    let server = crate::server::Server::start(|_, _| crate::server::status(200)).await;
    let mut url = server.url.clone();
    url.set_scheme("https").unwrap();
    let error = Client::new(ClientConfig {
        retries: 0,
        ..config(&url)
    })
    .unwrap()
    .ready()
    .await
    .unwrap_err();
    assert!(
        error.to_string().contains("does the server speak plain HTTP there?"),
        "{error}"
    );
}

// OWN 31ib: files that cannot be used ended the process.
#[tokio::test]
async fn files_that_cannot_be_used_fail_calls_until_they_can() {
    let (files, authority, clients) = (Files::new(), Authority::new("ca"), Authority::new("clients"));
    let server = TlsServer::start(&authority.issue(&named("ironic", &["localhost"])), Some(&clients));
    let member = clients.issue(&named("metal3", &[]));
    let all = || {
        files.put("ca.pem", &authority.certificate);
        files.put("client.pem", &member.certificate);
        files.put("client.key", &member.key);
    };
    let path = |name: &str| Some(files.0.path().join(name));
    for insecure in [false, true] {
        for (name, words) in [
            ("ca.pem", "the CA file"),
            ("client.pem", "the client certificate file"),
            ("client.key", "the client key file"),
        ] {
            all();
            files.put(name, "hello");
            let client = Client::new(server.config(Tls {
                ca_file: path("ca.pem"),
                client_cert_file: path("client.pem"),
                client_key_file: path("client.key"),
                insecure,
                ..Tls::default()
            }))
            .unwrap();
            let error = client.ready().await.unwrap_err();
            assert_eq!(error.class(), ErrorClass::Unreachable);
            assert!(error.to_string().contains(words), "{error}");
            all();
            later().await;
            client.ready().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_file_of_authorities_counts_as_soon_as_it_exists() {
    let (files, authority) = (Files::new(), Authority::new("ca"));
    let server = TlsServer::start(&authority.issue(&named("ironic", &["localhost"])), None);
    let client = Client::new(server.config(trusting(&files.0.path().join("ca.pem")))).unwrap();
    let error = client.ready().await.unwrap_err();
    assert!(error.to_string().contains("unknown issuer"), "{error}");
    files.put("ca.pem", &authority.certificate);
    later().await;
    client.ready().await.unwrap();
    // While its Secret is replaced, the file is away. The system's authorities do not take its place.
    std::fs::remove_file(files.0.path().join("ca.pem")).unwrap();
    later().await;
    client.ready().await.unwrap();
}

#[test]
fn settings_that_cannot_be_used() {
    let refuse = |tls: Tls| {
        let url = Url::parse("https://h").unwrap();
        Client::new(ClientConfig {
            tls,
            ..ClientConfig::new(url)
        })
        .map(|_| ())
        .unwrap_err()
    };
    let text = Tls {
        ca_pem: Some("hello".to_owned()),
        ..Tls::default()
    };
    assert!(matches!(refuse(text), ConfigError::Authorities(_)));
    let half = Tls {
        client_cert_file: Some("cert.pem".into()),
        ..Tls::default()
    };
    assert!(matches!(
        refuse(half),
        ConfigError::HalfIdentity { given: "certificate" }
    ));
    let half = Tls {
        client_key_file: Some("key.pem".into()),
        ..Tls::default()
    };
    assert!(matches!(refuse(half), ConfigError::HalfIdentity { given: "key" }));
}
