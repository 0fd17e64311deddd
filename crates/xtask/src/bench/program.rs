//! The programs that are measured.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::process;

/// One of our programs, with its service account.
#[derive(Debug)]
pub struct Program {
    /// Its package, its executable and the file of its rights.
    pub package: &'static str,
    /// What the output calls it.
    pub name: &'static str,
    /// The namespace of its service account.
    pub namespace: &'static str,
    /// Its service account.
    pub account: &'static str,
}

/// The baremetal-operator.
pub const OPERATOR: Program = Program {
    package: "baremetal-operator",
    name: "operator",
    namespace: baremetal_operator::rbac::NAMESPACE,
    account: baremetal_operator::rbac::SERVICE_ACCOUNT,
};

/// Cluster API's infrastructure provider.
pub const PROVIDER: Program = Program {
    package: "cluster-api-provider-metal3",
    name: "provider",
    namespace: cluster_api_provider_metal3::rbac::NAMESPACE,
    account: cluster_api_provider_metal3::rbac::SERVICE_ACCOUNT,
};

/// The ip-address-manager.
pub const ADDRESS_MANAGER: Program = Program {
    package: "ip-address-manager",
    name: "ip-address-manager",
    namespace: ip_address_manager::rbac::NAMESPACE,
    account: ip_address_manager::rbac::SERVICE_ACCOUNT,
};

/// How a program is built and started.
#[derive(clap::Args)]
pub struct ProgramArgs {
    /// The program's build profile
    #[arg(long, default_value = "lab")]
    profile: String,

    /// The platform that it is built for, such as the images' x86_64-unknown-linux-musl; by default this machine's
    #[arg(long)]
    target: Option<String>,

    /// Flags for the program besides its defaults
    #[arg(last = true)]
    flags: Vec<String>,
}

/// A program that is ready to be started, once for each run.
pub struct Built {
    pub program: &'static Program,
    pub executable: PathBuf,
    /// Flags besides its defaults.
    pub flags: Vec<String>,
    runtime: tokio::runtime::Runtime,
}

impl Program {
    /// Builds it as the arguments say.
    pub fn build(&'static self, args: &ProgramArgs) -> anyhow::Result<Built> {
        self.build_as(&args.profile, args.target.as_deref(), args.flags.clone())
    }

    /// Builds it, and says what is measured and on which machine.
    pub fn build_as(&'static self, profile: &str, platform: Option<&str>, flags: Vec<String>) -> anyhow::Result<Built> {
        let executable = build(self.package, profile, platform)?;
        rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let platform = platform.unwrap_or("this machine");
        println!(
            "{}: profile {profile} for {platform}; {}",
            self.name,
            process::machine()
        );
        Ok(Built {
            program: self,
            executable,
            flags,
            runtime,
        })
    }
}

impl Built {
    /// One run, on threads that all runs share.
    pub fn run<T>(&self, run: impl Future<Output = T>) -> T {
        self.runtime.block_on(run)
    }
}

/// Builds a controller and tells where it is. With the whole workspace's choice of features, so that one build of the
/// dependencies serves every controller's benchmark.
fn build(package: &str, profile: &str, platform: Option<&str>) -> anyhow::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let status = metal3_lab::cargo::command()
        .args(["build", "--workspace", "--bin", package, "--profile", profile])
        .args(platform.iter().flat_map(|platform| ["--target", platform]))
        .current_dir(&root)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "{package} cannot be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target.join(platform.unwrap_or_default()).join(folder).join(package))
}
