//! Steps of cleaning, deployment and service in requests.

use serde_json::{Map, Value};

use crate::node::Step;
use crate::refusal::Refusal;
use crate::words::Verb;

/// The interfaces that steps are of.
const STEP_INTERFACES: &[&str] = &["vendor", "power", "management", "firmware", "deploy", "bios", "raid"];
/// The steps of a request, for the verb that they belong to.
pub(super) fn read(body: &Map<String, Value>, verb: Verb) -> Result<Vec<Step>, Refusal> {
    let mut found = Vec::new();
    for (key, of, word) in [
        ("clean_steps", Verb::Clean, "clean"),
        ("service_steps", Verb::Service, "service"),
        ("deploy_steps", Verb::Deploy, "active"),
    ] {
        let is_its = verb == of || (of == Verb::Deploy && verb == Verb::Rebuild);
        let given = body
            .get(key)
            .and_then(Value::as_array)
            .filter(|steps| !steps.is_empty());
        match given {
            Some(_) if !is_its => {
                return Err(Refusal::bad_request(format!(
                    "\"{key}\" is only valid when setting target provision state to {word}"
                )));
            }
            None if is_its && of != Verb::Deploy => {
                return Err(Refusal::bad_request(format!(
                    "\"{key}\" is required when setting target provision state to {word}"
                )));
            }
            Some(steps) => {
                let all: Result<_, _> = steps.iter().map(|step| read_one(step, key, of)).collect();
                found = all?;
            }
            None => {}
        }
    }
    Ok(found)
}

fn read_one(step: &Value, key: &str, of: Verb) -> Result<Step, Refusal> {
    let wrong = |why: &str| Refusal::bad_request(format!("Invalid {key}: {why}"));
    let map = step.as_object().ok_or_else(|| wrong("a step is not an object"))?;
    let needed: &[&str] = match of {
        Verb::Deploy => &["interface", "step", "args", "priority"],
        _ => &["interface", "step"],
    };
    let optional: &[&str] = match of {
        Verb::Deploy => &[],
        _ => &["args", "order", "execute_on_child_nodes", "limit_child_node_execution"],
    };
    if let Some(missing) = ["interface", "step"].iter().find(|part| !map.contains_key(**part)) {
        // The policy is asked about the step before its form is looked at.
        return Err(Refusal::new(500, format!("'{missing}'")));
    }
    if let Some(missing) = needed.iter().find(|part| !map.contains_key(**part)) {
        return Err(wrong(&format!("'{missing}' is a required property")));
    }
    if let Some(key) = map
        .keys()
        .find(|key| !needed.contains(&key.as_str()) && !optional.contains(&key.as_str()))
    {
        return Err(wrong(&format!(
            "Additional properties are not allowed ('{key}' was unexpected)"
        )));
    }
    let text = |part: &str| map.get(part).and_then(Value::as_str).unwrap_or_default().to_owned();
    let interface = text("interface");
    if !STEP_INTERFACES.contains(&interface.as_str()) {
        return Err(wrong(&format!("'{interface}' is not one of {STEP_INTERFACES:?}")));
    }
    Ok(Step {
        // What the agent does can be broken off; what a BMC does cannot.
        can_abort: interface == "deploy",
        abort_after: false,
        interface,
        name: text("step"),
        args: map.get("args").and_then(Value::as_object).cloned().unwrap_or_default(),
    })
}
