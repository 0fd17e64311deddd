//! The objects for a host's firmware: created or taken up, edited, shared, and nothing without need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::names::annotation::RECORDED_STATUS;
use metal3_api::metal3::{
    BareMetalHost, FirmwareSchema, HostFirmwareComponents, HostFirmwareSettings, HostUpdatePolicy, ProvisioningState,
};
use metal3_ironic_sim::Faults;
use metal3_lab::audit::{Position, Request};
use metal3_scenarios::{FleetEnv, LIMIT, condition, run, state, status};
use metal3_testkit::{eventually, namespace};
use serde_json::{Value, json};

use super::companions::{another_second, move_away_and_back, owner, until};

const URL: &str = "http://firmware.example/bios-2.bin";

fn object(kind: &str, name: &str, spec: &Value) -> String {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}).to_string()
}

/// The conditions with their status, all of them for this generation.
fn conditions(found: &[Condition], generation: Option<i64>) -> Result<BTreeMap<String, bool>, String> {
    if found
        .iter()
        .any(|condition| condition.observed_generation != generation)
    {
        return Err(format!("not for {generation:?}: {found:?}"));
    }
    let holds = |condition: &Condition| (condition.type_.clone(), condition.status == ConditionStatus::True);
    Ok(found.iter().map(holds).collect())
}

fn verdict(is_changed: bool, is_valid: bool) -> BTreeMap<String, bool> {
    BTreeMap::from([
        ("ChangeDetected".to_owned(), is_changed),
        ("Valid".to_owned(), is_valid),
    ])
}

/// Waits until a host's settings have this verdict and these values.
async fn expect_settings(
    env: &FleetEnv,
    name: &str,
    expected: &BTreeMap<String, bool>,
    values: &[(&str, &str)],
) -> HostFirmwareSettings {
    let settings = env.namespace.api::<HostFirmwareSettings>();
    eventually(LIMIT, &format!("the settings of {name}"), || async {
        let object = settings.get(name).await.map_err(|error| error.to_string())?;
        let status = object.status.clone().unwrap_or_default();
        let found = conditions(&status.conditions, object.metadata.generation)?;
        let has = |(key, value): &(&str, &str)| status.settings.get(*key).is_some_and(|found| found == value);
        if found == *expected && values.iter().all(has) {
            Ok(object)
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await
}

async fn edit_settings(env: &FleetEnv, name: &str, settings: &Value) {
    let change = json!({"spec": {"settings": settings}});
    let api = env.namespace.api::<HostFirmwareSettings>();
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
    patched.expect("the edit is accepted");
}

/// What the operator asked of the API server, besides lists and watches.
fn asked(env: &FleetEnv, from: Position) -> Vec<Request> {
    let audit = env.namespace.server().audit_log().expect("the testkit has one");
    let user = env.namespace.service_account_user("operator");
    let (requests, _) = audit.since(from).unwrap();
    let is_counted = |request: &Request| {
        let is_of_process = ["leases", "customresourcedefinitions"]
            .iter()
            .any(|kind| request.resource.starts_with(kind));
        request.user == user && !is_of_process && !matches!(request.verb.as_str(), "list" | "watch")
    };
    requests.into_iter().filter(is_counted).collect()
}

fn schema(settings: &HostFirmwareSettings) -> String {
    let status = settings.status.clone().unwrap_or_default();
    status.schema.map(|schema| schema.name).unwrap_or_default()
}

#[test]
fn firmware_objects_are_created_taken_up_edited_and_collected() {
    // DEFECT 26 of upstream's: every host is polled for a missing HostFirmwareSettings.
    run(async {
        let mut env = FleetEnv::new(namespace!().await, 3, 21).await;
        let [early, renewed, plain] = [0, 1, 2].map(|number| env.sim.server(number).name);
        let wanted = json!({"settings": {"ProcTurboMode": "Disabled", "NumCores": 12}});
        let updates = json!({"updates": [{"component": "bios", "url": URL}]});
        let policy = json!({"firmwareSettings": "onReboot"});
        for written in [
            object("HostFirmwareSettings", &early, &wanted),
            object("HostFirmwareComponents", &early, &updates),
            object("HostUpdatePolicy", &early, &policy),
        ] {
            env.namespace.apply(&written).await;
        }
        // OWN 30fc: what an earlier host of the name has left says nothing of the new one.
        for (kind, spec) in [("HostFirmwareSettings", &wanted), ("HostFirmwareComponents", &updates)] {
            let mut left: Value = serde_json::from_str(&object(kind, &renewed, spec)).unwrap();
            left["metadata"]["ownerReferences"] = owner(&renewed, "gone");
            env.namespace.apply(&left.to_string()).await;
        }
        another_second().await;
        env.start_operator().await;
        env.apply_hosts().await;
        let hosts = env.expect_all(ProvisioningState::Available).await;
        let uid = |name: &str| {
            hosts
                .iter()
                .find(|host| host.name_any() == name)
                .and_then(ResourceExt::uid)
        };

        let values = [("ProcTurboMode", "Disabled"), ("NumCores", "12")];
        let found = expect_settings(&env, &early, &verdict(false, true), &values).await;
        assert_eq!(found.owner_references()[0].uid, uid(&early).unwrap());
        assert_eq!(found.owner_references()[0].controller, None);
        assert!(!found.status.as_ref().unwrap().settings.contains_key("SysPassword"));
        let components = env.namespace.api::<HostFirmwareComponents>().get(&early).await.unwrap();
        let status = components.status.clone().unwrap();
        assert_eq!(status.updates, components.spec.updates);
        assert_eq!(
            conditions(&status.conditions, components.metadata.generation),
            Ok(verdict(false, true))
        );
        let bios = status
            .components
            .iter()
            .find(|found| found.component == "bios")
            .unwrap();
        assert_eq!(bios.initial_version, "1.0.0");
        assert_ne!(bios.current_version, "1.0.0");
        assert_eq!(components.owner_references()[0].uid, uid(&early).unwrap());
        let policy = env.namespace.api::<HostUpdatePolicy>().get(&early).await.unwrap();
        assert_eq!(policy.owner_references()[0].uid, uid(&early).unwrap());

        let fresh = expect_settings(&env, &renewed, &verdict(false, true), &[("NumCores", "10")]).await;
        assert!(fresh.spec.settings.is_empty(), "{:?}", fresh.spec);
        let fresh = env
            .namespace
            .api::<HostFirmwareComponents>()
            .get(&renewed)
            .await
            .unwrap();
        assert!(fresh.spec.updates.is_empty(), "{:?}", fresh.spec);
        edited(&env, &plain).await;
        moved(&mut env, &early).await;
        collected(&env, &[early, renewed, plain]).await;
    });
}

/// How many seconds after the begin of a host's registration its settings were created, and after its end its components, by the
/// times that are stored.
async fn delays(env: &FleetEnv, name: &str) -> [i64; 2] {
    let settings = until(&env.namespace.api::<HostFirmwareSettings>(), name, "is there", |_| true).await;
    let components = until(&env.namespace.api::<HostFirmwareComponents>(), name, "is there", |_| {
        true
    })
    .await;
    let hosts = env.namespace.api::<BareMetalHost>();
    let host = until(&hosts, name, "is inspected", |host| {
        state(host) == ProvisioningState::Inspecting
    })
    .await;
    let register = status(&host).operation_history.register.clone();
    [(settings.metadata, register.start), (components.metadata, register.end)].map(|(metadata, from)| {
        let [created, from] = [metadata.creation_timestamp, from].map(|time| time.unwrap().0.as_second());
        created - from
    })
}

/// Nothing but the registration is waited for, and no timer: the inspection of these hosts never ends, and one is never registered.
#[test]
fn firmware_objects_come_with_the_registration_of_their_host() {
    const HOSTS: u32 = 5;
    run(async {
        let mut env = FleetEnv::new(namespace!().await, HOSTS, 29).await;
        env.start_operator().await;
        let down = Faults {
            bmc_down: true,
            ..Faults::default()
        };
        env.sim.set_faults(0, down);
        let name = env.apply_host_in(&env.namespace, 0, |_| {}).await;
        until(&env.namespace.api::<HostFirmwareSettings>(), &name, "is there", |_| {
            true
        })
        .await;
        let host = env.namespace.api::<BareMetalHost>().get(&name).await.unwrap();
        assert_eq!(state(&host), ProvisioningState::Registering);

        // A busy machine may be late for one host; a timer would be for all.
        let mut seen = Vec::new();
        for number in 1..HOSTS {
            let silent = Faults {
                agent_dead: true,
                ..Faults::default()
            };
            env.sim.set_faults(number, silent);
            let name = env.apply_host_in(&env.namespace, number, |_| {}).await;
            seen.push(delays(&env, &name).await);
            if seen.last().is_some_and(|last| last.iter().all(|delay| *delay <= 1)) {
                return;
            }
        }
        panic!("seconds after the begin and the end of the registration: {seen:?}");
    });
}

/// OWN 31mb: after a move, the firmware was written again.
async fn moved(env: &mut FleetEnv, name: &str) {
    let components: Api<HostFirmwareComponents> = env.namespace.api();
    let recorded = |object: &HostFirmwareComponents| {
        let status = object.status.clone().unwrap_or_default();
        (status.updates, status.components)
    };
    let before = until(&components, name, "has its record", |object| {
        object.annotations().contains_key(RECORDED_STATUS)
    })
    .await;
    let steps = env.sim.requests();
    assert!(env.stop_operator().await);
    move_away_and_back(&components, name).await;
    env.start_operator().await;
    eventually(LIMIT, "the status is there again", || async {
        let object = components.get(name).await.map_err(|error| error.to_string())?;
        let status = object.status.clone().unwrap_or_default();
        let conditions = conditions(&status.conditions, object.metadata.generation)?;
        if (recorded(&object), &conditions) == (recorded(&before), &verdict(false, true)) {
            Ok(())
        } else {
            Err(format!("{object:?}"))
        }
    })
    .await;
    let cleanings = |requests: &BTreeMap<String, u64>| {
        let asked = requests
            .iter()
            .filter(|(request, _)| request.contains("/states/provision"));
        asked.map(|(_, count)| count).sum::<u64>()
    };
    assert_eq!(
        cleanings(&env.sim.requests()),
        cleanings(&steps),
        "nothing is prepared again"
    );
}

/// Edits of an available host: a possible one is made, an impossible one is explained and keeps nothing else.
async fn edited(env: &FleetEnv, name: &str) {
    let hosts: Api<BareMetalHost> = env.namespace.api();
    edit_settings(env, name, &json!({"NumCores": 16})).await;
    expect_settings(env, name, &verdict(false, true), &[("NumCores", "16")]).await;
    let settings = env.namespace.api::<HostFirmwareSettings>();
    let impossible = json!({"NumCores": 99, "L2Cache": "x", "SysPassword": "x", "Nope": 1});
    edit_settings(env, name, &impossible).await;
    let object = expect_settings(env, name, &verdict(true, false), &[("NumCores", "16")]).await;
    let status = object.status.unwrap();
    let valid = status.conditions.iter().find(|found| found.type_ == "Valid").unwrap();
    assert_eq!(valid.reason, "ConfigurationError");
    for problem in [
        "spec.settings[NumCores]: 99 is more than 20",
        "spec.settings[L2Cache]: it is read-only",
        "spec.settings[SysPassword]: it is a password",
        "spec.settings[Nope]: the host has no such setting",
    ] {
        assert!(valid.message.contains(problem), "{}", valid.message);
    }
    let events: Api<Event> = env.namespace.api();
    eventually(LIMIT, "an event for each", || async {
        let listed = events
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let told = listed
            .items
            .iter()
            .filter(|event| event.reason.as_deref() == Some("ValidationFailed"));
        if told.count() == 4 {
            Ok(())
        } else {
            Err(format!("{:?}", listed.items))
        }
    })
    .await;
    // An edit that changes no condition.
    edit_settings(env, name, &json!({"NumCores": 98})).await;
    let object = expect_settings(env, name, &verdict(true, false), &[("NumCores", "16")]).await;
    assert_eq!(object.metadata.generation, Some(4));
    eventually(LIMIT, "the host waits for nothing", || async {
        let host = hosts.get(name).await.map_err(|error| error.to_string())?;
        match condition(&host, "Waiting") {
            Some(waiting) if waiting.status == ConditionStatus::True => Err(format!("{waiting:?}")),
            _ if state(&host) == ProvisioningState::Available => Ok(()),
            _ => Err(format!("{:?}", state(&host))),
        }
    })
    .await;
    // What goes is made again.
    let before = settings.get(name).await.unwrap().uid();
    settings.delete(name, &DeleteParams::default()).await.unwrap();
    let again = expect_settings(env, name, &verdict(false, true), &[("NumCores", "16")]).await;
    assert_ne!(again.uid(), before);
}

/// All hosts share a schema, which goes with the last of them and comes back if somebody deletes it.
async fn collected(env: &FleetEnv, names: &[String]) {
    let settings = env.namespace.api::<HostFirmwareSettings>();
    let schemas = env.namespace.api::<FirmwareSchema>();
    let all = settings.list(&ListParams::default()).await.unwrap().items;
    let name = schema(&all[0]);
    assert!(all.iter().all(|object| schema(object) == name), "{all:?}");
    let found = schemas.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(
        found.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        std::slice::from_ref(&name)
    );
    let spec = &found[0].spec;
    assert_eq!(
        (spec.hardware_vendor.as_str(), spec.hardware_model.as_str()),
        ("Sim", "SimServer")
    );
    assert!(spec.schema.contains_key("NumCores") && !spec.schema.contains_key("SysPassword"));
    assert_eq!(found[0].owner_references(), []);
    schemas.delete(&name, &DeleteParams::default()).await.unwrap();
    let uid = found[0].uid();
    eventually(LIMIT, "the schema is made again", || async {
        let found = schemas.get_opt(&name).await.map_err(|error| error.to_string())?;
        found
            .filter(|found| found.uid() != uid)
            .map(drop)
            .ok_or("not yet".to_owned())
    })
    .await;

    for host in names {
        env.namespace
            .api::<BareMetalHost>()
            .delete(host, &DeleteParams::default())
            .await
            .unwrap();
    }
    for host in names {
        env.namespace.expect_gone::<BareMetalHost>(host).await;
        // There is no garbage collector here.
        settings.delete(host, &DeleteParams::default()).await.unwrap();
    }
    env.namespace.expect_gone::<FirmwareSchema>(&name).await;
}

/// A fleet arrives with all objects that the operator makes beside its hosts. Returns where the log of what it asked begins.
async fn arrive(env: &mut FleetEnv, hosts: usize) -> Position {
    let audit = env.namespace.server().audit_log().expect("the testkit has one");
    let from = audit.end().unwrap();
    env.start_operator().await;
    env.apply_hosts().await;
    env.expect_all(ProvisioningState::Available).await;
    let settings = env.namespace.api::<HostFirmwareSettings>();
    let components = env.namespace.api::<HostFirmwareComponents>();
    eventually(LIMIT, "all objects are complete", || async {
        let settings = settings
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let components = components
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let full = settings.iter().filter(|object| !schema(object).is_empty()).count();
        let known = components.iter().filter(|object| object.status.is_some()).count();
        if (full, known) == (hosts, hosts) {
            Ok(())
        } else {
            Err(format!("{full} and {known}"))
        }
    })
    .await;
    from
}

/// How often Ironic was asked for what concerns one host, and for lists.
fn calls(env: &FleetEnv) -> (u64, u64) {
    let requests = env.sim.requests();
    let lists = requests.get("GET /v1/nodes").copied().unwrap_or_default();
    (requests.values().sum::<u64>() - lists, lists)
}

/// Each request that is made for every host of a fleet is paid for a thousand times.
#[test]
fn firmware_objects_cost_four_requests_and_none_at_rest() {
    const FLEET: u32 = 20;
    const HOSTS: usize = FLEET as usize;
    run(async {
        let mut few = FleetEnv::new(namespace!().await, FLEET / 4, 22).await;
        let from_few = arrive(&mut few, HOSTS / 4).await;

        let mut env = FleetEnv::new(namespace!().await, FLEET, 22).await;
        let audit = env.namespace.server().audit_log().expect("the testkit has one");
        let from = arrive(&mut env, HOSTS).await;
        let requests = asked(&env, from);
        // The others rest since long.
        let (of_few, at_rest) = (asked(&few, from_few), audit.end().unwrap());
        let ((called, _), (called_of_few, lists)) = (calls(&env), calls(&few));
        println!(
            "{called} calls; of a quarter of the hosts: {} requests, {called_of_few} calls",
            of_few.len()
        );
        // Growth: four times as many hosts cost at most four times as much, and a fifth of that.
        assert!(requests.len() * 10 <= of_few.len() * 48, "{of_few:?}");
        assert!(called * 10 <= called_of_few * 48, "{:?}", env.sim.requests());
        let mut counts = BTreeMap::<_, usize>::new();
        for request in &requests {
            *counts
                .entry(format!("{} {}", request.verb, request.resource))
                .or_default() += 1;
        }
        println!("{} requests for {HOSTS} hosts: {counts:?}", requests.len());
        let refused: Vec<_> = requests.iter().filter(|request| request.status >= 400).collect();
        assert!(refused.is_empty(), "{refused:?}");
        for kind in ["hostfirmwaresettings", "hostfirmwarecomponents"] {
            assert_eq!(counts[&format!("create {kind}.metal3.io")], HOSTS, "{counts:?}");
            assert_eq!(counts[&format!("update {kind}.metal3.io/status")], HOSTS, "{counts:?}");
        }
        assert_eq!(counts["create firmwareschemas.metal3.io"], 1);
        // Two of the schema's: its creation, and the read of the host's maker.
        assert!(requests.len() <= 16 * HOSTS + 2, "{counts:?}");

        // Another process looks at every host again, and finds nothing to write.
        assert!(env.stop_operator().await);
        let looks = |env: &FleetEnv| {
            let requests = env.sim.requests();
            let count = |what: &str| requests.get(what).copied().unwrap_or_default();
            (count("GET /v1/nodes/{id}/bios"), count("GET /v1/nodes/{id}/firmware"))
        };
        let (before, from) = (looks(&env), audit.end().unwrap());
        env.start_operator().await;
        eventually(LIMIT, "every host is looked at again", || async {
            let now = looks(&env);
            let hosts = u64::from(FLEET);
            if now.0 >= before.0 + hosts && now.1 >= before.1 + hosts {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        })
        .await;
        assert!(env.stop_operator().await);
        let again: Vec<_> = asked(&env, from)
            .into_iter()
            .filter(|r| r.resource.contains("firmware"))
            .collect();
        assert!(again.is_empty(), "{again:?}");

        eventually(LIMIT, "the few hosts are listed and listed again", || async {
            let (_, now) = calls(&few);
            if now >= lists + 2 { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        let asked = asked(&few, at_rest);
        assert!(asked.is_empty(), "{asked:?}");
        assert_eq!(calls(&few).0, called_of_few, "{:?}", few.sim.requests());
    });
}
