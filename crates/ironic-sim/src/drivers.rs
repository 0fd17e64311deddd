//! Hardware types and the interfaces that go with them.

use crate::refusal::Refusal;

/// The kinds of interfaces, in the order in which nodes keep them.
pub(crate) const KINDS: [&str; 13] = [
    "bios",
    "boot",
    "console",
    "deploy",
    "firmware",
    "inspect",
    "management",
    "network",
    "power",
    "raid",
    "rescue",
    "storage",
    "vendor",
];

/// The interfaces in use, by kind. All of them are known words.
pub(crate) type Interfaces = [&'static str; KINDS.len()];

/// What a hardware type can be used with, by kind; the default first.
struct Hardware {
    name: &'static str,
    supported: [&'static [&'static str]; KINDS.len()],
}

const DEPLOY: &[&str] = &["autodetect", "direct", "ramdisk", "custom-agent", "bootc"];

const HARDWARE: &[Hardware] = &[
    Hardware {
        name: "redfish",
        supported: [
            &["redfish", "no-bios"],
            &["ipxe", "pxe", "redfish-virtual-media", "redfish-https"],
            &["no-console"],
            DEPLOY,
            &["redfish", "no-firmware"],
            &["agent", "redfish", "no-inspect"],
            &["redfish", "noop"],
            &["noop"],
            &["redfish"],
            &["redfish", "no-raid", "agent"],
            &["no-rescue"],
            &["noop"],
            &["redfish", "no-vendor"],
        ],
    },
    Hardware {
        name: "idrac",
        supported: [
            &["idrac-redfish", "redfish", "no-bios"],
            &["ipxe", "pxe", "idrac-redfish-virtual-media", "redfish-https"],
            &["no-console"],
            DEPLOY,
            &["redfish", "no-firmware"],
            &["agent", "idrac-redfish", "no-inspect"],
            &["idrac-redfish"],
            &["noop"],
            &["idrac-redfish", "redfish"],
            &["idrac-redfish", "no-raid", "agent"],
            &["no-rescue"],
            &["noop"],
            &["idrac-redfish", "redfish", "no-vendor"],
        ],
    },
    Hardware {
        name: "ipmi",
        supported: [
            &["no-bios"],
            &["ipxe", "pxe"],
            &["no-console"],
            DEPLOY,
            &["no-firmware"],
            &["agent", "no-inspect"],
            &["ipmitool", "noop"],
            &["noop"],
            &["ipmitool"],
            &["no-raid", "agent"],
            &["no-rescue"],
            &["noop"],
            &["ipmitool", "no-vendor"],
        ],
    },
];

/// The names of the hardware types.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    HARDWARE.iter().map(|hardware| hardware.name)
}

/// The name of a hardware type as a known word.
pub(crate) fn known(driver: &str) -> Result<&'static str, Refusal> {
    names().find(|name| *name == driver).ok_or_else(|| {
        Refusal::bad_request(format!(
            "No valid host was found. Reason: No conductor service registered which supports driver {driver} for \
             conductor group \"\"."
        ))
    })
}

/// The default interfaces of a hardware type.
pub(crate) fn defaults(driver: &'static str) -> Interfaces {
    let mut interfaces = [""; KINDS.len()];
    if let Some(hardware) = HARDWARE.iter().find(|hardware| hardware.name == driver) {
        for (chosen, supported) in interfaces.iter_mut().zip(hardware.supported) {
            *chosen = supported.first().copied().unwrap_or_default();
        }
    }
    interfaces
}

/// The interface that a user named, as a known word; nothing named is the default.
pub(crate) fn choose(driver: &'static str, kind: usize, name: Option<&str>) -> Result<&'static str, Refusal> {
    let Some(name) = name else {
        return Ok(defaults(driver)[kind]);
    };
    let is_anywhere = HARDWARE.iter().any(|hardware| hardware.supported[kind].contains(&name));
    let supported = HARDWARE.iter().find(|hardware| hardware.name == driver);
    let found = supported.and_then(|hardware| hardware.supported[kind].iter().find(|known| **known == name));
    found.copied().ok_or_else(|| {
        let kind = KINDS[kind];
        Refusal::bad_request(if is_anywhere {
            format!("{kind} interface implementation '{name}' is not supported by hardware type {driver}.")
        } else {
            format!(
                "Could not find the following interface in the 'ironic.hardware.interfaces.{kind}' entrypoint: {name}."
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_belong_to_hardware_types() {
        let inspect = KINDS.iter().position(|kind| *kind == "inspect").unwrap();
        assert_eq!(choose("redfish", inspect, Some("redfish")).unwrap(), "redfish");
        assert_eq!(choose("idrac", inspect, None).unwrap(), "agent");
        let refusal = choose("idrac", inspect, Some("redfish")).unwrap_err();
        assert!(
            refusal.text.contains("is not supported by hardware type"),
            "{refusal:?}"
        );
        assert!(choose("ipmi", inspect, Some("telepathy")).is_err());
        assert!(known("telepathy").is_err());
    }
}
