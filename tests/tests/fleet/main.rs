//! Many hosts, a faulty Ironic, and a crashing operator: no action is repeated, and all hosts are provisioned.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

mod claim_moves;
mod claims;
mod companions;
mod endings;
mod firmware;
mod ironic_resource;
mod namespaces;
mod switches;

use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use metal3_api::metal3::{BareMetalHost, ErrorType, HardwareData, ProvisioningState};
use metal3_ironic_sim::{Action, Rule};
use metal3_scenarios::{FleetEnv, LIMIT, condition, id, run, state, status};
use metal3_testkit::{eventually, namespace};
use serde_json::json;

fn locked() -> Action {
    Action::Refuse {
        status: 409,
        text: "Node x is locked by host sim-conductor, please retry after the current operation is completed."
            .to_owned(),
        retry_after: None,
    }
}

fn rule(method: &str, path: &str, probability: f64, count: u32, after: bool, action: Action) -> Rule {
    Rule {
        method: Some(method.to_owned()),
        path: Some(path.to_owned()),
        probability,
        count: Some(count),
        after,
        action,
        ..Rule::default()
    }
}

#[test]
fn a_fleet_arrives_through_storms() {
    const HOSTS: u32 = 60;
    run(async {
        let mut env = FleetEnv::new(namespace!().await, HOSTS, 7).await;
        let provision = "/v1/nodes/*/states/provision";
        let busy = Action::Refuse {
            status: 503,
            text: "Requested action cannot be performed due to lack of free conductor workers.".to_owned(),
            retry_after: Some(1),
        };
        for trouble in [
            // The node is created, the state change has begun, and the response is lost.
            rule("POST", "/v1/nodes", 0.2, 10, true, Action::Half),
            rule("PUT", provision, 0.1, 10, true, Action::Half),
            rule("POST", "/v1/ports", 0.2, 10, true, Action::Half),
            rule("PUT", provision, 0.2, 40, false, locked()),
            rule("POST", "/v1/nodes", 0.2, 10, false, busy),
            rule("GET", "/v1/nodes/*", 0.1, 20, false, Action::Half),
            rule("GET", "/v1/nodes", 0.1, 5, true, Action::Half),
            rule("PUT", "/v1/nodes/*/states/power", 0.3, 20, false, locked()),
        ] {
            env.sim.add_rule(trouble);
        }
        env.start_operator().await;
        env.apply_hosts().await;
        env.until("a third is enrolled", |sum| sum.creates > HOSTS / 3).await;
        env.kill_operator();
        env.start_operator().await;
        env.until("a third is inspected", |sum| sum.inspections > HOSTS / 3)
            .await;
        // The conductor's current work has failed, and it is briefly unavailable.
        env.sim.crash();
        env.disconnect().await;
        env.kill_operator();
        env.start_operator().await;
        env.connect().await;
        let hosts = env.expect_all(ProvisioningState::Available).await;

        let went = env.sim.all_counters();
        assert_eq!(went.len(), HOSTS as usize);
        for (server, went) in &went {
            let counts = (went.creates, went.deletes, went.deploys, went.undeploys, went.adopts);
            assert_eq!(counts, (1, 0, 0, 0, 0), "server {server}: {went:?}");
            assert!(env.sim.is_on(*server), "server {server} is to be on");
        }
        let mut ids: Vec<String> = hosts.iter().map(id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), HOSTS as usize, "every host has a node of its own");
        let (_, ports) = env.sim.call("GET", "/v1/ports?fields=address", 95, json!(null));
        // The boot card is set by the operator, the other one by inspection.
        assert_eq!(ports["ports"].as_array().map(Vec::len), Some(2 * HOSTS as usize));
        println!("requests: {:?}", env.sim.requests());
    });
}

/// A lock ends by itself. A persistent error of Ironic for the same node does not, so it is reported to the user.
#[test]
fn a_refusal_that_stays_is_an_error_and_a_lock_is_none() {
    // D4 of upstream's: every 409 counts as a lock, and a rejected request is repeated for ever.
    const REFUSED: &str =
        "The requested action \"manage\" can not be performed on node x while it is in state \"enroll\".";
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 10).await;
        let provision = "/v1/nodes/*/states/provision";
        env.sim.add_rule(rule("PUT", provision, 1.0, 5, false, locked()));
        env.sim.add_rule(Rule {
            method: Some("PUT".to_owned()),
            path: Some(provision.to_owned()),
            action: Action::Refuse {
                status: 409,
                text: REFUSED.to_owned(),
                retry_after: None,
            },
            ..Rule::default()
        });
        env.start_operator().await;
        env.apply_hosts().await;
        let name = env.sim.server(0).name;
        let hosts = env.namespace.api::<BareMetalHost>();
        let host = eventually(LIMIT, "the refusal is told twice", || async {
            let host = hosts.get(&name).await.map_err(|e| e.to_string())?;
            match &host.status {
                Some(status) if status.error_count >= 2 => Ok(host),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let shown = status(&host);
        assert_eq!(shown.error_type, Some(ErrorType::Registration));
        assert!(shown.error_message.contains(REFUSED), "{}", shown.error_message);
        let waiting = condition(&host, "Waiting").unwrap();
        assert_eq!(
            (waiting.reason.as_str(), state(&host)),
            ("BackOff", ProvisioningState::Registering)
        );
        let events: Api<Event> = env.namespace.api();
        let told = events.list(&ListParams::default()).await.unwrap().items.into_iter();
        let told = told.filter(|event| event.reason.as_deref() == Some("RegistrationError"));
        let told: Vec<_> = told.filter_map(|event| event.message).collect();
        assert!(
            !told.is_empty() && told.iter().all(|note| note.contains(REFUSED)),
            "{told:?}"
        );

        env.sim.clear_rules();
        let hosts = env.expect_all(ProvisioningState::Available).await;
        assert_eq!(status(&hosts[0]).error_count, 0);
    });
}

/// The operator does not own the inspection data, and must not overwrite it.
#[test]
fn hardware_outlives_all_other_writes_and_is_replaced_by_an_inspection() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 9).await;
        env.start_operator().await;
        env.apply_hosts().await;
        let hardware = |hosts: &[BareMetalHost]| hosts[0].status.clone().unwrap().hardware.unwrap();
        let inspected = hardware(&env.expect_all(ProvisioningState::Available).await);
        assert!(!inspected.nics.is_empty() && !inspected.storage.is_empty() && !inspected.cpu.flags.is_empty());
        let name = env.sim.server(0).name;
        let data: HardwareData = env.namespace.api().get(&name).await.unwrap();
        assert_eq!(data.spec.hardware, Some(inspected.clone()));

        // Something that no inspection has found, and an operator that has never seen the details.
        let mut marked = inspected.clone();
        marked.hostname = "by-hand".to_owned();
        let mark = Patch::Merge(json!({"status": {"hardware": {"hostname": marked.hostname}}}));
        let api = env.namespace.api::<BareMetalHost>();
        api.patch_status(&name, &PatchParams::default(), &mark).await.unwrap();
        env.kill_operator();
        env.start_operator().await;
        let image = json!({"url": "http://images.example/a.img", "checksum": "ab".repeat(32), "checksumType": "sha256", "format": "raw"});
        env.patch_hosts(&json!({"spec": {"image": image}})).await;
        assert_eq!(hardware(&env.expect_all(ProvisioningState::Provisioned).await), marked);
        env.patch_hosts(&json!({"spec": {"image": null}})).await;
        assert_eq!(hardware(&env.expect_all(ProvisioningState::Available).await), marked);

        env.patch_hosts(&json!({"metadata": {"annotations": {"inspect.metal3.io": ""}}}))
            .await;
        env.until("it is inspected again", |sum| sum.inspections == 2).await;
        let hosts = env.expect_all(ProvisioningState::Available).await;
        assert_eq!(hardware(&hosts), inspected);
        // DEFECT 22: it exists all the time.
        let again: HardwareData = env.namespace.api().get(&name).await.unwrap();
        assert_eq!(again.metadata.uid, data.metadata.uid, "updated in place");
        // DEFECT 23: the spec belongs to its owner, even if the architecture was detected.
        assert!(!inspected.cpu.arch.is_empty());
        assert_eq!(hosts[0].spec.architecture, "");
    });
}

#[test]
fn instances_survive_an_ironic_that_forgets_them() {
    const HOSTS: u32 = 20;
    run(async {
        let mut env = FleetEnv::new(namespace!().await, HOSTS, 8).await;
        env.start_operator().await;
        env.apply_hosts().await;
        env.expect_all(ProvisioningState::Available).await;
        let image = json!({"url": "http://images.example/a.img", "checksum": "ab".repeat(32), "checksumType": "sha256", "format": "raw"});
        env.patch_hosts(&json!({"spec": {"image": image}})).await;
        env.until("half is being deployed", |sum| sum.deploys > HOSTS / 2).await;
        env.kill_operator();
        env.start_operator().await;
        env.expect_all(ProvisioningState::Provisioned).await;
        assert_eq!(env.sum().deploys, HOSTS, "each was deployed once");

        env.sim.wipe();
        env.until("all are enrolled again", |sum| sum.creates == 2 * HOSTS)
            .await;
        let hosts = env.expect_all(ProvisioningState::Provisioned).await;
        assert_eq!(
            (env.sum().deploys, env.sum().creates),
            (HOSTS, 2 * HOSTS),
            "nothing is deployed again"
        );
        for (server, went) in env.sim.all_counters() {
            assert!(env.sim.is_on(server), "server {server} ran on");
            assert_eq!((went.power_offs, went.undeploys), (0, 0), "server {server}: {went:?}");
        }
        assert_eq!(hosts.len(), HOSTS as usize);
    });
}

// OWN 5b: a host being deleted released its node when a gateway, and not Ironic, answered 404.
#[test]
fn a_gateway_without_its_ironic_orphans_no_node() {
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 1, 11).await;
        env.start_operator().await;
        env.apply_hosts().await;
        let hosts = env.expect_all(ProvisioningState::Available).await;
        let (name, node) = (hosts[0].metadata.name.clone().unwrap(), id(&hosts[0]));
        let page = Rule {
            action: Action::Page { status: 404 },
            ..Rule::default()
        };
        env.sim.add_rule(page);
        let api: Api<BareMetalHost> = env.namespace.api();
        api.delete(&name, &DeleteParams::default()).await.unwrap();
        env.expect_waiting(&name, "IronicFailing", "web page").await;
        let before = env.sim.requests();
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let asked: u64 = env.sim.requests().values().sum::<u64>() - before.values().sum::<u64>();
        assert!(asked < 100, "{asked} requests in five seconds");
        assert!(api.get_opt(&name).await.unwrap().is_some(), "the host stays");
        assert!(env.sim.all_counters().values().all(|went| went.deletes == 0));
        env.sim.clear_rules();
        eventually(LIMIT, "the host is gone", || async {
            match api.get_opt(&name).await.unwrap() {
                None => Ok(()),
                Some(host) => Err(format!("{:?}", host.status)),
            }
        })
        .await;
        let (code, _) = env.sim.call("GET", &format!("/v1/nodes/{node}"), 95, json!(null));
        assert_eq!(code, 404, "and so is its node");
    });
}
