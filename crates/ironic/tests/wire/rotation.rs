//! Our own credentials are exchanged while the client is in use.

use parking_lot::Mutex;
use std::sync::Arc;

use metal3_ironic::{Auth, Client, ClientConfig, CreateNode, ErrorClass, Url};
use serde_json::json;

use crate::secrets::{Log, assert_clean};
use crate::server::{Server, fault, respond};
use crate::tls::{Files, later};

/// A password, and the header that it makes for the user `metal3`.
struct Password(&'static str, &'static str);

const FIRST: Password = Password("correct-horse", "Basic bWV0YWwzOmNvcnJlY3QtaG9yc2U=");
const SECOND: Password = Password("second-horse", "Basic bWV0YWwzOnNlY29uZC1ob3JzZQ==");
const THIRD: Password = Password("third-horse", "Basic bWV0YWwzOnRoaXJkLWhvcnNl");

/// An Ironic whose password can be changed at any time.
struct Guarded {
    server: Server,
    header: Arc<Mutex<&'static str>>,
}

impl Guarded {
    async fn start() -> Self {
        let header = Arc::new(Mutex::new(FIRST.1));
        let expected = header.clone();
        let server = Server::start(move |seen, _| {
            if seen.header("authorization") != Some(*expected.lock()) {
                return fault(401, "Incorrect username or password");
            }
            match seen.method.as_str() {
                "POST" => respond(201, &json!({"uuid": "u", "driver": "redfish"})),
                _ => respond(200, &json!({"nodes": []})),
            }
        })
        .await;
        Self { server, header }
    }

    fn wants(&self, password: &Password) {
        *self.header.lock() = password.1;
    }

    /// How many requests there were since the last call of this.
    fn asked(&self, before: &mut usize) -> usize {
        let all = self.server.seen().len();
        all - std::mem::replace(before, all)
    }
}

fn client(url: &Url, files: &Files) -> Client {
    // As an editor leaves it, and as the kubelet does.
    let username = files.put("username", "metal3\n");
    let password = files.put("password", FIRST.0);
    let auth = Auth::Files { username, password };
    Client::new(ClientConfig {
        auth,
        ..ClientConfig::new(url.clone())
    })
    .unwrap()
}

#[tokio::test]
async fn exchanged_credentials_are_taken_up_at_once_or_within_seconds() {
    let (log, guard) = Log::caught();
    let (ironic, files) = (Guarded::start().await, Files::new());
    let (client, mut before) = (client(&ironic.server.url, &files), 0);
    client.nodes().await.unwrap();
    assert_eq!(ironic.asked(&mut before), 1);

    // Together with Ironic's: whoever calls first is refused, and does not get to know of it.
    ironic.wants(&SECOND);
    files.put("password", SECOND.0);
    let node = CreateNode {
        driver: "redfish".to_owned(),
        ..CreateNode::default()
    };
    client.create_node(&node).await.unwrap();
    assert_eq!(ironic.asked(&mut before), 2, "refused once, and made once");
    client.nodes().await.unwrap();
    assert_eq!(ironic.asked(&mut before), 1);

    // Ironic's first: nothing helps until the file follows, and nothing is repeated.
    ironic.wants(&THIRD);
    let error = client.nodes().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Unauthorized);
    assert_eq!(ironic.asked(&mut before), 1);
    // Half written, or gone for a moment.
    files.put("password", "");
    client.nodes().await.unwrap_err();
    std::fs::remove_file(files.put("password", "")).unwrap();
    client.nodes().await.unwrap_err();
    assert_eq!(ironic.asked(&mut before), 2);
    files.put("password", THIRD.0);
    client.nodes().await.unwrap();
    assert_eq!(ironic.asked(&mut before), 2);

    // Ours first: it is refused from the next look on, until Ironic follows.
    files.put("password", SECOND.0);
    client.nodes().await.unwrap();
    later().await;
    client.nodes().await.unwrap_err();
    ironic.wants(&SECOND);
    client.nodes().await.unwrap();

    // What cannot be used is told once, and what was there stays in use.
    files.put("password", "");
    for _ in 0..3 {
        later().await;
        client.nodes().await.unwrap();
    }
    drop(guard);
    let shown = format!("{client:?} {error} {error:?}");
    let log = log.text();
    for text in [&shown, &log] {
        assert_clean(text);
        assert!(!text.contains(SECOND.0) && !text.contains(THIRD.0), "{text}");
    }
    assert_eq!(log.matches("credentials for Ironic have changed").count(), 3, "{log}");
    assert_eq!(
        log.matches("keeping the former").count(),
        3,
        "empty, gone, empty: {log}"
    );
    assert!(log.contains("password is empty"), "{log}");
}

// OWN 31ib: an empty file ended the process, as the folder did that the kubelet makes for a Secret that does not exist.
#[tokio::test]
async fn credentials_that_cannot_be_used_fail_calls_until_they_can() {
    let (log, guard) = Log::caught();
    let (ironic, files) = (Guarded::start().await, Files::new());
    let mut before = 0;
    for (username, password, words) in [
        ("metal3", None, "password file"),
        ("metal3", Some(" \n"), "password is empty"),
        ("", Some(FIRST.0), "username is empty"),
        ("a:b", Some(FIRST.0), "a user name with a colon cannot be sent"),
    ] {
        let path = files.put("password", password.unwrap_or_default());
        if password.is_none() {
            std::fs::remove_file(&path).unwrap();
        }
        let auth = Auth::Files {
            username: files.put("username", username),
            password: path,
        };
        let client = Client::new(ClientConfig {
            auth,
            ..ClientConfig::new(ironic.server.url.clone())
        })
        .unwrap();
        for _ in 0..2 {
            let error = client.nodes().await.unwrap_err();
            assert_eq!(error.class(), ErrorClass::Unauthorized);
            assert!(error.to_string().contains(words), "{error}");
            later().await;
        }
        assert_eq!(ironic.asked(&mut before), 0, "nothing is sent");
        files.put("username", "metal3");
        files.put("password", FIRST.0);
        client.nodes().await.unwrap();
        assert_eq!(ironic.asked(&mut before), 1);
    }
    drop(guard);
    let log = log.text();
    assert_eq!(log.matches("no calls are made until they can").count(), 4, "{log}");
    assert_eq!(log.matches("credentials for Ironic have changed").count(), 4, "{log}");
}

#[tokio::test]
async fn without_files_of_credentials_none_are_sent_until_there_are_some() {
    let (ironic, files) = (Guarded::start().await, Files::new());
    let auth = Auth::Files {
        username: files.0.path().join("username"),
        password: files.0.path().join("password"),
    };
    let client = Client::new(ClientConfig {
        auth,
        ..ClientConfig::new(ironic.server.url.clone())
    })
    .unwrap();
    let error = client.nodes().await.unwrap_err();
    assert_eq!(error.status(), Some(401));
    let seen = ironic.server.seen();
    assert!(seen.iter().all(|request| request.header("authorization").is_none()));
    files.put("username", "metal3");
    files.put("password", FIRST.0);
    client.nodes().await.unwrap();
}
