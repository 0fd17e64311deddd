//! The simulator as a program: `ironic-sim --servers 1000 --quick`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use metal3_ironic_sim::{ApiServer, Config, Credentials, Identity, Pace, Sim, Timings};

/// A simulated Ironic. Its own API is below `/sim/`.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:6385")]
    address: SocketAddr,

    /// How many servers there are to enroll
    #[arg(long, default_value_t = 100)]
    servers: u32,

    /// So many simulated seconds in one second
    #[arg(long, default_value_t = 1.0)]
    times: f64,

    /// Everything takes some tens of milliseconds
    #[arg(long)]
    quick: bool,

    /// The seed of everything that is random
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// User name for HTTP basic authentication
    #[arg(long, requires = "password")]
    username: Option<String>,

    /// Password for HTTP basic authentication
    #[arg(long, env = "IRONIC_SIM_PASSWORD", requires = "username")]
    password: Option<String>,

    /// PEM file with the certificate, for TLS
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,

    /// PEM file with its key
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,

    /// The newest API version, as its minor number
    #[arg(long, default_value_t = 115)]
    max_version: u16,
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    rustls::crypto::ring::default_provider().install_default().ok(); // fails if there is one, which is as well
    tracing_subscriber::fmt().init();
    let credentials = cli.username.zip(cli.password);
    #[expect(
        clippy::disallowed_methods,
        reason = "the program's one look at the clock; everything else counts from it"
    )]
    let begin = jiff::Timestamp::now();
    let sim = Sim::new(Config {
        servers: cli.servers,
        credentials: credentials.map(|(username, password)| Credentials::new(username, password)),
        pace: Pace::Times(cli.times),
        timings: if cli.quick {
            Timings::quick()
        } else {
            Timings::measured()
        },
        seed: cli.seed,
        begin,
        max_version: cli.max_version,
        ..Config::default()
    });
    let read = |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let identity = match (&cli.certificate, &cli.key) {
        (Some(certificate), Some(key)) => Some(Identity {
            certificate: read(certificate)?,
            key: read(key)?,
        }),
        _ => None,
    };
    let server = ApiServer::start(&sim, cli.address, identity.as_ref()).await?;
    tracing::info!(url = server.url(), servers = cli.servers, "a simulated Ironic serves");
    tokio::signal::ctrl_c().await.context("cannot wait for a signal")?;
    server.stop().await;
    Ok(())
}
