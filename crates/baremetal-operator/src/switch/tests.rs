use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use metal3_api::metal3::BareMetalSwitch;
use metal3_runtime::conditions::get;
use metal3_runtime::controller::{Decision, Next, Plan, Report};
use metal3_runtime::events::Severity;
use metal3_runtime::timing::operator::RELEASE;
use metal3_testkit::{leaks, played};
use rstest::rstest;
use serde_json::{Value, json};

use super::apply::write;
use super::decide::{Effect, ReadSecrets, decide};
use super::observed::{MOST_SWITCHES, Observed, reduced};
use super::render::{CONFIGS_KEY, HEADER};
use crate::args::SwitchSettings;

const CONFIGS: &str = "configs";
const KEYS: &str = "keys";

fn switch(name: &str, spec: &Value) -> Arc<BareMetalSwitch> {
    let mut all = json!({"address": "192.0.2.1", "macAddress": "00:00:5e:00:53:01", "deviceType": "netmiko_cisco_ios",
        "credentials": {"name": "creds"}});
    json_patch::merge(&mut all, spec);
    let object = json!({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalSwitch",
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "generation": 3}, "spec": all});
    Arc::new(serde_json::from_value(object).unwrap())
}

/// A Secret. Every value has a mark before its last character, except for the user's name.
fn secret(name: &str, data: &[(&str, &str)]) -> Secret {
    let value = |key, value| match key {
        "username" => String::from(value),
        _ => marked(value),
    };
    let data = data
        .iter()
        .map(|(key, text)| ((*key).to_owned(), ByteString(value(*key, *text).into_bytes())));
    let mut secret = Secret {
        data: Some(data.collect()),
        ..Secret::default()
    };
    secret.metadata.name = Some(name.to_owned());
    secret
}

/// What comes first and last in a value counts, so that the mark is within.
fn marked(value: &str) -> String {
    let mut marked = value.to_owned();
    if let Some(last) = marked.pop() {
        marked.push_str(leaks::CANARY);
        marked.push(last);
    }
    marked
}

/// A namespace with these switches, the two Secrets, still empty, and the credentials.
fn seen(switches: Vec<Arc<BareMetalSwitch>>, credentials: &[(&str, &str)]) -> Observed {
    let settings = SwitchSettings {
        configs: CONFIGS.to_owned(),
        credentials: KEYS.to_owned(),
        path: "/etc/keys".to_owned(),
    };
    let mut seen = Observed::new(Arc::new(settings), "n".to_owned(), switches);
    for secret in [secret(CONFIGS, &[]), secret(KEYS, &[]), secret("creds", credentials)] {
        seen.secrets.insert(secret.metadata.name.clone().unwrap(), Some(secret));
    }
    seen
}

const PASSWORD: [(&str, &str); 2] = [("username", "admin"), ("password", "s3cret\n")];

/// A plan that tells nothing from a Secret. The two Secrets that are written have it by design.
fn plan(seen: &Observed) -> Plan<Effect, ()> {
    let plan = match decide::<()>(seen, "2026-01-01T00:00:00Z".parse().unwrap()) {
        Decision::Act(plan) => *plan,
        Decision::Fetch(ReadSecrets(names)) => panic!("wants {names:?}"),
    };
    for effect in &plan.effects {
        match effect {
            Effect::Write { name, .. } => leaks::expect_none_in("a name", name),
            Effect::Report(_, status, event) => leaks::expect_none_told(&Report {
                status: Some(status),
                events: event.iter().cloned().collect(),
            }),
        }
    }
    plan
}

#[test]
#[should_panic(expected = "a secret was emitted")]
fn a_secret_that_is_told_fails_its_test() {
    let mut seen = seen(vec![switch("a", &json!({}))], &PASSWORD);
    let Secret { data: Some(data), .. } = seen.secrets["creds"].as_ref().unwrap() else {
        panic!("it is empty")
    };
    seen.refusal = Some(String::from_utf8(data["password"].0.clone()).unwrap());
    plan(&seen);
}

/// Writes until all is written: the content of the two Secrets, and what the switches report.
fn settled(seen: &mut Observed) -> (String, BTreeMap<String, ByteString>, Vec<(String, String)>) {
    let first = plan(seen);
    for effect in &first.effects {
        if let Effect::Write { name, data } = effect {
            seen.secrets.get_mut(name).unwrap().as_mut().unwrap().data = Some(data.clone());
        }
    }
    let reports = plan(seen).effects.into_iter().map(|effect| match effect {
        Effect::Write { name, .. } => panic!("{name} is written twice"),
        Effect::Report(_, status, _) => {
            let valid = get(&status.conditions, "Valid").unwrap();
            assert_eq!(valid.observed_generation, Some(3));
            (valid.reason.clone(), valid.message.clone())
        }
    });
    let reports = reports.collect();
    let data = |name: &str| {
        seen.secrets[name]
            .clone()
            .and_then(|secret| secret.data)
            .unwrap_or_default()
    };
    let text = data(CONFIGS)
        .get(CONFIGS_KEY)
        .map(|bytes| bytes.0.clone())
        .unwrap_or_default();
    (String::from_utf8(text).unwrap(), data(KEYS), reports)
}

#[test]
fn switches_are_written_in_the_order_of_their_names_without_absent_fields() {
    let port = switch("a", &json!({"port": 8443, "disableCertificateVerification": true}));
    let mut seen = seen(vec![port, switch("b", &json!({}))], &PASSWORD);
    let (text, keys, reports) = settled(&mut seen);
    let password = marked("s3cret\n");
    let password = password.trim_end();
    let expected = format!(
        "{HEADER}[switch:a]\naddress=192.0.2.1\nmac_address=00:00:5e:00:53:01\nport=8443\ndriver_type=generic-switch\n\
         device_type=netmiko_cisco_ios\ninsecure=true\nusername=admin\npassword={password}\n\n\
         [switch:b]\naddress=192.0.2.1\nmac_address=00:00:5e:00:53:01\ndriver_type=generic-switch\n\
         device_type=netmiko_cisco_ios\nusername=admin\npassword={password}\n\n"
    );
    assert_eq!(text, expected);
    assert!(keys.is_empty());
    assert!(reports.iter().all(|(reason, _)| reason == "Reconciled"), "{reports:?}");
}

#[test]
fn a_private_key_is_preferred_and_lies_in_a_file_of_its_own() {
    let credentials = [
        ("username", "u"),
        ("password", "p"),
        ("ssh-privatekey", "KEY\n"),
        ("admin-password", "root"),
    ];
    let mut seen = seen(vec![switch("a", &json!({}))], &credentials);
    let (text, keys, _) = settled(&mut seen);
    assert!(
        text.contains(&format!(
            "key_file=/etc/keys/00-00-5e-00-53-01.key\nenable_secret={}\n\n",
            marked("root")
        )),
        "{text}"
    );
    assert!(!text.contains("password="), "{text}");
    assert_eq!(keys["00-00-5e-00-53-01.key"].0, marked("KEY\n").into_bytes());
}

// OWN 31tb: an empty password for privileged commands, as templates of Secrets leave it, took the switch out of the configuration.
#[test]
fn an_empty_admin_password_is_none() {
    let mut seen = seen(vec![switch("a", &json!({}))], &PASSWORD);
    let credentials = seen.secrets.get_mut("creds").unwrap().as_mut().unwrap();
    let data = credentials.data.get_or_insert_default();
    data.insert("admin-password".to_owned(), ByteString(b"\n".to_vec()));
    let (text, _, reports) = settled(&mut seen);
    assert!(text.contains("password=") && !text.contains("enable_secret"), "{text}");
    assert!(reports.iter().all(|(reason, _)| reason == "Reconciled"), "{reports:?}");
}

#[test]
fn without_switches_nothing_but_the_header_is_left() {
    let mut seen = seen(Vec::new(), &PASSWORD);
    *seen.secrets.get_mut(KEYS).unwrap() = Some(secret(KEYS, &[("old.key", "KEY")]));
    assert_eq!(settled(&mut seen), (HEADER.to_owned(), BTreeMap::new(), Vec::new()));
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut seen = seen(vec![switch("a", &json!({}))], &PASSWORD);
    settled(&mut seen);
    let Some(Effect::Report(0, status, Some(event))) = plan(&seen).effects.pop() else {
        panic!("there is no report");
    };
    assert_eq!((event.reason, event.severity), ("Reconciled", Severity::Normal));
    let switch = Arc::get_mut(&mut seen.switches[0]).unwrap();
    switch.status = Some(status);
    let quiet = plan(&seen);
    assert!(quiet.effects.is_empty() && quiet.next == Next::Change);
    // An edit that changes nothing of it is no event; a Secret that is gone is one.
    Arc::get_mut(&mut seen.switches[0]).unwrap().metadata.generation = Some(9);
    assert!(matches!(&plan(&seen).effects[..], [Effect::Report(0, _, None)]));
    Arc::get_mut(&mut seen.switches[0]).unwrap().metadata.generation = Some(3);
    let credentials = seen.secrets.keys().find(|name| *name == "creds").cloned().unwrap();
    seen.secrets.insert(credentials, None);
    settled(&mut seen);
    let Some(Effect::Report(0, _, Some(event))) = plan(&seen).effects.pop() else {
        panic!("there is no report");
    };
    assert_eq!((event.reason, event.severity), ("CredentialError", Severity::Warning));
}

// OWN 31ww: a % made Ironic drop all switches.
// DEFECT 15: upstream writes line breaks as they are, so that one switch could add settings to another; and it says nothing when
// the two Secrets do not exist.
#[rstest]
#[case::line_break_in_a_field(json!({"address": "192.0.2.1\npassword=x"}), &PASSWORD, "ConfigurationError", "spec.address")]
#[case::line_break_in_a_password(json!({}), &[("username", "u"), ("password", "a\nb")], "CredentialError", "password of Secret creds contains a line break")]
#[case::percent_in_a_password(json!({}), &[("username", "u"), ("password", "a%b")], "CredentialError", "password of Secret creds contains a % alone")]
#[case::percent_in_the_device_type(json!({"deviceType": "a%b"}), &[("username", "u"), ("password", "p")], "ConfigurationError", "spec.deviceType contains a % alone")]
#[case::quoted_password(json!({}), &[("username", "u"), ("password", "'abc'")], "CredentialError", "password of Secret creds begins and ends with")]
#[case::quoted_name(json!({}), &[("username", "\""), ("password", "p")], "CredentialError", "username of Secret creds begins and ends with")]
#[case::no_mac(json!({"macAddress": "../a"}), &PASSWORD, "ConfigurationError", "spec.macAddress is not a MAC address")]
#[case::no_reference(json!({"credentials": null}), &PASSWORD, "CredentialError", "spec.credentials is not set")]
#[case::elsewhere(json!({"credentials": {"namespace": "other"}}), &PASSWORD, "CredentialError", "another namespace")]
#[case::no_user(json!({}), &[("password", "p")], "CredentialError", "username of Secret creds is missing")]
#[case::no_user_name(json!({}), &[("username", " "), ("password", "p")], "CredentialError", "username of Secret creds is empty")]
#[case::no_password(json!({}), &[("username", "u")], "CredentialError", "neither password nor ssh-privatekey")]
fn a_switch_that_cannot_be_written_is_left_out_and_says_why(
    #[case] spec: Value,
    #[case] credentials: &[(&str, &str)],
    #[case] reason: &str,
    #[case] words: &str,
) {
    let mut seen = seen(vec![switch("a", &spec)], credentials);
    let (text, keys, reports) = settled(&mut seen);
    assert_eq!((text.as_str(), keys.len()), (HEADER, 0));
    assert!(reports[0].0 == reason && reports[0].1.contains(words), "{reports:?}");
}

#[test]
fn one_switch_without_credentials_does_not_hold_up_the_others() {
    let mut seen = seen(
        vec![
            switch("a", &json!({"credentials": {"name": "none"}})),
            switch("b", &json!({})),
        ],
        &PASSWORD,
    );
    seen.secrets.insert("none".to_owned(), None);
    let (text, _, reports) = settled(&mut seen);
    assert!(!text.contains("[switch:a]") && text.contains("[switch:b]"), "{text}");
    assert!(reports[0].1.contains("Secret none does not exist"), "{reports:?}");
    assert_eq!(reports[1].0, "Reconciled");
}

#[test]
fn two_keys_for_one_file_are_refused() {
    let mut seen = seen(
        vec![
            switch("a", &json!({})),
            switch("b", &json!({"credentials": {"name": "more"}})),
        ],
        &[("username", "u"), ("ssh-privatekey", "1")],
    );
    let more = secret("more", &[("username", "u"), ("ssh-privatekey", "2")]);
    seen.secrets.insert("more".to_owned(), Some(more));
    let (_, keys, reports) = settled(&mut seen);
    assert_eq!(keys["00-00-5e-00-53-01.key"].0, marked("1").into_bytes());
    assert_eq!(
        (reports[0].0.as_str(), reports[1].0.as_str()),
        ("Reconciled", "ConfigurationError")
    );
}

#[test]
fn a_switch_says_which_secret_or_right_is_missing() {
    let mut seen = seen(vec![switch("a", &json!({}))], &PASSWORD);
    seen.secrets.insert(KEYS.to_owned(), None);
    let (text, _, reports) = settled(&mut seen);
    assert!(text.contains("[switch:a]"), "the other Secret is written");
    assert_eq!(reports[0].0, "ConfigurationError");
    assert!(
        reports[0]
            .1
            .contains("Secret keys does not exist in namespace n: create it"),
        "{reports:?}"
    );

    seen.refusal = Some("bind the ClusterRole".to_owned());
    let plan = plan(&seen);
    assert!(matches!(&plan.effects[..], [Effect::Report(..)]), "nothing is written");
    assert!(matches!(plan.next, Next::After(_)));
}

#[test]
fn all_secrets_are_read_before_anything_is_written() {
    let mut seen = seen(vec![switch("a", &json!({}))], &PASSWORD);
    seen.secrets.clear();
    let Decision::Fetch(ReadSecrets(names)) = decide::<()>(&seen, jiff::Timestamp::UNIX_EPOCH) else {
        panic!("it decides unread");
    };
    assert_eq!(names, [CONFIGS, "creds", KEYS]);
}

// OWN 31ci: the switches and Secrets of one namespace took memory without a bound.
#[test]
fn what_a_namespace_of_switches_costs_has_an_end() {
    let mut switches: Vec<_> = (0..=MOST_SWITCHES)
        .map(|number| switch(&format!("s{number:05}"), &json!({})))
        .collect();
    let mut all = seen(switches.clone(), &PASSWORD);
    let (configs, _, reports) = settled(&mut all);
    assert_eq!(configs.matches("[switch:").count(), MOST_SWITCHES);
    let (last, others) = reports.split_last().unwrap();
    assert_eq!(last.0, "ConfigurationError");
    assert!(others.iter().all(|report| report.0 == "Reconciled"));

    let large = "x".repeat(20_000);
    let kept = reduced(secret(
        "creds",
        &[("username", "admin"), ("password", "p"), ("other", &large)],
    ))
    .unwrap();
    assert_eq!(kept.data.unwrap().len(), 2, "other keys are not kept");
    assert_eq!(
        reduced(secret("creds", &[("username", "admin"), ("password", &large)])),
        None
    );
    switches.truncate(1);
    let mut one = seen(switches, &PASSWORD);
    one.too_large.insert("creds".to_owned());
    let (_, _, reports) = settled(&mut one);
    assert!(
        reports[0].0 == "CredentialError" && reports[0].1.contains("larger"),
        "{reports:?}"
    );
}

// OWN 31cj: after the last switch of a namespace was deleted while no operator ran, its password stayed in the Secret.
#[rstest]
#[case::ours(&[(CONFIGS_KEY, "# This file is managed by the Baremetal Operator\n\n[switch:a]\n")], true)]
#[case::empty(&[], true)]
#[case::of_somebody_else(&[(CONFIGS_KEY, "[switch:theirs]\n")], false)]
#[case::other_key(&[("other", "")], false)]
fn a_configuration_without_switches_is_emptied_if_it_is_ours(#[case] data: &[(&str, &str)], #[case] is_written: bool) {
    let mut seen = seen(Vec::new(), &[]);
    seen.secrets.insert(CONFIGS.to_owned(), Some(secret(CONFIGS, data)));
    let effects = plan(&seen).effects;
    let is_ours = matches!(&effects[..], [Effect::Write { name, .. }] if name == CONFIGS);
    assert_eq!(is_ours, is_written);
    assert!(is_written || effects.is_empty());
}

// OWN 31vf: a configuration that no Secret can hold, and a Secret that cannot be changed, left all switches of the namespace as they
// were, and nobody was told.
#[rstest]
#[case::passwords("password", CONFIGS)]
#[case::private_keys("ssh-privatekey", KEYS)]
fn what_a_secret_cannot_hold_is_left_out(#[case] key: &str, #[case] full: &str) {
    let large = "x".repeat(16 * 1024 - 100);
    let switches = (0..100).map(|number| {
        let mac = format!("00:00:5e:00:53:{number:02x}");
        switch(&format!("s{number:03}"), &json!({ "macAddress": mac }))
    });
    let mut seen = seen(switches.collect(), &[("username", "u"), (key, &large)]);
    let (text, keys, reports) = settled(&mut seen);
    let sizes = [text.len(), keys.values().map(|key| key.0.len()).sum()];
    assert!(
        sizes.iter().all(|size| *size <= 1 << 20) && sizes.iter().any(|size| *size > 1 << 19),
        "{sizes:?}"
    );
    let is_written = |report: &(String, String)| report.0 == "Reconciled";
    let written = reports.iter().take_while(|report| is_written(report)).count();
    assert_eq!(text.matches("[switch:").count(), written);
    assert!((60..70).contains(&written), "{written}");
    let told = format!("Secret {full} would be larger than 1 MiB");
    let left_out = &reports[written..];
    assert!(
        left_out
            .iter()
            .all(|(reason, message)| reason == "ConfigurationError" && message.contains(&told))
    );
}

#[test]
fn a_secret_that_cannot_be_changed_is_told() {
    let mut seen = seen(vec![switch("a", &json!({}))], &PASSWORD);
    let keys = seen.secrets.get_mut(KEYS).unwrap().as_mut().unwrap();
    keys.immutable = Some(true);
    assert_eq!(settled(&mut seen).2[0].0, "Reconciled", "it is as it should be");
    seen.secrets.get_mut(KEYS).unwrap().as_mut().unwrap().data = secret(KEYS, &[("old.key", "KEY")]).data;
    let (text, keys, reports) = settled(&mut seen);
    assert!(text.contains("[switch:a]") && keys.contains_key("old.key"));
    assert!(
        reports[0].0 == "ConfigurationError" && reports[0].1.contains("Secret keys in namespace n is immutable"),
        "{reports:?}"
    );
    assert_eq!(plan(&seen).next, Next::Change, "another Secret wakes the pass");
}

#[rstest]
#[case(413, "RequestEntityTooLarge")]
#[case(422, "Invalid")]
#[case(400, "BadRequest")]
#[tokio::test]
async fn a_configuration_that_is_refused_is_told(#[case] code: u16, #[case] reason: &'static str) {
    let client = played::client("n", move |_| ready(played::failure(code, reason)));
    let mut seen = seen(vec![switch("a", &json!({}))], &PASSWORD);
    write(&client, &mut seen, CONFIGS, &BTreeMap::new()).await.unwrap();
    let plan = plan(&seen);
    let [Effect::Report(0, status, Some(event))] = &plan.effects[..] else {
        panic!("nothing else is written")
    };
    assert_eq!(
        (event.reason, event.severity),
        ("ConfigurationError", Severity::Warning)
    );
    let valid = get(&status.conditions, "Valid").unwrap();
    assert!(
        valid
            .message
            .contains("refuses to store the configuration in Secret configs of namespace n"),
        "{}",
        valid.message
    );
    assert_eq!(plan.next, Next::After(RELEASE), "it is tried again");
}
