//! The table of BMC types: which driver and interfaces Ironic uses for each, and what such hardware can do.

/// How Ironic treats a kind of BMC. An interface that is `None` is left to Ironic's default.
#[derive(Debug, PartialEq, Eq)]
pub struct Access {
    pub(crate) family: Family,
    driver: &'static str,
    /// BIOS settings.
    pub bios_interface: Option<&'static str>,
    /// How the ramdisk is booted.
    pub boot_interface: Option<&'static str>,
    /// Firmware updates.
    pub firmware_interface: Option<&'static str>,
    /// Boot order and the like.
    pub management_interface: Option<&'static str>,
    /// Power.
    pub power_interface: Option<&'static str>,
    /// Hardware RAID. Software RAID needs `agent` instead, which is for the caller to choose.
    pub raid_interface: Option<&'static str>,
    /// Event subscriptions and the like.
    pub vendor_interface: Option<&'static str>,
    fast_inspect_interface: Option<&'static str>,
    secure_boot: bool,
    iso: bool,
    provisioning_network: bool,
    boot_mac: bool,
}

/// The family, which determines the shape of `driver_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Ipmi,
    Redfish,
    /// Redfish, but the system's path is always sent.
    RedfishUefiHttp,
}

impl Access {
    /// Ironic's hardware type.
    pub const fn driver(&self) -> &'static str {
        self.driver
    }

    /// Inspection through the BMC, without booting a ramdisk. None: not possible.
    pub const fn fast_inspect_interface(&self) -> Option<&'static str> {
        self.fast_inspect_interface
    }

    /// Secure boot can be switched.
    pub const fn supports_secure_boot(&self) -> bool {
        self.secure_boot
    }

    /// The ramdisk can be given as an ISO image, by virtual media or HTTP boot.
    pub const fn supports_iso(&self) -> bool {
        self.iso
    }

    /// The ramdisk can be booted only over a provisioning network with DHCP and TFTP.
    pub const fn needs_provisioning_network(&self) -> bool {
        self.provisioning_network
    }

    /// The host must name its boot MAC address even if inspection could find it.
    pub const fn needs_boot_mac(&self) -> bool {
        self.boot_mac
    }
}

const IPMI: Access = Access {
    family: Family::Ipmi,
    driver: "ipmi",
    bios_interface: None,
    boot_interface: Some("ipxe"),
    firmware_interface: None,
    management_interface: None,
    power_interface: None,
    raid_interface: Some("no-raid"),
    vendor_interface: None,
    fast_inspect_interface: None,
    secure_boot: false,
    iso: false,
    provisioning_network: true,
    boot_mac: false,
};

// Virtual machines behind an IPMI emulation; a separate type because inspection cannot tell which of their ports boots.
const LIBVIRT: Access = Access { boot_mac: true, ..IPMI };

const REDFISH: Access = Access {
    family: Family::Redfish,
    driver: "redfish",
    firmware_interface: Some("redfish"),
    raid_interface: Some("redfish"),
    fast_inspect_interface: Some("redfish"),
    secure_boot: true,
    ..IPMI
};

// Its fast inspection is `redfish` as in Metal3, although Ironic 39 refuses that for this driver with status 400; what it
// would take instead, `idrac-redfish`, is not enabled in Metal3's image of Ironic.
const IDRAC_REDFISH: Access = Access {
    driver: "idrac",
    bios_interface: Some("idrac-redfish"),
    management_interface: Some("idrac-redfish"),
    power_interface: Some("idrac-redfish"),
    raid_interface: Some("idrac-redfish"),
    vendor_interface: Some("idrac-redfish"),
    ..REDFISH
};

const REDFISH_VIRTUAL_MEDIA: Access = Access {
    boot_interface: Some("redfish-virtual-media"),
    iso: true,
    provisioning_network: false,
    ..REDFISH
};

const IDRAC_VIRTUAL_MEDIA: Access = Access {
    boot_interface: Some("idrac-redfish-virtual-media"),
    iso: true,
    provisioning_network: false,
    ..IDRAC_REDFISH
};

const REDFISH_UEFI_HTTP: Access = Access {
    family: Family::RedfishUefiHttp,
    boot_interface: Some("redfish-https"),
    iso: true,
    provisioning_network: false,
    ..REDFISH
};

/// A BMC type by its name in addresses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub name: &'static str,
    pub access: Access,
}

/// Every type, without the `+http` and `+https` that the Redfish ones may carry.
pub(crate) static TYPES: &[Type] = &[
    Type {
        name: "ipmi",
        access: IPMI,
    },
    Type {
        name: "libvirt",
        access: LIBVIRT,
    },
    Type {
        name: "redfish",
        access: REDFISH,
    },
    Type {
        name: "ilo5-redfish",
        access: REDFISH,
    },
    Type {
        name: "idrac-redfish",
        access: IDRAC_REDFISH,
    },
    Type {
        name: "redfish-virtualmedia",
        access: REDFISH_VIRTUAL_MEDIA,
    },
    Type {
        name: "ilo5-virtualmedia",
        access: REDFISH_VIRTUAL_MEDIA,
    },
    Type {
        name: "idrac-virtualmedia",
        access: IDRAC_VIRTUAL_MEDIA,
    },
    Type {
        name: "redfish-uefihttp",
        access: REDFISH_UEFI_HTTP,
    },
];

/// How Redfish is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Https,
}

impl Transport {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Looks a scheme up, in lower case, with or without a transport.
pub(crate) fn look_up(scheme: &str) -> Option<(&'static Type, Option<Transport>)> {
    let (name, transport) = match scheme.split_once('+') {
        None => (scheme, None),
        Some((name, "http")) => (name, Some(Transport::Http)),
        Some((name, "https")) => (name, Some(Transport::Https)),
        Some(_) => return None,
    };
    let found = TYPES.iter().find(|known| known.name == name)?;
    (transport.is_none() || found.access.family != Family::Ipmi).then_some((found, transport))
}
