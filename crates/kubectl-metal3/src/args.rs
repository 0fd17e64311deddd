//! The command line.

use clap::{Parser, Subcommand};

use crate::migration::change::{Direction, With};
use crate::migration::report::Output;

/// Looks at the Metal3 of a cluster
#[derive(Clone, Debug, Parser)]
#[command(name = "kubectl-metal3", bin_name = "kubectl metal3", version)]
pub struct Args {
    /// Path of a kubeconfig file; without it KUBECONFIG or the user's default is taken
    #[arg(long, global = true)]
    pub kubeconfig: Option<String>,
    /// The context of the kubeconfig; without it the current one
    #[arg(long, global = true)]
    pub context: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Says what a change from upstream's Metal3 to this one will meet, and the commands to run. It changes nothing, and reads no
    /// Secret. Ends with 0 if nothing blocks the change, 2 if something does, 1 if it could not look
    CheckMigration(CheckMigration),
}

/// What change is planned.
#[derive(Clone, Debug, clap::Args)]
pub struct CheckMigration {
    /// Check the way back: from this Metal3 to upstream's
    #[arg(long)]
    pub back: bool,
    /// What installs the programs
    #[arg(long, value_enum, default_value_t = With::Helm)]
    pub with: With,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

impl CheckMigration {
    /// Which way.
    pub fn direction(&self) -> Direction {
        if self.back { Direction::Back } else { Direction::Here }
    }
}
