//! State changes of nodes: provisioning, power, RAID.

use serde_json::{Map, Value, json};

use super::lists::free;
use super::request::{Request, exclusive};
use super::steps;
use crate::conduct::{Work, has};
use crate::node::{Step, interface_kind};
use crate::refusal::{Answer, Refusal, Reply};
use crate::words::{Power, PowerTarget, State, Verb};
use crate::world::World;

/// Deploy interfaces that write no image of `image_source`.
const WITHOUT_IMAGE: &[&str] = &["custom-agent", "ramdisk"];

pub(super) fn show(world: &World, ident: &str) -> Answer {
    let number = world.find(ident)?;
    let node = world.nodes.get(&number).ok_or_else(|| Refusal::node_not_found(ident))?;
    let fields = [
        "power_state",
        "target_power_state",
        "provision_state",
        "target_provision_state",
        "provision_updated_at",
        "last_error",
        "raid_config",
        "target_raid_config",
        "console_enabled",
        "boot_mode",
        "secure_boot",
    ];
    let value = |field: &&str| {
        (
            (*field).to_owned(),
            node.field(field, &world.clock, &world.config.conductor),
        )
    };
    Ok(Reply::ok(fields.iter().map(value).collect::<Map<_, _>>().into()))
}

pub(super) fn provision(world: &mut World, request: &Request, ident: &str) -> Answer {
    let body = request.object()?;
    let number = world.find(ident)?;
    let wanted = body.get("target").and_then(Value::as_str).unwrap_or_default();
    let node = world.node(number)?;
    let (uuid, state, is_locked, maintenance) = (node.uuid.clone(), node.state, node.is_locked, node.maintenance);
    if maintenance && matches!(wanted, "active" | "rebuild") {
        return Err(Refusal::in_maintenance("provisioning", &uuid));
    }
    let Some((verb, to)) = Verb::parse(wanted).and_then(|verb| Some((verb, verb.from(state)?))) else {
        return Err(if is_locked {
            Refusal::held(&uuid, &world.config.conductor)
        } else {
            Refusal::state(wanted, &uuid, state.as_str())
        });
    };
    let steps = steps::read(&body, verb)?;
    let too_old = match verb {
        Verb::Abort if state == State::InspectWait => request.version < 41,
        Verb::Abort if state == State::DeployWait => request.version < 110,
        Verb::Service => request.version < 87,
        _ => false,
    };
    if too_old {
        return Err(Refusal::not_acceptable());
    }
    limits(world, verb)?;
    exclusive(world, number)?;
    match verb {
        Verb::Manage if state != State::Enroll => manage(world, number),
        Verb::Abort => abort(world, number, state)?,
        _ => begin(world, number, verb, to, steps, &body)?,
    }
    Ok(Reply::accepted())
}

/// `manage` where nothing has to be done.
fn manage(world: &mut World, number: u32) {
    world.enter(number, State::Manageable, None);
}

fn begin(
    world: &mut World,
    number: u32,
    verb: Verb,
    to: State,
    steps: Vec<Step>,
    body: &Map<String, Value>,
) -> Result<(), Refusal> {
    let node = world.node(number)?;
    let (uuid, fast) = (node.uuid.clone(), node.interfaces[kind("inspect_interface")] != "agent");
    if node.maintenance && matches!(verb, Verb::Clean | Verb::Service) {
        let what = if verb == Verb::Clean { "cleaning" } else { "service" };
        return Err(Refusal::in_maintenance(what, &uuid));
    }
    if verb == Verb::Deploy || verb == Verb::Rebuild {
        if let Some(why) = lacks(node) {
            return Err(Refusal::bad_request(format!(
                "Failed to validate deploy or power info for node {uuid}: {why}"
            )));
        }
        let drive = body.get("configdrive").filter(|drive| !drive.is_null()).cloned();
        if let Some(machine) = world.machine_of(number) {
            machine.more().config_drive = drive;
        }
    }
    let target = matches!(verb, Verb::Clean).then_some(State::Manageable);
    world.enter(number, to, target);
    let (work, one_more): (Work, fn(&mut crate::Counters)) = match verb {
        Verb::Manage => (Work::Verify, |c| c.verifies += 1),
        Verb::Inspect => {
            let work = if fast { Work::FastInspect } else { Work::Inspect };
            (work, |c| c.inspections += 1)
        }
        Verb::Provide | Verb::Abort => {
            world.count_clean(number);
            (Work::Clean { is_manual: false }, |_| {})
        }
        Verb::Clean => (Work::Clean { is_manual: true }, |c| c.manual_cleans += 1),
        Verb::Deploy | Verb::Rebuild => (Work::Deploy, |c| c.deploys += 1),
        Verb::Delete => (Work::TearDown, |c| c.undeploys += 1),
        Verb::Adopt => (Work::Adopt, |c| c.adopts += 1),
        Verb::Service => (Work::Service, |c| c.services += 1),
    };
    world.count(number, one_more);
    world.start(number, work, steps);
    Ok(())
}

/// The server's own limits.
fn limits(world: &World, verb: Verb) -> Result<(), Refusal> {
    let (what, count, most) = match verb {
        Verb::Deploy | Verb::Rebuild => (
            "provisioning",
            world.population(State::is_deploying),
            world.config.max_concurrent_deploy,
        ),
        Verb::Delete => (
            "unprovisioning",
            world.population(State::is_cleaning),
            world.config.max_concurrent_clean,
        ),
        Verb::Clean => (
            "cleaning",
            world.population(State::is_cleaning),
            world.config.max_concurrent_clean,
        ),
        _ => return Ok(()),
    };
    if count < most {
        return Ok(());
    }
    Err(Refusal::new(
        503,
        format!(
            "Unable to process request at this time. The concurrent action limit for {what} has been reached. Please contact \
             your administrator and try again later."
        ),
    ))
}

fn abort(world: &mut World, number: u32, state: State) -> Result<(), Refusal> {
    let node = world.node(number)?;
    let (uuid, maintenance, target) = (node.uuid.clone(), node.maintenance, node.target);
    let mut no_step = None;
    let step = match state {
        State::CleanWait => &mut node.clean_step,
        State::DeployWait => &mut node.deploy_step,
        State::ServiceWait => &mut node.service_step,
        _ => &mut no_step,
    };
    if let Some(step) = step.as_mut().filter(|step| !step.can_abort) {
        // Accepted; it takes effect when the step is done.
        step.abort_after = true;
        if let Some(task) = &mut node.task {
            task.abort = true;
        }
        return Ok(());
    }
    let during = step.as_ref().map_or_else(String::new, |step| {
        format!(" during or after the completion of step \"{}\"", step.id())
    });
    let text = |what: &str| format!("By request, the {what} operation was aborted{during}");
    let (to, last_error) = match state {
        State::CleanWait => (State::CleanFailed, text("clean")),
        State::DeployWait => (State::DeployFailed, text("deploy")),
        State::InspectWait => (State::InspectFailed, "Inspection was aborted by request.".to_owned()),
        State::ServiceFailed if maintenance => {
            return Err(Refusal::conflict(format!(
                "Can not abort service on node \"{uuid}\" while it is in maintenance mode. Please remove the node from \
                 maintenance prior to issuing the request to abort the service operation."
            )));
        }
        // Ironic tears down by an interface that it has chosen for the service, and has dropped when that failed.
        State::ServiceFailed if node.interfaces[kind("deploy_interface")] == "autodetect" => (
            State::Active,
            "Failed to tear down service after aborting the operation".to_owned(),
        ),
        _ => (State::Active, text("service")),
    };
    // After a failure nothing changes the power.
    let power = match (state, node.power) {
        (State::ServiceFailed, Some(power)) => power,
        (State::ServiceWait, _) => Power::On,
        _ => Power::Off,
    };
    world.enter(number, to, target);
    world.start(
        number,
        Work::Abort {
            last_error: last_error.clone(),
            power,
        },
        Vec::new(),
    );
    // Of these Ironic says why at once; of a deployment and a service only when it has cleared up.
    if matches!(state, State::CleanWait | State::InspectWait) {
        world.node(number)?.last_error = Some(last_error);
    }
    Ok(())
}

/// What a deployment of the node would lack.
pub(super) fn lacks(node: &crate::node::Node) -> Option<String> {
    let info = &node.instance_info;
    let interface = node.interfaces[kind("deploy_interface")];
    let (uuid, image) = (&node.uuid, has(info, "image_source"));
    let missing = |what: &str| {
        format!(
            "Cannot validate image information for node {uuid} because one or more parameters are missing from its \
             instance_info and insufficent information is present to boot from a remote volume. Missing are: ['{what}']"
        )
    };
    match interface {
        "ramdisk" if !(image || has(info, "boot_iso") || has(info, "kernel") && has(info, "ramdisk")) => {
            Some(missing("boot_iso"))
        }
        _ if WITHOUT_IMAGE.contains(&interface) || has(info, "boot_iso") => None,
        _ if !image => Some(missing("image_source")),
        _ => {
            let source = info.get("image_source").and_then(Value::as_str).unwrap_or_default();
            let has_sum =
                has(info, "image_checksum") || (has(info, "image_os_hash_algo") && has(info, "image_os_hash_value"));
            let is_checked = has_sum || source.starts_with("oci://") || source.starts_with("file://");
            (!is_checked).then(|| {
                format!(
                    "image_source's \"image_checksum\", or \"image_os_hash_algo\" and \"image_os_hash_value\" must be provided \
                     in instance_info for node {uuid}."
                )
            })
        }
    }
}

fn kind(field: &str) -> usize {
    interface_kind(field).unwrap_or_default()
}

pub(super) fn power(world: &mut World, request: &Request, ident: &str) -> Answer {
    let body = request.object()?;
    let number = world.find(ident)?;
    let wanted = body.get("target").and_then(Value::as_str).unwrap_or_default();
    let node = world.node(number)?;
    let (uuid, state, driver) = (node.uuid.clone(), node.state, node.driver);
    if body
        .get("timeout")
        .and_then(Value::as_i64)
        .is_some_and(|timeout| timeout < 1)
    {
        return Err(Refusal::bad_request("timeout has to be positive integer"));
    }
    let Some(target) = PowerTarget::parse(wanted) else {
        let power = node.power.map_or("None", crate::words::Power::as_str);
        return Err(Refusal::state(wanted, ident, power));
    };
    let is_soft = matches!(target, PowerTarget::SoftOff | PowerTarget::SoftReboot);
    if is_soft && request.version < 27 {
        return Err(Refusal::not_acceptable());
    }
    if matches!(state, State::Cleaning | State::CleanWait) {
        return Err(Refusal::state(wanted, ident, state.as_str()));
    }
    if node.disable_power_off && matches!(target, PowerTarget::Off | PowerTarget::SoftOff) {
        // Ironic has no status of its own for this: it is an error of the server.
        return Err(Refusal::new(
            500,
            format!("Failed to set node power state to {wanted}."),
        ));
    }
    exclusive(world, number)?;
    if is_soft && world.faults_of(number).is_some_and(|faults| faults.no_soft_power) {
        return Err(Refusal::bad_request(format!(
            "The driver {driver} does not support the power state, {wanted}"
        )));
    }
    if world.faults_of(number).is_none() && world.node(number)?.driver_info.is_empty() {
        return Err(Refusal::bad_request(format!(
            "Missing '{}_address' parameter in node's {uuid} driver_info",
            if driver == "ipmi" { "ipmi" } else { "redfish" }
        )));
    }
    world.start(number, Work::Power(target), Vec::new());
    world.node(number)?.target_power = Some(target.leads_to());
    Ok(Reply::accepted())
}

pub(super) fn raid(world: &mut World, request: &Request, ident: &str) -> Answer {
    let wanted = request.object()?;
    if !wanted.get("logical_disks").is_some_and(Value::is_array) {
        return Err(Refusal::bad_request(
            "RAID config validation error: 'logical_disks' is a required property",
        ));
    }
    let number = free(world, ident)?;
    let node = world.node(number)?;
    if node.interfaces[kind("raid_interface")] == "no-raid" {
        return Err(Refusal::bad_request(format!(
            "Driver {} does not support raid (disabled or not implemented).",
            node.driver
        )));
    }
    node.target_raid_config = wanted;
    debug_assert!(json!(node.target_raid_config).is_object());
    Ok(Reply::no_content())
}
