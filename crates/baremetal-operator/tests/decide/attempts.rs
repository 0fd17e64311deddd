//! Whose failure it is when the specification changes around a failed deployment.

use baremetal_operator::host::plan::WaitReason;
use metal3_api::metal3::{BareMetalHostStatus, ErrorType};
use serde_json::json;

use crate::model::{Fault, Ironic};
use crate::world::{IMAGE, Outcome, Plan, World, image, instance, node, turbo};

const NEW_IMAGE: &str = "http://images/b.qcow2";

/// A host, and the Ironic that its plans are carried out in.
struct Scene {
    world: World,
    ironic: Ironic,
}

impl Scene {
    /// An image has failed as often as it says, and was deployed once more: that has failed too, which nobody has seen yet.
    fn with_failures(count: i32) -> Self {
        let mut ironic = Ironic::new(1);
        ironic.faults.insert(Fault::Deploy, 1);
        let mut scene = Self {
            world: World::at("provisioning", "available").with_spec(&json!({"image": image(IMAGE)})),
            ironic,
        };
        scene.ironic.node.clone_from(&scene.world.node);
        scene.pass();
        scene.world = scene.world.with_status(&json!({"provisioningFailCount": count}));
        scene.pass_until("deploying");
        scene.tick_until("deploy failed");
        scene
    }

    fn state(&self) -> &str {
        self.ironic.node.as_ref().unwrap().provision_state.as_str()
    }

    /// One pass: what was decided is stored and carried out.
    fn pass(&mut self) -> Plan {
        self.world.node.clone_from(&self.ironic.node);
        let plan = self.world.decide().plan;
        for effect in &plan.effects {
            self.ironic.apply(effect);
        }
        self.world.store(&plan);
        plan
    }

    fn pass_until(&mut self, state: &str) -> BareMetalHostStatus {
        for _ in 0..40 {
            let plan = self.pass();
            if self.state() == state {
                return plan.status;
            }
            if plan.effects.is_empty() {
                self.ironic.tick();
            }
        }
        panic!("not {state}: {:?}", self.world);
    }

    fn tick_until(&mut self, state: &str) {
        for _ in 0..40 {
            if self.state() == state {
                return;
            }
            self.ironic.tick();
        }
        panic!("not {state}: {:?}", self.ironic);
    }

    fn edit(&mut self, url: &str) {
        let generation = self.world.host.metadata.generation.map(|generation| generation + 1);
        let edit = json!({"spec": {"image": {"url": url}}, "metadata": {"generation": generation}});
        self.world = self.world.clone().with_host(&edit);
    }
}

#[test]
fn a_failure_that_was_not_seen_yet_is_not_the_new_images() {
    // OWN 4a: It is judged by the attempt that the node was told of, and by whether that was begun since.
    let mut scene = Scene::with_failures(4);
    scene.edit(NEW_IMAGE);
    while scene.state() != "deploying" {
        let status = scene.pass().status;
        assert_eq!(status.error_type, None, "{}", status.error_message);
        assert_eq!((status.provisioning_fail_count, status.error_count), (0, 0));
    }
    assert_eq!(scene.ironic.count("deleted"), 0);
    // Its own failure is.
    scene.ironic.faults.insert(Fault::Deploy, 1);
    scene.tick_until("deploy failed");
    let status = scene.pass().status;
    assert_eq!(
        (status.error_type, status.error_count),
        (Some(ErrorType::Provisioning), 1)
    );
}

#[test]
fn an_image_that_comes_while_another_is_deployed_starts_anew() {
    // OWN 4b: What failed before is not counted for it.
    let mut scene = Scene::with_failures(4);
    scene.ironic.node.as_mut().unwrap().provision_state = "deploying".into();
    scene.edit(NEW_IMAGE);
    assert_eq!(scene.pass().status.provisioning_fail_count, 0);
}

#[test]
fn an_image_that_comes_in_a_back_off_starts_anew() {
    // Neither the count nor the back-off is its own.
    let mut scene = Scene::with_failures(4);
    assert_eq!(scene.pass().status.error_count, 1);
    scene.edit(NEW_IMAGE);
    let status = scene.pass_until("deploying");
    assert_eq!((status.provisioning_fail_count, status.error_count), (0, 0));
}

#[test]
fn an_image_that_comes_back_keeps_its_failures() {
    // What failed is still what failed.
    let mut scene = Scene::with_failures(2);
    assert_eq!(scene.pass().status.error_count, 1);
    scene.edit(NEW_IMAGE);
    scene.pass();
    scene.edit(IMAGE);
    assert_eq!(scene.pass_until("deploying").provisioning_fail_count, 3);
}

#[test]
fn an_edit_of_firmware_ends_the_back_off_of_one_failure() {
    let mut world = World::at("preparing", "clean failed").with_turbo("On", 3);
    let mut pass = |generation: i64| {
        world.firmware.settings = Some(turbo("On", generation, generation));
        let Outcome { mut seen, plan, .. } = world.decide();
        plan.teach(&mut seen, world.now);
        world.memory = seen.memory;
        world.store(&plan);
        (plan.then.wait().unwrap().reason, plan.status.error_count)
    };
    assert_eq!(pass(3), (WaitReason::BackOff, 1));
    assert_eq!(pass(3), (WaitReason::BackOff, 1));
    assert_eq!(pass(4), (WaitReason::Preparing, 1));
    // The node still shows a failure: that of the next attempt.
    assert_eq!(pass(4), (WaitReason::BackOff, 2));
    assert_eq!(pass(4), (WaitReason::BackOff, 2));
}

// OWN 31xc: Ironic clears the message of a failed step when it powers the server off, and the host gave no reason.
#[test]
fn what_ironic_said_before_it_lost_the_reason_of_a_failed_deployment_is_told() {
    // It writes the message, powers the server off, and that clears it: seen for 1.2 s with the real agent.
    let mut world = World::at("provisioning", "wait call-back")
        .with_spec(&json!({"image": image(IMAGE)}))
        .with_node(&instance(IMAGE));
    let mut pass = |state: &str, error: Option<&str>| {
        let mut marks = instance(IMAGE);
        marks["last_error"] = json!(error);
        world.node = Some(node(state, &marks));
        let Outcome { mut seen, plan, .. } = world.decide();
        plan.teach(&mut seen, world.now);
        world.memory = seen.memory;
        world.store(&plan);
        plan.status.error_message
    };
    assert_eq!(pass("wait call-back", None), "");
    assert_eq!(pass("wait call-back", Some("no disk matches")), "");
    assert_eq!(pass("wait call-back", None), "");
    assert_eq!(
        pass("deploy failed", None),
        "Image provisioning failed: no disk matches"
    );
}
