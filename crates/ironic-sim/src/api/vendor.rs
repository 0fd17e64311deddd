//! The vendor passthru of Redfish drivers, as far as it concerns subscriptions to events.

use serde_json::{Map, Value, json};
use url::Url;

use super::request::{Request, exclusive};
use crate::refusal::{Answer, Refusal, Reply};
use crate::world::World;

/// Where a BMC has its subscriptions.
const SUBSCRIPTIONS: &str = "/redfish/v1/EventService/Subscriptions";
/// What Ironic shows of one.
const SHOWN: &[&str] = &["Id", "Context", "Protocol", "Destination", "EventTypes"];

pub(super) fn answer(world: &mut World, request: &Request, ident: &str) -> Answer {
    let number = world.find(ident)?;
    // Arguments of the method are in the body.
    if request.asks("id").is_some() {
        return Err(Refusal::bad_request("Unexpected arguments: id"));
    }
    let method = request.asks("method").unwrap_or_default();
    let known = match method {
        "create_subscription" => "POST",
        "delete_subscription" => "DELETE",
        "get_all_subscriptions" | "get_subscription" => "GET",
        _ => "",
    };
    let node = world.node(number)?;
    if node.driver == "ipmi" || request.method != known {
        let driver = node.driver;
        return Err(Refusal::bad_request(format!(
            "Driver {driver} does not support {method} (disabled or not implemented)."
        )));
    }
    exclusive(world, number)?;
    match method {
        "create_subscription" => create(world, number, request.object()?),
        "delete_subscription" => delete(world, number, &request.object()?),
        "get_all_subscriptions" => list(world, number),
        _ => show(world, number, &request.object()?),
    }
}

fn create(world: &mut World, number: u32, wanted: Map<String, Value>) -> Answer {
    let destination = wanted.get("Destination").and_then(Value::as_str).unwrap_or_default();
    if !destination.contains("://") {
        return Err(Refusal::bad_request(format!(
            "Destination {destination} is not a valid URI"
        )));
    }
    reach(world, number, 500, || {
        format!("Failed to create subscription. Subscription payload: {wanted:?}.")
    })?;
    let id = world.new_uuid();
    let mut made = json!({"Id": id, "Context": "", "Protocol": "Redfish", "EventTypes": ["Alert"]});
    for (key, value) in wanted {
        made[key] = value;
    }
    made["Destination"] = as_kept(&made["Destination"]);
    let shown = shown(&made);
    if let Some(machine) = world.machine_of(number) {
        machine.more().subscriptions.insert(id, made);
    }
    Ok(Reply::ok(shown).after_bmc())
}

/// A BMC need not keep a URL as it was given: this one adds port and path, as bmcweb does.
fn as_kept(destination: &Value) -> Value {
    let parsed = destination.as_str().and_then(|text| Url::parse(text).ok());
    let kept = parsed.and_then(|url| {
        let (host, port) = (url.host_str()?, url.port_or_known_default()?);
        Some(format!("{}://{host}:{port}{}", url.scheme(), url.path()).into())
    });
    kept.unwrap_or_else(|| destination.clone())
}

fn delete(world: &mut World, number: u32, wanted: &Map<String, Value>) -> Answer {
    let id = wanted.get("id").and_then(Value::as_str).unwrap_or_default();
    if id.is_empty() {
        return Err(Refusal::bad_request("id can't be None"));
    }
    // Ironic answers so whatever the BMC has said.
    let failed = || format!("Redfish delete_subscription failed for subscription {id}.");
    reach(world, number, 404, failed)?;
    let machine = world.machine_of(number);
    match machine.and_then(|machine| machine.more().subscriptions.remove(id)) {
        Some(_) => Ok(Reply::ok(Value::Null).after_bmc()),
        None => Err(Refusal::new(404, failed())),
    }
}

fn list(world: &mut World, number: u32) -> Answer {
    reach(world, number, 500, || "Redfish get_subscriptions failed.".to_owned())?;
    let machine = world.machine_of(number).and_then(|machine| machine.more.as_ref());
    let ids = machine.iter().flat_map(|more| more.subscriptions.keys());
    let members: Vec<_> = ids
        .map(|id| json!({"@odata.id": format!("{SUBSCRIPTIONS}/{id}")}))
        .collect();
    Ok(
        Reply::ok(json!({"@odata.id": SUBSCRIPTIONS, "Members@odata.count": members.len(), "Members": members}))
            .after_bmc(),
    )
}

fn show(world: &mut World, number: u32, wanted: &Map<String, Value>) -> Answer {
    let id = wanted.get("id").and_then(Value::as_str).unwrap_or_default();
    let failed = || format!("Redfish get_subscription failed for subscription {id}.");
    reach(world, number, 500, failed)?;
    let machine = world.machine_of(number).and_then(|machine| machine.more.as_ref());
    match machine.and_then(|more| more.subscriptions.get(id)) {
        Some(found) if found.is_object() => Ok(Reply::ok(shown(found)).after_bmc()),
        Some(_) | None => Err(Refusal::new(500, failed())),
    }
}

fn shown(subscription: &Value) -> Value {
    let fields = SHOWN.iter().map(|key| ((*key).to_owned(), subscription[*key].clone()));
    fields.collect::<Map<_, _>>().into()
}

fn reach(world: &World, number: u32, status: u16, what: impl FnOnce() -> String) -> Result<(), Refusal> {
    match world.bmc_trouble(number) {
        None => Ok(()),
        Some((_, why)) => Err(Refusal::new(status, format!("{} Error: {why}", what()))),
    }
}
