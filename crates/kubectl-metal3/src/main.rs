//! The plugin's process. kubectl runs it as `kubectl metal3`.

use std::process::ExitCode;

use clap::Parser;
use kubectl_metal3::args::{Args, Command};
use kubectl_metal3::run;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Clap ends with 2, which says here that something blocks the change.
        Err(error) => {
            let is_asked_for = !error.use_stderr();
            error.print().ok();
            return if is_asked_for {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
    };
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
