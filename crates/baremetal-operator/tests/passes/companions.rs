//! The same of the objects beside a host: whichever of its effects the operator dies after, a new one brings them to the same end,
//! and the server goes through the same.

use std::sync::Arc;
use std::time::Instant;

use baremetal_operator::args::Args;
use baremetal_operator::companion::Looks;
use baremetal_operator::data_image::DataImages;
use baremetal_operator::firmware_components::FirmwareComponents;
use baremetal_operator::firmware_schema::FirmwareSchemas;
use baremetal_operator::firmware_settings::FirmwareSettings;
use baremetal_operator::host::companions::Wake;
use baremetal_operator::preprovisioning::{Images, Ramdisks};
use baremetal_operator::settings::HostSettings;
use baremetal_operator::subscription::Subscriptions;
use clap::Parser as _;
use futures::{StreamExt as _, stream};
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use metal3_api::metal3::names::annotation::SUBSCRIBED_ON;
use metal3_api::metal3::{
    BMCEventSubscription, BareMetalHost, DataImage, FirmwareSchema, HostFirmwareComponents, HostFirmwareSettings,
    PreprovisioningImage, ProvisioningState,
};
use metal3_runtime::Clock;
use metal3_runtime::controller::Reconcile as _;
use metal3_runtime::store::{ObjectKey, Sink as _, Store};
use rstest::rstest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, NAMESPACE};
use crate::deployed;
use crate::site::{LIMIT, Life, NAME, Site, is_at_rest, pause, settings};
use crate::walk::{AT_ONCE, essence, lasting};

const ISO: &str = "http://images.example/ipa.iso";
const DISC: &str = "http://images.example/disc.iso";
const FIRMWARE: &str = "http://firmware.example/bios-2.bin";

const SETTINGS: &str = "hostfirmwaresettings";
const COMPONENTS: &str = "hostfirmwarecomponents";
const SCHEMAS: &str = "firmwareschemas";
const RAMDISKS: &str = "preprovisioningimages";
const DISCS: &str = "dataimages";
const EVENTS: &str = "bmceventsubscriptions";

/// A subscription of the BMC that is another's, and that the BMC does not show.
const FOREIGN: &str = "foreign";

/// The kinds beside the host.
const KINDS: [&str; 6] = [SETTINGS, COMPONENTS, SCHEMAS, RAMDISKS, DISCS, EVENTS];

/// What a user does, and what comes of it before the next.
enum Act {
    /// An object of this kind, with the host's name.
    Apply(&'static str, Value),
    /// Changes an object with the host's name as `kubectl patch --type=merge` does.
    Edit(&'static str, Value),
    Delete(&'static str),
    /// This holds some time.
    Until(&'static str, fn(&Site) -> bool),
}

/// One life of all controllers.
struct Operator {
    life: Life,
    settings: FirmwareSettings,
    components: FirmwareComponents,
    schemas: FirmwareSchemas,
    discs: DataImages,
    subscriptions: Subscriptions,
    ramdisks: Ramdisks,
}

impl Operator {
    async fn begin(site: &Site, dies_after: Option<usize>) -> Self {
        let options = HostSettings {
            builds_ramdisks: true,
            ..settings(ISO)
        };
        let life = site.begin_with(dies_after, options);
        let (ctx, looks) = (life.ctx.clone(), Looks::default());
        let flags = Args::parse_from(["test", &format!("--deploy-iso-url={ISO}")]);
        let images = Images::new(&flags.ironic, std::iter::empty()).unwrap();
        // Only for its lists: from then on `show` is the watch.
        let stop = CancellationToken::new();
        let wake: Wake = Arc::new(|_| {});
        let companions = ctx.companions.clone();
        tokio::select! {
            () = Box::pin(companions.watch(&ctx.kube, Some(NAMESPACE), &stop, &wake)) => {}
            () = async { while !ctx.companions.are_listed(NAMESPACE) { pause().await } } => {}
        }
        Self {
            settings: FirmwareSettings::new(ctx.clone(), looks.clone()),
            components: FirmwareComponents::new(ctx.clone()),
            schemas: FirmwareSchemas {
                ctx: ctx.clone(),
                looks,
            },
            discs: DataImages::new(ctx.clone()),
            subscriptions: Subscriptions::new(ctx.clone()),
            ramdisks: Ramdisks::new(ctx.kube.clone(), Clock::system(), &ctx.recorder, images),
            life,
        }
    }

    /// What the watches show.
    fn show(&self, cluster: &Cluster) {
        let companions = &self.life.ctx.companions;
        show(&companions.settings, cluster.all::<HostFirmwareSettings>(SETTINGS));
        show(&companions.updates, cluster.all::<HostFirmwareComponents>(COMPONENTS));
        show(
            &companions.schemas,
            cluster.all::<PartialObjectMeta<FirmwareSchema>>(SCHEMAS),
        );
        show(&companions.data_images, cluster.all::<DataImage>(DISCS));
        show(&self.subscriptions.objects, cluster.all::<BMCEventSubscription>(EVENTS));
        show(&self.ramdisks.objects, cluster.all::<PreprovisioningImage>(RAMDISKS));
        show(&self.life.ctx.hosts, cluster.all::<BareMetalHost>("baremetalhosts"));
    }

    /// One pass of each controller. False once the operator has died.
    async fn pass(&self, site: &Site) -> bool {
        self.show(&site.cluster);
        self.life.forget_rest();
        if let Some(host) = site.host()
            && self.life.reconcile(host).await.is_none()
        {
            return false;
        }
        self.show(&site.cluster);
        let key = ObjectKey::new(NAMESPACE, NAME);
        // Whatever goes wrong is tried again, as the loop does it.
        let all = async {
            self.life.search_error(&self.settings.reconcile(&key).await);
            self.life.search_error(&self.components.reconcile(&key).await);
            for schema in self.life.ctx.companions.schemas.all() {
                self.life.search_error(&self.schemas.reconcile(&schema).await);
            }
            self.life.search_error(&self.discs.reconcile(&key).await);
            self.life.search_error(&self.subscriptions.reconcile(&key).await);
            self.life.search_error(&self.ramdisks.reconcile(&key).await);
        };
        tokio::select! {
            biased;
            () = self.life.death.wait() => {
                self.life.ctx.ironic.unset("the operator has died");
                false
            }
            () = Box::pin(all) => true,
        }
    }
}

fn show<K, By>(store: &Store<K, By>, now: Vec<K>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
    By: Eq + std::hash::Hash + Clone + Send + Sync,
{
    for before in store.objects() {
        if !now.iter().any(|object| object.uid() == before.uid()) {
            store.remove(&ObjectKey::of(&*before), before.uid().as_deref().unwrap_or_default());
        }
    }
    for object in now {
        store.put(object);
    }
}

/// What is to be compared of all objects.
fn picture(site: &Site) -> Value {
    let of_kind = |kind: &&str| {
        let objects = site.cluster.all::<Value>(kind);
        let shown = objects.into_iter().map(|object| {
            let metadata = &object["metadata"];
            json!([
                metadata["name"],
                metadata["finalizers"],
                steady(object["status"].clone())
            ])
        });
        json!([kind, shown.collect::<Value>()])
    };
    let kinds: Value = KINDS.iter().map(of_kind).collect();
    json!([
        lasting(json!(site.status())),
        kinds,
        inserted(site),
        site.sim.subscriptions(0).len()
    ])
}

/// What of a status does not depend on the moment.
fn steady(mut status: Value) -> Value {
    let id = status["subscriptionID"].as_str().is_some_and(|id| !id.is_empty());
    if let Some(fields) = status.as_object_mut() {
        for of_the_moment in ["lastUpdated", "lastReconciled"] {
            fields.remove(of_the_moment);
        }
        fields.insert("subscriptionID".to_owned(), id.into());
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        *condition = json!([condition["type"], condition["status"], condition["reason"]]);
    }
    for component in status["components"].as_array_mut().into_iter().flatten() {
        component["updatedAt"] = Value::Null;
    }
    status
}

/// Whether a disc is in the drive; not if the host has no node.
fn inserted(site: &Site) -> bool {
    let Some(id) = site
        .host()
        .map(|_| site.status().provisioning.id)
        .filter(|id| !id.is_empty())
    else {
        return false;
    };
    let (_, media) = site.sim.call("GET", &format!("/v1/nodes/{id}/vmedia"), 95, Value::Null);
    media
        .as_array()
        .into_iter()
        .flatten()
        .any(|medium| medium["inserted"] == true)
}

fn object(site: &Site, kind: &str) -> Value {
    site.cluster.get(kind, NAME).unwrap_or_default()
}

fn is_gone(site: &Site, kind: &str) -> bool {
    site.cluster.get::<Value>(kind, NAME).is_none()
}

fn rests(site: &Site, state: &ProvisioningState) -> bool {
    site.host().is_some_and(|host| is_at_rest(&host, state))
}

/// The object says this of its current generation: nothing is left to change.
fn is_settled(object: &Value) -> bool {
    let holds = |type_: &str, status: &str| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|condition| {
            let is_current = condition["observedGeneration"] == object["metadata"]["generation"];
            condition["type"] == type_ && condition["status"] == status && is_current
        })
    };
    holds("ChangeDetected", "False") && holds("Valid", "True")
}

/// The host is available with its firmware as it is wanted, and its ramdisk is there.
fn has_firmware(site: &Site) -> bool {
    let [settings, components, ramdisk] = [SETTINGS, COMPONENTS, RAMDISKS].map(|kind| object(site, kind));
    let wanted = settings["spec"]["settings"].as_object().cloned().unwrap_or_default();
    let is_set = wanted
        .iter()
        .all(|(name, value)| settings["status"]["settings"][name] == *value);
    // The status says a moment longer that the server is on after a cleaning has switched it off.
    let is_on = site.sim.is_on(0);
    is_on
        && rests(site, &ProvisioningState::Available)
        && is_settled(&settings)
        && is_settled(&components)
        && is_set
        && components["status"]["updates"] == components["spec"]["updates"]
        && ramdisk["status"]["imageUrl"] == ISO
}

fn is_subscribed(site: &Site) -> bool {
    let id = &object(site, EVENTS)["status"]["subscriptionID"];
    id.as_str().is_some_and(|id| !id.is_empty())
}

/// For the server of today.
fn is_subscribed_here(site: &Site) -> bool {
    let mark = &object(site, EVENTS)["metadata"]["annotations"][SUBSCRIBED_ON];
    mark.as_str().is_some_and(|mark| mark != "other") && is_subscribed(site)
}

fn subscribed_on(server: Option<&str>) -> Act {
    Act::Edit(EVENTS, json!({"metadata": {"annotations": {SUBSCRIBED_ON: server}}}))
}

fn events() -> Act {
    // OWN 31fk: the BMC adds a port and a path.
    let spec = json!({"hostName": NAME, "destination": "https://192.0.2.9", "context": "c"});
    Act::Apply(EVENTS, json!({ "spec": spec }))
}

fn is_attached(site: &Site) -> bool {
    let url = &object(site, DISCS)["status"]["attachedImage"]["url"];
    rests(site, &ProvisioningState::Provisioned) && *url == DISC && inserted(site)
}

fn is_detached(site: &Site) -> bool {
    site.sim.states().is_empty() && json!(site.status())["operationalStatus"] == "detached"
}

/// No disc, nor a record of one.
fn has_no_disc(site: &Site) -> bool {
    let host = site.host().unwrap_or_default();
    !inserted(site) && is_gone(site, DISCS) && !host.annotations().contains_key("baremetalhost.metal3.io/left-disc")
}

fn host_is_gone(site: &Site) -> bool {
    site.host().is_none() && site.sim.states().is_empty()
}

fn all_is_gone(site: &Site) -> bool {
    KINDS.iter().all(|kind| site.cluster.all::<Value>(kind).is_empty())
}

fn settings_of(turbo: &str) -> Value {
    json!({"spec": {"settings": {"ProcTurboMode": turbo}}})
}

fn reboot() -> Act {
    Act::Edit(
        "baremetalhosts",
        json!({"metadata": {"annotations": {"reboot.metal3.io": ""}}}),
    )
}

fn detached(value: Option<&str>) -> Act {
    let annotations = json!({"baremetalhost.metal3.io/detached": value});
    Act::Edit("baremetalhosts", json!({"metadata": {"annotations": annotations}}))
}

/// What came of it.
struct Outcome {
    /// How many effects the first life of the operator had.
    effects: usize,
    has_died: bool,
    /// The objects wherever they were waited for.
    seen: Vec<Value>,
    /// What the server went through, and how often its drive and its subscriptions were changed.
    went: Value,
}

/// The operator that does these acts dies after so many effects; the one before it, which prepares them, does not.
async fn live(spec: &Value, before: &[Act], acts: &[Act], dies_after: Option<usize>) -> Outcome {
    let site = Site::new(spec).await;
    site.sim.add_unreadable_subscription(0, FOREIGN);
    let mut operator = Operator::begin(&site, if before.is_empty() { dies_after } else { None }).await;
    let mut effects = None;
    let mut seen = Vec::new();
    for (number, act) in before.iter().chain(acts).enumerate() {
        if number == before.len() && number > 0 {
            operator = Operator::begin(&site, dies_after).await;
        }
        let is_watched = number >= before.len();
        let path = |kind: &str| format!("{kind}/{NAME}");
        match act {
            Act::Apply(kind, object) => {
                let mut object = object.clone();
                object["metadata"]["name"] = NAME.into();
                site.cluster.ask("POST", kind, object);
            }
            Act::Edit(kind, change) => drop(site.cluster.ask("PATCH", &path(kind), change.clone())),
            Act::Delete(kind) => drop(site.cluster.ask("DELETE", &path(kind), Value::Null)),
            Act::Until(what, holds) => {
                let begin = Instant::now();
                while !holds(&site) {
                    assert!(
                        begin.elapsed() < LIMIT,
                        "never {what}: {}, {:?}",
                        picture(&site),
                        site.sim.states()
                    );
                    if !operator.pass(&site).await {
                        effects.get_or_insert(operator.life.death.effects());
                        operator = Operator::begin(&site, None).await;
                    }
                    pause().await;
                }
                if is_watched {
                    seen.push(picture(&site));
                }
            }
        }
    }
    let requests = site.sim.requests();
    let asked = ["POST /v1/nodes/{id}/vmedia", "DELETE /v1/nodes/{id}/vmedia"].map(|what| requests.get(what).copied());
    Outcome {
        has_died: effects.is_some(),
        effects: effects.unwrap_or_else(|| operator.life.death.effects()),
        seen,
        went: json!([essence(&site.counters()), asked]),
    }
}

#[rstest]
#[case::firmware_and_ramdisk(json!({}), vec![], vec![
    Act::Apply(SETTINGS, settings_of("Disabled")),
    Act::Apply(COMPONENTS, json!({"spec": {"updates": [{"component": "bios", "url": FIRMWARE}]}})),
    Act::Until("prepared", has_firmware),
    Act::Edit(SETTINGS, settings_of("Enabled")),
    Act::Until("prepared again", has_firmware),
    Act::Delete("baremetalhosts"),
    Act::Until("gone", host_is_gone),
    // As the garbage collector does.
    Act::Delete(SETTINGS),
    Act::Delete(COMPONENTS),
    Act::Delete(RAMDISKS),
    Act::Until("over", all_is_gone),
])]
#[case::disc(deployed(), vec![Act::Until("provisioned", |site| rests(site, &ProvisioningState::Provisioned))], vec![
    Act::Apply(DISCS, json!({"spec": {"url": DISC}})),
    reboot(),
    Act::Until("attached", is_attached),
    Act::Delete(DISCS),
    reboot(),
    Act::Until("out", |site| rests(site, &ProvisioningState::Provisioned) && has_no_disc(site)),
])]
#[case::disc_of_a_detached_host(deployed(), vec![
    Act::Until("provisioned", |site| rests(site, &ProvisioningState::Provisioned)),
    Act::Apply(DISCS, json!({"spec": {"url": DISC}})),
    reboot(),
    Act::Until("attached", is_attached),
], vec![
    detached(Some("")),
    Act::Until("detached", is_detached),
    Act::Delete(DISCS),
    Act::Until("released", |site| is_gone(site, DISCS)),
    Act::Edit("baremetalhosts", json!({"spec": {"image": null}})),
    detached(None),
    Act::Until("available", |site| rests(site, &ProvisioningState::Available) && has_no_disc(site)),
])]
#[case::subscription(json!({}), vec![Act::Until("available", |site| rests(site, &ProvisioningState::Available))], vec![
    events(),
    Act::Until("subscribed", is_subscribed),
    Act::Delete(EVENTS),
    Act::Until("ended", |site| is_gone(site, EVENTS)),
])]
// As after a move: the identifier is another server's, but this BMC has a subscription of the kind. Then as upstream leaves it.
#[case::subscription_of_another_server(json!({}), vec![
    Act::Until("available", |site| rests(site, &ProvisioningState::Available)),
    events(),
    Act::Until("subscribed", is_subscribed),
], vec![
    subscribed_on(Some("other")),
    Act::Until("subscribed here", is_subscribed_here),
    subscribed_on(None),
    Act::Until("annotated", is_subscribed_here),
    Act::Delete(EVENTS),
    Act::Until("ended", |site| is_gone(site, EVENTS)),
])]
#[tokio::test(flavor = "multi_thread")]
async fn death_between_any_two_effects_on_companions_costs_nothing(
    #[case] spec: Value,
    #[case] before: Vec<Act>,
    #[case] acts: Vec<Act>,
) {
    let undisturbed = live(&spec, &before, &acts, None).await;
    let effects = undisturbed.effects;
    println!("{effects} effects: {}", undisturbed.went);
    let cut = stream::iter(1..=effects).map(|n| {
        let (spec, before, acts) = (&spec, &before, &acts);
        async move { (n, live(spec, before, acts, Some(n)).await) }
    });
    let lives: Vec<_> = cut.buffer_unordered(AT_ONCE).collect().await;
    // A life can have some writes less, where the server was quicker than the operator and a wait was never seen.
    let deaths = lives.iter().filter(|(_, life)| life.has_died).count();
    assert!(
        deaths + effects.div_ceil(4) >= effects,
        "{deaths} deaths, {effects} effects"
    );
    for (n, life) in lives {
        assert_eq!(life.went, undisturbed.went, "died after effect {n}");
        assert_eq!(life.seen, undisturbed.seen, "died after effect {n}");
    }
}

// OWN 31fl: after each restart the BMC was asked for what is stored, with the node locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_asks_no_bmc_for_a_stored_subscription() {
    let site = Site::new(&json!({})).await;
    let mut operator = Operator::begin(&site, None).await;
    let is_available = |site: &Site| rests(site, &ProvisioningState::Available);
    let mut object = json!({"spec": {"hostName": NAME, "destination": "https://192.0.2.9"}});
    object["metadata"]["name"] = NAME.into();
    site.cluster.ask("POST", EVENTS, object);
    let begin = Instant::now();
    while !(is_available(&site) && is_subscribed(&site)) {
        assert!(begin.elapsed() < LIMIT, "never subscribed: {}", picture(&site));
        operator.pass(&site).await;
        pause().await;
    }
    let asked = |site: &Site| {
        let requests = site.sim.requests().into_iter();
        let of_bmc: Vec<_> = requests.filter(|(what, _)| what.contains("vendor_passthru")).collect();
        of_bmc
    };
    let before = asked(&site);
    assert!(!before.is_empty(), "{:?}", site.sim.requests());
    operator = Operator::begin(&site, None).await;
    assert!(operator.pass(&site).await && operator.pass(&site).await);
    assert_eq!(asked(&site), before);
    assert!(is_subscribed(&site));
}

// OWN 31wa: a name and a UUID, which a user may have written, had the BIOS settings and the firmware of another cluster's server read.
#[tokio::test(flavor = "multi_thread")]
async fn attack_the_firmware_of_another_clusters_server_is_not_read() {
    let site = Site::new(&json!({})).await;
    let operator = Operator::begin(&site, None).await;
    let has_settings = |site: &Site| {
        let settings = object(site, SETTINGS);
        rests(site, &ProvisioningState::Available) && settings["status"]["settings"].is_object()
    };
    let begin = Instant::now();
    while !has_settings(&site) {
        assert!(begin.elapsed() < LIMIT, "never read: {}", picture(&site));
        operator.pass(&site).await;
        pause().await;
    }
    let asked = |site: &Site| {
        let requests = site.sim.requests().into_iter();
        let of_firmware: Vec<_> = requests
            .filter(|(what, _)| what.contains("/bios") || what.contains("/firmware"))
            .collect();
        of_firmware
    };
    let before = asked(&site);
    assert!(!before.is_empty(), "{:?}", site.sim.requests());

    // The same namespace and name in another cluster, for a BMC of its own, and with the status of the first.
    let status = json!(site.status());
    for kind in ["baremetalhosts", SETTINGS, COMPONENTS] {
        let path = format!("{kind}/{NAME}");
        site.cluster
            .ask("PATCH", &path, json!({"metadata": {"finalizers": null}}));
        site.cluster.ask("DELETE", &path, Value::Null);
    }
    site.add_host(NAME, 1, &json!({}));
    let path = format!("baremetalhosts/{NAME}/status");
    site.cluster.ask("PATCH", &path, json!({ "status": status }));
    let operator = Operator::begin(&site, None).await;
    operator.life.listed().await;
    let key = ObjectKey::new(NAMESPACE, NAME);
    for _ in 0..4 {
        operator.show(&site.cluster);
        operator.settings.reconcile(&key).await.unwrap();
        operator.components.reconcile(&key).await.unwrap();
    }
    assert_eq!(site.status().provisioning.id, status["provisioning"]["ID"]);
    assert_eq!(asked(&site), before);
    assert!(!object(&site, SETTINGS)["status"]["settings"].is_object());
}
