//! What must be true of a host that has settled.

use std::collections::BTreeSet;

use baremetal_operator::host::held;
use metal3_api::metal3::{BareMetalHost, InspectionMode};
use metal3_ironic::PowerState;
use serde_json::Value;

use super::site::{Site, inventory};
use crate::model::REDIRECT;

pub(super) const DETACHED: &str = "baremetalhost.metal3.io/detached";
pub(super) const HOLD: &str = "reboot.metal3.io/somebody";
pub(super) const STATUS: &str = "baremetalhost.metal3.io/status";

pub(super) fn annotation<'h>(host: &'h BareMetalHost, key: &str) -> Option<&'h String> {
    host.metadata.annotations.as_ref()?.get(key)
}

/// An image is on it, which being switched off does not change.
pub(super) fn is_there(host: &BareMetalHost) -> bool {
    let status = host.status.as_ref().map(|s| &s.provisioning);
    status.is_some_and(|p| p.image.is_some() || p.custom_deploy.is_some())
}

impl Site {
    /// What the specification asks for has come true.
    pub(super) fn check(&self) {
        let Some(host) = &self.host else {
            assert_eq!(self.ironic.node, None, "a node was left behind");
            assert!(self.marked.is_empty(), "Secrets are held for nobody: {:?}", self.marked);
            return;
        };
        let status = host.status.as_ref().unwrap();
        let is_detached = annotation(host, DETACHED).is_some();
        assert_eq!(status.operational_status.as_str() == "detached", is_detached);
        assert_eq!(annotation(host, STATUS), None, "it is taken over");
        if is_detached {
            assert_eq!(self.ironic.node, None, "it is out of Ironic");
            return;
        }
        let wanted: BTreeSet<_> = held::wanted(host).map(str::to_owned).collect();
        assert_eq!(
            (&self.marked, held::names(host)),
            (&wanted, wanted.clone()),
            "held Secrets"
        );
        // What an image runs on is rebooted, and what is free is inspected; elsewhere the annotations wait for that.
        let served = if status.provisioning.state.as_str() == "provisioned" {
            "reboot.metal3.io"
        } else {
            "inspect.metal3.io"
        };
        let is_contradicted =
            host.spec.inspection_mode == Some(InspectionMode::Disabled) && served == "inspect.metal3.io";
        assert!(
            annotation(host, served).is_none() || is_contradicted,
            "{served} is served"
        );
        let node = self.ironic.node.as_ref().unwrap();
        let runs = host.spec.online || is_there(host);
        let image = host.spec.image.as_ref().map(|i| i.url.as_str()).filter(|_| runs);
        let method = host
            .spec
            .custom_deploy
            .as_ref()
            .map(|c| c.method.as_str())
            .filter(|_| runs);
        let wanted = image.or(method);
        let state = status.provisioning.state.as_str();
        assert_eq!(
            state,
            if wanted.is_some() { "provisioned" } else { "available" },
            "{status:?}"
        );
        // Settings are changed while nothing runs.
        if wanted.is_none()
            && let Some((value, _)) = self.turbo
        {
            assert_eq!(self.ironic.bios["Turbo"], value);
        }
        // RAID is set up while nothing runs.
        let raid = host.spec.raid.as_ref().and_then(|r| r.software_raid_volumes.as_ref());
        if wanted.is_none()
            && let Some(volumes) = raid
        {
            let recorded = status
                .provisioning
                .raid
                .as_ref()
                .and_then(|r| r.software_raid_volumes.as_ref());
            assert_eq!(recorded, Some(volumes));
        }
        // Whatever else was written since.
        let found = status.hardware.as_deref();
        assert!(found.is_none_or(|found| *found == inventory()), "{found:?}");
        let is_inspected = self.ironic.count("inspect") > 0;
        assert!(found.is_some() == is_inspected || is_inspected && self.was_uninspected);
        assert_eq!(status.error_type, None, "{status:?}");
        assert_eq!(status.error_count, 0);
        assert_eq!(status.provisioning.image.as_ref().map(|i| i.url.as_str()), image);
        assert_eq!(
            status.provisioning.custom_deploy.as_ref().map(|c| c.method.as_str()),
            method
        );
        let info = &node.detail.as_ref().unwrap().instance_info;
        let deployed = ["metal3_deploy_method", "boot_iso", "image_source"]
            .into_iter()
            .find_map(|key| info.get(key).and_then(Value::as_str))
            .map(|told| told.trim_start_matches(REDIRECT));
        // A machine that was taken over does not say what runs on it, and what is written about an available one counts
        // for nothing.
        let is_taken_over = deployed.is_none() && self.ironic.count("adopt") > 0;
        assert!(deployed == wanted || wanted.is_none() || is_taken_over, "{deployed:?}");
        assert_eq!(node.provision_state.as_str() == "active", wanted.is_some());
        let is_held = annotation(host, HOLD).is_some() && state == "provisioned" && !host.spec.disable_power_off;
        assert_eq!(node.power_state == Some(PowerState::On), host.spec.online && !is_held);
        assert_eq!(status.powered_on, host.spec.online && !is_held);
        assert_eq!(status.provisioning.id, node.uuid);
    }
}
