//! `config/rbac`: the programs' permissions.

use std::path::Path;

use super::files::{Files, documents};
use crate::install::program;

/// Where the files are.
pub const FOLDER: &str = "config/rbac";

/// The manifests of each program's permissions.
pub fn files() -> anyhow::Result<Files> {
    let mut files = Files::new();
    for program in program::all() {
        let rights = &program.rights;
        let sets = [
            ("", &rights.base),
            ("secrets-in-one-namespace", &rights.secrets_in_one_namespace),
            ("secrets-in-all-namespaces", &rights.secrets_in_all_namespaces),
            ("secrets-by-name", &rights.secrets_by_name),
        ];
        for (set, objects) in sets.into_iter().filter(|(_, objects)| !objects.is_empty()) {
            let source = format!("crates/{}/src/rbac.rs", program.folder);
            let path = Path::new(FOLDER).join(set).join(format!("{}.yaml", program.name));
            files.insert(path, documents(&source, objects)?);
        }
    }
    Ok(files)
}
