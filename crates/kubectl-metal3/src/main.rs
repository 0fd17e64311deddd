//! The plugin's process. kubectl runs it as `kubectl metal3`.

use std::process::ExitCode;

use clap::Parser;
use kubectl_metal3::args::{Args, Command};
use kubectl_metal3::run;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    // The process-wide TLS crypto provider; clients require it.
    rustls::crypto::ring::default_provider().install_default().ok();
    let Command::CheckMigration(check) = &args.command;
    match run::check(&args, check).await {
        Ok(report) => {
            print!("{}", check.output.print(&report));
            if report.blockers.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(2)
            }
        }
        Err(error) => {
            eprintln!("kubectl-metal3: {error:#}");
            ExitCode::FAILURE
        }
    }
}
