//! Records what data was rendered from. An annotation stores the digest, so that a lost Secret is either recreated identically or
//! not at all: where the API server does not enforce immutability, such as in v1beta1, templates can be edited.

use std::fmt::Write as _;

use kube::ResourceExt;
use metal3_api::infra::names::annotation::RENDERED_FROM;
use metal3_api::infra::v1beta2::Metal3DataTemplate;
use metal3_runtime::events::{Event, Severity};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::effect::Secret;
use super::super::observed::View;
use super::Lost;

/// SHA-256 of a template's metadata and network data, in hexadecimal digits.
///
/// The digest is stored and later versions of this program compare it. Unset fields are not serialized, so a new optional field
/// does not change the digest of templates without it.
pub fn digest(template: &Metal3DataTemplate) -> String {
    let text = json!(template.spec.rendered_from()).to_string();
    let digest = Sha256::digest(text);
    digest
        .iter()
        .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

fn noted(seen: &View) -> Option<&String> {
    seen.data.annotations().get(RENDERED_FROM)
}

pub fn was_ready(seen: &View) -> bool {
    seen.data.status.as_ref().and_then(|status| status.ready) == Some(true)
}

/// Whether something was rendered already: a host may use it.
pub fn is_made(seen: &View) -> bool {
    was_ready(seen) || seen.secrets.iter().any(|secret| seen.owns(secret))
}

/// The digest to record if it is missing or different. It is fixed once a Secret exists, because a host may already use it. Until
/// then, a template that cannot be rendered may be fixed.
pub fn to_note(seen: &View, template: &Metal3DataTemplate) -> Option<String> {
    let digest = digest(template);
    (noted(seen) != Some(&digest) && !is_made(seen)).then_some(digest)
}

/// Refuses to render different data than before for a Secret of this name.
pub fn check(seen: &View, template: &Metal3DataTemplate, lost: &Lost) -> Result<(), String> {
    let is_same = noted(seen).is_none_or(|noted| *noted == digest(template));
    if is_same {
        return Ok(());
    }
    let secret = &lost.name;
    let what = if lost.is_there {
        "which does not belong to this Metal3Data any more"
    } else {
        "which does not exist"
    };
    Err(format!(
        "Metal3DataTemplate {} was edited after this data was rendered: Secret {secret}, {what}, could differ from \
         what the host was told. Replace the Machine; or, to have the Secret rendered from the template as it is, remove the \
         annotation {RENDERED_FROM} of this Metal3Data",
        template.name_any()
    ))
}

/// What is said of a Secret that was lost and rendered again. Where nothing was noted, an earlier version rendered it: then only
/// the generation of the template tells that it was edited at some time.
pub fn rendered_again(seen: &View, secret: &Secret) -> Option<Event> {
    let template = seen.template.as_deref().filter(|_| was_ready(seen))?;
    let generation = template.metadata.generation.unwrap_or_default();
    let is_doubtful = noted(seen).is_none() && generation > 1;
    let mut message = format!(
        "Secret {} was lost and is rendered again from Metal3DataTemplate {}",
        secret.name,
        template.name_any()
    );
    if is_doubtful {
        write!(
            message,
            ", which was edited after it was made (its generation is {generation}): the host may run with other data; compare \
             them, or replace the Machine"
        )
        .ok();
    }
    let severity = if is_doubtful {
        Severity::Warning
    } else {
        Severity::Normal
    };
    Some(Event {
        reason: "RenderedAgain",
        message,
        severity,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digests as they are stored. They must never change.
    #[test]
    fn the_digest_of_a_template_stays_what_it_was() {
        let mut everything = json!({
            "metaData": {
                "strings": [{"key": "s", "value": "v"}], "namespaces": [{"key": "w"}],
                "objectNames": [{"key": "n", "object": "machine"}],
                "indexes": [{"key": "i", "offset": 1, "step": 2, "prefix": "p", "suffix": "q"}],
                "ipAddressesFromPool": [{"key": "a", "name": "pool"}],
                "prefixesFromPool": [{"key": "b", "name": "pool"}],
                "gatewaysFromPool": [{"key": "c", "name": "pool"}],
                "dnsServersFromPool": [{"key": "d", "name": "pool"}],
                "fromHostInterfaces": [{"key": "m", "interface": "eth0"}],
                "fromLabels": [{"key": "l", "object": "machine", "label": "x"}],
                "fromAnnotations": [{"key": "o", "object": "machine", "annotation": "y"}],
            },
            "networkData": {
                "links": {
                    "ethernets": [{"id": "e", "type": "phy", "mtu": 1500, "macAddress": {"fromHostInterface": "eth0"}}],
                    "bonds": [{"id": "b", "bondMode": "802.3ad", "bondLinks": ["e"], "macAddress": {"string": "aa:bb:cc:dd:ee:ff"}}],
                    "vlans": [{"id": "v", "vlanID": 7, "vlanLink": "e", "macAddress": {"string": "aa:bb:cc:dd:ee:ff"}}],
                },
                "networks": {
                    "ipv4": [{"id": "n", "link": "e", "ipAddressFromIPPool": "pool",
                        "routes": [{"network": "0.0.0.0", "prefix": 0, "gateway": {"fromIPPool": "pool"}}]}],
                    "ipv4DHCP": [{"id": "h", "link": "e"}],
                    "ipv6SLAAC": [{"id": "r", "link": "e"}],
                },
                "services": {"dns": ["192.0.2.53"]},
            },
        });
        let empty = "95cb9b4f84ceff132cc7a875d8c192bf4997016a939ee64141c1fd628c0e8738";
        assert_eq!(of_spec(&json!({})), empty);
        let stored = "85f64546649c3102d09b2fb8ab5c483b395eaffa3d09ac3f7968139b7816b8eb";
        assert_eq!(of_spec(&everything), stored);
        // As upstream's conversion stores the same template.
        let route = everything.pointer_mut("/networkData/networks/ipv4/0/routes/0").unwrap();
        route.as_object_mut().unwrap().remove("prefix").unwrap();
        everything["metaData"]["fromHostInterfaces"][0]["fromBootMAC"] = json!(false);
        assert_eq!(of_spec(&everything), stored);
    }

    fn of_spec(spec: &serde_json::Value) -> String {
        let template = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "Metal3DataTemplate",
            "metadata": {"name": "t"}, "spec": spec});
        digest(&serde_json::from_value(template).unwrap())
    }
}
