//! HostClaims of one namespace get hosts of another.

#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

use std::collections::BTreeSet;
use std::path::Path;

use k8s_openapi::api::core::v1::{Event, Namespace, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use metal3_api::condition::{Condition, ConditionStatus};
use metal3_api::metal3::{BareMetalHost, HostClaim, HostDeployPolicy, ProvisioningState};
use metal3_scenarios::kubectl::Kubectl;
use metal3_scenarios::{
    Claims, FleetEnv, GAP, LIMIT, Seen, ShakyProvider, at_once, delete_machine, make_cluster, make_machine, run,
};
use metal3_testkit::{TestNamespace, eventually, namespace};
use serde_json::{Value, json};

pub fn claim(name: &str) -> String {
    json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "metadata": {"name": name}, "spec": {
        "poweredOn": true, "userData": {"name": "user-data"},
        "image": {"url": "http://images.example/os.img", "checksum": "http://images.example/os.img.sha256sum", "checksumType": "sha256"},
    }})
    .to_string()
}

pub fn user_data(text: &str) -> String {
    let data = json!({"userData": text, "other": "stays"});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "user-data"}, "stringData": data}).to_string()
}

fn condition<'a>(claim: &'a HostClaim, type_: &str) -> Option<&'a Condition> {
    let conditions = &claim.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.type_ == type_)
}

fn is_told(reason: &'static str, words: &'static str) -> impl Fn(&HostClaim) -> bool {
    move |claim| {
        condition(claim, "Associated").is_some_and(|found| {
            found.status == ConditionStatus::False && found.reason == reason && found.message.contains(words)
        })
    }
}

fn is_ready(claim: &HostClaim) -> bool {
    condition(claim, "Ready").is_some_and(|ready| ready.status == ConditionStatus::True)
        && claim.status.as_ref().is_some_and(|status| status.powered_on)
}

/// Lets claims of a namespace have the hosts of another.
async fn permit(hosts: &TestNamespace, tenant: &TestNamespace) {
    let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy", "metadata": {"name": "p"},
        "spec": {"hostClaimNamespaces": {"names": [tenant.name]}}});
    hosts.apply(&policy.to_string()).await;
}

/// Waits until a claim has its host running, and returns the host's name.
pub async fn running(tenant: &TestNamespace, name: &str) -> String {
    let claim = tenant.expect(name, "is ready", is_ready).await;
    claim.status.unwrap().bare_metal_host.unwrap().name
}

pub async fn delete(tenant: &TestNamespace, name: &str) {
    let claims = tenant.api::<HostClaim>();
    claims.delete(name, &DeleteParams::default()).await.unwrap();
    eventually(LIMIT, &format!("{name} is gone"), || async {
        match claims.get_opt(name).await.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(claim) => Err(format!("{:?}", claim.status)),
        }
    })
    .await;
}

/// The copies of Secrets in the namespace of the hosts, by content.
async fn copies(hosts: &TestNamespace) -> Vec<String> {
    let secrets = hosts.api::<Secret>().list(&ListParams::default()).await.unwrap();
    let copies = secrets
        .into_iter()
        .filter(|secret| secret.name_any().starts_with("hostclaim-"));
    let texts = copies.map(|secret| {
        let data = secret.data.unwrap_or_default();
        assert_eq!(data.len(), 1, "only the key that is needed is copied");
        data.into_values()
            .map(|value| String::from_utf8(value.0).unwrap())
            .collect()
    });
    texts.collect()
}

pub async fn expect_copies(hosts: &TestNamespace, expected: &[&str]) {
    eventually(LIMIT, &format!("the copies are {expected:?}"), || async {
        let found = copies(hosts).await;
        if found == expected {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

/// Lets the Secrets of claims be copied to a namespace, as an administrator does.
pub async fn accept_secrets(hosts: &TestNamespace) {
    let namespaces: Api<Namespace> = Api::all(hosts.client.clone());
    let labels = Patch::Merge(json!({"metadata": {"labels": {"hostclaim.metal3.io/takes-secrets": ""}}}));
    namespaces
        .patch(&hosts.name, &PatchParams::default(), &labels)
        .await
        .unwrap();
}

async fn env() -> (FleetEnv, TestNamespace, String) {
    let tenant = namespace!().await;
    let mut env = FleetEnv::new(namespace!().await, 2, 6).await;
    env.watch_also(&tenant);
    env.bind_secrets_of(&tenant).await;
    env.config.args.push("--hostclaims".to_owned());
    accept_secrets(&env.namespace).await;
    let labelled = json!({"hostClaimNamespaces": {"names": [tenant.name], "hasLabels": [{"name": "may-claim"}]}});
    let policy: Value = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy", "metadata": {"name": "p"}, "spec": labelled});
    (env, tenant, policy.to_string())
}

#[test]
fn claims_get_hosts_as_far_as_a_policy_permits_and_give_them_back() {
    run(async {
        let (mut env, tenant, policy) = env().await;
        let hosts = env.namespace.clone();
        env.apply_hosts().await;
        env.start_operator().await;
        env.expect_all(ProvisioningState::Available).await;
        tenant.apply(&user_data("first")).await;
        for name in ["a", "b"] {
            tenant.apply(&claim(name)).await;
            tenant
                .expect(
                    name,
                    "lacks a policy",
                    is_told("NoBareMetalHost", "no HostDeployPolicy"),
                )
                .await;
        }
        hosts.apply(&policy).await;
        let labels = json!({"metadata": {"labels": {"may-claim": ""}}});
        let namespaces: Api<Namespace> = Api::all(tenant.client.clone());
        namespaces
            .patch(&tenant.name, &PatchParams::default(), &Patch::Merge(labels))
            .await
            .unwrap();
        // The operator is killed as soon as a host is taken, whatever it has done after that.
        let api = hosts.api::<BareMetalHost>();
        eventually(LIMIT, "a host is taken", || async {
            let list = api
                .list(&ListParams::default())
                .await
                .map_err(|error| error.to_string())?;
            let is_taken = list.items.iter().any(|host| host.spec.consumer_ref.is_some());
            is_taken.then_some(()).ok_or_else(|| "none".to_owned())
        })
        .await;
        env.kill_operator();
        env.start_operator().await;
        let taken = BTreeSet::from([running(&tenant, "a").await, running(&tenant, "b").await]);
        assert_eq!(taken.len(), 2, "each has its own");
        assert_eq!(env.sum().deploys, 2);
        expect_copies(&hosts, &["first", "first"]).await;
        tenant.apply(&user_data("second")).await;
        expect_copies(&hosts, &["second", "second"]).await;

        // A policy is about taking hosts. One that is revoked takes none away, and gives none.
        tenant.apply(&claim("c")).await;
        tenant
            .expect(
                "c",
                "says what is in the way",
                is_told("NoBareMetalHost", "some are in use"),
            )
            .await;
        hosts
            .api::<HostDeployPolicy>()
            .delete("p", &DeleteParams::default())
            .await
            .unwrap();
        tenant
            .expect("c", "lacks a policy", is_told("NoBareMetalHost", "no HostDeployPolicy"))
            .await;
        delete(&tenant, "a").await;
        expect_copies(&hosts, &["second"]).await;
        hosts.apply(&policy).await;
        running(&tenant, "c").await;
        assert_eq!(env.sum().deploys, 3);

        // A host that is deleted is reported, and its claim can go.
        let host = running(&tenant, "b").await;
        api.delete(&host, &DeleteParams::default()).await.unwrap();
        tenant
            .expect(
                "b",
                "has lost its host",
                is_told("MissingBareMetalHost", "no longer exists"),
            )
            .await;
        delete(&tenant, "b").await;

        // What is left when the flag is taken away does not hang.
        env.kill_operator();
        env.config.args.retain(|flag| flag != "--hostclaims");
        env.start_operator().await;
        delete(&tenant, "c").await;
        // The garbage collector, which does not run here, removes the copy of the host that was deleted.
        expect_copies(&hosts, &["second"]).await;
        let list = api.list(&ListParams::default()).await.unwrap();
        assert!(
            list.items
                .iter()
                .all(|host| host.spec.consumer_ref.is_none() && host.spec.image.is_none())
        );
    });
}

// DEFECT 14: upstream's claims look for a host every 30 seconds, and two may choose the same one.
#[test]
fn claims_that_wait_get_the_hosts_that_become_free_each_its_own() {
    const HOSTS: u32 = 20;
    run(async {
        let tenant = namespace!().await;
        let mut env = FleetEnv::new(namespace!().await, HOSTS, 8).await;
        env.watch_also(&tenant);
        env.bind_secrets_of(&tenant).await;
        env.config.args.push("--hostclaims".to_owned());
        let spec = json!({"hostClaimNamespaces": {"nameMatches": tenant.name}});
        let policy = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostDeployPolicy", "metadata": {"name": "p"}, "spec": spec});
        env.namespace.apply(&policy.to_string()).await;
        env.start_operator().await;
        for number in 0..HOSTS {
            let claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
                "metadata": {"name": format!("c{number}")}, "spec": {"poweredOn": true}});
            tenant.apply(&claim.to_string()).await;
        }
        env.apply_hosts().await;
        let mut taken = BTreeSet::new();
        for number in 0..HOSTS {
            let is_bound = |claim: &HostClaim| {
                condition(claim, "Synchronized").is_some_and(|one| one.status == ConditionStatus::True)
            };
            let claim = tenant.expect(&format!("c{number}"), "has a host", is_bound).await;
            taken.insert(claim.status.unwrap().bare_metal_host.unwrap().name);
        }
        assert_eq!(taken.len(), HOSTS as usize);
    });
}

/// An example with the name of a namespace of ours for the namespace of the hosts.
fn example(name: &str, hosts: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/hostclaim")
        .join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.replace("inNamespace: hosts", &format!("inNamespace: {hosts}"))
}

/// The administrator of the hosts shares them, and a tenant who may do nothing outside of its own namespace runs a server: both have
/// kubectl and the examples only.
#[test]
fn a_tenant_gets_a_host_by_kubectl_and_gives_it_back() {
    run(async {
        let tenant = TestNamespace::new("tenant").await;
        let mut env = FleetEnv::new(namespace!().await, 2, 28).await;
        env.watch_also(&tenant);
        env.bind_secrets_of(&tenant).await;
        env.config.args.push("--hostclaims".to_owned());
        let hosts = env.namespace.clone();
        let [suited, bmc] = [env.sim.server(1).name, env.sim.server(1).ip.to_string()];
        env.apply_hosts_with(|host| {
            if host["metadata"]["name"] == *suited {
                host["metadata"]["labels"] = json!({"size": "large", "disk": "ssd"});
            }
        })
        .await;
        env.start_operator().await;
        let rights = json!([{"apiGroups": ["metal3.io", ""], "resources": ["hostclaims", "secrets"], "verbs": ["*"]}]);
        for object in [
            json!({"kind": "Role", "rules": rights}),
            json!({"kind": "RoleBinding", "roleRef": {"kind": "Role", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [{"kind": "User", "name": "tom", "apiGroup": "rbac.authorization.k8s.io"}]}),
        ] {
            let mut object = object;
            object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
            object["metadata"] = json!({"name": "tenant"});
            tenant.apply(&object.to_string()).await;
        }

        let admin = Kubectl::new(&hosts).await;
        let tom = Kubectl::new(&tenant).await.of_user("tom");
        let seen = tom.run(&["get", "bmh", "--namespace", &hosts.name]).await;
        assert!(seen.unwrap_err().contains("forbidden"));
        let (policy, claim) = (admin.folder.with_extension("yaml"), tom.folder.with_extension("yaml"));
        std::fs::write(&policy, example("policy.yaml", &hosts.name)).unwrap();
        std::fs::write(&claim, example("claim.yaml", &hosts.name)).unwrap();
        admin.expect(&["apply", "--filename", policy.to_str().unwrap()]).await;
        tom.expect(&["apply", "--filename", claim.to_str().unwrap()]).await;
        let wait = |condition: &'static str| {
            let tom = &tom;
            async move {
                tom.expect(&["wait", "hostclaim/web-1", "--timeout=240s", condition])
                    .await
            }
        };
        wait("--for=jsonpath={.status.conditions[?(@.type==\"Associated\")].reason}=NoBareMetalHost").await;
        let label = "metal3.example.org/may-claim=";
        admin.expect(&["label", "namespace", &tenant.name, label]).await;
        wait("--for=condition=Associated").await;
        wait("--for=condition=Ready").await;
        wait("--for=jsonpath={.status.poweredOn}=true").await;
        let listed = tom.expect(&["get", "hostclaims", "--output=wide"]).await;
        assert!(listed.contains("web-1"), "{listed}");
        let shown = tom.expect(&["get", "hostclaim", "web-1", "--output=yaml"]).await;
        assert!(shown.contains(&format!("name: {suited}\n")), "{shown}");
        for hidden in [&bmc, &format!("{suited}-bmc")] {
            assert!(!shown.contains(hidden), "{hidden} in {shown}");
        }
        let consumer = "jsonpath={.spec.consumerRef.namespace}/{.spec.consumerRef.name}";
        let host = ["get", "bmh", &suited, "--output", consumer];
        assert_eq!(admin.expect(&host).await, format!("{}/web-1", tenant.name));

        // It returns when the claim is gone.
        tom.expect(&["delete", "--filename", claim.to_str().unwrap()]).await;
        assert_eq!(admin.expect(&host).await, "/");
        let state = ["get", "bmh", &suited, "--output=jsonpath={.status.provisioning.state}"];
        assert_eq!(admin.expect(&state).await, "available");
        assert_eq!(env.sum().deploys, 1);
        expect_copies(&hosts, &[]).await;
    });
}

/// The consumers of hosts whose names begin with this.
fn count(seen: &Seen, begin: char) -> usize {
    seen.consumers
        .values()
        .filter(|(name, _)| name.starts_with(begin))
        .count()
}

/// Our provider takes hosts for machines of their own namespace, and knows no claims. Neither takes a host from the other, and each
/// gets what the other gives back.
#[test]
fn claims_and_machines_on_the_same_hosts_take_none_from_each_other() {
    run(async {
        for _ in 0..3 {
            let wrongs = side_by_side().await.wrongs;
            if !wrongs.iter().any(|wrong| wrong == GAP) {
                assert_eq!(wrongs, Vec::<String>::new());
                return;
            }
            println!("once more: the API server has ended the watch, and what it has not shown is not judged");
        }
        panic!("no history was seen whole");
    });
}

async fn side_by_side() -> Seen {
    const HOSTS: u32 = 10;
    const EACH: u32 = 8;
    let tenant = namespace!().await;
    let mut env = FleetEnv::new(namespace!().await, HOSTS, 27).await;
    env.watch_also(&tenant);
    env.bind_secrets_of(&tenant).await;
    env.config.args.push("--hostclaims".to_owned());
    let hosts = env.namespace.clone();
    permit(&hosts, &tenant).await;
    env.start_operator().await;
    let history = Claims::watch(&hosts);
    env.apply_hosts_with(|host| {
        at_once(host);
        host["spec"]["online"] = json!(false);
    })
    .await;
    make_cluster(&hosts).await;
    history
        .until("all hosts are available", |seen| seen.available.len() == HOSTS as usize)
        .await;
    let mut provider = ShakyProvider::new(&hosts, 0, 27).await;
    provider.restart().await;

    let apply = async |wave: char, number: u32| {
        let image =
            json!({"url": "http://images.example/os.img", "checksum": "ab".repeat(32), "checksumType": "sha256"});
        let claim = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim",
                "metadata": {"name": format!("{wave}{number}")}, "spec": {"poweredOn": false, "image": image}});
        tenant.apply(&claim.to_string()).await;
    };
    for number in 0..EACH {
        let machine = format!("m{number}");
        tokio::join!(apply('c', number), make_machine(&hosts, &machine));
    }
    // Both are killed while they take hosts.
    history
        .until("some hosts are taken", |seen| seen.consumers.len() > 2)
        .await;
    provider.kill();
    env.kill_operator();
    env.start_operator().await;
    provider.restart().await;
    history
        .until("all hosts run something", |seen| seen.deployed.len() == HOSTS as usize)
        .await;
    let first = history.seen();
    assert_eq!(count(&first, 'c') + count(&first, 'm'), HOSTS as usize, "{first:?}");
    for (host, (consumer, _)) in first.consumers.iter().filter(|(_, (name, _))| name.starts_with('c')) {
        let has_it = |claim: &HostClaim| {
            let bound = claim.status.as_ref().and_then(|status| status.bare_metal_host.as_ref());
            bound.is_some_and(|bound| bound.name == *host)
        };
        tenant.expect(consumer, "knows its host", has_it).await;
    }

    let claims = tenant.api::<HostClaim>();
    for number in 0..EACH {
        claims
            .delete(&format!("c{number}"), &DeleteParams::default())
            .await
            .unwrap();
    }
    history
        .until("all machines run", |seen| {
            seen.provisioned.len() == EACH as usize && count(seen, 'c') == 0
        })
        .await;
    for number in 0..EACH {
        apply('d', number).await;
    }
    let left = (HOSTS - EACH) as usize;
    history
        .until("claims have the others", |seen| count(seen, 'd') == left)
        .await;
    for number in 0..EACH {
        delete_machine(&hosts, &format!("m{number}")).await;
    }
    history
        .until("all claims have hosts", |seen| {
            count(seen, 'd') == EACH as usize && seen.machines.is_empty()
        })
        .await;
    let seen = history.seen();
    println!(
        "{} hosts were taken {} times, {} of the first by claims",
        HOSTS,
        seen.claims,
        count(&first, 'c')
    );
    seen
}

// OWN 31ca, OWN 31cc, OWN 31cd.
#[test]
fn a_host_whose_claim_is_gone_is_released_and_a_copy_is_made_again() {
    run(async {
        let (mut env, tenant, _) = env().await;
        let hosts = env.namespace.clone();
        permit(&hosts, &tenant).await;
        env.apply_hosts().await;
        env.start_operator().await;
        env.expect_all(ProvisioningState::Available).await;
        tenant.apply(&user_data("first")).await;
        tenant.apply(&claim("a")).await;
        let host = running(&tenant, "a").await;

        let secrets = hosts.api::<Secret>();
        let name = format!(
            "hostclaim-{}-userdata",
            tenant.api::<HostClaim>().get("a").await.unwrap().uid().unwrap()
        );
        let forged = json!({"stringData": {"userData": "forged"}});
        secrets
            .patch(&name, &PatchParams::default(), &Patch::Merge(forged))
            .await
            .unwrap();
        expect_copies(&hosts, &["first"]).await;
        secrets.delete(&name, &DeleteParams::default()).await.unwrap();
        expect_copies(&hosts, &["first"]).await;
        expect_event(&tenant, "a", "BareMetalHostAssociated").await;

        // Somebody deletes the claim by force while no operator runs.
        env.kill_operator();
        let claims = tenant.api::<HostClaim>();
        claims.delete("a", &DeleteParams::default()).await.unwrap();
        let stripped = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        claims.patch("a", &PatchParams::default(), &stripped).await.unwrap();
        assert!(claims.get_opt("a").await.unwrap().is_none());
        // Another claim of that name is no reason to keep what the first one ran.
        tenant.apply(&claim("a")).await;
        env.start_operator().await;
        expect_event(&hosts, &host, "HostClaimGone").await;
        expect_event(&hosts, &host, "HostReleased").await;
        running(&tenant, "a").await;
        let is_free = |host: &BareMetalHost| {
            let state = host.status.as_ref().map(|status| &status.provisioning.state);
            host.spec.consumer_ref.is_none()
                && host.spec.image.is_none()
                && state == Some(&ProvisioningState::Available)
        };
        let list = hosts.api::<BareMetalHost>().list(&ListParams::default()).await.unwrap();
        let free = list.iter().filter(|host| is_free(host)).count();
        assert_eq!((free, env.sum().deploys), (1, 2));
        expect_copies(&hosts, &["first"]).await;
        // Claims by force, one at a time, while the operator runs.
        claims.delete("a", &DeleteParams::default()).await.unwrap();
        claims.patch("a", &PatchParams::default(), &stripped).await.ok();
        env.expect_all(ProvisioningState::Available).await;
        expect_copies(&hosts, &[]).await;
    });
}

/// Makes a host name a claim as upstream's operator does, which ends before it stores the status of the claim.
async fn bind_as_upstream(hosts: &TestNamespace, host: &str, tenant: &TestNamespace, claim: &str) {
    let reference =
        json!({"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "name": claim, "namespace": tenant.name});
    let bound = Patch::Merge(json!({"spec": {"consumerRef": reference}}));
    let api = hosts.api::<BareMetalHost>();
    api.patch(host, &PatchParams::default(), &bound).await.unwrap();
}

async fn expect_free(hosts: &TestNamespace, name: &str) {
    let is_free = |host: &BareMetalHost| host.spec.consumer_ref.is_none() && host.spec.image.is_none();
    hosts.expect(name, "is free", is_free).await;
    expect_event(hosts, name, "HostReleased").await;
}

// OWN 31vl.
#[test]
fn a_host_that_upstream_bound_is_the_claims_and_none_is_in_use_for_nobody() {
    run(async {
        let tenant = namespace!().await;
        let mut env = FleetEnv::new(namespace!().await, 3, 9).await;
        env.watch_also(&tenant);
        env.bind_secrets_of(&tenant).await;
        env.config.args.push("--hostclaims".to_owned());
        let hosts = env.namespace.clone();
        accept_secrets(&hosts).await;
        permit(&hosts, &tenant).await;
        env.apply_hosts().await;
        env.start_operator().await;
        env.expect_all(ProvisioningState::Available).await;
        let list = hosts.api::<BareMetalHost>().list(&ListParams::default()).await.unwrap();
        let mut names: Vec<_> = list.iter().map(ResourceExt::name_any).collect();
        names.sort();
        let [untouched, first, second] = &names[..] else {
            panic!("{names:?}")
        };
        env.kill_operator();
        tenant.apply(&user_data("first")).await;
        tenant.apply(&claim("a")).await;
        for host in [first, second] {
            bind_as_upstream(&hosts, host, &tenant, "a").await;
        }
        env.start_operator().await;
        assert_eq!(running(&tenant, "a").await, *first);
        expect_free(&hosts, second).await;
        let other = hosts.api::<BareMetalHost>().get(untouched).await.unwrap();
        assert_eq!((other.spec.consumer_ref, env.sum().deploys), (None, 1));

        // A claim that is deleted before anything of it was stored.
        env.kill_operator();
        tenant.apply(&claim("b")).await;
        let claims = tenant.api::<HostClaim>();
        let held = Patch::Merge(json!({"metadata": {"finalizers": ["metal3.io/hostclaim"]}}));
        claims.patch("b", &PatchParams::default(), &held).await.unwrap();
        claims.delete("b", &DeleteParams::default()).await.unwrap();
        bind_as_upstream(&hosts, untouched, &tenant, "b").await;
        env.start_operator().await;
        expect_free(&hosts, untouched).await;
        tenant.expect_gone::<HostClaim>("b").await;
    });
}

async fn expect_event(namespace: &TestNamespace, name: &str, reason: &str) {
    eventually(LIMIT, &format!("an event {reason} of {name}"), || async {
        let events = namespace.api::<Event>().list(&ListParams::default()).await;
        let events = events.map_err(|error| error.to_string())?.items;
        let of_object = events
            .iter()
            .filter(|event| event.involved_object.name.as_deref() == Some(name));
        let reasons: Vec<_> = of_object.filter_map(|event| event.reason.clone()).collect();
        if reasons.iter().any(|one| one == reason) {
            Ok(())
        } else {
            Err(format!("{reasons:?}"))
        }
    })
    .await;
}
