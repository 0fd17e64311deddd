//! Two concurrent infrastructure providers, as in every update without leader election, on a bad network, and killed repeatedly:
//! a host belongs to one machine, a machine has one host, and every machine is provisioned.

#![expect(
    clippy::expect_used,
    reason = "a test fails by panicking, in its helper functions too"
)]

use std::collections::BTreeSet;

use fastrand::Rng;
use futures::{StreamExt, stream};
use kube::Api;
use kube::api::{Patch, PatchParams};
use metal3_api::metal3::BareMetalHost;
use metal3_scenarios::{
    Claims, FleetEnv, Seen, ShakyProvider, at_once, delete_machine, make_cluster, make_machine, run,
};
use metal3_testkit::{TestNamespace, namespace};
use serde_json::json;
use tokio::task::JoinSet;

const HOSTS: u32 = 200;
/// Machines without a host until others are deleted.
const TOO_MANY: u32 = 40;
/// What the kills, the network and the meddler draw from. With another number, other moments are hit.
const SEED: u64 = 20;
/// Concurrent requests of the test itself.
const AT_ONCE: usize = 8;

fn name(number: u32) -> String {
    format!("m{number:03}")
}

/// Kills and restarts providers, one or both, after every few changes, until a condition holds.
async fn shake(
    providers: &mut [ShakyProvider; 2],
    claims: &Claims,
    random: &mut Rng,
    what: &str,
    end: impl Fn(&Seen) -> bool,
) {
    loop {
        let goal = claims.seen().steps() + random.usize(15..60);
        claims.until(what, |seen| end(seen) || seen.steps() >= goal).await;
        if end(&claims.seen()) {
            return;
        }
        let victims = match random.u8(0..5) {
            0 => 0..2,
            1 | 2 => 0..1,
            _ => 1..2,
        };
        for provider in &mut providers[victims.clone()] {
            provider.kill();
        }
        for provider in &mut providers[victims] {
            provider.restart().await;
        }
    }
}

/// Annotates hosts continuously, so that writes guarded by the observed version conflict.
async fn meddle(namespace: TestNamespace, hosts: Vec<String>, mut random: Rng) {
    let api: Api<BareMetalHost> = namespace.api();
    for number in 0_u64.. {
        let mark = Patch::Merge(json!({"metadata": {"annotations": {"example.org/note": number.to_string()}}}));
        let host = &hosts[random.usize(..hosts.len())];
        let marked = api.patch(host, &PatchParams::default(), &mark).await;
        marked.expect("annotations are accepted");
    }
}

#[test]
fn two_providers_on_a_bad_network_give_every_machine_one_host() {
    run(async {
        let mut random = Rng::with_seed(SEED);
        let mut env = FleetEnv::new(namespace!().await, HOSTS, SEED).await;
        env.start_operator().await;
        let claims = Claims::watch(&env.namespace);
        let is_off = |host: &mut serde_json::Value| {
            at_once(host);
            host["spec"]["online"] = json!(false);
        };
        env.apply_hosts_with(is_off).await;
        make_cluster(&env.namespace).await;
        let hosts = HOSTS as usize;
        claims
            .until("all hosts are available", |seen| seen.available.len() == hosts)
            .await;

        let mut providers = [
            ShakyProvider::new(&env.namespace, 0, SEED).await,
            ShakyProvider::new(&env.namespace, 1, SEED).await,
        ];
        for provider in &mut providers {
            provider.restart().await;
        }
        let mut meddler = JoinSet::new();
        let names = (0..HOSTS).map(|number| env.sim.server(number).name).collect();
        meddler.spawn(meddle(env.namespace.clone(), names, random.fork()));
        let namespace = &env.namespace;
        let make = async || {
            stream::iter(0..HOSTS + TOO_MANY)
                .for_each_concurrent(
                    AT_ONCE,
                    |number| async move { make_machine(namespace, &name(number)).await },
                )
                .await;
        };
        let all = |seen: &Seen| seen.provisioned.len() == hosts;
        tokio::join!(
            make(),
            shake(&mut providers, &claims, &mut random, "all hosts are provisioned", all)
        );
        let first = claims.seen();
        // A late claim is released, and its host claimed again.
        assert_eq!(first.claims - first.releases, hosts, "{first:?}");

        let mut gone: Vec<String> = first.provisioned.iter().cloned().collect();
        random.shuffle(&mut gone);
        gone.truncate(TOO_MANY as usize);
        for machine in &gone {
            delete_machine(namespace, machine).await;
        }
        let all = |seen: &Seen| seen.machines.len() == hosts && seen.provisioned.len() == hosts;
        shake(&mut providers, &claims, &mut random, "the others have their hosts", all).await;
        meddler.shutdown().await;

        let seen = claims.seen();
        assert!(seen.wrongs.is_empty(), "{seen:?}");
        let consumers: BTreeSet<&String> = seen.consumers.values().map(|(name, _)| name).collect();
        let machines: BTreeSet<&String> = seen.machines.iter().collect();
        assert_eq!(consumers, machines, "each machine has a host");
        assert_eq!(seen.claims - seen.releases, hosts, "{seen:?}");
        let deploys: u32 = env.sim.all_counters().values().map(|went| went.deploys).sum();
        assert_eq!(deploys, HOSTS + TOO_MANY, "each machine was deployed once");

        let audit = namespace.server().audit_log().expect("the testkit has one");
        let user = namespace.service_account_user("cluster-api-provider-metal3");
        let requests = audit
            .since(metal3_lab::audit::Position::default())
            .expect("the log can be read")
            .0;
        let ours: Vec<_> = requests.iter().filter(|request| request.user == user).collect();
        let conflicts = ours.iter().filter(|request| request.status == 409).count();
        let (lost, stalls) = providers.iter().fold((0, 0), |(lost, stalls), one| {
            (lost + one.network.lost(), stalls + one.network.stalls())
        });
        println!(
            "{} requests, {conflicts} conflicts, {lost} answers lost, {stalls} stalls of watches",
            ours.len()
        );
        assert!(
            conflicts > 20 && lost > 20 && stalls > 100,
            "there was trouble enough to mean something"
        );
    });
}
