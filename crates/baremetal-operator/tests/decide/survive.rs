//! A host that runs a workload survives what goes wrong around it: nothing is erased, switched off or let go, whatever
//! state its node is found in.

use std::time::Duration;

use baremetal_operator::host::observed::SecretView;
use baremetal_operator::host::plan::{Effect, Then, Wake};
use metal3_api::metal3::BareMetalHost;
use metal3_ironic::{PowerTarget, Verb};
use rstest::rstest;
use serde_json::{Value, json};

use crate::matrix::NODE_STATES;
use crate::show;
use crate::world::{IMAGE, Sight, World, image, instance, invalid, node, secret};

/// Both kinds of hosts that run something.
fn workloads() -> [World; 2] {
    let ours = World::at("provisioned", "active")
        .with_spec(&json!({"image": image(IMAGE)}))
        .with_status(&json!({"provisioning": {"image": image(IMAGE)}}))
        .with_node(&instance(IMAGE));
    let foreign = World::at("externally provisioned", "active").with_spec(&json!({"externallyProvisioned": true}));
    [ours, foreign]
}

fn harms(effect: &Effect) -> bool {
    match effect {
        Effect::Provision { request, .. } => !matches!(request.target, Verb::Manage | Verb::Adopt),
        Effect::Power { target, .. } => *target != PowerTarget::On,
        Effect::SetMaintenance { .. } | Effect::DeleteNode { .. } => true,
        _ => false,
    }
}

/// All that follows at once: what erases a disk is preceded by a decision that only stores where the host stands. It ends where
/// Ironic is asked for something, or something has to be waited for.
fn unharmed_at_once(mut world: World) {
    for _ in 0..16 {
        let outcome = world.decide();
        let harm = outcome.plan.effects.iter().find(|effect| harms(effect));
        assert!(harm.is_none(), "{}\n{world:?}", show::full(&outcome));
        let is_followed = match &outcome.plan.then {
            Then::Again => true,
            Then::Wait(wait) => wait.wake == Wake::After(Duration::ZERO),
            Then::Idle | Then::Gone => false,
        };
        if !is_followed || outcome.plan.effects.iter().any(Effect::is_ironic_mutation) {
            return;
        }
        for effect in &outcome.plan.effects {
            match effect {
                Effect::AddFinalizer { .. } => {
                    world.host.metadata.finalizers = Some(vec!["baremetalhost.metal3.io".into()]);
                }
                Effect::NoteSecrets(secrets) => world.note(secrets),
                Effect::RemoveAnnotation { key, .. } => {
                    world.host.metadata.annotations.as_mut().unwrap().remove(key);
                }
                Effect::ClaimSecret => {
                    if let SecretView::Found(found) = &mut world.secret {
                        found.claimed = true;
                    }
                }
                _ => {}
            }
        }
        world.host.status = Some(outcome.plan.status);
    }
    panic!("decisions without an end: {world:?}");
}

/// Every node that Ironic may have for the host, and every way of knowing it.
fn unharmed(world: &World, states: &[&str], marks: &Value) {
    let nodes = states.iter().map(|state| Some(node(state, marks))).chain([None]);
    for node in nodes {
        for sight in [
            Sight::Live,
            Sight::Listed,
            Sight::Unlisted,
            Sight::ListedThenDown,
            Sight::Unknown,
        ] {
            let mut world = world.clone();
            world.node.clone_from(&node);
            world.sight = sight;
            unharmed_at_once(world);
        }
    }
}

#[test]
fn ironic_that_was_wiped_or_meddled_with() {
    for world in workloads() {
        for marks in [instance(IMAGE), json!({}), json!({"last_error": "it broke"})] {
            unharmed(&world, &NODE_STATES, &marks);
        }
    }
}

#[rstest]
#[case::missing(SecretView::Missing, None)]
#[case::deleted(SecretView::Missing, Some("7"))]
#[case::broken(invalid("key password is empty", true), Some("8"))]
#[case::wrong(SecretView::Found(secret("8", 2)), Some("8"))]
fn credentials_that_are_wrong(#[case] view: SecretView, #[case] version: Option<&str>) {
    for mut world in workloads() {
        world.secret = view.clone();
        world.watched_version = version.map(str::to_owned);
        unharmed(&world, &NODE_STATES, &instance(IMAGE));
    }
}

#[test]
fn a_bmc_that_is_dead() {
    for world in workloads() {
        for marks in [
            json!({"maintenance": true, "fault": "power failure", "power_state": null}),
            json!({"maintenance": true, "fault": "power failure", "power_state": "power off"}),
            json!({"power_state": null, "last_error": "the BMC does not answer"}),
        ] {
            unharmed(&world, &NODE_STATES, &marks);
        }
    }
}

#[rstest]
#[case(json!({"baremetalhost.metal3.io/status": "{broken"}))]
#[case(json!({"baremetalhost.metal3.io/detached": "{broken"}))]
#[case(json!({"inspect.metal3.io/hardwaredetails": "{broken"}))]
#[case(json!({"inspect.metal3.io": ""}))]
fn annotations_that_are_broken_or_out_of_place(#[case] annotations: Value) {
    for world in workloads() {
        let world = world.with_host(&json!({"metadata": {"annotations": annotations}}));
        let is_detached = annotations.get("baremetalhost.metal3.io/detached").is_some();
        if is_detached {
            continue; // to be taken out of Ironic is what the annotation asks for; the server is left as it is
        }
        unharmed(&world, &NODE_STATES, &instance(IMAGE));
    }
}

/// The objects come from a backup that is older than the deployment; the node runs the image all the same.
#[rstest]
fn objects_that_come_from_an_old_backup(
    #[values("", "registering", "inspecting", "preparing", "available", "provisioning")] state: &str,
) {
    let [ours, foreign] = workloads();
    // What somebody else installs was never in state provisioning: there is no such backup.
    let foreign = (state != "provisioning").then_some(foreign);
    for world in [Some(ours), foreign].into_iter().flatten() {
        let world = world.with_status(&json!({"provisioning": {"state": state, "image": null}}));
        unharmed_active(&world);
    }
}

#[test]
fn a_status_that_is_lost() {
    for mut world in workloads() {
        let mut host: BareMetalHost = world.host.clone();
        host.status = None;
        world.host = host;
        unharmed_active(&world);
    }
}

/// What is known of a host by its objects is not enough to know that it runs something; its node is. One that was adopted,
/// because Ironic was wiped before or the host was detached for a while, is `active` and says nothing of an image. Without
/// inspection more states are passed in one go.
fn unharmed_active(world: &World) {
    let uninspected = world.clone().with_spec(&json!({"inspectionMode": "disabled"}));
    for world in [world, &uninspected] {
        unharmed(world, &["active"], &instance(IMAGE));
        unharmed(world, &["active"], &json!({}));
    }
}
