//! `config/webhook`: the webhook configurations.

use std::path::PathBuf;

use super::files::{Files, documents};

/// Where the files are.
pub const FOLDER: &str = "config/webhook";

/// The manifests of each component's webhooks.
pub fn files() -> anyhow::Result<Files> {
    use {cluster_api_provider_metal3::webhooks as capm3, ip_address_manager::webhooks as ipam};
    let components = [
        ("ip-address-manager", "ipam", ipam::INSTALLED.objects(&ipam::all())),
        (
            "cluster-api-provider-metal3",
            "capm3",
            capm3::installed::INSTALLED.objects(&capm3::all()),
        ),
    ];
    let mut files = Files::new();
    for (name, folder, objects) in components {
        let text = documents(&format!("crates/{folder}/src/webhooks"), &objects)?;
        files.insert(PathBuf::from(FOLDER).join(format!("{name}.yaml")), text);
    }
    Ok(files)
}
