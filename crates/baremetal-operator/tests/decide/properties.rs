//! What holds for any host in any surroundings.

use std::time::Duration;

use baremetal_operator::host::observed::NodeView;
use baremetal_operator::host::plan::{Then, WaitReason, Wake};
use baremetal_operator::host::{WAITING, is_exempt};
use jiff::Timestamp;
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::{BareMetalHostStatus, OperationalStatus};
use proptest::prelude::*;
use serde_json::json;

use crate::arbitrary::{in_queue, world};
use crate::oracle::{Oracle, can_reach, is_on_its_way_out};
use crate::show;
use crate::world::{Outcome, Plan, World};

/// What the API server would refuse, or a reader would not understand.
fn flaws(plan: &Plan, generation: Option<i64>) -> Vec<String> {
    let status = &plan.status;
    let mut found = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            found.push(what.to_owned());
        }
    };
    let is_error = status.operational_status == OperationalStatus::Error;
    // A detached host keeps what was wrong with it for when it comes back.
    let keeps_error = status.operational_status == OperationalStatus::Detached && status.error_type.is_some();
    expect(
        (is_error || keeps_error) == status.error_type.is_some(),
        "operationalStatus and errorType disagree",
    );
    expect(
        (is_error || keeps_error) != status.error_message.is_empty(),
        "an error without a message, or the other way round",
    );
    expect(!is_error || status.error_count > 0, "an error that was not counted");
    expect(status.error_message.len() <= 1100, "an unbounded errorMessage");
    expect(!status.error_message.contains('\n'), "an errorMessage of several lines");
    let stored = serde_json::to_value(status).unwrap();
    let read: BareMetalHostStatus = serde_json::from_value(stored).unwrap();
    expect(read == *status, "the status changes when it is stored");
    for (i, condition) in status.conditions.iter().enumerate() {
        expect(!condition.reason.is_empty(), "a condition without a reason");
        expect(condition.message.len() <= 4096, "an unbounded message");
        let is_first = i == 0;
        let order = is_first
            || status.conditions[i - 1].type_ == "Ready"
            || status.conditions[i - 1].type_ < condition.type_ && condition.type_ != "Ready";
        expect(order, "conditions out of order, or twice");
    }
    if matches!(plan.then, Then::Wait(_) | Then::Idle) {
        let waiting = status.conditions.iter().find(|c| c.type_ == WAITING);
        let says = waiting.map(|c| (c.status.clone(), c.reason.as_str()));
        let expected = match &plan.then {
            Then::Wait(wait) if !wait.is_shown => return found,
            Then::Wait(wait) => (ConditionStatus::True, wait.reason.as_str()),
            _ => (ConditionStatus::False, "NotWaiting"),
        };
        expect(
            says == Some(expected),
            "the Waiting condition does not say what is waited for",
        );
        expect(
            waiting.is_some_and(|c| c.observed_generation == generation),
            "the Waiting condition is of another generation",
        );
    }
    expect(show::next_check(plan).is_none(), "the next check is not told");
    for note in &plan.events {
        expect(note.message.len() <= 1200, "an unbounded event");
    }
    found
}

fn is_annotated(world: &World, key: &str) -> bool {
    let annotations = world.host.metadata.annotations.as_ref();
    annotations.is_some_and(|a| a.contains_key(key))
}

fn is_paused(world: &World) -> bool {
    let keys = [
        "baremetalhost.metal3.io/paused",
        "clusterctl.cluster.x-k8s.io/delete-for-move",
    ];
    keys.iter().any(|key| is_annotated(world, key))
}

/// The host as it would be stored after the plan.
fn stored(world: &World, outcome: &Outcome) -> World {
    let mut next = world.clone();
    next.store(&outcome.plan);
    next.memory = outcome.seen.memory.clone();
    next
}

proptest! {
    #![proptest_config(crate::cases(6000))]

    /// It ends (`World::decide` refuses to answer twice), and what it plans is allowed, legal and storable.
    #[test]
    fn any_plan_is_allowed(world in world()) {
        let outcome = world.decide();
        let objections = Oracle::new(&world.host).objections(&outcome.seen, &outcome.plan);
        prop_assert!(objections.is_empty(), "{:?}\n{}", objections, show::full(&outcome));
        if is_paused(&world) {
            prop_assert!(outcome.plan.effects.is_empty());
            prop_assert!(world.is_stored(&outcome.plan));
            return Ok(());
        }
        let before = world.host.status.as_ref().unwrap().provisioning.state.as_str();
        let after = outcome.plan.status.provisioning.state.as_str();
        let is_deleting = is_on_its_way_out(&world.host);
        prop_assert!(can_reach(before, after, is_deleting, is_annotated(&world, "baremetalhost.metal3.io/detached")), "{:?} → {:?}", before, after);
        let is_released = world.host.metadata.deletion_timestamp.is_some() && world.host.metadata.finalizers.is_none();
        if !is_released {
            let flaws = flaws(&outcome.plan, world.host.metadata.generation);
            prop_assert!(flaws.is_empty(), "{:?}\n{}", flaws, show::full(&outcome));
        }
    }

    /// Nothing moves, so nothing is written or told a second time: otherwise the operator would wake itself for ever.
    #[test]
    fn a_host_that_waits_is_left_alone(world in world()) {
        let mut world = world;
        let mut outcome = world.decide();
        let moves = |outcome: &Outcome| {
            let at_once = matches!(&outcome.plan.then, Then::Wait(wait) if wait.wake == Wake::After(Duration::ZERO));
            at_once || !outcome.plan.effects.is_empty() || matches!(outcome.plan.then, Then::Gone | Then::Again)
        };
        // The first pass may end an edit; the second sees what was stored.
        for _ in 0..2 {
            if moves(&outcome) {
                return Ok(());
            }
            world = stored(&world, &outcome);
            world.now += jiff::SignedDuration::from_millis(3400);
            outcome = world.decide();
        }
        if moves(&outcome) {
            return Ok(());
        }
        prop_assert!(outcome.plan.events.is_empty(), "{}", show::full(&outcome));
        let status = world.host.status.as_ref().unwrap();
        let (again, before) = (json!(outcome.plan.status), json!(status));
        prop_assert!(world.is_stored(&outcome.plan), "{}\nwas\n{}\n{}", again, before, show::full(&outcome));
    }

    /// Ironic is away: nothing is asked of it, no failure is recorded, and a host at rest is not even written to.
    #[test]
    fn an_outage_is_nobodys_failure(world in world()) {
        let mut world = world;
        world.sight = crate::world::Sight::Unknown;
        let outcome = world.decide();
        prop_assert!(outcome.plan.effects.iter().all(|e| !e.is_ironic_mutation()));
        let is_unknown = matches!(outcome.seen.node, NodeView::Unknown { .. });
        prop_assert!(is_unknown);
    }

    /// A place in the queue counts from when the host was told of it: neither an outage nor a lock may be told instead.
    #[test]
    fn trouble_costs_no_place_in_the_queue(world in world(), is_locked in any::<bool>()) {
        let mut world = world.with_status(&in_queue());
        if is_locked {
            let node = world.node.iter_mut();
            node.for_each(|node| node.reservation = Some("conductor-1".to_owned()));
            world.memory.locked_since = Some(Timestamp::UNIX_EPOCH);
        } else {
            world.sight = crate::world::Sight::Unknown;
        }
        let plan = world.decide().plan;
        let before = &world.host.status.as_ref().unwrap().provisioning.state;
        if is_exempt(&world.host) || plan.status.provisioning.state != *before {
            return Ok(());
        }
        if let Then::Wait(wait) = &plan.then {
            let is_trouble = wait.wake == Wake::Ironic || wait.reason == WaitReason::NodeLocked;
            prop_assert!(!is_trouble || !wait.is_shown, "{:?}", wait);
            let since = |conditions: &[Condition]| {
                let waiting = conditions.iter().find(|c| c.type_ == WAITING).unwrap();
                (waiting.reason == "Queued").then(|| waiting.last_transition_time.clone())
            };
            let stored = since(&world.host.status.as_ref().unwrap().conditions);
            prop_assert!(wait.reason != WaitReason::Queued || since(&plan.status.conditions) == stored);
        }
    }
}
