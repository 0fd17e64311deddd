use super::*;
use crate::stores::Stores;
use kube::ResourceExt;
use metal3_api::infra::v1beta2::HostSelector;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

const REUSE: &str = "infrastructure.cluster.x-k8s.io/node-reuse";
const DOMAIN: &str = "infrastructure.cluster.x-k8s.io/failure-domain";

fn request() -> HostRequest {
    HostRequest {
        machine: ObjectKey::new("ns", "m"),
        uid: "u-m".to_owned(),
        selector: Selector::default(),
        failure_domain: String::new(),
        is_domain_strict: false,
        reuse: Some("md-workers".to_owned()),
    }
}

fn selector(value: Value) -> Selector {
    let selector: HostSelector = serde_json::from_value(value).unwrap();
    selector::parse(Some(&selector)).unwrap()
}

/// A free host, and `other` in its place.
fn host(name: &str, labels: &Value, other: &Value) -> Arc<BareMetalHost> {
    let mut object = json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"namespace": "ns", "name": name, "labels": labels},
        "spec": {"online": false},
        "status": {"provisioning": {"state": "available", "ID": ""}, "errorMessage": ""},
    });
    for (path, value) in other.as_object().into_iter().flatten() {
        let (parent, field) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    Arc::new(serde_json::from_value(object).unwrap())
}

fn consumer(name: &str, uid: &str) -> Value {
    json!({"kind": "Metal3Machine", "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "namespace": "ns",
        "name": name, "uid": uid})
}

fn chosen(selection: &Selection) -> Option<&str> {
    match &selection.outcome {
        Outcome::Own(host) | Outcome::Chosen { host, .. } => host.metadata.name.as_deref(),
        Outcome::Await(_) | Outcome::None => None,
    }
}

/// What a machine is told that chooses so.
fn summary(selection: &Selection, request: &HostRequest) -> String {
    selection.survey().text(&request.machine.namespace, &selection.outcome)
}

fn choose(request: &HostRequest, hosts: &[Arc<BareMetalHost>]) -> Selection {
    select(request, hosts, &Reserved::new(), 7)
}

#[rstest]
#[case::label(json!({"rack": "b"}), json!({}), "label", "1 lacks label rack=a")]
#[case::kept(json!({"rack": "a", REUSE: "cp-other"}), json!({}), "kept", "1 kept for cp-other")]
#[case::taken(json!({"rack": "a"}), json!({"/spec/consumerRef": consumer("x", "u")}), "in_use", "1 in use by x")]
#[case::taken_by_something_else(
    json!({"rack": "a"}), json!({"/spec/consumerRef": {"kind": "Robot", "name": "r", "apiVersion": "v1"}}),
    "in_use", "1 in use by Robot r"
)]
#[case::kept_for_us_but_claimed(
    json!({"rack": "a", REUSE: "md-workers"}), json!({"/spec/consumerRef": consumer("x", "u")}),
    "in_use", "1 in use by x"
)]
#[case::predecessor(
    json!({"rack": "a"}), json!({"/spec/consumerRef": consumer("m", "u-old")}), "in_use",
    "1 still in use by an earlier machine of this name, which is gone: clear its spec.consumerRef to free it"
)]
#[case::deleting(
    json!({"rack": "a"}), json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"}), "deleting", "1 being deleted"
)]
#[case::error(
    json!({"rack": "a"}), json!({"/status/errorMessage": "x", "/status/errorType": "inspection error"}), "error",
    "1 failed: inspection error"
)]
#[case::paused(
    json!({"rack": "a"}), json!({"/metadata/annotations": {"baremetalhost.metal3.io/paused": ""}}), "paused", "1 paused"
)]
#[case::detached(
    json!({"rack": "a"}), json!({"/metadata/annotations": {"baremetalhost.metal3.io/detached": ""}}), "detached",
    "1 detached"
)]
#[case::unhealthy(
    json!({"rack": "a"}), json!({"/metadata/annotations": {"capm3.metal3.io/unhealthy": "x"}}), "unhealthy",
    "1 marked as unhealthy"
)]
#[case::unhealthy_by_the_old_key(
    json!({"rack": "a"}), json!({"/metadata/annotations": {"capi.metal3.io/unhealthy": ""}}), "unhealthy",
    "1 marked as unhealthy"
)]
#[case::image(
    json!({"rack": "a"}), json!({"/spec/image": {"url": "http://x"}}), "has_image",
    "1 with an image that no machine has asked for"
)]
#[case::state(
    json!({"rack": "a"}), json!({"/status/provisioning/state": "inspecting"}), "state", "1 not available: inspecting"
)]
#[case::new(json!({"rack": "a"}), json!({"/status/provisioning/state": ""}), "state", "1 not available: not looked at yet")]
fn a_host_is_refused_by_the_first_rule_that_it_breaks(
    #[case] labels: Value,
    #[case] other: Value,
    #[case] rule: &str,
    #[case] text: &str,
) {
    let mut request = request();
    request.selector = selector(json!({"matchLabels": {"rack": "a"}}));
    let selection = choose(&request, &[host("h", &labels, &other)]);
    assert_eq!(selection.outcome, Outcome::None);
    let refused: Vec<_> = selection.refused.iter().map(|(_, refusal)| refusal.label()).collect();
    assert_eq!(refused, [rule]);
    assert_eq!(summary(&selection, &request), format!("0 of 1 hosts: {text}"));
}

#[rstest]
#[case("available")]
#[case("ready")]
fn a_free_host_is_chosen(#[case] state: &str) {
    let hosts = [host("h", &json!({}), &json!({"/status/provisioning/state": state}))];
    let selection = choose(&request(), &hosts);
    let is_free = matches!(&selection.outcome, Outcome::Chosen { is_reuse: false, .. });
    assert!(is_free && selection.refused.is_empty());
    assert_eq!(summary(&selection, &request()), "1 of 1 hosts");
}

#[rstest]
#[case::uid("u-m", true)]
#[case::of_upstream("", true)]
#[case::of_an_earlier_machine("u-old", false)]
fn a_claim_counts_by_uid_and_not_only_by_name(#[case] uid: &str, #[case] is_own: bool) {
    let ours = json!({"/spec/consumerRef": consumer("m", uid), "/status/provisioning/state": "provisioned"});
    let selection = choose(
        &request(),
        &[host("free", &json!({}), &json!({})), host("ours", &json!({}), &ours)],
    );
    assert_eq!(matches!(selection.outcome, Outcome::Own(_)), is_own);
    assert_eq!(chosen(&selection), Some(if is_own { "ours" } else { "free" }));
}

/// Whatever else is wrong with it: it is the machine's, and what to do about it is not a matter of choice.
#[test]
fn the_own_host_is_found_even_if_nobody_else_could_have_it() {
    let mut request = request();
    request.selector = selector(json!({"matchLabels": {"rack": "a"}}));
    let ours = json!({"/spec/consumerRef": consumer("m", "u-m"), "/status/errorMessage": "broken",
        "/metadata/annotations": {"capm3.metal3.io/unhealthy": ""}});
    assert_eq!(chosen(&choose(&request, &[host("h", &json!({}), &ours)])), Some("h"));
}

#[test]
fn kept_hosts_go_first_and_are_waited_for() {
    let cluster = json!({"kind": "Cluster", "name": "c", "apiVersion": "cluster.x-k8s.io/v1beta2"});
    let kept = json!({REUSE: "md-workers"});
    let ready = host("kept", &kept, &json!({"/spec/consumerRef": cluster}));
    let busy = json!({"/spec/consumerRef": cluster, "/status/provisioning/state": "deprovisioning"});
    let coming = host("coming", &kept, &busy);
    let free = host("free", &json!({}), &json!({}));
    // One that is ready is taken, even while another is not: upstream waits then.
    let selection = choose(&request(), &[free.clone(), coming.clone(), ready]);
    assert!(matches!(&selection.outcome, Outcome::Chosen { is_reuse: true, .. }));
    assert_eq!(chosen(&selection), Some("kept"));
    let selection = choose(&request(), &[free.clone(), coming.clone()]);
    assert_eq!(selection.outcome, Outcome::Await(coming.clone()));
    assert_eq!(
        summary(&selection, &request()),
        "1 of 2 hosts: waiting for coming, which is kept for this machine; 1 not available: deprovisioning"
    );
    // A machine of which nothing is kept takes what is free.
    let mut other = request();
    other.reuse = None;
    assert_eq!(chosen(&choose(&other, &[free, coming])), Some("free"));
}

#[test]
fn a_broken_host_is_not_waited_for_although_it_is_kept() {
    let broken = host(
        "kept",
        &json!({REUSE: "md-workers"}),
        &json!({"/status/errorMessage": "x"}),
    );
    let selection = choose(&request(), &[broken, host("free", &json!({}), &json!({}))]);
    assert_eq!(chosen(&selection), Some("free"));
}

#[rstest]
#[case::soft(false, &["a", "b"], Some("b"))]
#[case::soft_falls_back(false, &["a"], Some("a"))]
#[case::strict(true, &["a", "b"], Some("b"))]
#[case::strict_waits(true, &["a"], None)]
fn failure_domains(#[case] is_strict: bool, #[case] domains: &[&str], #[case] expected: Option<&str>) {
    let mut request = request();
    request.failure_domain = "b".to_owned();
    request.is_domain_strict = is_strict;
    let hosts: Vec<_> = domains
        .iter()
        .map(|domain| host(domain, &json!({DOMAIN: domain}), &json!({})))
        .collect();
    for seed in 0..20 {
        assert_eq!(chosen(&select(&request, &hosts, &Reserved::new(), seed)), expected);
    }
    if expected.is_none() {
        assert_eq!(
            summary(&choose(&request, &hosts), &request),
            "0 of 1 hosts: 1 in another failure domain: a"
        );
    }
}

#[test]
fn a_kept_host_is_kept_whatever_its_domain_unless_that_is_strict() {
    let mut request = request();
    request.failure_domain = "b".to_owned();
    let hosts = [
        host("kept", &json!({REUSE: "md-workers", DOMAIN: "a"}), &json!({})),
        host("free", &json!({DOMAIN: "b"}), &json!({})),
    ];
    assert_eq!(chosen(&choose(&request, &hosts)), Some("kept"));
    request.is_domain_strict = true;
    assert_eq!(chosen(&choose(&request, &hosts)), Some("free"));
}

#[test]
fn what_another_machine_is_about_to_claim_is_not_chosen() {
    let hosts = [host("h", &json!({}), &json!({}))];
    let reserved = |by: &str| Reserved::from([(ObjectKey::new("ns", "h"), ObjectKey::new("ns", by))]);
    let selection = select(&request(), &hosts, &reserved("x"), 7);
    assert_eq!(summary(&selection, &request()), "0 of 1 hosts: 1 being claimed by x");
    assert_eq!(chosen(&select(&request(), &hosts, &reserved("m"), 7)), Some("h"));
    assert!(!suits(&request(), &hosts[0], &reserved("x")) && suits(&request(), &hosts[0], &reserved("m")));
}

#[test]
fn the_summary_counts_by_rule_and_names_some() {
    let mut request = request();
    request.selector = selector(json!({"matchLabels": {"rack": "b"}}));
    let good = json!({"rack": "b"});
    let mut hosts: Vec<_> = (0..9)
        .map(|n| {
            host(
                &format!("t{n}"),
                &good,
                &json!({"/spec/consumerRef": consumer(&format!("m{n}"), "u")}),
            )
        })
        .collect();
    hosts.extend((0..3).map(|n| host(&format!("l{n}"), &json!({}), &json!({}))));
    for (n, state) in ["inspecting", "preparing"].iter().enumerate() {
        hosts.push(host(
            &format!("s{n}"),
            &good,
            &json!({"/status/provisioning/state": state}),
        ));
    }
    assert_eq!(
        summary(&choose(&request, &hosts), &request),
        "0 of 14 hosts: 9 in use by m0, m1, m2 and 6 more; 3 lack label rack=b; 2 not available: 1 inspecting, 1 preparing"
    );
    assert_eq!(
        summary(&choose(&request, &[]), &request),
        "0 of 0 hosts: there is no BareMetalHost in namespace ns"
    );
}

/// Upstream's choice: each host as often as any other.
#[test]
fn random_seeds_spread_over_all_hosts() {
    let spread = |hosts: u32, choose: &dyn Fn(u64) -> Selection| {
        let mut counts: HashMap<String, u32> = HashMap::new();
        for seed in 0..hosts * 100 {
            let name = chosen(&choose(mixed(seed.into()))).unwrap().to_owned();
            *counts.entry(name).or_default() += 1;
        }
        assert_eq!(counts.len(), usize::try_from(hosts).unwrap());
        let counts: Vec<f64> = counts.into_values().map(f64::from).collect();
        // Of draws that are all alike, about the number of hosts.
        counts.iter().map(|count| (count - 100.0).powi(2) / 100.0).sum::<f64>()
    };
    // Not exceeded once in a thousand times where each is as likely as any other.
    for (number, most) in [(10, 28.0), (60, 99.0), (200, 265.0)] {
        let stores = Stores::new("");
        let hosts: Vec<_> = (0..number)
            .map(|n| host(&format!("h{n}"), &json!({}), &json!({})))
            .collect();
        for host in &hosts {
            stores.hosts.created((**host).clone());
        }
        let of_list = spread(number, &|seed| select(&request(), &hosts, &Reserved::new(), seed));
        let of_world = spread(number, &|seed| search(&stores, &request(), &Reserved::new(), seed));
        assert!(
            of_list < most && of_world < most,
            "{of_list} and {of_world} of {number}"
        );
    }
}

/// Machines with the same requests do not all want the same host.
#[test]
fn stable_seeds_differ_by_machine_and_stay() {
    let hosts: Vec<_> = (0..50)
        .map(|n| host(&format!("h{n}"), &json!({}), &json!({})))
        .collect();
    let of = |uid: &str| {
        let selection = select(&request(), &hosts, &Reserved::new(), stable_seed(uid));
        chosen(&selection).unwrap().to_owned()
    };
    let hosts: std::collections::HashSet<_> = (0..50).map(|n| of(&format!("uid-{n}"))).collect();
    assert!(hosts.len() > 25, "{}", hosts.len());
    assert_eq!(of("uid-1"), of("uid-1"));
}

fn any_host() -> impl Strategy<Value = (Value, Value)> {
    let labels = (
        prop::option::of(0..3),
        prop::option::of(0..3),
        prop::option::of(0_usize..2),
    )
        .prop_map(|(rack, domain, reuse)| {
            let mut labels = serde_json::Map::new();
            labels.extend(rack.map(|n: i32| ("rack".to_owned(), json!(n.to_string()))));
            labels.extend(domain.map(|n: i32| (DOMAIN.to_owned(), json!(n.to_string()))));
            labels.extend(reuse.map(|n: usize| (REUSE.to_owned(), json!(["md-workers", "cp-x"][n]))));
            Value::Object(labels)
        });
    let consumers = prop_oneof![
        4 => Just(Value::Null),
        1 => Just(consumer("other", "u")),
        1 => Just(consumer("m", "u-m")),
        1 => Just(consumer("m", "u-old")),
        1 => Just(json!({"kind": "Cluster", "name": "c"})),
    ];
    let states = prop::sample::select(vec!["available", "ready", "provisioned", "inspecting", ""]);
    let annotations = prop_oneof![3 => Just(json!({})), 1 => Just(json!({"capm3.metal3.io/unhealthy": ""}))];
    (labels, consumers, states, annotations).prop_map(|(labels, consumer, state, annotations)| {
        let other = json!({"/spec/consumerRef": consumer, "/status/provisioning/state": state,
            "/metadata/annotations": annotations});
        (labels, other)
    })
}

proptest! {
    #[test]
    fn a_choice_is_the_same_in_any_order_and_breaks_no_rule(
        hosts in prop::collection::vec(any_host(), 0..12),
        seed in any::<u64>(),
        rotation in 0_usize..12,
        is_strict in any::<bool>(),
        rack in prop::option::of(0_u8..3),
    ) {
        let mut request = request();
        request.failure_domain = "1".to_owned();
        request.is_domain_strict = is_strict;
        if let Some(rack) = rack {
            request.selector = selector(json!({"matchLabels": {"rack": rack.to_string()}}));
        }
        let mut list: Vec<_> = hosts.iter().enumerate()
            .map(|(n, (labels, other))| host(&format!("h{n}"), labels, other))
            .collect();
        let first = select(&request, &list, &Reserved::new(), seed);
        if !list.is_empty() {
            let by = rotation % list.len();
            list.rotate_left(by);
        }
        let second = select(&request, &list, &Reserved::new(), seed);
        // Of several own hosts, which only a fault can bring about, any will do.
        let own = list.iter().filter(|h| claimed(h, &request.machine, &request.uid) == Claimed::ByUs).count();
        if own <= 1 {
            prop_assert_eq!(&first.outcome, &second.outcome);
        }
        match &first.outcome {
            Outcome::Own(host) => prop_assert_eq!(claimed(host, &request.machine, &request.uid), Claimed::ByUs),
            Outcome::Chosen { host, is_reuse } => {
                prop_assert!(host.is_available() && suits(&request, host, &Reserved::new()));
                prop_assert!(first.refused.iter().all(|(refused, _)| refused.metadata.name != host.metadata.name));
                prop_assert_eq!(host.labels().contains_key(REUSE), *is_reuse);
                prop_assert!(!is_strict || host.labels().get(DOMAIN).is_some_and(|domain| domain == "1"));
            }
            Outcome::Await(host) => {
                prop_assert!(!host.is_available() && host.labels().get(REUSE) == request.reuse.as_ref());
            }
            Outcome::None => prop_assert_eq!(first.refused.len(), list.len()),
        }
        // Everything that was refused would not do, and everything else would.
        if !matches!(first.outcome, Outcome::Own(_)) {
            for host in &list {
                let is_refused = first.refused.iter().any(|(refused, _)| refused.metadata.name == host.metadata.name);
                prop_assert_eq!(suits(&request, host, &Reserved::new()), !is_refused);
            }
        }
        summary(&first, &request);
    }
}

/// Free hosts, every tenth of them in domain a.
fn free_hosts(count: usize) -> Stores {
    let stores = Stores::new("");
    for number in 0..count {
        let domain = if number % 10 == 0 { "a" } else { "b" };
        let host = host(&format!("h{number}"), &json!({DOMAIN: domain, "rack": "r"}), &json!({}));
        stores.hosts.created((*host).clone());
    }
    stores
}

#[rstest]
#[case::any("", json!({}))]
#[case::with_a_label("", json!({"matchLabels": {"rack": "r"}}))]
#[case::in_a_domain("a", json!({}))]
fn a_choice_looks_at_a_part_of_the_free_hosts(#[case] domain: &str, #[case] labels: Value) {
    let stores = free_hosts(2000);
    for seed in 0..20 {
        let request = HostRequest {
            failure_domain: domain.to_owned(),
            selector: selector(labels.clone()),
            ..request()
        };
        let selection = search(&stores, &request, &Reserved::new(), seed);
        let Outcome::Chosen { host, .. } = &selection.outcome else {
            panic!("{selection:?}")
        };
        assert!(domain.is_empty() || host.labels()[DOMAIN] == domain);
        assert!(selection.considered <= 100, "{} of 2000", selection.considered);
        let again = search(&stores, &request, &Reserved::new(), seed);
        assert_eq!(again.outcome, selection.outcome, "the same for the same seed");
    }
}

#[test]
fn a_host_is_found_in_whichever_part_it_is() {
    let stores = free_hosts(2000);
    let all: Vec<ObjectKey> = stores.hosts.all();
    let reserved = |but: &str| -> Reserved {
        let others = all.iter().filter(|host| host.name != but);
        others
            .map(|host| (host.clone(), ObjectKey::new("ns", "other")))
            .collect()
    };
    for last in ["h0", "h777", "h1999"] {
        let selection = search(&stores, &request(), &reserved(last), 7);
        assert_eq!(chosen(&selection), Some(last));
    }
    // Outside of the domain only if none is left inside, and if that is allowed.
    let mut request = HostRequest {
        failure_domain: "a".to_owned(),
        ..request()
    };
    let selection = search(&stores, &request, &reserved("h1"), 7);
    assert_eq!(chosen(&selection), Some("h1"));
    assert!(
        selection.considered <= all.len(),
        "{} of {}",
        selection.considered,
        all.len()
    );
    request.is_domain_strict = true;
    assert_eq!(chosen(&search(&stores, &request, &reserved("h1"), 7)), None);
}

#[test]
fn the_only_host_of_a_domain_is_found_among_many() {
    let stores = free_hosts(2000);
    let only = host("only", &json!({DOMAIN: "c"}), &json!({}));
    stores.hosts.created((*only).clone());
    let request = HostRequest {
        failure_domain: "c".to_owned(),
        ..request()
    };
    for seed in 0..20 {
        let selection = search(&stores, &request, &Reserved::new(), seed);
        assert_eq!((chosen(&selection), selection.considered), (Some("only"), 1));
    }
}

#[rstest]
#[case::a_machine("Metal3Machine", "infrastructure.cluster.x-k8s.io/v1beta2", true, false)]
#[case::a_cluster("Cluster", "cluster.x-k8s.io/v1beta2", false, true)]
#[case::of_another_group("Metal3Machine", "example.org/v1", false, false)]
#[case::of_another_kind("Robot", "infrastructure.cluster.x-k8s.io/v1beta2", false, false)]
#[case::a_cluster_of_another_group("Cluster", "example.org/v1", false, false)]
fn a_reference_counts_by_group_and_kind(
    #[case] kind: &str,
    #[case] version: &str,
    #[case] is_machine: bool,
    #[case] is_cluster: bool,
) {
    let reference = json!({"kind": kind, "apiVersion": version, "name": "x", "namespace": "ns"});
    let host = host("h", &json!({}), &json!({"/spec/consumerRef": reference}));
    let key = ObjectKey::new("ns", "x");
    assert_eq!(consumer_of(&host), is_machine.then(|| key.clone()));
    assert_eq!(keeper_of(&host), is_cluster.then_some(key));
}

#[test]
fn hosts_that_are_kept_go_before_free_ones() {
    let stores = free_hosts(10);
    let kept = host("kept", &json!({REUSE: "md-workers"}), &json!({}));
    stores.hosts.created((*kept).clone());
    assert_eq!(chosen(&search(&stores, &request(), &Reserved::new(), 7)), Some("kept"));
}
