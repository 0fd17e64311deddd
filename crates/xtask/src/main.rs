//! Developer commands of this repository: `cargo xtask --help`.

mod bench;
mod book;
mod demo;
mod fuzz;
mod generate;
mod image;
mod install;
mod lab;
mod mutants;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Generates, checks and runs what belongs to this repository")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Benchmarks the controllers and compares with upstream's figures; takes minutes
    Bench(bench::Args),
    /// Takes a Cluster from nothing to Machines, servers and Nodes and back in a lab of its own; the first time it builds for
    /// minutes
    Demo(demo::Args),
    /// Writes the files of a release into a folder: manifests, artefacts for clusterctl, the Helm chart, checksums
    Dist(install::dist::Args),
    /// Makes a website of the documents, and checks the links between its pages; the first time it builds mdBook for minutes
    Docs(book::Args),
    /// Searches for inputs that break what must hold for every input; needs cargo-fuzz and a nightly compiler, takes an hour
    Fuzz(fuzz::Args),
    /// Writes the files generated from Rust code: CRDs, RBAC and reference pages
    Generate(generate::Args),
    /// Makes the image of servers that really boot: Debian's packages, Kubernetes and its images; needs root
    Image(image::Args),
    /// Manages labs in the background: Kubernetes, Ironic with simulated servers, the operator
    Lab(lab::Args),
    /// Runs mutation tests: makes small changes to pure decisions and checks that a test fails; takes an hour
    Mutants(mutants::Args),
    /// Runs every test, cheapest first
    Test(test::Args),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Bench(args) => bench::run(&args)?,
        Command::Demo(args) => return Ok(demo::run(&args)),
        Command::Dist(args) => install::dist::run(&args)?,
        Command::Docs(args) => book::run(&args)?,
        Command::Fuzz(args) => return fuzz::run(&args),
        Command::Generate(args) => generate::run(&args)?,
        Command::Image(args) => return Ok(image::run(&args)),
        Command::Lab(args) => return Ok(lab::run(&args)),
        Command::Mutants(args) => return mutants::run(&args),
        Command::Test(args) => return test::run(&args),
    }
    Ok(ExitCode::SUCCESS)
}
