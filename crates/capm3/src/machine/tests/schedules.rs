//! Two managers with views that are late, in any order of steps, keep the hard rule: no host has two machines, and no host is
//! deployed that its machine does not name. Machines go and others of their names come, hosts are kept for these or not,
//! writes arrive late, others write to hosts, and the cluster is paused.
//!
//! Then what wakes one manager brings all to rest: each machine has the host that it names, and a claim that arrived too late
//! is gone.

mod process;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use metal3_api::infra::v1beta2::Metal3Machine;
use metal3_runtime::store::ObjectKey;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rstest::rstest;

use self::process::{Fault, Manager};
use self::server::Server;
use super::*;
use crate::machine::decide::{self, Read};
use crate::machine::listen::concerned;
use crate::machine::waiting::{self, Waiting};
use crate::machine::{Subject, observe};
use crate::select::stable_seed;
use crate::stores::{Stores, host_of};

const MACHINES: usize = 4;
const HOSTS: usize = 5;
/// After so many passes they ought to be at rest.
const MOST_PASSES: usize = 400;
/// So often they try what a host refuses for good.
const MOST_ATTEMPTS: usize = 12;

/// What may happen.
#[derive(Clone, Debug)]
enum Step {
    /// A manager sees a machine or a host.
    Sees(bool, bool, usize),
    /// A manager makes a pass, which fails after so many writes.
    Pass(bool, usize, usize),
    /// The same, and the answer to the next write is lost: it may arrive, late.
    Lose(bool, usize, usize),
    /// One of the writes that are under way arrives.
    Arrive(usize),
    /// All writes to this host are refused, or to none.
    Protect(Option<usize>),
    /// The operator does what a host wants.
    Operate(usize),
    /// The operator has something to do with a host before that is available again.
    Prepare(usize),
    /// A machine is deleted.
    Delete(usize),
    /// Another machine gets the name of one that is gone.
    Create(usize),
    /// Somebody writes to a host.
    Touch(usize),
    /// The cluster is paused, or not any more.
    Pause(bool),
    /// A manager sees that.
    SeesCluster(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>(), 0..HOSTS).prop_map(|(who, is_host, which)| Step::Sees(who, is_host, which)),
        4 => (any::<bool>(), 0..MACHINES, 0..6_usize).prop_map(|(who, which, writes)| Step::Pass(who, which, writes)),
        2 => (any::<bool>(), 0..MACHINES, 0..3_usize).prop_map(|(who, which, writes)| Step::Lose(who, which, writes)),
        2 => (0..4_usize).prop_map(Step::Arrive),
        1 => prop::option::of(0..HOSTS).prop_map(Step::Protect),
        2 => (0..HOSTS).prop_map(Step::Operate),
        1 => (0..HOSTS).prop_map(Step::Prepare),
        1 => (0..MACHINES).prop_map(Step::Delete),
        1 => (0..MACHINES).prop_map(Step::Create),
        1 => (0..HOSTS).prop_map(Step::Touch),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => any::<bool>().prop_map(Step::SeesCluster),
    ]
}

fn happen(server: &mut Server, managers: &[Manager; 2], step: &Step) {
    let host = |which: &usize| format!("h{which}");
    let machine = |which: &usize| format!("m{which}");
    match step {
        Step::Sees(who, true, which) => managers[usize::from(*who)].sees(server, true, &host(which)),
        Step::Sees(who, false, which) => managers[usize::from(*who)].sees(server, false, &machine(which)),
        Step::Pass(who, which, writes) => managers[usize::from(*who)].pass(server, &machine(which), *writes, false),
        Step::Lose(who, which, writes) => managers[usize::from(*who)].pass(server, &machine(which), *writes, true),
        Step::Arrive(which) => {
            server.arrive(*which);
        }
        Step::Protect(which) => server.protected = which.as_ref().map(host),
        Step::Operate(which) => server.operate(&host(which)),
        Step::Prepare(which) => server.prepare(&host(which)),
        Step::Delete(which) => server.delete(&machine(which)),
        Step::Create(which) => {
            if !server.machines.contains_key(&machine(which)) {
                server.create(&machine(which));
            }
        }
        Step::Touch(which) => server.touch(&host(which)),
        Step::Pause(is_paused) => server.pause(*is_paused),
        Step::SeesCluster(who) => managers[usize::from(*who)].sees_cluster(server),
    }
    server.check();
}

/// With all in view, each is looked at that was told to be, until there is none. The operator is slow: it works when nobody
/// else does. Those whose passes fail try again then, unless the server refuses whatever they try.
fn rest(server: &mut Server, manager: &Manager) {
    let mut attempts = 0;
    for _ in 0..MOST_PASSES {
        manager.sees_all(server);
        if let Some(machine) = manager.next() {
            manager.pass(server, &machine.name, usize::MAX, false);
            server.check();
            continue;
        }
        let version = server.version;
        for host in server.hosts.keys().cloned().collect::<Vec<_>>() {
            server.operate(&host);
        }
        if version != server.version {
            continue;
        }
        attempts += 1;
        let is_in_vain = server.is_strict || (server.protected.is_some() && attempts > MOST_ATTEMPTS);
        if is_in_vain || !manager.tries_again() {
            return;
        }
    }
    panic!("they wake each other for ever");
}

/// A machine has a host, unless it has the protected one or there is no other.
fn check_protected(server: &Server) {
    let protected = server.protected.clone().unwrap();
    for machine in server.machines.values() {
        let machine: Metal3Machine = serde_json::from_value(machine.clone()).unwrap();
        let names_it = host_of(&machine).is_some_and(|host| host.name == protected);
        let is_bound = names_it && server.hosts[&protected]["spec"]["consumerRef"].is_object();
        let status = machine.status.clone().unwrap_or_default();
        let is_served = status.initialization.provisioned == Some(true) && !names_it;
        assert!(
            is_bound || is_served || machine.metadata.deletion_timestamp.is_some(),
            "{}: {:?}",
            machine.name_any(),
            status.conditions
        );
    }
}

/// Hosts are kept for the next machine or not, and at first all writes to hosts may be refused.
fn play(keeps: bool, refuses: bool, steps: &[Step]) {
    play_with(None, keeps, refuses, steps);
}

fn play_with(fault: Option<Fault>, keeps: bool, refuses: bool, steps: &[Step]) {
    let mut server = Server::new();
    let managers = [(); 2].map(|()| Manager::new(&server, keeps, fault));
    for step in steps {
        happen(&mut server, &managers, step);
    }
    server.pause(false);
    managers[0].sees_cluster(&server);
    while server.arrive(0) {
        server.check();
    }
    if fault.is_some() {
        // Whether it would come to rest is not asked.
        return;
    }
    if server.protected.is_some() {
        rest(&mut server, &managers[0]);
        check_protected(&server);
        server.protected = None;
        managers[0].tries_again();
    }
    // One is left alone.
    if refuses {
        server.is_strict = true;
        rest(&mut server, &managers[0]);
        server.is_strict = false;
    }
    rest(&mut server, &managers[0]);
    for machine in server.machines.values() {
        let machine: Metal3Machine = serde_json::from_value(machine.clone()).unwrap();
        let name = machine.name_any();
        assert!(machine.metadata.deletion_timestamp.is_none(), "{name} does not go");
        let status = machine.status.clone().unwrap_or_default();
        assert_eq!(
            status.initialization.provisioned,
            Some(true),
            "{name}: {:?}",
            status.conditions
        );
        assert!(host_of(&machine).is_some());
    }
    let is_used = |host: &&Value| host["spec"]["consumerRef"]["kind"] == "Metal3Machine";
    let used = server.hosts.values().filter(is_used).count();
    assert_eq!(
        used,
        server.machines.len(),
        "late claims and hosts of machines that are gone are released"
    );
}

fn schedule() -> impl Strategy<Value = (bool, bool, Vec<Step>)> {
    (any::<bool>(), any::<bool>(), prop::collection::vec(step(), 1..120))
}

// OWN 20f: the schedules did not find a double booking that was put in on purpose.
#[rstest]
#[case(Fault::ClaimsOverAnyVersion)]
#[case(Fault::NamesNoHost)]
fn a_fault_that_is_put_in_on_purpose_is_found(#[case] fault: Fault) {
    // Always the same schedules, as many as the property plays.
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let found = runner.run(&schedule(), |(keeps, refuses, steps)| {
        play_with(Some(fault), keeps, refuses, &steps);
        Ok(())
    });
    let found = found.expect_err("no schedule shows it").to_string();
    let words = ["is not named", "is taken away", "runs what another wants"];
    assert!(words.iter().any(|words| found.contains(words)), "{found}");
}

proptest! {
    #[test]
    fn one_machine_has_one_host_whatever_the_order((keeps, refuses, steps) in schedule()) {
        play(keeps, refuses, &steps);
    }
}

#[rstest]
#[case::named_by_one_that_goes(false, true, &[
    Step::Sees(false, true, 0), Step::Sees(false, false, 1), Step::Pass(false, 1, 2), Step::Delete(1),
    Step::Sees(true, false, 1), Step::Pass(true, 1, 1),
])]
#[case::named_by_both(false, true, &[
    Step::Sees(true, true, 4), Step::Sees(false, true, 0), Step::Sees(true, false, 0), Step::Operate(4),
    Step::Pass(true, 0, 1), Step::Sees(false, false, 0), Step::Sees(false, false, 0), Step::Pass(false, 0, 1),
    Step::Sees(true, true, 4), Step::Pass(true, 0, 1),
])]
#[case::named_by_two_and_kept_for_a_third(false, false, &[
    Step::Sees(false, false, 0), Step::Sees(true, true, 4), Step::Delete(0), Step::Sees(true, false, 2),
    Step::Sees(true, false, 3), Step::Touch(4), Step::Pass(true, 3, 1), Step::Pass(false, 0, 0), Step::Pass(true, 2, 1),
    Step::Sees(false, true, 4),
])]
#[case::named_by_two_and_not_available(false, false, &[
    Step::Sees(true, true, 4), Step::Sees(true, false, 2), Step::Sees(true, false, 3), Step::Pass(true, 3, 1),
    Step::Pass(true, 2, 1), Step::Prepare(4),
])]
#[case::named_while_it_is_kept_and_refused(true, true, &[
    Step::Sees(true, true, 0), Step::Sees(true, false, 1), Step::Sees(false, false, 0), Step::Pass(true, 1, 2),
    Step::Delete(1), Step::Pass(true, 1, 1), Step::Pass(true, 1, 1), Step::Pass(true, 1, 1),
])]
#[case::kept_and_not_available_while_another_is_free(true, false, &[
    Step::Sees(true, true, 0), Step::Sees(true, false, 1), Step::Pass(true, 1, 9), Step::Delete(1),
    Step::Sees(true, false, 1), Step::Pass(true, 1, 9), Step::Pass(true, 1, 9), Step::Prepare(0),
    Step::Sees(false, true, 0), Step::Sees(false, false, 0), Step::Pass(false, 0, 9), Step::Sees(false, true, 1),
    Step::Pass(false, 0, 9),
])]
#[case::left_by_machines_that_are_all_rejected(false, true, &[
    Step::Prepare(1), Step::Sees(true, false, 2), Step::Sees(false, false, 3), Step::Sees(true, true, 0),
    Step::Pass(true, 2, 1), Step::Prepare(0),
])]
fn schedules_that_once_went_wrong(#[case] keeps: bool, #[case] refuses: bool, #[case] steps: &[Step]) {
    play(keeps, refuses, steps);
}

/// A process has the machine name no host any more, and that write is late: meanwhile another one claims the host.
#[test]
fn a_machine_names_its_host_for_as_long_as_that_is_deployed() {
    let steps = [
        Step::Sees(true, true, 0),
        Step::Sees(true, false, 1),
        Step::Pass(true, 1, 1),
        Step::Prepare(0),
        Step::Sees(false, true, 0),
        Step::Sees(false, false, 1),
        Step::Lose(false, 1, 0),
        Step::Operate(0),
        Step::Sees(true, true, 0),
        Step::Pass(true, 1, 1),
        Step::Pass(true, 1, 1),
        Step::Arrive(0),
    ];
    play(false, false, &steps);
    let with_fault = std::panic::catch_unwind(|| play_with(Some(Fault::DeploysUnreported), false, false, &steps));
    let told = with_fault.expect_err("the schedule does not show it");
    let told = told.downcast_ref::<String>().map_or("", String::as_str);
    assert!(told.contains("is not named"), "{told}");
}

/// Machine 1 names host 0, which then refuses all writes, and takes host 1 instead; but a claim is under way.
#[rstest]
#[case::of_the_process_that_chooses_again(&[
    Step::Sees(true, true, 0), Step::Sees(true, false, 1), Step::Lose(true, 1, 1), Step::Protect(Some(0)),
    Step::Pass(true, 1, 9), Step::Sees(true, true, 1), Step::Pass(true, 1, 9), Step::Pass(true, 1, 9),
])]
#[case::of_another_process(&[
    Step::Sees(true, true, 0), Step::Sees(true, false, 1), Step::Lose(true, 1, 1), Step::Protect(Some(0)),
    Step::Sees(false, true, 0), Step::Sees(false, false, 1), Step::Pass(false, 1, 9), Step::Sees(false, true, 1),
    Step::Pass(false, 1, 9), Step::Pass(false, 1, 9),
])]
#[case::of_a_machine_that_is_gone(&[
    Step::Sees(true, true, 0), Step::Sees(true, false, 1), Step::Lose(true, 1, 1), Step::Sees(true, false, 1),
    Step::Delete(1), Step::Sees(true, false, 1), Step::Pass(true, 1, 9), Step::Sees(true, false, 1),
])]
#[case::of_an_earlier_machine_of_the_name(&[
    Step::Sees(true, true, 0), Step::Sees(true, false, 1), Step::Lose(true, 1, 1), Step::Sees(true, false, 1),
    Step::Delete(1), Step::Sees(true, false, 1), Step::Pass(true, 1, 9), Step::Create(1), Step::Sees(true, false, 1),
])]
fn a_claim_that_arrives_late_is_released_by_the_next_pass(#[case] steps: &[Step]) {
    let mut server = Server::new();
    let managers = [(); 2].map(|()| Manager::new(&server, false, None));
    for step in steps {
        happen(&mut server, &managers, step);
    }
    server.protected = None;
    assert!(server.arrive(0), "a claim is under way");
    server.check();
    let user = |server: &Server| server.hosts["h0"]["spec"]["consumerRef"]["name"].clone();
    assert_eq!(user(&server), "m1");
    let manager = &managers[0];
    manager.sees_all(&server);
    manager.pass(&mut server, "m1", usize::MAX, false);
    assert_eq!(user(&server), Value::Null);
    play(false, false, steps);
}
