//! Virtual media: discs that a BMC presents to its server.

use reqwest::Method;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::client::{Call, Client, Pace};
use crate::error::{Error, Reason};
use crate::nodes::accepted;
use crate::observe::Operation;
use crate::version::Feature;
use crate::view::View;

/// The drive that discs are put into.
const DISC: &str = "cdrom";

/// One virtual drive of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualMedium {
    /// What it can present: `CD`, `DVD`, `Floppy`, `USBStick`.
    pub media_types: Vec<String>,
    /// Whether something is in it.
    pub inserted: bool,
    /// The image's URL. Ironic, or the BMC, may have copied the image: then the URL differs from the requested one.
    pub image: Option<String>,
}

impl VirtualMedium {
    /// Whether this is the drive that [`Client::attach_disc`] means.
    pub fn is_disc_drive(&self) -> bool {
        let is = |word: &str| self.media_types.iter().any(|t| t.eq_ignore_ascii_case(word));
        is("CD") || is("DVD")
    }
}

/// The answer to `GET …/vmedia`: a bare list.
struct Drives(Vec<VirtualMedium>);

impl<'de> Deserialize<'de> for Drives {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = json!({"drives": Value::deserialize(deserializer)?});
        let drives = View::of(&record).list("drives").map(|drive| VirtualMedium {
            media_types: drive.texts("media_types"),
            inserted: drive.boolean("inserted").unwrap_or_default(),
            image: drive.text("image"),
        });
        Ok(Self(drives.collect()))
    }
}

impl Client {
    /// The virtual drives of a node's server; Ironic asks the BMC. Needs API 1.93.
    pub async fn virtual_media(&self, id: &str) -> Result<Vec<VirtualMedium>, Error> {
        let operation = Operation::GetVirtualMedia;
        if !self.versions().await?.supports(Feature::ReadVirtualMedia) {
            let why = "this needs an Ironic with API version 1.93 or newer";
            return Err(Error::new(operation, Some(id), Reason::Senseless(why)));
        }
        let path = ["nodes", id, "vmedia"];
        let call = Call::get(operation, &path).node(id);
        let drives: Drives = self
            .read(Call {
                pace: Pace::Bmc,
                ..call
            })
            .await?;
        Ok(drives.0)
    }

    /// Inserts an ISO into a server's disc drive, which must be empty. Success means that Ironic has started: the node
    /// is locked until it is done, and the drive then shows the result.
    pub async fn attach_disc(&self, id: &str, url: &str) -> Result<(), Error> {
        let path = ["nodes", id, "vmedia"];
        let body = json!({"device_type": DISC, "image_url": url});
        let call = Call::get(Operation::AttachVirtualMedia, &path).method(Method::POST);
        accepted(self.call(call.node(id).body(body)).await)
    }

    /// Empties a server's disc drive. Success means that Ironic has started, as above.
    pub async fn detach_disc(&self, id: &str) -> Result<(), Error> {
        let operation = Operation::DetachVirtualMedia;
        let path = ["nodes", id, "vmedia"];
        let url = self.address(operation, Some(id), &path, &[("device_types", DISC)])?;
        let call = Call::get(operation, &[]).method(Method::DELETE).node(id);
        accepted(self.call_at(url, call).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_may_say_little_of_themselves() {
        let answer = json!([{"media_types": ["CD", "DVD"], "inserted": true, "image": "http://a/b.iso"},
            {"media_types": ["USBStick"], "inserted": false, "image": null}, {}, 3]);
        let found: Drives = serde_json::from_value(answer).unwrap();
        assert_eq!(found.0.len(), 3);
        assert_eq!(found.0[0].image.as_deref(), Some("http://a/b.iso"));
        assert_eq!(
            found.0.iter().map(VirtualMedium::is_disc_drive).collect::<Vec<_>>(),
            [true, false, false]
        );
        assert!(!found.0[2].inserted);
    }
}
