use super::*;
use crate::host::observed::OutageKind;
use metal3_runtime::store::ObjectKey;
use rstest::rstest;
use serde_json::json;

const NOW: Duration = Duration::from_secs(1);

fn node(n: u32, state: &str) -> Node {
    let record = json!({"uuid": format!("u{n}"), "name": format!("ns~h{n}"), "provision_state": state});
    serde_json::from_value(record).unwrap()
}

fn key(n: u32) -> ObjectKey {
    ObjectKey {
        namespace: "ns".into(),
        name: format!("h{n}"),
    }
}

fn sorted(mut keys: Vec<ObjectKey>) -> Vec<ObjectKey> {
    keys.sort();
    keys
}

fn down(cause: &str) -> Outage {
    Outage {
        kind: OutageKind::Unreachable,
        cause: cause.into(),
    }
}

#[test]
fn only_changes_wake() {
    let mut view = View::default();
    assert_eq!(
        sorted(view.replace(vec![node(1, "enroll"), node(2, "active")], NOW)),
        [key(1), key(2)]
    );
    assert_eq!(view.replace(vec![node(1, "enroll"), node(2, "active")], NOW), []);
    assert_eq!(
        view.replace(vec![node(1, "verifying"), node(2, "active")], NOW),
        [key(1)]
    );
    assert_eq!(view.replace(vec![node(1, "verifying")], NOW), [key(2)]);
    assert!(matches!(view.of("u2", ["ns~h2", "h2"]), NodeView::Unlisted));
    assert!(matches!(view.of("", ["ns~h1", "h1"]), NodeView::Listed(_)));
}

/// A list of many nodes is seconds old when it has arrived. What a host has done or read meanwhile would look undone, and
/// the host be woken for it.
#[test]
fn a_list_does_not_undo_what_was_read_since_it_was_asked_for() {
    let state = |view: &View, n: u32| match view.of(&format!("u{n}"), ["", ""]) {
        NodeView::Listed(node) => node.provision_state.as_str().to_owned(),
        other => panic!("{other:?}"),
    };
    let second = Duration::from_secs;
    let mut view = View::default();
    view.replace(vec![node(1, "enroll")], second(1));
    view.learn(&node(1, "manageable"), &key(1), second(3));
    view.learn(&node(2, "enroll"), &key(2), second(3));
    assert_eq!(view.replace(vec![node(1, "enroll")], second(2)), []);
    assert_eq!(
        (state(&view, 1), state(&view, 2)),
        ("manageable".into(), "enroll".into())
    );
    // A list that knows of a later change does count.
    let mut later = node(1, "cleaning");
    later.provision_updated_at = Some("2026-01-01T00:00:09Z".into());
    view.learn(&node(1, "manageable"), &key(1), second(5));
    assert_eq!(view.replace(vec![later, node(2, "enroll")], second(4)), [key(1)]);
    // So does one that was asked for afterwards.
    assert_eq!(
        sorted(view.replace(vec![node(1, "active")], second(6))),
        [key(1), key(2)]
    );
    assert!(matches!(view.of("u2", ["", ""]), NodeView::Unlisted));
}

/// Times of Ironic's records have whole seconds.
#[test]
fn a_change_that_came_and_went_between_two_lists_wakes() {
    let second = Duration::from_secs;
    let mut view = View::default();
    let list = || vec![node(1, "manageable")];
    view.replace(list(), second(1));
    view.agreed("u1", second(3));
    assert_eq!(view.replace(list(), second(2)), [], "asked for before");
    assert_eq!(view.replace(list(), second(3)), [key(1)]);
    assert_eq!(view.replace(list(), second(4)), []);
    // A change that is seen is enough.
    view.agreed("u1", second(5));
    assert_eq!(view.replace(vec![node(1, "inspecting")], second(6)), [key(1)]);
    assert_eq!(view.replace(vec![node(1, "inspecting")], second(7)), []);
}

#[test]
fn a_list_of_some_nodes_wakes_their_hosts_and_says_nothing_of_the_others() {
    let second = Duration::from_secs;
    let mut view = View::default();
    view.replace(
        vec![node(1, "inspecting"), node(2, "active"), node(3, "enroll")],
        second(1),
    );
    assert_eq!(view.busy().map(Busy::len), Some(1));
    let list = || vec![node(1, "manageable"), node(3, "enroll")];
    assert_eq!(view.update(list(), second(2)), [key(1)]);
    assert_eq!(view.busy().map(Busy::len), Some(0));
    assert!(matches!(view.of("u2", ["", ""]), NodeView::Listed(_)));
    assert_eq!(view.update(list(), second(3)), []);
    // It came and went in between, or was read since.
    view.agreed("u3", second(4));
    assert_eq!(view.update(list(), second(5)), [key(3)]);
    view.learn(&node(1, "cleaning"), &key(1), second(7));
    assert_eq!(view.update(list(), second(6)), []);
    assert_eq!(view.busy().map(Busy::len), Some(1));
    // Enrolled by somebody else.
    assert_eq!(view.update(vec![node(4, "enroll")], second(8)), [key(4)]);
    assert!(matches!(view.of("", ["ns~h4", "h4"]), NodeView::Listed(_)));
}

#[test]
fn an_outage_is_told_once_and_its_end_wakes_those_who_wait() {
    let mut view = View::default();
    view.replace(vec![node(1, "active"), node(2, "cleaning")], NOW);
    assert!(view.set_waiting(&key(2), true, NOW));
    assert_eq!(view.fail(down("refused")), [key(2)]);
    assert_eq!(view.fail(down("refused")), []);
    // What was known stays known: a host at rest is not disturbed.
    assert!(matches!(view.of("u1", ["ns~h1", "h1"]), NodeView::Listed(_)));
    assert!(matches!(
        view.of("u9", ["ns~h9", "h9"]),
        NodeView::Unknown { cause: Some(_) }
    ));
    assert_eq!(
        view.replace(vec![node(1, "active"), node(2, "cleaning")], NOW),
        [key(2)]
    );
    assert_eq!(view.outage(), None);
}

#[test]
fn an_emptied_ironic_wakes_every_host_that_had_a_node() {
    let legacy = || ObjectKey::new("other", "legacy");
    let mut bare = node(1, "active");
    bare.name = Some("legacy".into());
    let mut view = View::default();
    view.replace(vec![bare, node(2, "manageable")], NOW);
    view.claim("u1", &legacy());
    assert_eq!(sorted(view.replace(Vec::new(), NOW)), [key(2), legacy()]);
}

// OWN 29p: a host that read another host's node hid its changes from that host.
#[test]
fn a_change_that_one_host_reads_wakes_the_others() {
    let mut view = View::default();
    let forger = ObjectKey::new("tenant", "forger");
    view.replace(vec![node(1, "manageable")], NOW);
    view.claim("u1", &forger);
    assert_eq!(view.learn(&node(1, "active"), &forger, NOW), (true, vec![key(1)]));
    assert_eq!(view.learn(&node(1, "active"), &forger, NOW), (false, vec![]));
    assert_eq!(view.learn(&node(1, "deleting"), &key(1), NOW), (true, vec![forger]));
}

// OWN 29m: a host that had waited for another's node to get another name was not woken when it had.
#[test]
fn a_node_that_gets_another_name_wakes_the_hosts_of_both_names() {
    let renamed = |uuid: u32, name: u32| Node {
        name: Some(format!("ns~h{name}")),
        ..node(uuid, "active")
    };
    let found = |view: &View, n: u32| match view.of("", [&format!("ns~h{n}"), ""]) {
        NodeView::Listed(node) => node.uuid.clone(),
        _ => String::new(),
    };
    let mut view = View::default();
    view.replace(vec![node(1, "active"), node(2, "active")], NOW);
    assert_eq!(sorted(view.update(vec![renamed(1, 3)], NOW)), [key(1), key(3)]);
    assert_eq!((found(&view, 1), found(&view, 3)), (String::new(), "u1".to_owned()));
    assert_eq!(
        sorted(view.replace(vec![renamed(1, 4), node(2, "active")], NOW)),
        [key(3), key(4)]
    );
    assert_eq!(sorted(view.learn(&renamed(1, 5), &key(9), NOW).1), [key(4), key(5)]);
    assert_eq!((found(&view, 4), found(&view, 5)), (String::new(), "u1".to_owned()));
    // They exchange their names.
    view.update(vec![renamed(1, 2), renamed(2, 5)], 2 * NOW);
    assert_eq!((found(&view, 2), found(&view, 5)), ("u1".to_owned(), "u2".to_owned()));
}

// OWN 3e: who restored a status with another host's identity took that host's wake-ups.
#[rstest]
#[case::of_a_node_named_after_its_host(Some("ns~h1"))]
#[case::of_a_node_with_a_name_of_old(Some("h1"))]
#[case::of_a_node_without_a_name(None)]
fn who_claims_another_hosts_node_takes_no_wake_up_from_it(#[case] name: Option<&str>) {
    let forger = ObjectKey::new("tenant", "forger");
    let known = |state| Node {
        name: name.map(ToOwned::to_owned),
        ..node(1, state)
    };
    for claimants in [[forger.clone(), key(1)], [key(1), forger.clone()]] {
        let mut view = View::default();
        for host in &claimants {
            view.claim("u1", host);
        }
        assert!(view.replace(vec![known("manageable")], NOW).contains(&key(1)));
        let woken = view.replace(vec![known("active")], NOW);
        assert!(woken.contains(&key(1)), "{woken:?}");
        view.forget(&forger);
        assert!(!view.replace(vec![known("deleting")], NOW).contains(&forger));
    }
}

#[test]
fn the_pause_follows_the_cost_of_a_list() {
    let (mut view, pace) = (View::default(), Pace::default());
    let (quick, ms) = (Duration::from_millis(20), Duration::from_millis);
    assert_eq!(view.pause(&pace, quick, NOW), Duration::from_secs(5));
    view.set_waiting(&key(1), true, NOW);
    assert_eq!(view.pause(&pace, quick, NOW), ms(150));
    assert_eq!(view.pause(&pace, ms(2000), NOW), ms(2000), "a busy Ironic");
    view.replace((0..1000).map(|n| node(n, "active")).collect(), NOW);
    // The nodes that change are looked at in between.
    assert_eq!(view.pause(&pace, quick, NOW), ms(7200));
    let recent = |nodes, pause| {
        Some(Recent {
            nodes,
            pause: ms(pause),
        })
    };
    assert_eq!(view.recent(&pace, NOW), recent(7, 150));
    for n in 0..300 {
        view.set_waiting(&key(n), true, NOW);
    }
    assert_eq!(view.recent(&pace, NOW), recent(156, 646));
    for n in 0..300 {
        view.set_waiting(&key(n), false, NOW);
    }
    assert_eq!(view.recent(&pace, NOW), None, "nobody waits");
    assert_eq!(view.pause(&pace, quick, NOW), ms(18_000));
}

// A server boots for minutes, and nothing changes meanwhile: five lists a second would tell nothing.
#[test]
fn the_longer_nothing_changes_the_rarer_are_lists() {
    let (mut view, pace) = (View::default(), Pace::default());
    let (second, ms) = (Duration::from_secs, Duration::from_millis);
    let pause = |view: &View, now| view.pause(&pace, ms(20), second(now));
    assert!(view.set_waiting(&key(1), true, second(1000)), "the first");
    assert_eq!(
        [1000, 1005, 1010, 1100].map(|now| pause(&view, now)),
        [150, 150, 200, 1000].map(ms)
    );
    assert!(view.set_waiting(&key(2), true, second(1100)), "after a quiet time");
    assert!(
        !view.set_waiting(&key(3), true, second(1101)),
        "the next list comes soon"
    );
    assert_eq!(pause(&view, 1101), ms(150));
    view.replace(vec![node(1, "inspecting")], second(1200));
    assert_eq!(pause(&view, 1200), ms(150), "a change is seldom alone");
    view.replace(vec![node(1, "inspecting")], second(1300));
    assert_eq!(pause(&view, 1300), ms(1000), "not a change");
    assert!(view.agreed("u1", second(1300)), "Ironic was asked for one");
    assert_eq!(pause(&view, 1301), ms(150));
}

#[test]
fn a_small_fleet_is_listed_in_part_and_a_busy_ironic_less_often() {
    let (mut view, pace) = (View::default(), Pace::default());
    let ms = Duration::from_millis;
    view.replace((0..30).map(|n| node(n, "deploying")).collect(), NOW);
    for n in 0..30 {
        view.set_waiting(&key(n), true, NOW);
    }
    let recent = |pause| {
        Some(Recent {
            nodes: 21,
            pause: ms(pause),
        })
    };
    assert_eq!(
        view.recent(&pace, NOW),
        recent(173).map(|r| Recent {
            pause: pace.cost(21, 10),
            ..r
        })
    );
    assert_eq!(
        view.pause(&pace, ms(20), NOW),
        pace.full,
        "a list of all only now and then"
    );
    for _ in 0..20 {
        view.answered(ms(100));
    }
    assert_eq!(view.recent(&pace, NOW), recent(500));
    for _ in 0..40 {
        view.answered(ms(3000));
    }
    assert_eq!(view.recent(&pace, NOW), recent(2000), "but hosts do not wait for ever");
    assert!(view.knows(&node(3, "deploying")) && !view.knows(&node(3, "active")));
}

// OWN 29q: each ID that a user wrote into the status was remembered, for as long as Ironic was away.
#[test]
fn a_host_claims_two_nodes_at_most() {
    let mut view = View::default();
    for n in 0..100 {
        view.claim(&format!("u{n}"), &key(1));
    }
    view.claim("u99", &key(1));
    view.claim("u99", &key(2));
    assert_eq!(view.claimed.len(), 2);
    assert_eq!(view.claims[&key(1)], ["u98", "u99"]);
    view.forget(&key(1));
    assert_eq!(view.claimed, HashMap::from([("u99".to_owned(), vec![key(2)])]));
}
