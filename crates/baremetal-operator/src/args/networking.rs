//! Whether switches are configured, and where.

use anyhow::{Result, ensure};
use clap::Args;
use metal3_runtime::args::go_bool;

/// Settings for Ironic's networking service, which reads them from Secrets.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Switches")]
pub struct NetworkingArgs {
    /// Write BareMetalSwitches into the configuration of Ironic's networking service; the next three options are required then
    #[arg(long, env = "IRONIC_NETWORKING_ENABLED", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = go_bool())]
    pub ironic_networking_enabled: bool,

    /// The Secret for the configuration of switches, in the namespace of the switches; it must exist
    #[arg(long, env = "IRONIC_SWITCH_CONFIGS_SECRET", default_value = "")]
    pub ironic_switch_configs_secret: String,

    /// The Secret for the private keys of switches, in the namespace of the switches; it must exist
    #[arg(long, env = "IRONIC_SWITCH_CREDENTIALS_SECRET", default_value = "")]
    pub ironic_switch_credentials_secret: String,

    /// Where Ironic's networking service has the Secret with private keys mounted
    #[arg(long, env = "IRONIC_SWITCH_CREDENTIALS_PATH", default_value = "")]
    pub ironic_switch_credentials_path: String,
}

/// Where switches are configured.
#[derive(Clone, Debug)]
pub struct SwitchSettings {
    /// The Secret with the configuration.
    pub configs: String,
    /// The Secret with private keys.
    pub credentials: String,
    /// Where that Secret is mounted.
    pub path: String,
}

impl NetworkingArgs {
    /// The settings; `None` if switches are not configured.
    ///
    /// # Errors
    ///
    /// One is missing, or one Secret should hold both.
    pub fn settings(&self) -> Result<Option<SwitchSettings>> {
        if !self.ironic_networking_enabled {
            return Ok(None);
        }
        let settings = SwitchSettings {
            configs: self.ironic_switch_configs_secret.clone(),
            credentials: self.ironic_switch_credentials_secret.clone(),
            path: self.ironic_switch_credentials_path.clone(),
        };
        for (name, value) in [
            ("IRONIC_SWITCH_CONFIGS_SECRET", &settings.configs),
            ("IRONIC_SWITCH_CREDENTIALS_SECRET", &settings.credentials),
            ("IRONIC_SWITCH_CREDENTIALS_PATH", &settings.path),
        ] {
            ensure!(
                !value.is_empty(),
                "{name} is not set, which IRONIC_NETWORKING_ENABLED=true requires"
            );
        }
        ensure!(
            settings.configs != settings.credentials,
            "IRONIC_SWITCH_CONFIGS_SECRET and IRONIC_SWITCH_CREDENTIALS_SECRET must name two Secrets"
        );
        Ok(Some(settings))
    }
}
