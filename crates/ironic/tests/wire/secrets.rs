//! Nothing secret in errors, `Debug` output or logs, those of the HTTP library included.

use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

use metal3_ironic::{Auth, Client, ClientConfig, ConfigError, CreateNode, PatchOp, ProvisionRequest, Url, Verb};
use rstest::rstest;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::server::{PASSWORD, Server, fault};

const BMC_PASSWORD: &str = "battery-staple";
const USER_DATA: &str = "#cloud-config\nssh_key: tr0ub4dor\n";

/// What is logged, down to the last detail.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    /// Catches what this thread logs while the guards are held.
    pub fn caught() -> (Self, [Box<dyn std::any::Any>; 2]) {
        let log = Self::default();
        // With one subscriber alone, an event that another test's thread meets first counts as unwanted in all threads.
        let other = tracing::Dispatch::new(tracing_subscriber::registry());
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(log.clone());
        let guard = tracing::subscriber::set_default(subscriber.finish());
        (log, [Box::new(other), Box::new(guard)])
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

pub fn assert_clean(text: &str) {
    // Both credentials in base64, as the header has them.
    for secret in [PASSWORD, BMC_PASSWORD, "tr0ub4dor", "bWV0YWwzOmNvcnJlY3QtaG9yc2U="] {
        assert!(!text.contains(secret), "{secret} is in: {text}");
    }
}

#[tokio::test]
async fn nothing_secret_gets_out() {
    let (log, guard) = Log::caught();

    // Ironic quotes what it does not understand.
    let server =
        Server::start(|seen, _| fault(400, &format!("Couldn't apply patch '{}'. Reason: no", seen.body))).await;
    let client = server.client();
    let info = json!({"redfish_password": BMC_PASSWORD, "redfish_username": "admin"});
    let ops = [
        PatchOp::add("/driver_info/ipmi_password", BMC_PASSWORD),
        PatchOp::add("/driver_info", info.clone()),
    ];
    let node = CreateNode {
        driver_info: serde_json::from_value(info).unwrap(),
        ..CreateNode::default()
    };
    let drive = json!({"user_data": USER_DATA, "meta_data": {"name": "host-0"}});
    let request = ProvisionRequest {
        configdrive: Some(drive),
        ..Verb::Active.into()
    };
    let errors = [
        client.patch_node("u", &ops).await.unwrap_err(),
        client.create_node(&node).await.unwrap_err(),
        client.provision("u", &request).await.unwrap_err(),
    ];
    drop(guard);
    for error in &errors {
        assert_clean(&format!("{error} {error:?}"));
        assert!(error.to_string().contains("Couldn't apply patch"), "{error}");
    }
    assert!(errors[0].to_string().contains("******"), "{}", errors[0]);
    assert_clean(&format!(
        "{client:?} {ops:?} {node:?} {request:?} {:?}",
        server.config()
    ));
    let log = log.text();
    assert!(log.contains("patch_node"), "the log was not caught: {log}");
    assert_clean(&log);
}

#[rstest]
#[case("ftp://h/", "http or https")]
#[case("http://user:correct-horse@h/", "credentials")]
#[case("http://user@h/", "credentials")]
#[case("http://h/v1?x=1", "after the path")]
#[case("http://h/v1#x", "after the path")]
fn endpoints_that_cannot_be_used(#[case] endpoint: &str, #[case] words: &str) {
    let config = ClientConfig::new(Url::parse(endpoint).unwrap());
    assert_clean(&format!("{config:?}"));
    let error = Client::new(config).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
    assert_clean(&error);
}

#[test]
fn settings_that_cannot_be_used() {
    let config = ClientConfig::new(Url::parse("http://h").unwrap());
    let basic = |username: &str, password: &str| Auth::Basic {
        username: username.to_owned(),
        password: password.to_owned(),
    };
    for auth in [basic("", "x"), basic("x", ""), basic("a:b", "x")] {
        let error = Client::new(ClientConfig { auth, ..config.clone() }).unwrap_err();
        assert!(matches!(error, ConfigError::Credentials(_)), "{error}");
    }
    let zero = std::time::Duration::ZERO;
    for config in [
        ClientConfig {
            timeout: zero,
            ..config.clone()
        },
        ClientConfig {
            connect_timeout: zero,
            ..config.clone()
        },
        ClientConfig {
            bmc_timeout: zero,
            ..config.clone()
        },
        ClientConfig {
            max_concurrent: 0,
            ..config.clone()
        },
        ClientConfig {
            page_limit: 0,
            ..config.clone()
        },
    ] {
        assert!(matches!(Client::new(config).unwrap_err(), ConfigError::Zero(_)));
    }
    let error = Client::new(ClientConfig {
        user_agent: "a\nb".to_owned(),
        ..config
    })
    .unwrap_err();
    assert!(matches!(error, ConfigError::UserAgent(_)), "{error}");
}
