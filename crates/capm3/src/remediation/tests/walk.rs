//! Whole remediations, with crashes after any write and with two managers whose watches lag: the same end, and one power cycle
//! per attempt.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use rstest::rstest;

use super::scene::Objects;
use super::*;

/// The simulated environment of the managers.
#[derive(Clone, Copy, Debug)]
struct Story {
    /// Whether the machine is healthy after the power cycle.
    heals: bool,
    /// Whether the workload cluster knows the out-of-service taint.
    knows_taint: bool,
}

struct Play {
    story: Story,
    scene: Scene,
    now: Timestamp,
    /// The attempts in which the host was requested off.
    requests: Vec<i64>,
    /// The number of writes.
    writes: usize,
    /// Rounds since giving up.
    ended: usize,
}

const ROUND: SignedDuration = SignedDuration::from_secs(31);

/// After this many rounds the Machine's owner has replaced it.
const REPLACED: usize = 10;

impl Play {
    fn new(story: Story) -> Self {
        let mut scene = Scene::new();
        scene.knows_taint = Ok(story.knows_taint);
        Self {
            story,
            scene,
            now: NOW.parse().unwrap(),
            requests: Vec::new(),
            writes: 0,
            ended: 0,
        }
    }

    /// A pass of a manager with this view, which crashes after `left` writes.
    fn pass(&mut self, view: &mut Objects, mut left: usize) {
        let Some(mut seen) = self.scene.seen_through(view) else {
            return;
        };
        let plan = loop {
            match decide(&seen, self.now) {
                Decision::Act(plan) => break *plan,
                Decision::Fetch(need @ (Read::Fresh | Read::FreshNode)) => {
                    let kinds: &[&str] = if need == Read::Fresh {
                        &["remediation", "host"]
                    } else {
                        &["node"]
                    };
                    let is_late = kinds.iter().any(|kind| view.get(kind) != self.scene.objects.get(kind));
                    for kind in kinds {
                        self.shows(view, kind);
                    }
                    if is_late {
                        return;
                    }
                    self.scene.answer(&mut seen, need);
                }
                Decision::Fetch(need) => self.scene.answer(&mut seen, need),
            }
        };
        for effect in &plan.effects {
            if left == 0 || !self.write(&seen, effect) {
                return;
            }
            left -= 1;
            for kind in ["remediation", "host", "machine", "node"] {
                if is_about(effect, kind) {
                    self.shows(view, kind);
                }
            }
        }
        if let Some(status) = plan.report.status.filter(|_| left > 0) {
            let seen = &view.get("remediation").cloned().unwrap_or_default()["metadata"]["resourceVersion"];
            // A status is replaced as a whole.
            let mut status = serde_json::to_value(status).unwrap();
            for field in ["phase", "retryCount", "lastRemediated"] {
                if status.get(field).is_none() {
                    status[field] = Value::Null;
                }
            }
            if self.scene.patch(
                "remediation",
                &json!({"metadata": {"resourceVersion": seen}, "status": status}),
            ) {
                self.writes += 1;
                self.shows(view, "remediation");
            }
        }
    }

    fn write(&mut self, seen: &Observed, effect: &Effect) -> bool {
        let is_done = match effect {
            Effect::AddFinalizer => self.scene.finalize(seen, true),
            Effect::RemoveFinalizer => self.scene.finalize(seen, false),
            other => self.scene.write(other),
        };
        if is_done {
            self.writes += 1;
            if let Effect::Host { patch, .. } = effect
                && patch["metadata"]["annotations"][REQUEST] == ASKED
            {
                let retries = self.scene.at("remediation", "/status/retryCount");
                self.requests.push(retries.as_i64().unwrap_or_default());
            }
            if let Effect::Node { patch, .. } = effect
                && patch.to_string().contains(TAINT)
            {
                let is_on = self.scene.at("host", "/status/poweredOn");
                assert_eq!(is_on, false, "the Node of a server that is on is out of service");
            }
        }
        is_done
    }

    /// The watch shows an object as it is now.
    fn shows(&self, view: &mut Objects, kind: &'static str) {
        match self.scene.objects.get(kind) {
            Some(object) => view.insert(kind, object.clone()),
            None => view.remove(kind),
        };
    }

    /// Plays the operator: the host does as requested.
    fn operate(&mut self) {
        let annotations = self.scene.at("host", "/metadata/annotations");
        let is_held = annotations
            .as_object()
            .is_some_and(|all| all.keys().any(|key| key.starts_with("reboot.")));
        let is_on = self.scene.at("host", "/status/poweredOn") == true;
        if is_on == is_held {
            self.scene.set("host", &json!({"status": {"poweredOn": !is_held}}));
        }
    }

    /// Plays the server's kubelet, the eviction by Kubernetes, the health check that deletes its remediation, and the Machine's
    /// owner that deletes the Machine.
    fn run(&mut self) {
        self.ended += usize::from(self.scene.at("remediation", "/status/phase") == "Deleting machine");
        if self.ended == REPLACED {
            self.scene.set("machine", &json!({"metadata": {"finalizers": ["x"]}}));
            self.scene.delete("machine", NOW);
        }
        let is_on = self.scene.at("host", "/status/poweredOn") == true;
        let runs = is_on && self.story.heals && !self.requests.is_empty();
        if runs && !self.scene.objects.contains_key("node") {
            let node = json!({"metadata": {"name": "n", "uid": "u-2", "resourceVersion": "0"}, "spec": {}});
            self.scene.objects.insert("node", node);
        }
        let ready = if runs { "True" } else { "Unknown" };
        if self.scene.objects.contains_key("node") && self.scene.at("node", "/status/conditions/0/status") != ready {
            let conditions = json!([{"type": "Ready", "status": ready}]);
            self.scene.set("node", &json!({"status": {"conditions": conditions}}));
        }
        let is_tainted = self.scene.at("node", "/spec/taints").to_string().contains(TAINT);
        self.scene.drain.pods = usize::from(!is_tainted && !is_on);
        if runs && !self.scene.objects["node"]["metadata"]["uid"].is_null() {
            self.scene.delete("remediation", NOW);
        }
    }

    /// Whether neither a health check nor we have anything left to do.
    fn is_settled(&self) -> bool {
        let is_gone = !self.scene.objects.contains_key("remediation");
        let has_ended = self.scene.at("remediation", "/status/phase") == "Deleting machine";
        let is_held = self
            .scene
            .at("remediation", "/metadata/finalizers")
            .as_array()
            .is_some_and(|all| !all.is_empty());
        is_gone || (has_ended && !is_held)
    }

    /// The final state, without times, versions and messages.
    fn end(&self) -> Value {
        let at = |kind: &str, pointer: &str| self.scene.at(kind, pointer);
        let conditions = at("machine", "/status/conditions");
        let conditions = conditions.as_array().into_iter().flatten();
        let conditions: Vec<Value> = conditions
            .map(|c| json!([c["type"], c["status"], c["reason"]]))
            .collect();
        json!({
            "phase": at("remediation", "/status/phase"),
            "retries": at("remediation", "/status/retryCount"),
            "kept": at("remediation", "/metadata/annotations"),
            "host": at("host", "/metadata/annotations"),
            "on": at("host", "/status/poweredOn"),
            "labels": at("node", "/metadata/labels"),
            "annotations": at("node", "/metadata/annotations"),
            "taints": at("node", "/spec/taints"),
            "machine": conditions,
        })
    }

    /// One manager without lag, which crashes after its `kill`th write, if any.
    fn played(mut self, kill: Option<usize>) -> Self {
        for _ in 0..300 {
            if self.is_settled() {
                self.operate();
                return self;
            }
            let left = kill
                .filter(|at| *at > self.writes)
                .map_or(usize::MAX, |at| at - self.writes);
            let mut view = self.scene.objects.clone();
            self.pass(&mut view, left);
            self.operate();
            self.run();
            self.now += ROUND;
        }
        panic!("it does not come to an end: {:#}", self.end());
    }
}

fn is_about(effect: &Effect, kind: &str) -> bool {
    match effect {
        Effect::AddFinalizer | Effect::RemoveFinalizer | Effect::Keep { .. } => kind == "remediation",
        Effect::Host { .. } => kind == "host",
        Effect::Machine { .. } => kind == "machine",
        Effect::Node { .. } => kind == "node",
        // The response to a deletion shows nothing.
        Effect::DeleteNode { .. } | Effect::ReportWait(_) => false,
    }
}

#[rstest]
#[case::heals(true, true)]
#[case::heals_without_taint(true, false)]
#[case::does_not_heal(false, true)]
#[case::does_not_heal_without_taint(false, false)]
fn a_kill_after_any_write_changes_nothing_in_the_end(#[case] heals: bool, #[case] knows_taint: bool) {
    let story = Story { heals, knows_taint };
    let whole = Play::new(story).played(None);
    let attempts: &[i64] = if heals { &[0] } else { &[0, 1] };
    assert_eq!(whole.requests, attempts, "one power cycle for each attempt");
    assert_eq!(whole.end()["on"], json!(true));
    assert_eq!(
        whole.end()["kept"][OF_LABELS].is_null(),
        heals || knows_taint,
        "what cannot be given back is kept"
    );
    if heals {
        assert_eq!(whole.end()["labels"], json!({"role": "worker"}));
        assert!(!whole.end()["taints"].to_string().contains(TAINT));
    } else {
        assert_eq!(whole.end()["host"], json!({UNHEALTHY: "capm3/UnhealthyNode"}));
        assert_eq!(
            whole.end()["machine"][1],
            json!(["OwnerRemediated", "False", "WaitingForRemediation"])
        );
    }
    assert!(whole.writes > 6);
    for kill in 1..=whole.writes {
        let killed = Play::new(story).played(Some(kill));
        assert_eq!(killed.end(), whole.end(), "killed after write {kill}");
        assert_eq!(killed.requests, attempts, "killed after write {kill}");
    }
}

/// `clusterctl move` keeps the annotations but no status: the number of power cycles is unchanged, except for one that the move
/// interrupts. Upstream restarts the count.
#[test]
fn a_move_at_any_time_forgets_no_attempt() {
    let story = Story {
        heals: false,
        knows_taint: true,
    };
    let rounds = 300;
    let (mut has_moved_late, mut has_moved_after_cycle) = (false, false);
    for moved in 0..rounds {
        let mut play = Play::new(story);
        let (mut round, mut is_cycle_done) = (0, false);
        while round <= moved || !play.is_settled() {
            assert!(round < 2 * rounds, "it does not come to an end: {:#}", play.end());
            if round == moved {
                let counted = play.scene.at("remediation", "/metadata/annotations").to_string();
                is_cycle_done = counted.contains(" done");
                play.scene.set("remediation", &json!({"status": null}));
                play.scene.set("machine", &json!({"status": {"conditions": []}}));
            }
            let mut view = play.scene.objects.clone();
            play.pass(&mut view, usize::MAX);
            play.operate();
            play.now += ROUND;
            round += 1;
        }
        let requests = play.requests.as_slice();
        assert!(
            [[0, 1].as_slice(), &[0, 0, 1], &[0, 1, 1]].contains(&requests),
            "moved in round {moved}: {requests:?}"
        );
        assert!(
            !is_cycle_done || requests.len() == 2,
            "moved in round {moved}: what was done is done again: {requests:?}"
        );
        has_moved_after_cycle |= is_cycle_done;
        assert_eq!(play.end()["phase"], "Deleting machine");
        assert_eq!(play.end()["machine"][0][0], "OwnerRemediated");
        if requests.len() == 2 && moved > 60 {
            has_moved_late = true;
            break;
        }
    }
    assert!(has_moved_late, "what was given up is not tried again");
    assert!(has_moved_after_cycle, "some round is one after a power cycle");
}

#[derive(Clone, Debug)]
enum Step {
    /// A manager's watch shows the current object.
    Sees(bool, usize),
    /// A manager runs a pass, and crashes after this many writes.
    Pass(bool, usize),
    Operate,
    Run,
    Time(u32),
}

const KINDS: [&str; 4] = ["remediation", "host", "node", "machine"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), 0..KINDS.len()).prop_map(|(who, which)| Step::Sees(who, which)),
        6 => (any::<bool>(), 0..3_usize).prop_map(|(who, writes)| Step::Pass(who, writes)),
        3 => Just(Step::Operate),
        2 => Just(Step::Run),
        1 => (1..400_u32).prop_map(Step::Time),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn two_managers_with_late_views_ask_once_for_each_attempt(
        heals in any::<bool>(),
        knows_taint in any::<bool>(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut play = Play::new(Story { heals, knows_taint });
        let mut views = [play.scene.objects.clone(), play.scene.objects.clone()];
        for step in steps {
            match step {
                Step::Sees(who, which) => play.shows(&mut views[usize::from(who)], KINDS[which]),
                Step::Pass(who, writes) => play.pass(&mut views[usize::from(who)], writes),
                Step::Operate => play.operate(),
                Step::Run => play.run(),
                Step::Time(seconds) => play.now += SignedDuration::from_secs(seconds.into()),
            }
        }
        let play = play.played(None);
        let mut once = play.requests.clone();
        once.dedup();
        prop_assert_eq!(&play.requests, &once, "one power cycle for each attempt at most");
        let end = play.end();
        prop_assert_eq!(&end["on"], &json!(true));
        prop_assert!(!end["host"].to_string().contains("reboot."), "the host is let go: {}", end);
        if !end["labels"].is_null() {
            prop_assert!(!end["taints"].to_string().contains(TAINT), "the Node is in service: {}", end);
        }
    }
}
