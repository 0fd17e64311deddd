//! What a machine reports about a rejected write, pass by pass.

use metal3_runtime::controller::{Next, Reconcile};
use metal3_runtime::work::Queue;
use std::collections::BTreeSet;
use std::time::Duration;

use metal3_api::infra::v1beta2::Metal3Machine;
use rstest::rstest;

use super::passes::{fill, free_host, key, machines};
use super::*;
use crate::machine_template::Metal3MachineTemplates;
use crate::sim::{Site, failure};
use crate::stores::host_of;

const CLAIMED: &str = "AssociateBareMetalHostSuccess";

fn condition(site: &Site, type_: &str) -> (ConditionStatus, String) {
    let status = site.now::<Metal3Machine>("metal3machines").status.unwrap();
    let found = conditions::get(&status.conditions, type_).unwrap();
    (found.status.clone(), found.reason.clone())
}

#[tokio::test]
async fn a_machine_that_has_got_a_host_says_so_whatever_is_refused_after_that() {
    let site = Site::new("", |method, path, _| {
        let is_claim = method == "POST" && path.ends_with("/metal3dataclaims");
        is_claim.then(|| failure(403, "Forbidden"))
    });
    fill(
        &site,
        &json!({"spec": {"dataTemplate": {"name": "t"}}}),
        "#cloud-config",
    );
    let (machines, _) = machines(&site);
    Reconcile::listen(&machines, &Queue::new());
    machines.reconcile(&key("m")).await.unwrap();
    let failed = "AssociateBareMetalHostFailed".to_owned();
    assert_eq!(
        condition(&site, "AssociateBareMetalHost"),
        (ConditionStatus::False, failed)
    );
    free_host(&site);
    for _ in 0..3 {
        let error = machines.reconcile(&key("m")).await.expect_err("no claim may be made");
        assert_eq!(
            error.to_string(),
            "cannot create the Metal3DataClaim of Metal3Machine ns/m"
        );
        assert!(site.now::<BareMetalHost>("baremetalhosts").spec.consumer_ref.is_some());
        let claimed = (ConditionStatus::True, CLAIMED.to_owned());
        assert_eq!(condition(&site, "AssociateBareMetalHost"), claimed);
        let refused = (ConditionStatus::False, "UpdateError".to_owned());
        assert_eq!(condition(&site, "Ready"), refused);
    }
    let reasons: BTreeSet<String> = site.told().into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(site.told().len(), reasons.len(), "each once: {:?}", site.told());
    assert!(
        reasons.contains(CLAIMED) && reasons.contains("UpdateError"),
        "{reasons:?}"
    );
    let labelled = site
        .writes()
        .into_iter()
        .filter(|write| write.ends_with("/secrets/bmc"));
    assert_eq!(labelled.count(), 1, "the Secret of the BMC is the cluster's");
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_is_told_when_that_lasts() {
    let site = Site::new("", |method, path, _| {
        let is_claim = method == "PATCH" && path.contains("/baremetalhosts/");
        is_claim.then(|| failure(500, "InternalError"))
    });
    let cloned = json!({"cluster.x-k8s.io/cloned-from-name": "t",
        "cluster.x-k8s.io/cloned-from-groupkind": "Metal3MachineTemplate.infrastructure.cluster.x-k8s.io"});
    fill(&site, &json!({"metadata": {"annotations": cloned}}), "#cloud-config");
    let template = json!({"spec": {"template": {"spec": {}}}});
    site.shows(&site.ctx.stores.templates, "t", &template);
    free_host(&site);
    let (machines, _) = machines(&site);
    let templates = Metal3MachineTemplates::new(site.ctx.clone());
    for _ in 0..3 {
        machines
            .reconcile(&key("m"))
            .await
            .expect_err("the host cannot be claimed");
        assert_eq!(site.told(), [], "it may pass");
        // Work for the machine by other controllers continues.
        templates.reconcile(&key("m")).await.unwrap();
        site.ctx.clock.advance(Duration::from_secs(10));
    }
    for _ in 0..3 {
        machines
            .reconcile(&key("m"))
            .await
            .expect_err("the host cannot be claimed");
        let told = site.told();
        let [(reason, words)] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert_eq!(reason, "UpdateError");
        assert!(
            words.contains("claim the host of Metal3Machine ns/m, BareMetalHost h"),
            "{words}"
        );
        let refused = (ConditionStatus::False, "UpdateError".to_owned());
        assert_eq!(condition(&site, "Ready"), refused);
    }
}

#[tokio::test]
async fn a_claim_is_reported_whether_or_not_a_later_failure_lasts() {
    let site = Site::new("", |method, path, _| {
        let is_claim = method == "POST" && path.ends_with("/metal3dataclaims");
        is_claim.then(|| failure(500, "InternalError"))
    });
    fill(
        &site,
        &json!({"spec": {"dataTemplate": {"name": "t"}}}),
        "#cloud-config",
    );
    free_host(&site);
    let (machines, _) = machines(&site);
    let reasons = |site: &Site| site.told().into_iter().map(|(reason, _)| reason).collect::<Vec<_>>();
    for expected in [[CLAIMED].as_slice(), &[CLAIMED], &[CLAIMED, "UpdateError"]] {
        machines.reconcile(&key("m")).await.expect_err("no claim may be made");
        assert_eq!(reasons(&site), expected);
        site.ctx.clock.advance(Duration::from_secs(15));
    }
}

/// A server that rejects every write to host h with this message.
fn protecting(code: u16, words: &'static str) -> Site {
    let site = Site::new("", move |method, path, _| {
        let is_it = method == "PATCH" && path.ends_with("/baremetalhosts/h");
        let (code, mut answer) = is_it.then(|| failure(code, "Reason"))?;
        answer["message"] = json!(words);
        Some((code, answer))
    });
    fill(&site, &json!({}), "#cloud-config");
    free_host(&site);
    site
}

fn another_free_host(site: &Site) {
    let host = json!({"spec": {"online": false}, "status": {"provisioning": {"state": "available", "ID": ""},
        "errorMessage": ""}});
    site.shows(&site.ctx.stores.hosts, "x", &host);
}

/// The names of the machine's hosts.
fn claimed(site: &Site) -> Vec<String> {
    let hosts: Vec<BareMetalHost> = site.server.all("baremetalhosts");
    let claimed = hosts.into_iter().filter(|host| host.spec.consumer_ref.is_some());
    claimed.filter_map(|host| host.metadata.name).collect()
}

const NO_WEBHOOK: &str =
    "Internal error occurred: failed calling webhook \"hosts.example.org\": no endpoints available";

#[rstest]
#[case::forbidden(403, "a policy", 1)]
#[case::invalid(422, "a schema", 1)]
#[case::webhook_gone(500, NO_WEBHOOK, 3)]
#[case::no_answer(500, "etcdserver: request timed out", 3)]
#[tokio::test]
async fn a_machine_goes_on_where_a_host_refuses_its_claim(
    #[case] code: u16,
    #[case] words: &'static str,
    #[case] attempts: usize,
) {
    let site = protecting(code, words);
    let (machines, _) = machines(&site);
    for _ in 0..attempts {
        machines.reconcile(&key("m")).await.expect_err("host h takes no claim");
        site.ctx.clock.advance(Duration::from_secs(15));
    }
    let told = |site: &Site| {
        let told = site.told().into_iter();
        told.filter(|(reason, said)| {
            reason == "UpdateError" && said.contains("BareMetalHost h") && said.contains(words)
        })
        .count()
    };
    assert_eq!(told(&site), 1, "{:?}", site.told());
    another_free_host(&site);
    assert_eq!(
        machines.reconcile(&key("m")).await.unwrap(),
        Next::Now,
        "it names h no more"
    );
    machines.reconcile(&key("m")).await.unwrap();
    assert_eq!(claimed(&site), ["x"]);
    let machine: Metal3Machine = site.now("metal3machines");
    assert_eq!(host_of(&machine), Some(key("x")));
    assert_eq!(told(&site), 1, "{:?}", site.told());
}
