//! The line that a wait is logged with is the one that decided on it, not the one that all of its kind share.

use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};

use crate::table::LONG_AGO;
use crate::world::{Sight, World};

/// A host that is prepared with these volumes.
fn preparing(node_state: &str, volumes: &Value) -> World {
    World::at("preparing", node_state).with_spec(&json!({"raid": volumes}))
}

fn volumes() -> Value {
    json!({"softwareRAIDVolumes": [{"level": "1"}]})
}

fn both_kinds() -> Value {
    json!({"softwareRAIDVolumes": [{"level": "1"}], "hardwareRAIDVolumes": [{"level": "1"}]})
}

fn locked() -> World {
    preparing("manageable", &volumes()).with_node(&json!({"reservation": "conductor"}))
}

fn without_ironic() -> World {
    let mut world = preparing("manageable", &volumes());
    world.sight = Sight::Unknown;
    world
}

// OWN 31hc: it was the line of the helper, the same for every failure.
#[rstest]
#[case::failure(preparing("clean failed", &volumes()), "decide/prepare.rs", "plan.failure(")]
#[case::back_off(preparing("clean failed", &volumes()).failed("preparation error", 20, LONG_AGO), "decide/prepare.rs", "plan.failure(")]
#[case::held_back(preparing("manageable", &volumes()).failed("preparation error", 20, LONG_AGO), "decide/prepare.rs", "plan.held_back(")]
#[case::refusal(preparing("manageable", &both_kinds()), "decide/prepare.rs", "plan.refuse(")]
#[case::unexpected_state(preparing("clean hold", &volumes()), "decide/prepare.rs", "unexpected(")]
#[case::lock(locked(), "decide/prepare.rs", "plan.live()")]
#[case::outage(without_ironic(), "decide/prepare.rs", "outage(")]
fn a_wait_names_the_line_that_decided_on_it(#[case] world: World, #[case] file: &str, #[case] code: &str) {
    let plan = world.decide().plan;
    let place = plan.then.wait().unwrap().decided_at;
    assert!(place.file().ends_with(file), "{place}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = std::fs::read_to_string(root.join(place.file())).unwrap();
    let line = source.lines().nth(place.line() as usize - 1).unwrap();
    assert!(line.contains(code), "{place}: {line}");
}
