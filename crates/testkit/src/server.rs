//! The API server shared by the tests of one binary.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

use anyhow::{Context, Result};
use kube::api::DynamicObject;
use metal3_api::infra::convert;
use metal3_api::rules::KEYWORD;
use metal3_lab::{ControlPlane, ControlPlaneConfig};
use metal3_runtime::webhook::Webhooks;
use serde_json::Value;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::webhooks::Served;
use crate::{fail, leaks};

/// The control plane shared by all tests of this binary, with the CRDs of `config/crd`, conversion between their versions, and an
/// audit log. The first call starts it.
///
/// It is independent of tokio runtimes; clients are not. Each test has its own runtime, so each creates its own client.
pub async fn server() -> &'static ControlPlane {
    // Never dropped: the kernel ends its programs with this process, and the next run removes its folder.
    static SERVER: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
    init();
    let start = || start(|_| {}).map_err(|err| format!("{err:#}"));
    let started = tokio::task::spawn_blocking(move || SERVER.get_or_init(start)).await;
    match started {
        Ok(Ok(server)) => {
            server
                .ensure_alive()
                .unwrap_or_else(|err| fail("the shared API server is gone", &err));
            server
        }
        Ok(Err(err)) => panic!("no API server for the tests of this binary: {err}"),
        Err(err) => panic!("the start of the API server was cut off: {err}"),
    }
}

/// Another control plane like [`server`], for tests that need two. Like that one it ends with the binary.
pub async fn another_server() -> &'static ControlPlane {
    another(|_| {}).await
}

/// The same without the rules in its definitions, as upstream's have none: what is rejected there is rejected by webhooks.
pub async fn server_without_rules() -> &'static ControlPlane {
    another(|definition| without_rules(&mut definition.data)).await
}

/// Takes the rules out of every schema of a definition.
pub fn without_rules(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove(KEYWORD);
            fields.values_mut().for_each(without_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(without_rules),
        _ => {}
    }
}

async fn another(change: fn(&mut DynamicObject)) -> &'static ControlPlane {
    init();
    match tokio::task::spawn_blocking(move || start(change)).await {
        Ok(Ok(server)) => Box::leak(Box::new(server)),
        Ok(Err(err)) => fail("no second API server", &err),
        Err(err) => panic!("the start of the second API server was cut off: {err}"),
    }
}

/// Another control plane without any definitions of ours. Like the others it ends with the binary.
pub async fn bare_server() -> &'static ControlPlane {
    init();
    match tokio::task::spawn_blocking(|| runtime()?.block_on(bare())).await {
        Ok(Ok(server)) => Box::leak(Box::new(server)),
        Ok(Err(err)) => fail("no bare API server", &err),
        Err(err) => panic!("the start of the bare API server was cut off: {err}"),
    }
}

/// Whether the shared control plane gets a kube-controller-manager.
static CONTROLLER_MANAGER: AtomicBool = AtomicBool::new(false);

/// Gives this binary's control plane a kube-controller-manager, which Cluster API's managers need. Must be called before
/// [`server`] and everything that uses it.
pub fn with_controller_manager() {
    CONTROLLER_MANAGER.store(true, Ordering::Relaxed);
}

/// A folder for the audit logs of all servers, which are checked after all tests.
const AUDIT_FOLDER: &str = "METAL3_AUDIT_FOLDER";

/// A separate file for each server of each program.
fn audit_log() -> Option<PathBuf> {
    static SERVERS: AtomicUsize = AtomicUsize::new(0);
    let folder = std::env::var_os(AUDIT_FOLDER)?;
    let (process, server) = (std::process::id(), SERVERS.fetch_add(1, Ordering::Relaxed));
    Some(Path::new(&folder).join(format!("{process}-{server}.log")))
}

/// Servers use their own runtime: that of the first test ends with that test.
fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("no runtime")
}

async fn bare() -> Result<ControlPlane> {
    ControlPlane::start(ControlPlaneConfig {
        audit: true,
        audit_log: audit_log(),
        controller_manager: CONTROLLER_MANAGER.load(Ordering::Relaxed),
        ..ControlPlaneConfig::default()
    })
    .await
}

/// The project's own definitions.
pub fn definitions() -> Result<Vec<DynamicObject>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/crd");
    metal3_lab::apply::crds_in(&folder)
}

fn start(change: fn(&mut DynamicObject)) -> Result<ControlPlane> {
    runtime()?.block_on(async {
        let server = bare().await?;
        let mut definitions = definitions()?;
        let webhooks = Served::start(Webhooks::new().convert(convert), server.authority())?;
        for definition in &mut definitions {
            webhooks.convert(definition);
            change(definition);
        }
        metal3_lab::apply::apply(&server.client().await?, &definitions, None)
            .await
            .context("the project's own definitions (cargo xtask generate writes them)")?;
        Ok(server)
    })
}

/// One-time setup of every test process: the TLS crypto provider, without which HTTP clients panic, and logs, which the test
/// harness shows for failed tests (`RUST_LOG` selects; warnings by default).
pub fn init() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Both fail only if already done elsewhere.
        rustls::crypto::ring::default_provider().install_default().ok();
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
        tracing_subscriber::registry()
            .with(tracing_subscriber::fmt::layer().with_test_writer().with_filter(filter))
            .with(leaks::search_of_logs(&leaks::LOGGED))
            .try_init()
            .ok();
    });
}
