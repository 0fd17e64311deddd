//! `cargo xtask image`: the image that servers boot where they really boot.

use std::process::ExitCode;

use anyhow::Result;
use metal3_lab::image;

use crate::lab;

/// Arguments of `cargo xtask image`.
#[derive(clap::Args)]
pub struct Args {
    /// Fetch all packages again, and write their present versions to lab/node/image/packages.lock
    #[arg(long)]
    refresh: bool,
}

/// Makes the image if it is not there yet, and says where it is.
pub fn run(args: &Args) -> ExitCode {
    lab::or_tell(make(args))
}

fn make(args: &Args) -> Result<ExitCode> {
    let image = if args.refresh {
        image::refresh()?
    } else {
        image::ensure()?
    };
    println!("Kubernetes {} in {}", image.version, image.tree.display());
    Ok(ExitCode::SUCCESS)
}
