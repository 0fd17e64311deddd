use serde_json::json;

use super::*;

fn moment(time: f64, state: &str, power: Option<&str>, lock: Option<&str>) -> Moment {
    serde_json::from_value(json!({
        "time": time, "node": "n", "provision_state": state, "target_provision_state": null,
        "power_state": "power off", "target_power_state": power, "reservation": lock,
    }))
    .unwrap()
}

fn removal(time: f64, status: u16) -> Request {
    serde_json::from_value(json!({
        "time": time, "method": "DELETE", "path": "/v1/nodes/{id}", "member": "n", "query": false, "status": status,
        "user": "ironic", "agent": "x", "ms": 5.0,
    }))
    .unwrap()
}

fn spell(phase: Phase, from: i64, to: i64) -> Spell {
    let at = |second| Timestamp::from_second(second).unwrap();
    Spell {
        phase,
        from: at(from),
        to: at(to),
    }
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9
}

#[test]
fn busy_times_follow_work_and_locks_and_end_at_rest() {
    let moments = [
        moment(1.0, "enroll", None, None),
        moment(2.0, "enroll", None, Some("lab")),
        moment(2.5, "verifying", None, Some("lab")),
        moment(4.0, "manageable", None, Some("lab")),
        moment(4.25, "manageable", None, None),
        moment(6.0, "inspecting", None, Some("lab")),
        moment(7.0, "inspect wait", None, None),
        moment(9.0, "manageable", Some("power off"), Some("lab")),
        moment(10.0, "manageable", None, None),
    ];
    let of = |from, to, what| Busy { from, to, what };
    let wanted = [
        of(2.0, 2.5, "locked"),
        of(2.5, 4.0, "verifying"),
        of(4.0, 4.25, "locked"),
        of(6.0, 9.0, "inspecting"),
        of(9.0, 10.0, "power"),
    ];
    assert_eq!(busy(&moments, &[], 99.0)["n"], wanted);
}

#[test]
fn a_node_that_is_removed_is_busy_until_the_answer() {
    let moments = [
        moment(1.0, "available", None, None),
        moment(5.0, "available", None, Some("lab")),
    ];
    let requests = [removal(0.5, 204), removal(5.1, 409), removal(5.5, 204)];
    assert_eq!(
        busy(&moments, &requests, 99.0)["n"],
        [Busy {
            from: 5.0,
            to: 5.5,
            what: "locked"
        }]
    );
    assert_eq!(
        busy(&moments, &[], 99.0)["n"],
        [Busy {
            from: 5.0,
            to: 99.0,
            what: "locked"
        }],
        "still at it"
    );
}

#[test]
fn only_what_lies_in_a_spell_counts_and_the_rest_is_ours() {
    let busy = [
        Busy {
            from: 5.0,
            to: 12.0,
            what: "cleaning",
        },
        Busy {
            from: 13.0,
            to: 14.0,
            what: "power",
        },
        Busy {
            from: 19.0,
            to: 30.0,
            what: "deploying",
        },
    ];
    let cost = Cost::of(&[spell(Phase::Preparing, 10, 20)], &busy);
    assert!(near(cost.wall, 10.0));
    assert!(near(cost.ironic["cleaning"], 2.0) && near(cost.ironic["power"], 1.0));
    assert!(near(cost.ironic["deploying"], 1.0));
    assert!(near(cost.ironic(), 4.0) && near(cost.ours(), 6.0));
}

#[test]
fn phases_that_come_twice_add_up() {
    let mut story = Story::new("a", Timestamp::from_second(0).unwrap());
    story.node = Some("n".to_owned());
    story.spells = vec![
        spell(Phase::Registering, 0, 2),
        spell(Phase::Inspecting, 2, 5),
        spell(Phase::Registering, 5, 6),
    ];
    let busy = BTreeMap::from([(
        "n".to_owned(),
        vec![Busy {
            from: 1.0,
            to: 3.0,
            what: "verifying",
        }],
    )]);
    let rows = rows(&[story], &busy);
    let titles: Vec<_> = rows.iter().map(|row| row.title.as_str()).collect();
    let phases = [
        "registering",
        "inspecting",
        "preparing",
        "provisioning",
        "until provisioned",
        "deprovisioning",
        "deleting",
    ];
    assert_eq!(titles, phases);
    assert!(near(rows[0].costs[0].wall, 3.0) && near(rows[0].costs[0].ours(), 2.0));
    assert!(rows[2].costs.is_empty(), "nobody prepared anything");
    assert!(near(rows[4].costs[0].wall, 6.0) && near(rows[4].costs[0].ironic(), 2.0));
}

#[test]
fn a_host_without_a_node_is_all_ours() {
    let mut story = Story::new("a", Timestamp::from_second(0).unwrap());
    story.spells = vec![spell(Phase::Registering, 0, 2)];
    assert!(near(rows(&[story], &BTreeMap::new())[0].costs[0].ours(), 2.0));
}

#[test]
fn medians() {
    assert!(near(median(vec![]), 0.0));
    assert!(near(median(vec![3.0, 1.0, 2.0]), 2.0));
    assert!(near(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5));
}

#[test]
fn the_table_shows_medians_and_what_ironic_did() {
    let cost = |wall, cleaning| Cost {
        wall,
        ironic: BTreeMap::from([("cleaning", cleaning), ("locked", 0.001)]),
    };
    let row = Row {
        title: "preparing".to_owned(),
        costs: vec![cost(4.0, 3.0), cost(6.0, 5.5), cost(5.0, 4.0)],
    };
    let text = table(&[row]);
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        words[1],
        "preparing 3 5.00 s 6.00 s 4.00 s 1.00 s cleaning 4.00"
            .split(' ')
            .collect::<Vec<_>>()
    );
}
