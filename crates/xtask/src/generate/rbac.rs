//! `config/rbac`: the controllers' RBAC.

use std::path::PathBuf;

use super::files::{Files, documents};

/// Where the files are.
pub const FOLDER: &str = "config/rbac";

/// The manifests of each component's rights.
pub fn files() -> anyhow::Result<Files> {
    let components = [
        (
            "baremetal-operator",
            "baremetal-operator",
            baremetal_operator::rbac::objects(),
        ),
        ("ip-address-manager", "ipam", ip_address_manager::rbac::objects()),
        (
            "cluster-api-provider-metal3",
            "capm3",
            cluster_api_provider_metal3::rbac::objects(),
        ),
    ];
    let mut files = Files::new();
    for (name, folder, objects) in components {
        let sets = [
            ("", objects.base),
            ("secrets-in-one-namespace", objects.secrets_in_one_namespace),
            ("secrets-in-all-namespaces", objects.secrets_in_all_namespaces),
        ];
        for (set, objects) in sets.into_iter().filter(|(_, objects)| !objects.is_empty()) {
            let text = documents(&format!("crates/{folder}/src/rbac.rs"), &objects)?;
            files.insert(PathBuf::from(FOLDER).join(set).join(format!("{name}.yaml")), text);
        }
    }
    Ok(files)
}
