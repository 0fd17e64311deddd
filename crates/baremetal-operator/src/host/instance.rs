//! The instance on a host: what to deploy, when it counts as a different one, and how it is described to Ironic.
//!
//! Ironic rewrites its input. A deployment replaces an image URL by its redirect target, and its format and checksum by
//! those found; responses mask anything in a URL that looks like a password. So our own mark records what a node was
//! given. Ironic keeps the mark as long as the instance exists and removes it with the instance.

use metal3_api::metal3::{BareMetalHostSpec, BareMetalHostStatus, BootMode, Image};
use metal3_ironic::{Diff, MASK, MaskedValues, Node, NodeDetail, PatchOp};
use serde_json::{Map, Value, json};

use super::named_url::{DeniedRanges, NamedUrl, UrlField};
use super::observed::{Observed, PullSecret};
use super::{hints, mark};

/// The deployment that the specification requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deployment<'a> {
    /// An image is written to a disk.
    Disk(&'a Image),
    /// An ISO is booted and nothing is written.
    LiveIso(&'a Image),
    /// A step of the site's own ramdisk deploys, with or without an image.
    Custom {
        /// The deploy step's name.
        method: &'a str,
        /// The image that is passed to the step.
        image: Option<&'a Image>,
    },
}

impl<'a> Deployment<'a> {
    /// The wanted deployment; `None` if there is none.
    pub fn wanted(spec: &'a BareMetalHostSpec) -> Option<Self> {
        let image = spec.wanted_image();
        let method = method(spec.custom_deploy.as_ref());
        match (method, image) {
            (Some(method), image) => Some(Self::Custom { method, image }),
            (None, Some(image)) if image.is_live_iso() => Some(Self::LiveIso(image)),
            (None, Some(image)) => Some(Self::Disk(image)),
            (None, None) => None,
        }
    }

    /// What runs, or is assumed to run, on a provisioned host.
    pub fn current(spec: &'a BareMetalHostSpec, status: &'a BareMetalHostStatus) -> Option<Self> {
        let provisioning = &status.provisioning;
        let image = provisioning.image.as_ref().filter(|i| !i.url.is_empty());
        match (method(provisioning.custom_deploy.as_ref()), image) {
            (Some(method), image) => Some(Self::Custom { method, image }),
            (None, Some(image)) if image.is_live_iso() => Some(Self::LiveIso(image)),
            (None, Some(image)) => Some(Self::Disk(image)),
            (None, None) => Self::wanted(spec),
        }
    }

    /// The image, if any.
    pub fn image(self) -> Option<&'a Image> {
        match self {
            Self::Disk(image) | Self::LiveIso(image) => Some(image),
            Self::Custom { image, .. } => image,
        }
    }

    /// The deploy interface that it needs; `None`: Ironic's default.
    pub fn interface(self) -> Option<&'static str> {
        match self {
            Self::Disk(_) => None,
            Self::LiveIso(_) => Some("ramdisk"),
            Self::Custom { .. } => Some("custom-agent"),
        }
    }

    /// The Secret with the credentials for the image registry.
    pub fn pull_secret_name(self) -> Option<&'a str> {
        let image = self.image().filter(|image| image.is_oci())?;
        Some(image.oci_auth_secret_name.as_str()).filter(|name| !name.is_empty())
    }

    /// The deployed item, for users.
    pub fn name(self) -> String {
        match self {
            Self::Disk(image) | Self::LiveIso(image) => format!("image {}", image.url),
            Self::Custom { method, image: None } => format!("custom deploy {method}"),
            Self::Custom {
                method,
                image: Some(image),
            } => format!("custom deploy {method} with image {}", image.url),
        }
    }

    /// Why this cannot be deployed, with the field's name.
    pub fn problem(self, denied: &DeniedRanges) -> Option<String> {
        let image = self.image()?;
        let check = || {
            NamedUrl::parse(UrlField::Image, &image.url, denied)?;
            match checksum(image)? {
                Some((_, value)) if value.contains("://") => {
                    NamedUrl::parse(UrlField::Checksum, &value, denied).map(|_| ())
                }
                Some((_, value)) if value.contains(char::is_control) => {
                    Err("spec.image.checksum: it has a control character in it, such as the end of a line".to_owned())
                }
                _ => Ok(()),
            }
        };
        check().err()
    }

    /// The values of [`OF_DEPLOYMENT`], `None` for keys that must be absent.
    fn info(self, pull_secret: Option<Value>) -> Result<[Option<Value>; OF_DEPLOYMENT.len()], String> {
        let image = self.image();
        let boot_iso = matches!(self, Self::LiveIso(_));
        let image_source = image.filter(|_| !boot_iso);
        let checksum = image_source.map(checksum).transpose()?.flatten();
        let method = match self {
            Self::Custom { method, .. } => Some(Value::from(method)),
            Self::Disk(_) | Self::LiveIso(_) => None,
        };
        let (untyped, algorithm, digest) = match checksum {
            None => (None, None, None),
            // Ironic detects the algorithm of a checksum in the old field; a custom step gets everything in the new
            // one.
            Some((None, value)) if method.is_none() => (Some(value.into()), None, None),
            Some((kind, value)) => (None, kind.map(Value::from), Some(value.into())),
        };
        let format = image_source.and_then(|i| i.format.as_ref());
        let url = |image: Option<&Image>| image.map(|i| Value::from(i.url.clone()));
        Ok([
            url(image.filter(|_| boot_iso)),
            url(image_source),
            untyped,
            algorithm,
            digest,
            format.map(|f| f.as_str().into()),
            pull_secret,
            method,
        ])
    }

    /// The deploy method, independent of the image.
    pub fn way(self) -> String {
        match self {
            Self::Disk(_) => "image".to_owned(),
            Self::LiveIso(_) => "live ISO".to_owned(),
            Self::Custom { method, .. } => format!("custom deploy {method}"),
        }
    }

    /// Equal only for attempts at the same deployment: any edit of the image, even of its checksum alone, makes a new
    /// attempt.
    pub fn attempt(self) -> String {
        mark::name(&(self.way(), self.image()))
    }

    /// Equal for deployments that may run as the same instance. Only the URL and the method count, as for
    /// [`is_cancelled`]: other edits of the image do not cost a user the data on the disk.
    fn target(self) -> String {
        mark::name(&(self.way(), self.image().map(|image| &image.url)))
    }

    /// The mark for a node that is described for this deployment. It includes when the node's state last changed: if it
    /// has changed since, the attempt has started.
    fn mark(self, node: &Node) -> Value {
        json!({"target": self.target(), "attempt": self.attempt(), "since": mark::since(node)})
    }

    /// Whether the node was asked to deploy exactly this, so that a failure that it shows belongs to this deployment. A
    /// node without our mark counts too.
    pub fn was_attempted_on(self, node: &Node, detail: &NodeDetail) -> bool {
        match stored_mark(detail) {
            Some(mark) => mark["attempt"] == self.attempt() && mark["since"] != mark::since(node),
            None => self.runs_on(detail),
        }
    }

    /// Whether the node runs this, as far as our mark shows. Without a mark it counts as running: it was adopted, or
    /// deployed by another operator.
    pub fn runs_on(self, detail: &NodeDetail) -> bool {
        match stored_mark(detail) {
            Some(mark) => mark["target"] == self.target(),
            None => detail
                .instance_info
                .get(METHOD)
                .and_then(Value::as_str)
                .is_none_or(|stored| matches!(self, Self::Custom { method, .. } if method == stored)),
        }
    }
}

/// The mark of a host's node for the requested deployment, under a key of `instance_info`.
pub fn deployment_mark(spec: &BareMetalHostSpec, node: &Node) -> Option<(&'static str, Value)> {
    Deployment::wanted(spec).map(|wanted| (MARK, wanted.mark(node)))
}

fn stored_mark(detail: &NodeDetail) -> Option<&Value> {
    detail.instance_info.get(MARK).filter(|mark| mark.is_object())
}

/// The keys of `instance_info` that describe an instance by its host, in the order of their values in [`patch`].
const FACTS: [&str; 3] = ["capabilities", "root_device", MARK];
/// Those that describe its deployment, in the order of their values in [`Deployment::info`].
const OF_DEPLOYMENT: [&str; 8] = [
    "boot_iso",
    "image_source",
    "image_checksum",
    "image_os_hash_algo",
    "image_os_hash_value",
    "image_disk_format",
    PULL_SECRET,
    METHOD,
];
const PULL_SECRET: &str = "image_pull_secret";
/// Our own mark.
const MARK: &str = "metal3_deployment";
/// The deploy step, which is the only mark of earlier versions: Ironic does not report which step it has run.
const METHOD: &str = "metal3_deploy_method";

/// The deploy method, if one is named.
pub fn method(custom: Option<&metal3_api::metal3::CustomDeploy>) -> Option<&str> {
    custom.map(|c| c.method.as_str()).filter(|m| !m.is_empty())
}

/// Whether the specification no longer requests the current deployment. Only the URL and the deploy method count: other
/// edits of the image do not cost a user the data on the disk.
pub fn is_cancelled(spec: &BareMetalHostSpec, status: &BareMetalHostStatus) -> bool {
    let wanted_url = spec.wanted_image().map(|i| i.url.as_str());
    let deployed_url = status
        .provisioning
        .image
        .as_ref()
        .map(|i| i.url.as_str())
        .filter(|u| !u.is_empty());
    let deployed_method = method(status.provisioning.custom_deploy.as_ref());
    match method(spec.custom_deploy.as_ref()) {
        Some(method) => {
            deployed_method.is_some_and(|d| d != method) || deployed_url.is_some_and(|d| wanted_url != Some(d))
        }
        None => {
            deployed_method.is_some() || wanted_url.is_none() || deployed_url.is_some_and(|d| wanted_url != Some(d))
        }
    }
}

/// Algorithm and value of the checksum. Without an algorithm Ironic detects it.
fn checksum(image: &Image) -> Result<Option<(Option<String>, String)>, String> {
    let found = image
        .resolve_checksum()
        .map_err(|error| format!("spec.image: {error}"))?;
    Ok(found.map(|c| (c.algorithm.map(|a| a.as_str().to_owned()), c.value.to_owned())))
}

/// The patch that prepares the node for the wanted deployment.
pub fn patch(
    seen: &Observed,
    status: &BareMetalHostStatus,
    deployment: Deployment<'_>,
    secret: Option<&PullSecret>,
    node: &Node,
    detail: &NodeDetail,
) -> Result<Vec<PatchOp>, String> {
    if let Some(problem) = deployment.problem(&seen.settings.denied_url_ranges) {
        return Err(problem);
    }
    let info = "/instance_info";
    let mark = deployment.mark(node);
    // If the node was given this deployment, the masked part of a URL is assumed unchanged.
    let is_told = stored_mark(detail) == Some(&mark);
    let mut diff = Diff::new(if is_told {
        MaskedValues::Unchanged
    } else {
        MaskedValues::Changed
    });
    let uid = seen.host.metadata.uid.clone().map(Value::from);
    let stored = node.instance_uuid.clone().map(Value::from);
    diff.set("", "instance_uuid", uid, stored.as_ref());
    let capabilities = match status.provisioning.boot_mode {
        Some(BootMode::UefiSecureBoot) => json!({"secure_boot": "true"}),
        _ => json!({}),
    };
    let root_device = hints::root_device(status.provisioning.root_device_hints.as_ref());
    let facts = [capabilities, root_device, mark].map(Some);
    let wanted = deployment.info(secret.map(|s| s.credentials.clone().into()))?;
    let stored = without_unknown_secret(&detail.instance_info, seen, secret);
    diff.set_all(info, FACTS.into_iter().zip(facts), &stored);
    diff.set_all(info, OF_DEPLOYMENT.into_iter().zip(wanted), &stored);
    let interface = detail.deploy_interface.as_deref();
    if deployment.interface().is_some() || matches!(interface, Some("ramdisk" | "custom-agent")) {
        diff.set(
            "",
            "deploy_interface",
            deployment.interface().map(Value::from),
            interface.map(Value::from).as_ref(),
        );
    }
    let settings = &seen.settings;
    let persistent = match deployment {
        Deployment::Disk(_) => settings.force_persistent_boot_device.as_deref(),
        Deployment::LiveIso(_) => settings.live_iso_force_persistent_boot_device.as_deref(),
        Deployment::Custom { .. } => return Ok(diff.into_ops()),
    };
    let key = "force_persistent_boot_device";
    let persistent = persistent.unwrap_or("Default");
    diff.set(
        "/driver_info",
        key,
        Some(persistent.into()),
        detail.driver_info.get(key),
    );
    Ok(diff.into_ops())
}

/// The patch that takes the description of a deployment off a node that was never asked for it. Ironic removes only that of an
/// instance, and the credentials for a registry may be in it.
pub fn undescribe(node: &Node, detail: &NodeDetail) -> Vec<PatchOp> {
    let mut diff = Diff::default();
    let stored = node.instance_uuid.clone().map(Value::from);
    diff.set("", "instance_uuid", None, stored.as_ref());
    let absent = FACTS.into_iter().chain(OF_DEPLOYMENT).map(|key| (key, None));
    diff.set_all("/instance_info", absent, &detail.instance_info);
    diff.into_ops()
}

/// Ironic masks the stored secret. Only a secret that this process sent itself is known to be the current one; any
/// other counts as absent and is sent.
fn without_unknown_secret(
    info: &Map<String, Value>,
    seen: &Observed,
    secret: Option<&PullSecret>,
) -> Map<String, Value> {
    let mut info = info.clone();
    if let Some(secret) = secret
        && seen.memory.sent_pull_secret != Some(secret.digest)
        && info.get(PULL_SECRET).is_some_and(|v| v == MASK)
    {
        info.remove(PULL_SECRET);
    }
    info
}

/// Whether a patch contains the registry credentials.
pub fn sends_pull_secret(ops: &[PatchOp]) -> bool {
    ops.iter()
        .any(|op| op.value.is_some() && op.path.strip_prefix("/instance_info/") == Some(PULL_SECRET))
}
