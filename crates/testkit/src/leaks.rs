//! The search for secrets in what our programs emit: logs, metrics, events, and every object that they write.
//!
//! Every Secret that a test applies gets a canary. When the test's namespace is dropped, its events and its objects of our kinds
//! are searched, with status and conditions, and so is what this process has logged by then. A test without a namespace begins with
//! [`Logs::searched`], or ends with [`in_logs`] if others run beside it. Metrics, and logs of other processes, are searched by
//! [`expect_none_in`].

use std::ffi::OsString;
use std::fmt::Debug;
use std::io::{self, Write};

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope};
use memchr::memmem;
use metal3_lab::ControlPlane;
use metal3_runtime::controller::{Plan, Report};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer};

/// The prefix of every password in tests, and of the contents of user data, metadata, network data and bootstrap data.
pub const CANARY: &str = "secret-of-";

/// Forbidden texts: the canary, plain and as a header has it; and keys, including those of kubeconfigs. The same in base64, at
/// each of the three alignments, and the canary as `Debug` shows the bytes of a Secret.
const SECRETS: [&str; 10] = [
    CANARY,
    "115, 101, 99, 114, 101, 116, 45, 111, 102, 45",
    "c2VjcmV0LW9mL",
    "NlY3JldC1vZi",
    "zZWNyZXQtb2Yt",
    "YWRtaW46c2VjcmV0",
    "PRIVATE KEY",
    "UFJJVkFURSBLRV",
    "BSSVZBVEUgS0VZ",
    "QUklWQVRFIEtFW",
];

/// The groups of our kinds.
const GROUPS: [&str; 3] = ["metal3.io", "infrastructure.cluster.x-k8s.io", "ipam.metal3.io"];

/// The line with a secret, and its source.
pub fn leak(place: &str, text: &str) -> Option<String> {
    let find = |secret: &&str| memmem::find(text.as_bytes(), secret.as_bytes());
    // The first that is found: text before and after it does not matter.
    let start = SECRETS.iter().find_map(find)?;
    let begin = text[..start].rfind('\n').map_or(0, |end| end + 1);
    let end = text[start..].find('\n').map_or(text.len(), |length| start + length);
    let line = &text[begin..end];
    Some(format!("{place}: {line:.2000}"))
}

/// Fails the test if this text contains a secret.
#[track_caller]
pub fn expect_none_in(place: &str, text: &str) {
    assert_eq!(leak(place, text), None, "a secret was emitted");
}

/// Fails the test if a plan has a secret: the next status and the events, and the effects as a log would show them. So it is with what
/// this process has logged since the first call of this.
#[track_caller]
pub fn expect_none_in_plan<E: Debug, S: Debug + Serialize>(plan: &Plan<E, S>) {
    expect_none_in("a plan", &format!("{plan:?}"));
    expect_none_told(&plan.report);
}

/// The same of what is told alone.
#[track_caller]
pub fn expect_none_told<S: Serialize>(report: &Report<S>) {
    // What `Debug` hides is stored all the same.
    expect_none_in("a status", &json!(report.status).to_string());
    for event in &report.events {
        expect_none_in("an event", &event.message);
    }
    expect_none_logged();
}

/// Fails the test if this process has logged a secret since the first call of this.
#[track_caller]
pub fn expect_none_logged() {
    crate::init();
    let found = in_logs();
    assert!(found.is_empty(), "secrets were logged: {found:#?}");
}

/// Adds a canary to a Secret.
pub fn mark_secret(secret: &mut Value) {
    let mark = format!("{CANARY}{}", secret["metadata"]["name"].as_str().unwrap_or_default());
    secret["data"]["canary"] = json!(ByteString(mark.into_bytes()));
}

/// Adds a canary to an object if it is a Secret.
pub(crate) fn mark(object: &mut DynamicObject) {
    if object.types.as_ref().is_some_and(|types| types.kind == "Secret") {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        object.data["stringData"]["canary"] = format!("{CANARY}{name}").into();
    }
}

/// The secrets in the events and in the objects of our kinds in a namespace.
pub async fn in_namespace(client: Client, namespace: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    for event in events.list(&ListParams::default()).await?.items {
        found.extend(leak("an event", &serde_json::to_string(&event)?));
    }
    let discovered = Discovery::new(client.clone()).filter(&GROUPS).run().await?;
    for group in discovered.groups() {
        let kinds = group.recommended_resources().into_iter();
        for (kind, _) in kinds.filter(|(_, capabilities)| capabilities.scope == Scope::Namespaced) {
            let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
            for object in objects.list(&ListParams::default()).await? {
                let place = format!("{} {:?}", kind.kind, object.metadata.name);
                found.extend(leak(&place, &serde_json::to_string(&object)?));
            }
        }
    }
    Ok(found)
}

/// A layer of logs that keeps every line with a secret, of every level that a user can choose.
pub(crate) fn search_of_logs<S>(found: &'static Found) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let filter = EnvFilter::new(all_of_ours("warn"));
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(found);
    layer.with_filter(filter)
}

/// A filter of logs that keeps everything that our code logs, and what others log from a level on.
fn all_of_ours(others: &str) -> String {
    let ours = [
        "baremetal_operator",
        "cluster_api_provider_metal3",
        "ip_address_manager",
        "metal3_ironic",
        "metal3_runtime",
    ];
    format!("{others},{}=debug", ours.join("=debug,"))
}

/// Makes a program of ours log everything that a user can have it log, for the search of its log.
pub fn log_everything() -> (OsString, OsString) {
    ("RUST_LOG".into(), all_of_ours("info").into())
}

/// Logged lines with a secret.
#[derive(Default)]
pub(crate) struct Found(Mutex<Vec<String>>);

/// What this process has logged.
pub(crate) static LOGGED: Found = Found(Mutex::new(Vec::new()));

/// The secrets that this process has logged since [`crate::init`] and since somebody last asked, also in tests that run beside this
/// one.
#[must_use]
pub fn in_logs() -> Vec<String> {
    LOGGED.take()
}

/// What this process logs, for tests without a namespace. They run one at a time.
#[must_use]
#[derive(Debug)]
pub struct Logs(());

impl Logs {
    /// Begins the search, and fails the test if it would find nothing.
    #[track_caller]
    pub fn searched() -> Self {
        crate::init();
        LOGGED.take();
        tracing::warn!(target: "metal3_runtime::leaks", "{CANARY}this search: it finds what is logged");
        assert_eq!(LOGGED.take().len(), 1, "the log of this process is not searched");
        Self(())
    }

    /// Fails the test if a secret was logged since.
    #[track_caller]
    pub fn expect_none(&self) {
        let found = LOGGED.take();
        assert!(found.is_empty(), "secrets were logged: {found:#?}");
    }
}

impl Found {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl Write for &Found {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let leak = leak("the log", &String::from_utf8_lossy(line));
        self.0.lock().extend(leak);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for &'static Found {
    type Writer = Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// Searches a namespace when it is dropped, unless the test has failed already.
pub(crate) struct Search {
    pub namespace: String,
    pub server: &'static ControlPlane,
}

impl Search {
    fn search(&self) -> Result<Vec<String>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // The clients of a test belong to its runtime.
        runtime.block_on(async { in_namespace(self.server.client().await?, &self.namespace).await })
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // A test drops its namespace within a runtime, which must not be blocked.
        let searched = std::thread::scope(|scope| scope.spawn(|| self.search()).join());
        let searched = searched.unwrap_or_else(|_| Err(anyhow::anyhow!("the search was cut off")));
        let found = searched.context("cannot search for secrets");
        let mut found = found.unwrap_or_else(|error| vec![format!("{error:#}")]);
        found.extend(LOGGED.take());
        assert!(
            found.is_empty(),
            "secrets were emitted in {}: {found:#?}",
            self.namespace
        );
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    // OWN 29k: there was no search for user data, metadata, network data and keys in kubeconfigs.
    #[test]
    fn a_secret_is_found_however_it_is_written() {
        for text in [
            "password secret-of-node-0",
            "# secret-of-user-data in a config drive",
            // "a: secret-of-x", ": secret-of-x" and " secret-of-x" in base64.
            "YTogc2VjcmV0LW9mLXg=",
            "OiBzZWNyZXQtb2YteA==",
            "IHNlY3JldC1vZi14",
            "-----BEGIN PRIVATE KEY-----",
            "client-key-data: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0t",
        ] {
            assert!(leak("a log", &format!("one\n{text}\ntwo")).is_some(), "{text}");
        }
        assert_eq!(leak("a log", "Secret n/secret of a host"), None);
    }

    // OWN 30sb: tests of a single program with the API server searched for no secrets.
    #[test]
    fn a_secret_is_found_in_the_log() {
        static FOUND: Found = Found(Mutex::new(Vec::new()));
        let subscriber = tracing_subscriber::registry().with(search_of_logs(&FOUND));
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "metal3_runtime::test", "all is well");
            tracing::debug!(target: "metal3_runtime::test", password = "secret-of-a-test", "a leak");
        });
        let found = FOUND.take();
        assert!(matches!(&*found, [line] if line.contains("a leak")), "{found:?}");
    }
}
