//! Bootstrap data that uses missing metadata keys.

use metal3_render::Key;
use rstest::rstest;

use super::*;
use crate::machine::Payload;
use crate::machine::decide::Read;
use crate::machine::names::BOOTSTRAP_DATA;

const STRICT: &str = "infrastructure.cluster.x-k8s.io/strict-bootstrap-data";

fn lacks() -> Preview {
    Preview::Lacks(vec![Key("rack".to_owned()), Key("row/no".to_owned())])
}

fn is_told(plan: &Plan) -> bool {
    host_patch(plan)["spec"]["image"].is_object()
}

#[test]
fn what_a_host_boots_with_is_looked_at_before_it_is_told() {
    let meta = json!({"spec": {"metaData": {"name": "meta"}}});
    let mut claimed = with_host(&meta, &json!({}));
    claimed.reads.preview = None;
    let payload = Payload {
        user_data: "b".to_owned(),
        meta_data: Some("meta".to_owned()),
    };
    assert_eq!(decide(&claimed, now()), Decision::Fetch(Read::Preview(payload)));
    // A host that already has its data is not checked again.
    let told = json!({"spec": {"image": {"url": "http://i"}}, "status": {"provisioning": {"state": "provisioned"}}});
    let mut told = with_host(&meta, &told);
    told.reads.preview = None;
    assert!(matches!(decide(&told, now()), Decision::Act(_)));
}

#[rstest]
#[case::of_a_template(json!({"dataTemplate": {"name": "t"}}), "make a Metal3DataTemplate like t that has it")]
#[case::of_the_user(json!({"metaData": {"name": "meta"}}), "add it to Secret meta")]
#[case::without_metadata(json!({}), "name a Metal3DataTemplate in spec.dataTemplate")]
fn missing_keys_are_told_once_and_waited_for_where_the_user_asks(#[case] spec: Value, #[case] way_out: &str) {
    for is_strict in [false, true] {
        let annotations = if is_strict {
            json!({STRICT: "true"})
        } else {
            json!({STRICT: "false"})
        };
        let machine = json!({"metadata": {"annotations": annotations}, "spec": spec});
        let mut seen = with_host(&machine, &json!({}));
        seen.claim = Some(claim(&json!({"status": {"renderedData": {"name": "t-0"}}})));
        seen.data = Some(with(
            json!({"metadata": {"name": "t-0", "namespace": "ns"}, "spec": {"index": 0, "claim": {"name": "m"},
                "template": {"name": "t"}}}),
            &json!({"status": {"ready": true}}),
        ));
        seen.reads.preview = Some(lacks());
        let plan = plan(&seen);
        let is_written = plan.effects.iter().any(|effect| effect.label() == "set up the host");
        assert_eq!(is_written, !is_strict);
        let (holds, reason, message) = said(status(&plan), BOOTSTRAP_DATA);
        assert_eq!((holds, reason), (false, "MetadataKeysMissing"));
        assert!(
            message.contains(r#"takes ds.meta_data.rack, ds.meta_data["row/no"] from"#),
            "{message}"
        );
        assert!(message.contains(way_out), "{message}");
        assert_eq!(message.contains(STRICT), is_strict, "{message}");
        assert_eq!(said(status(&plan), "Ready").2 == message, is_strict);
        assert_eq!(plan.report.events.len(), 1);
        // Reported once.
        seen.machine = {
            let mut machine = (*seen.machine).clone();
            machine.status.clone_from(&plan.report.status);
            Arc::new(machine)
        };
        let again = super::plan(&seen);
        assert_eq!((again.report.status, again.report.events.len()), (None, 0));
        // Fixed.
        seen.reads.preview = Some(Preview::Complete);
        let mended = super::plan(&seen);
        assert!(is_told(&mended));
        assert_eq!(conditions::get(&status(&mended).conditions, BOOTSTRAP_DATA), None);
    }
}

#[test]
fn a_strict_machine_claims_its_host_and_has_it_wait() {
    let strict = json!({"metadata": {"annotations": {STRICT: "true"}}});
    let mut choosing = seen(&strict);
    choosing.reads.choice = chosen(free(), false);
    assert!(host_patch(&plan(&choosing))["spec"]["consumerRef"].is_object());
    let mut claimed = with_host(&strict, &json!({}));
    claimed.reads.preview = Some(Preview::NoMetadata("Secret meta does not exist".to_owned()));
    let plan = plan(&claimed);
    assert_eq!(plan.effects, []);
    let (_, reason, message) = said(status(&plan), BOOTSTRAP_DATA);
    assert_eq!(reason, "MetadataUnreadable");
    assert!(message.contains("Secret meta does not exist"), "{message}");
}

#[test]
#[should_panic(expected = "a secret was emitted")]
fn a_secret_that_is_told_fails_its_test() {
    let mut claimed = with_host(&json!({}), &json!({}));
    claimed.reads.preview = Some(Preview::NoMetadata(format!("Secret meta has {CANARY}meta")));
    plan(&claimed);
}

#[test]
fn of_many_keys_the_first_are_named_and_of_long_ones_the_beginning() {
    let keys: Vec<Key> = (0..12)
        .map(|number| Key(format!("k{number}{}", "x".repeat(500))))
        .collect();
    let words = crate::machine::preview::Keys(&keys).to_string();
    assert!(words.len() < 1100 && words.ends_with(" and 2 more"), "{words}");
}
