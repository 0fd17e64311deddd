//! `config/webhook`: the webhook configurations.

use std::path::Path;

use super::files::{Files, documents};
use crate::install::program;

/// Where the files are.
pub const FOLDER: &str = "config/webhook";

/// The manifests of each program's webhooks.
pub fn files() -> anyhow::Result<Files> {
    let file = |program: &program::Program| {
        let source = format!("crates/{}/src/webhooks", program.folder);
        let path = Path::new(FOLDER).join(format!("{}.yaml", program.name));
        Ok((path, documents(&source, &program.webhooks)?))
    };
    program::all().iter().map(file).collect()
}
