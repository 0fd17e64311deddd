//! The operator's settings after parsing: plain values that decisions may use.

use std::sync::Arc;
use std::time::Duration;

use crate::host::budget::Budgets;
use crate::host::named_url::DeniedRanges;

/// Settings that decisions about hosts depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSettings {
    /// The images that the ramdisk boots from.
    pub deploy_images: DeployImages,
    /// Whether drivers that need a provisioning network are rejected (`PROVISIONING_NETWORK_DISABLED`).
    pub provisioning_network_disabled: bool,
    /// `driver_info.force_persistent_boot_device` for deployed images; `None` means `Default`.
    pub force_persistent_boot_device: Option<String>,
    /// The same for live ISO images.
    pub live_iso_force_persistent_boot_device: Option<String>,
    /// How often the same image is tried; 0 means no limit.
    pub max_provisioning_retries: i32,
    /// The base of the failure back-off: upstream's is one minute.
    pub retry_base: Duration,
    /// The architecture of a host that does not specify one: the operator's.
    pub default_architecture: &'static str,
    /// Whether a controller builds a ramdisk for each host (`--build-preprov-image`).
    pub builds_ramdisks: bool,
    /// Whether Ironic knows `disable_power_off` (API 1.95).
    pub can_disable_power_off: bool,
    /// Where BMCs with an IPv6 address, given directly or by their host name, fetch virtual media from
    /// (`IRONIC_EXTERNAL_URL_V6`).
    pub external_url_v6: Option<String>,
    /// Addresses that users' URLs may not name (`--denied-url-ranges`).
    pub denied_url_ranges: DeniedRanges,
    /// Whether a Secret must carry the label for BMC credentials to be used (`--require-credentials-label`).
    pub requires_credentials_label: bool,
    /// Whether the key `value` counts only in Secrets of Cluster API's type (`--require-bootstrap-type`).
    pub requires_bootstrap_type: bool,
    /// Whether to adopt a node that does not have the host's own name (`--adopt-unnamed-nodes`).
    pub adopts_unnamed_nodes: bool,
    /// How long a host may stay in a state before it is overdue.
    pub budgets: Budgets,
}

/// The ramdisk's images, by URL (`DEPLOY_*_URL`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeployImages {
    /// Kernel, used together with the ramdisk.
    pub kernel: Option<String>,
    /// Initial ramdisk.
    pub ramdisk: Option<String>,
    /// ISO image for drivers with virtual media.
    pub iso: Option<String>,
}

impl HostSettings {
    /// The settings for an Ironic that supports `disable_power_off`, or does not.
    pub fn for_ironic(self: &Arc<Self>, can_disable_power_off: bool) -> Arc<Self> {
        if self.can_disable_power_off == can_disable_power_off {
            return self.clone();
        }
        Arc::new(Self {
            can_disable_power_off,
            ..(**self).clone()
        })
    }
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            deploy_images: DeployImages::default(),
            provisioning_network_disabled: false,
            force_persistent_boot_device: None,
            live_iso_force_persistent_boot_device: None,
            max_provisioning_retries: 5,
            retry_base: metal3_runtime::timing::operator::RETRY_BASE,
            default_architecture: "x86_64",
            builds_ramdisks: false,
            can_disable_power_off: true,
            external_url_v6: None,
            denied_url_ranges: DeniedRanges::default(),
            requires_credentials_label: false,
            requires_bootstrap_type: false,
            adopts_unnamed_nodes: false,
            budgets: Budgets::default(),
        }
    }
}
