//! What users do, and what else happens to a host.

use baremetal_operator::host::observed::Memory;
use serde_json::json;

use super::check::{DETACHED, HOLD, STATUS};
use super::site::Site;
use crate::world::{bios, data_image, image};

/// What a user does, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Image(&'static str),
    LiveIso(&'static str),
    /// A custom deploy by this method, without an image.
    Custom(&'static str),
    NoImage,
    /// Software RAID over so many volumes, or none.
    Raid(usize),
    /// Nothing is said of RAID any more.
    NoRaid,
    /// A wish for a BIOS setting.
    Turbo(&'static str),
    /// A wish for a BIOS of this URL.
    Bios(&'static str),
    On,
    Off,
    Delete,
    /// Ironic loses its database.
    Lose,
    Detach,
    /// The same, and a deletion is to wait.
    DetachAndKeep,
    Attach,
    Reboot,
    /// Somebody wants it off for a while.
    Hold,
    Release,
    InspectAgain,
    /// Inspection is switched off, also while one runs.
    NoInspection,
    Inspection,
    /// A disc for the next start.
    Disc(&'static str),
    NoDisc,
    /// Names another Secret with BMC credentials.
    Credentials(&'static str),
    /// Names a Secret with network data for the ramdisk, or none by an empty name.
    NetworkData(&'static str),
    /// The object is created again elsewhere, with its status in an annotation.
    Move,
}

impl Site {
    pub(super) fn act(&mut self, act: Act) {
        if self
            .host
            .as_ref()
            .is_none_or(|h| h.metadata.deletion_timestamp.is_some())
        {
            return;
        }
        match act {
            Act::Image(url) => self.edit(
                &json!({"image": null, "customDeploy": null}),
                &json!({"image": image(url)}),
            ),
            Act::LiveIso(url) => self.edit(
                &json!({"image": null, "customDeploy": null}),
                &json!({"image": {"url": url, "format": "live-iso"}}),
            ),
            Act::Custom(method) => {
                self.edit(&json!({"image": null}), &json!({"customDeploy": {"method": method}}));
            }
            Act::NoImage => self.edit(&json!({"image": null, "customDeploy": null}), &json!({})),
            Act::Raid(volumes) => {
                let volumes = vec![json!({"level": "1"}); volumes];
                self.edit(
                    &json!({"raid": null}),
                    &json!({"raid": {"softwareRAIDVolumes": volumes}}),
                );
            }
            Act::Turbo(value) => {
                let edits = self.turbo.map_or(1, |(_, edits)| edits + 1);
                self.turbo = Some((value, edits));
            }
            Act::Bios(url) => {
                let edits = self.components.as_ref().and_then(|object| object.metadata.generation);
                let status = self.components.take().and_then(|object| object.status);
                self.components = Some(bios(url, edits.unwrap_or_default() + 1, &json!(status)));
                self.judge_components();
            }
            Act::NoRaid => self.edit(&json!({"raid": null}), &json!({})),
            Act::On => self.edit(&json!({}), &json!({"online": true})),
            Act::Off => self.edit(&json!({}), &json!({"online": false})),
            Act::Delete => self.delete(),
            Act::Lose => self.ironic.lose(),
            Act::Detach => self.annotate(DETACHED, Some("{}")),
            Act::DetachAndKeep => self.annotate(DETACHED, Some(r#"{"deleteAction":"delay"}"#)),
            Act::Attach => self.annotate(DETACHED, None),
            Act::Reboot => self.annotate("reboot.metal3.io", Some(r#"{"mode":"soft"}"#)),
            Act::Hold => self.annotate(HOLD, Some("")),
            Act::Release => self.annotate(HOLD, None),
            Act::Disc(url) => {
                let edits = self.data_image.as_ref().and_then(|image| image.metadata.generation);
                let status = json!(
                    self.data_image
                        .as_ref()
                        .and_then(|image| image.status.clone())
                        .unwrap_or_default()
                );
                let mut image = data_image(url, &status);
                image.metadata.generation = Some(edits.unwrap_or_default() + 1);
                self.data_image = Some(image);
            }
            Act::NoDisc => {
                if let Some(image) = &mut self.data_image {
                    image.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-02T00:00:00Z")).unwrap();
                    image.metadata.generation = image.metadata.generation.map(|g| g + 1);
                }
                self.release_data_image();
            }
            Act::Credentials(name) => self.edit(&json!({}), &json!({"bmc": {"credentialsName": name}})),
            Act::NetworkData(name) => self.edit(&json!({}), &json!({"preprovisioningNetworkDataName": name})),
            Act::InspectAgain => self.annotate("inspect.metal3.io", Some("")),
            Act::NoInspection => {
                self.was_uninspected = true;
                self.edit(&json!({}), &json!({"inspectionMode": "disabled"}));
            }
            Act::Inspection => self.edit(&json!({"inspectionMode": null}), &json!({})),
            // What has no status yet is only created again.
            Act::Move if self.stored().status.is_none() => {}
            Act::Move => {
                let status = json!(self.stored().status).to_string();
                self.write(|host| host.status = None);
                self.annotate(STATUS, Some(&status));
                self.memory = Memory::default();
            }
        }
    }

    pub(super) fn annotate(&mut self, key: &str, value: Option<&str>) {
        self.write(|host| {
            let all = host.metadata.annotations.get_or_insert_default();
            match value {
                Some(value) => drop(all.insert(key.to_owned(), value.to_owned())),
                None => drop(all.remove(key)),
            }
        });
    }

    pub(super) fn live_through(&mut self, acts: &[Act]) {
        self.settle().unwrap();
        self.check();
        for act in acts {
            self.act(*act);
            self.settle().unwrap_or_else(|why| panic!("{act:?}: {why}"));
            self.check();
        }
    }
}
