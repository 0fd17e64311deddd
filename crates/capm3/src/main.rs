//! The infrastructure provider's process.

use cluster_api_provider_metal3::{args::Args, run::run};
use metal3_runtime::args;

#[tokio::main]
async fn main() {
    let args: Args = args::parse().unwrap_or_else(|error| error.exit());
    // The process-wide TLS crypto provider; clients require it.
    rustls::crypto::ring::default_provider().install_default().ok();
    if let Err(error) = run(args.unified()).await {
        tracing::error!(error = %metal3_runtime::error::chain(&*error), "ended");
        eprintln!("cluster-api-provider-metal3: {error:#}");
        // Exit explicitly: on return, a hanging task would keep the runtime from shutting down.
        std::process::exit(1);
    }
}
