//! `config/webhook`: the webhook configurations.

use std::path::PathBuf;

use super::files::Files;

/// Where the files are.
pub const FOLDER: &str = "config/webhook";

/// The manifests of each component's webhooks.
pub fn files() -> anyhow::Result<Files> {
    use {
        baremetal_operator::webhooks as operator, cluster_api_provider_metal3::webhooks as capm3,
        ip_address_manager::webhooks as ipam,
    };
    let components = [
        (
            "baremetal-operator",
            "baremetal-operator",
            operator::INSTALLED.objects(&operator::all(|_| Ok(Vec::new()))),
        ),
        ("ip-address-manager", "ipam", ipam::INSTALLED.objects(&ipam::all())),
        (
            "cluster-api-provider-metal3",
            "capm3",
            capm3::installed::INSTALLED.objects(&capm3::all()),
        ),
    ];
    let mut files = Files::new();
    for (name, folder, objects) in components {
        let mut text = format!("# Made by `cargo xtask generate` from crates/{folder}/src/webhooks.\n");
        for object in objects {
            text.push_str("---\n");
            text.push_str(&serde_saphyr::to_string(&object)?);
        }
        files.insert(PathBuf::from(FOLDER).join(format!("{name}.yaml")), text);
    }
    Ok(files)
}
