use super::*;
use metal3_api::labels::check_key;
use rstest::rstest;
use serde_json::{Value, json};

fn parse(selector: Value) -> Result<Selector, Vec<String>> {
    let selector: HostSelector = serde_json::from_value(selector).unwrap();
    super::parse(Some(&selector)).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

fn admits(selector: &Selector, labels: &[(&str, &str)]) -> bool {
    let labels = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    selector.first_unmet(&labels.collect()).is_none()
}

#[rstest]
#[case("in", &["a", "b"], &[("a", true), ("c", false)], false)]
#[case("In", &["a"], &[("a", true), ("b", false)], false)]
#[case("notin", &["a", "b"], &[("a", false), ("c", true)], true)]
#[case("NotIn", &["a"], &[("a", false)], true)]
#[case("=", &["a"], &[("a", true), ("b", false)], false)]
#[case("==", &["a"], &[("a", true), ("b", false)], false)]
#[case("!=", &["a"], &[("a", false), ("b", true)], true)]
#[case("exists", &[], &[("", true), ("b", true)], false)]
#[case("!", &[], &[("a", false), ("", false)], true)]
#[case("gt", &["3"], &[("4", true), ("3", false), ("x", false), ("", false)], false)]
#[case("Lt", &["3"], &[("2", true), ("-7", true), ("3", false), ("x", false)], false)]
fn every_operator(
    #[case] operator: &str,
    #[case] values: &[&str],
    #[case] by_value: &[(&str, bool)],
    #[case] without: bool,
) {
    let selector = parse(expression("k", operator, values)).unwrap();
    for (value, is_admitted) in by_value {
        assert_eq!(admits(&selector, &[("k", value)]), *is_admitted, "{value:?}");
    }
    assert_eq!(admits(&selector, &[("other", "a")]), without);
}

#[rstest]
#[case("k", "in", &[], "spec.hostSelector.matchExpressions[0].values: at least one value is needed")]
#[case("k", "notin", &[], "spec.hostSelector.matchExpressions[0].values: at least one value is needed")]
#[case("k", "=", &["a", "b"], "spec.hostSelector.matchExpressions[0].values: exactly one value is needed")]
#[case("k", "!=", &[], "spec.hostSelector.matchExpressions[0].values: exactly one value is needed")]
#[case("k", "exists", &["a"], "spec.hostSelector.matchExpressions[0].values: must be empty for this operator")]
#[case("k", "!", &["a"], "spec.hostSelector.matchExpressions[0].values: must be empty for this operator")]
#[case("k", "gt", &["x"], "spec.hostSelector.matchExpressions[0].values: \"x\" is not an integer")]
#[case("k", "lt", &["1", "2"], "spec.hostSelector.matchExpressions[0].values: exactly one value is needed")]
#[case("k", "in", &["a b"], "spec.hostSelector.matchExpressions[0].values: \"a b\" cannot be the value of a label")]
#[case("a/b/c", "exists", &[], "spec.hostSelector.matchExpressions[0].key: \"a/b/c\" cannot be the key of a label")]
#[case("k", "DoesNotExist", &[], "spec.hostSelector.matchExpressions[0].operator: is written ! here")]
#[case(
    "k",
    "like",
    &["a"],
    "spec.hostSelector.matchExpressions[0].operator: \"like\" is not known, use one of in, notin, =, ==, !=, exists, !, gt, lt"
)]
fn what_cannot_be_understood_is_said_with_its_path(
    #[case] key: &str,
    #[case] operator: &str,
    #[case] values: &[&str],
    #[case] error: &str,
) {
    assert_eq!(parse(expression(key, operator, values)).unwrap_err(), [error]);
}

#[test]
fn every_mistake_is_reported_at_once() {
    let errors = parse(json!({
        "matchLabels": {"-k": "v", "k": "v!", "good": ""},
        "matchExpressions": [{"key": "k", "operator": "has", "values": []}],
    }));
    assert_eq!(errors.unwrap_err().len(), 3);
}

#[rstest]
#[case("k", true)]
#[case("example.com/Some_key.1", true)]
#[case("", false)]
#[case("/k", false)]
#[case("Example.com/k", false)]
#[case("a..b/k", false)]
#[case("k-", false)]
#[case(&"k".repeat(63), true)]
#[case(&"k".repeat(64), false)]
fn keys_are_kubernetes_own(#[case] key: &str, #[case] is_good: bool) {
    assert_eq!(check_key(key).is_ok(), is_good);
}

#[test]
fn nothing_asked_admits_everything_and_exact_labels_are_known() {
    assert!(admits(&super::parse(None).unwrap(), &[]));
    let selector = parse(json!({
        "matchLabels": {"a": "1"},
        "matchExpressions": [{"key": "b", "operator": "in", "values": ["x", "y"]}, {"key": "c", "operator": "==", "values": ["2"]}],
    }))
    .unwrap();
    let exact: Vec<_> = selector.exact().collect();
    assert_eq!(exact, [("a", "1"), ("c", "2")]);
    assert!(admits(&selector, &[("a", "1"), ("b", "y"), ("c", "2")]));
    let unmet = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        selector.first_unmet(&labels).map(ToString::to_string)
    };
    assert_eq!(unmet(&[]).unwrap(), "a=1");
    assert_eq!(unmet(&[("a", "1"), ("c", "2")]).unwrap(), "b in (x,y)");
}
