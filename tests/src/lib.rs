//! Shared by the scenarios: an environment with a namespace on a real API server, a real Ironic, and the operator as its users
//! run it: in its own process, as a service account with the rights of `config/rbac`.
//!
//! ```text
//!   scenario ──▶ TestEnv ── namespace::… objects as a user writes and reads them ──▶ API server (one for each binary)
//!                  ├──── operator process, killed and started at will
//!                  └──── IronicLab: a Pool's that scenarios share, or one of its own where it is to break
//! ```

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a library of assertions: to panic is how they fail a test"
)]

mod admission;
pub mod announced;
mod backend;
mod claims;
mod clusters;
mod env;
mod fleet;
mod inventory;
pub mod kubectl;
mod leaks;
mod lone_machines;
mod machines;
mod metal;
mod pool;
mod seen;
mod tunnel;
mod unsteady;
mod usual;

use std::any::type_name;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

pub use admission::admit;
pub use backend::description;
pub use claims::{Claims, GAP, Seen};
pub use clusters::{ClusterEnv, Kind};
pub use env::TestEnv;
pub use fleet::{FleetEnv, PASSWORD, USER};
pub use inventory::{Inventory, differences};
pub use lone_machines::{ShakyProvider, delete_machine, make_cluster, make_machine};
pub use metal::{MetalEnv, PATIENCE};
pub use pool::Pool;
pub use seen::{
    condition, id, is_at_rest, is_available_and_on, is_running, state, status, version, waits, waits_for_nothing,
};
pub use tunnel::Tunnel;
pub use unsteady::{Trouble, UnsteadyApi};
pub use usual::{at_once, deployed_at_once, network_ramdisk, over_network, power_compared_often, without_retries};

/// The timeout of anything that happens by itself. Ironic on a busy machine is slow; success is noticed at once.
pub const LIMIT: Duration = Duration::from_secs(240);

/// Runs a scenario and prints its duration. All scenarios of a binary share one runtime, because they share clients of one
/// Ironic.
pub fn run<S: Future<Output = ()>>(scenario: S) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));
    let name = metal3_testkit::test_name(type_name::<S>());
    let start = Instant::now();
    if let Err(failure) = catch_unwind(AssertUnwindSafe(|| RUNTIME.block_on(scenario))) {
        // Repeated below the logs printed while unwinding, because readers look at the end of a long output.
        let said = failure.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| failure.downcast_ref::<&str>().copied());
        println!("{name} failed: {}", said.unwrap_or("see above"));
        resume_unwind(failure);
    }
    println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
}

/// The operator's program, see [`program`].
pub fn operator_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| program("baremetal-operator"))
}

/// One of our programs: the file named by a variable such as `BAREMETAL_OPERATOR_PROGRAM`, otherwise built from this tree.
pub fn program(name: &str) -> PathBuf {
    let variable = format!("{}_PROGRAM", name.to_uppercase().replace('-', "_"));
    if let Some(program) = std::env::var_os(variable) {
        return program.into();
    }
    let status = metal3_lab::cargo::command()
        // With xtask, every dependency has the same features as in the tests, so none is built twice.
        .args([
            "build",
            "--quiet",
            "--package",
            "xtask",
            "--package",
            name,
            "--bin",
            name,
        ])
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "{name} can be built");
    // Tests run from target/<profile>/deps.
    let target = std::env::current_exe().expect("this program has a path");
    let profile = target.ancestors().nth(2).expect("it lies in the target folder");
    profile.join(name)
}
