//! kubectl, as users run it.

use std::path::PathBuf;
use std::process::Output;

use metal3_lab::binaries;
use metal3_testkit::TestNamespace;
use tokio::process::Command;
use tokio::time::timeout;

use crate::LIMIT;

/// The version of the infrastructure kinds that is served but not stored.
pub const CONVERTED: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
/// The version that is stored.
pub const STORED: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

/// kubectl in a namespace that is its own, as a user's context has it: manifests may name another one.
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Whom the requests are made as; an administrator without it.
    user: Option<String>,
    /// A folder of its own; it need not exist.
    pub folder: PathBuf,
    /// The namespace.
    pub namespace: String,
}

impl Kubectl {
    /// An administrator's.
    pub async fn new(namespace: &TestNamespace) -> Self {
        let found = tokio::task::spawn_blocking(binaries::ensure_complete).await;
        let found = found.expect("no panic").expect("kubectl is built");
        let folder = namespace.server().folder();
        let kubeconfig = folder.join(format!("{}.kubeconfig", namespace.name));
        std::fs::copy(namespace.server().admin_kubeconfig(), &kubeconfig).expect("a kubeconfig");
        let kubectl = Self {
            program: found.kubectl.expect("it is one of the programs"),
            kubeconfig,
            user: None,
            folder: folder.join(format!("{}.kubectl", namespace.name)),
            namespace: namespace.name.clone(),
        };
        kubectl
            .expect(&["config", "set-context", "--current", "--namespace", &namespace.name])
            .await;
        kubectl
    }

    /// The same of a user with rights of its own.
    #[must_use]
    pub fn of_user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// What it prints. Fails the test if it fails, or is warned.
    pub async fn expect(&self, arguments: &[&str]) -> String {
        self.run(arguments).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// What it prints.
    ///
    /// # Errors
    ///
    /// It fails, takes too long, or prints a warning of the API server that is not [`is_expected`].
    pub async fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.arg("--cache-dir").arg(&self.folder);
        command.args(self.user.iter().flat_map(|user| ["--as", user]));
        let run = command.args(arguments).kill_on_drop(true).output();
        let what = format!("kubectl {}", arguments.join(" "));
        let ended = timeout(LIMIT, run).await;
        let ended = ended.map_err(|_| format!("{what}: no end after {LIMIT:?}"))?;
        let Output { status, stdout, stderr } = ended.map_err(|error| format!("{what}: {error}"))?;
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        let is_warned = err
            .lines()
            .any(|line| line.starts_with("Warning:") && !is_expected(line));
        if status.success() && !is_warned {
            Ok(out.into_owned())
        } else {
            Err(format!("{what}: {status}\n{out}\n{err}"))
        }
    }
}

/// Whether a warning says that version v1beta1 of a kind is deprecated, and nothing else, or is one of our webhooks: some
/// manifests are valid and pointless, and some kinds have no controller yet.
fn is_expected(warning: &str) -> bool {
    let said = warning.strip_prefix(&format!("Warning: {CONVERTED} "));
    let is_about_a_deprecated_version = said
        .and_then(|said| said.split_once(' '))
        .is_some_and(|(kind, rest)| rest == format!("is deprecated; use {STORED} {kind}"));
    is_about_a_deprecated_version
        || ["Warning: spec.", "Warning: metadata.annotations[", "Warning: kind: "]
            .iter()
            .any(|start| warning.starts_with(start))
}
