//! The baremetal-operator's process.

use baremetal_operator::{args::Args, run::run};
use metal3_runtime::args;

#[tokio::main]
async fn main() {
    let args: Args = args::parse().unwrap_or_else(|error| error.exit());
    // The only cryptography provider of this process; clients cannot be built without it.
    rustls::crypto::ring::default_provider().install_default().ok();
    if let Err(error) = run(args).await {
        tracing::error!(error = %metal3_runtime::error::chain(&*error), "ended");
        eprintln!("baremetal-operator: {error:#}");
        // Exit instead of returning: a hanging task would keep the runtime from closing.
        std::process::exit(1);
    }
}
