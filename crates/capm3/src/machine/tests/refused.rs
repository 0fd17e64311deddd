//! What a machine says of a write that is refused, pass by pass.

use std::collections::BTreeSet;
use std::time::Duration;

use metal3_api::infra::v1beta2::Metal3Machine;

use super::passes::{fill, free_host, key, machines};
use super::*;
use crate::controller::Controller;
use crate::machine_template::Metal3MachineTemplates;
use crate::sim::{Site, failure};

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
    machines.pass(&key("m")).await.unwrap();
    let failed = "AssociateBareMetalHostFailed".to_owned();
    assert_eq!(
        condition(&site, "AssociateBareMetalHost"),
        (ConditionStatus::False, failed)
    );
    free_host(&site);
    for _ in 0..3 {
        let error = machines.pass(&key("m")).await.expect_err("no claim may be made");
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
    site.shows(&site.ctx.world.templates, "t", &template);
    free_host(&site);
    let (machines, _) = machines(&site);
    let templates = Metal3MachineTemplates::new(site.ctx.clone());
    for _ in 0..3 {
        machines.pass(&key("m")).await.expect_err("the host cannot be claimed");
        assert_eq!(site.told(), [], "it may pass");
        // What is another controller's to do for the machine is done.
        templates.pass(&key("m")).await.unwrap();
        site.ctx.clock.advance(Duration::from_secs(10));
    }
    for _ in 0..3 {
        machines.pass(&key("m")).await.expect_err("the host cannot be claimed");
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
