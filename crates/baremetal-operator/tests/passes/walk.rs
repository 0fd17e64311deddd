//! The operator dies after any one of its effects and starts again knowing nothing: whatever it was doing ends in the same,
//! and has cost the server the same.

use futures::{StreamExt as _, stream};
use metal3_api::metal3::{BareMetalHost, OperationalStatus, ProvisioningState};
use metal3_ironic_sim::Counters;
use rstest::rstest;
use serde_json::{Value, json};

use crate::deployed;
use crate::site::{Life, Site, is_at_rest};

/// So many lives at once: what they wait for is the simulator's time.
pub const AT_ONCE: usize = 12;

/// What a user does, and what comes of it before the next.
enum Act {
    /// The host comes to rest in this state, and its node in that one.
    Rests(ProvisioningState, &'static str),
    /// Changes the host as `kubectl patch --type=merge` does.
    Edit(Value),
    /// The host is kept out of Ironic.
    IsDetached,
    /// Exactly these Secrets carry the operator's marks.
    Holds(&'static [&'static str]),
}

/// A host whose operator dies on the way.
struct Course {
    site: Site,
    life: Life,
    /// How many effects the first life of the operator had.
    effects: Option<usize>,
    /// The status of the host wherever it was waited for.
    seen: Vec<Value>,
}

impl Course {
    async fn until(&mut self, what: &str, holds: impl Fn(Option<&BareMetalHost>) -> bool) {
        self.live(what, holds).await;
        self.seen.push(lasting(json!(self.site.status())));
    }

    /// On the way to where its status is looked at.
    async fn live(&mut self, what: &str, holds: impl Fn(Option<&BareMetalHost>) -> bool) {
        while !self.site.until(&self.life, what, &holds).await {
            self.effects.get_or_insert(self.life.death.effects());
            self.life = self.site.begin(None);
        }
    }

    async fn go(&mut self, act: &Act) {
        match act {
            Act::Edit(change) => self.site.edit(change),
            Act::Rests(state, of_node) => {
                let sim = self.site.sim.clone();
                let rests = |host: Option<&BareMetalHost>| {
                    host.is_some_and(|host| is_at_rest(host, state)) && sim.states().keys().eq([of_node])
                };
                self.until(state.as_str(), rests).await;
            }
            Act::Holds(names) => {
                let cluster = self.site.cluster.clone();
                self.live("held", |_| cluster.held_secrets() == *names).await;
            }
            Act::IsDetached => {
                let is_detached = |host: Option<&BareMetalHost>| {
                    let status = host.and_then(|host| host.status.as_ref());
                    status.is_some_and(|status| status.operational_status == OperationalStatus::Detached)
                };
                self.until("detached", is_detached).await;
                assert!(self.site.sim.states().is_empty(), "out of Ironic");
            }
        }
    }
}

/// What of a status does not depend on the moment and on how often the operator lived.
pub fn lasting(mut status: Value) -> Value {
    let conditions = status["conditions"].as_array_mut();
    for condition in conditions.into_iter().flatten() {
        *condition = json!([condition["type"], condition["status"], condition["reason"]]);
    }
    for of_the_moment in [
        "/lastUpdated",
        "/operationHistory",
        "/provisioning/ID",
        "/goodCredentials/credentialsVersion",
        "/triedCredentials/credentialsVersion",
    ] {
        if let Some(value) = status.pointer_mut(of_the_moment) {
            *value = Value::Null;
        }
    }
    status
}

/// What a server must not go through twice.
pub fn essence(went: &Counters) -> [(&'static str, u32); 11] {
    [
        ("created", went.creates),
        ("inspected", went.inspections),
        ("cleaned", went.cleans),
        ("prepared", went.manual_cleans),
        ("deployed", went.deploys),
        ("taken down", went.undeploys),
        ("adopted", went.adopts),
        ("deleted", went.deletes),
        ("switched on", went.power_ons),
        ("switched off", went.power_offs),
        ("rebooted", went.reboots),
    ]
}

/// What came of a host's life.
struct Outcome {
    /// How many effects the first life of the operator had.
    effects: usize,
    has_died: bool,
    /// The status of the host wherever it was waited for.
    seen: Vec<Value>,
    /// What its server went through.
    went: Counters,
}

/// The life of a host until it is deleted. The first life of the operator ends after so many effects.
async fn life(spec: &Value, acts: &[Act], dies_after: Option<usize>) -> Outcome {
    let site = Site::new(spec).await;
    site.write_credentials("other", 0);
    for name in ["net-a", "net-b"] {
        site.write_network_data(name);
    }
    let life = site.begin(dies_after);
    let mut course = Course {
        site,
        life,
        effects: None,
        seen: Vec::new(),
    };
    for act in acts {
        course.go(act).await;
    }
    course.site.delete();
    course.until("gone", |host| host.is_none()).await;
    assert!(course.site.sim.states().is_empty(), "no node is left behind");
    assert_eq!(
        course.site.cluster.held_secrets(),
        [""; 0],
        "Secrets are held for nobody"
    );
    Outcome {
        effects: course.effects.unwrap_or_else(|| course.life.death.effects()),
        has_died: course.effects.is_some(),
        went: course.site.counters(),
        seen: course.seen,
    }
}

/// Software RAID, which is set up while the host is prepared.
fn with_raid() -> Value {
    let mut spec = deployed();
    spec["raid"] = json!({"softwareRAIDVolumes": [{"level": "1"}]});
    spec
}

/// The annotation that keeps a host out of Ironic, set or removed.
fn detached(value: Option<&str>) -> Act {
    Act::Edit(json!({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": value}}}))
}

#[rstest]
#[case::registered_inspected_prepared_provisioned_deprovisioned(with_raid(), vec![
    Act::Rests(ProvisioningState::Provisioned, "active"),
    Act::Edit(json!({"spec": {"image": null}})),
    Act::Rests(ProvisioningState::Available, "manageable"),
])]
#[case::detached_and_adopted(deployed(), vec![
    Act::Rests(ProvisioningState::Provisioned, "active"),
    detached(Some("")),
    Act::IsDetached,
    detached(None),
    Act::Rests(ProvisioningState::Provisioned, "active"),
])]
#[case::with_other_secrets(json!({"preprovisioningNetworkDataName": "net-a"}), vec![
    Act::Rests(ProvisioningState::Available, "manageable"),
    Act::Holds(&["bmc", "net-a"]),
    Act::Edit(json!({"spec": {"preprovisioningNetworkDataName": "net-b", "bmc": {"credentialsName": "other"}}})),
    Act::Holds(&["net-b", "other"]),
    Act::Rests(ProvisioningState::Available, "manageable"),
    Act::Edit(json!({"spec": {"preprovisioningNetworkDataName": ""}})),
    Act::Holds(&["other"]),
    Act::Rests(ProvisioningState::Available, "manageable"),
])]
#[case::externally_provisioned(json!({"externallyProvisioned": true}), vec![
    Act::Rests(ProvisioningState::ExternallyProvisioned, "active"),
])]
#[tokio::test(flavor = "multi_thread")]
async fn death_between_any_two_effects_costs_nothing(#[case] spec: Value, #[case] acts: Vec<Act>) {
    let undisturbed = life(&spec, &acts, None).await;
    let effects = undisturbed.effects;
    println!("{effects} effects: {:?}", undisturbed.went);
    let cut = stream::iter(1..=effects).map(|n| {
        let (spec, acts) = (&spec, &acts);
        async move { (n, life(spec, acts, Some(n)).await) }
    });
    let lives: Vec<_> = cut.buffer_unordered(AT_ONCE).collect().await;
    // A life can have a write less, where the server was quicker than the operator.
    let deaths = lives.iter().filter(|(_, life)| life.has_died).count();
    assert!(deaths + 3 >= effects, "{deaths} deaths, {effects} effects");
    for (n, life) in lives {
        assert_eq!(essence(&life.went), essence(&undisturbed.went), "died after effect {n}");
        assert_eq!(life.seen, undisturbed.seen, "died after effect {n}");
    }
}
