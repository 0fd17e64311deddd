//! A node's hardware data, and synchronous calls to its BMC.

use serde_json::{Map, Value, json};

use super::request::{Request, exclusive};
use super::states;
use crate::conduct::Work;
use crate::drivers::KINDS;
use crate::inventory;
use crate::refusal::{Answer, Refusal, Reply};
use crate::world::World;

const DEVICES: &[&str] = &["cdrom", "dvd", "floppy", "usb"];

pub(super) fn answer(world: &mut World, request: &Request, method: &str, ident: &str, rest: &[&str]) -> Answer {
    match (method, rest) {
        ("GET", ["validate"]) => validate(world, ident),
        ("GET", ["inventory"]) => inventory(world, request, ident),
        ("GET", ["bios"]) => {
            let number = world.find(ident)?;
            let detail = request.flag("detail").unwrap_or_default();
            Ok(Reply::ok(
                json!({"bios": inventory_of(world, number, |m| inventory::bios(m, detail))}),
            ))
        }
        ("GET", ["bios", setting]) => one_setting(world, ident, setting),
        ("GET", ["firmware"]) => firmware(world, request, ident),
        ("GET", ["management", "boot_device"]) => boot_device(world, ident),
        ("GET", ["vmedia"]) => media(world, request, ident),
        ("POST", ["vmedia"]) => attach(world, request, ident),
        ("DELETE", ["vmedia"]) => detach(world, request, ident),
        _ => Err(Refusal::no_such_path()),
    }
}

/// Something about the server of a node that was verified once: before, Ironic has read nothing of it.
fn inventory_of(
    world: &mut World,
    number: u32,
    read: impl FnOnce(Option<&crate::server::Machine>) -> Vec<Value>,
) -> Vec<Value> {
    let is_read = world
        .nodes
        .get(&number)
        .is_some_and(|node| node.driver != "ipmi" && node.health.is_some());
    if !is_read {
        return Vec::new();
    }
    read(world.machine_of(number).map(|machine| &*machine))
}

fn validate(world: &mut World, ident: &str) -> Answer {
    let number = world.find(ident)?;
    let node = world.node(number)?;
    let lacks = states::lacks(node);
    let address = if node.driver == "ipmi" {
        "ipmi_address"
    } else {
        "redfish_address"
    };
    let no_address = !crate::conduct::has(&node.driver_info, address);
    let driver = node.driver;
    let result = |kind: &&str| {
        let trouble = match *kind {
            "boot" | "deploy" => lacks.clone(),
            "power" | "management" if no_address => Some(format!(
                "The following required parameters are missing: {address} (driver {driver})"
            )),
            _ => None,
        };
        let value = match trouble {
            None => json!({"result": true}),
            Some(reason) => json!({"result": false, "reason": reason}),
        };
        ((*kind).to_owned(), value)
    };
    let kinds = KINDS.iter().filter(|kind| **kind != "vendor");
    Ok(Reply::ok(kinds.map(result).collect::<Map<_, _>>().into()).after_bmc())
}

fn inventory(world: &mut World, request: &Request, ident: &str) -> Answer {
    if request.version < 81 {
        return Err(Refusal::no_such_path());
    }
    let number = world.find(ident)?;
    let node = world.node(number)?;
    match &node.inventory {
        Some(found) => Ok(Reply::ok((**found).clone())),
        None => Err(Refusal::new(
            404,
            format!("Node inventory record for node {} could not be found.", node.uuid),
        )),
    }
}

fn one_setting(world: &mut World, ident: &str, setting: &str) -> Answer {
    let number = world.find(ident)?;
    let uuid = world.node(number)?.uuid.clone();
    let settings = inventory_of(world, number, |machine| inventory::bios(machine, true));
    match settings.into_iter().find(|one| one["name"] == *setting) {
        Some(one) => Ok(Reply::ok(json!({setting: one}))),
        None => Err(Refusal::new(
            404,
            format!("Node {uuid} doesn't have a BIOS setting '{setting}'"),
        )),
    }
}

fn firmware(world: &mut World, request: &Request, ident: &str) -> Answer {
    if request.version < 86 {
        return Err(Refusal::not_acceptable());
    }
    let number = world.find(ident)?;
    let created = world.node(number)?.created;
    let stamp = world.clock.stamp(created);
    let with_identity = request.version >= 114;
    let components = inventory_of(world, number, |machine| {
        inventory::firmware(machine, with_identity, &stamp)
    });
    Ok(Reply::ok(json!({"firmware": components})))
}

/// The BMC says which device the server boots from next, whatever state the node is in.
fn boot_device(world: &World, ident: &str) -> Answer {
    reach(world, world.find(ident)?)?;
    Ok(Reply::ok(json!({"boot_device": "disk", "persistent": true})).after_bmc())
}

fn media(world: &mut World, request: &Request, ident: &str) -> Answer {
    if request.version < 93 {
        return Err(Refusal::no_such_path());
    }
    let number = world.find(ident)?;
    has_media(world, number)?;
    reach(world, number)?;
    let media = world.machine_of(number).and_then(|machine| machine.more.as_ref());
    let media = media.map(|more| more.media.clone()).unwrap_or_default();
    let slot = |types: &[&str]| {
        let inserted = media.iter().find(|medium| {
            types
                .iter()
                .any(|kind| kind.eq_ignore_ascii_case(medium.device) || (*kind == "CD" && medium.device == "cdrom"))
        });
        json!({"media_types": types, "inserted": inserted.is_some(), "image": inserted.map_or("", |medium| medium.image.as_str())})
    };
    Ok(Reply::ok(json!([slot(&["CD", "DVD"]), slot(&["Floppy", "USBStick"])])).after_bmc())
}

fn has_media(world: &mut World, number: u32) -> Result<(), Refusal> {
    let node = world.node(number)?;
    if node.driver == "ipmi" {
        return Err(Refusal::bad_request(
            "Driver ipmi does not support virtual media (disabled or not implemented).",
        ));
    }
    Ok(())
}

/// Fails as a call does that cannot reach the BMC.
fn reach(world: &World, number: u32) -> Result<(), Refusal> {
    match world.bmc_trouble(number) {
        None => Ok(()),
        Some((_, why)) => Err(Refusal::new(500, why)),
    }
}

fn attach(world: &mut World, request: &Request, ident: &str) -> Answer {
    let body = request.object()?;
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let wanted = text("device_type").unwrap_or_default();
    let device = DEVICES.iter().find(|known| **known == wanted).copied();
    let device = device.ok_or_else(|| {
        Refusal::bad_request(format!("Schema error for vmedia: '{wanted}' is not one of {DEVICES:?}"))
    })?;
    let image = text("image_url").unwrap_or_default().to_owned();
    let scheme = image.split_once("://").map(|(scheme, _)| scheme).unwrap_or_default();
    if !["http", "https", "nfs", "cifs", "smb"].contains(&scheme) {
        return Err(Refusal::bad_request(format!(
            "Unsupported or missing URL scheme: {scheme}"
        )));
    }
    let number = ready_for_media(world, request, ident)?;
    world.start(number, Work::Attach { device, image }, Vec::new());
    Ok(Reply::no_content())
}

fn detach(world: &mut World, request: &Request, ident: &str) -> Answer {
    let devices: Vec<&'static str> = match request.asks("device_types") {
        None => DEVICES.to_vec(),
        Some(list) => {
            let known = |name: &str| DEVICES.iter().find(|known| **known == name).copied();
            let devices: Option<_> = list.split(',').map(str::trim).map(known).collect();
            devices
                .ok_or_else(|| Refusal::bad_request(format!("Invalid device type(s) {list} (valid are {DEVICES:?})")))?
        }
    };
    let number = ready_for_media(world, request, ident)?;
    world.start(number, Work::Detach { devices }, Vec::new());
    Ok(Reply::no_content())
}

fn ready_for_media(world: &mut World, request: &Request, ident: &str) -> Result<u32, Refusal> {
    if request.version < 89 {
        return Err(Refusal::no_such_path());
    }
    let number = world.find(ident)?;
    has_media(world, number)?;
    exclusive(world, number)?;
    let node = world.node(number)?;
    if node.maintenance && node.fault == Some("power failure") {
        let uuid = &node.uuid;
        return Err(Refusal::new(
            503,
            format!("Unable to attach virtual media for node {uuid} due to power failure state"),
        ));
    }
    Ok(number)
}
