//! Watches the hosts and Machines of the demo on their way, with watches: nothing is asked again and again.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use metal3_api::metal3::BareMetalHost;

use super::machines::{self, Machines};
use super::screen::{self, Screen};
use super::story::Story;

/// How often the live table is drawn.
const FRAME: Duration = Duration::from_millis(250);

type Events<K> = Pin<Box<dyn Stream<Item = watcher::Result<watcher::Event<K>>> + Send>>;

/// What has been seen.
#[derive(Default)]
pub struct Seen {
    /// The hosts, in the order in which they were applied.
    pub hosts: Vec<Story>,
    /// The Machines, where there is a cluster.
    pub machines: Machines,
}

/// The hosts' and Machines' stories and where they come from.
pub struct Journey<'a> {
    pub seen: Seen,
    screen: &'a Screen,
    hosts: Events<BareMetalHost>,
    machines: Events<DynamicObject>,
    /// Those that a new list of the watch has named so far.
    listed: BTreeSet<String>,
    logs: Vec<PathBuf>,
    start: Instant,
}

impl<'a> Journey<'a> {
    /// Begins to watch the namespace of `api`. `logs` are named when something goes wrong.
    pub fn new(api: Api<BareMetalHost>, screen: &'a Screen, logs: Vec<PathBuf>) -> Self {
        let hosts = watcher(api, watcher::Config::default()).default_backoff();
        Self {
            seen: Seen::default(),
            screen,
            hosts: Box::pin(hosts),
            machines: Box::pin(stream::pending()),
            listed: BTreeSet::new(),
            logs,
            start: Instant::now(),
        }
    }

    /// Watches Machines too.
    pub fn follow(&mut self, machines: Api<DynamicObject>) {
        self.machines = watcher(machines, watcher::Config::default()).default_backoff().boxed();
    }

    /// Expects a host that is created now.
    pub fn expect(&mut self, name: &str) {
        self.seen.hosts.push(Story::new(name, screen::now()));
    }

    /// Watches until `holds` for the stories; fails after `limit` with what keeps the hosts.
    pub async fn until(&mut self, what: &str, limit: Duration, holds: impl Fn(&Seen) -> bool) -> Result<()> {
        let begin = Instant::now();
        let mut frame = tokio::time::interval(FRAME);
        frame.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !holds(&self.seen) {
            if begin.elapsed() > limit {
                self.screen.clear();
                bail!("{}", self.overdue(what, limit));
            }
            tokio::select! {
                event = self.hosts.try_next() => match event {
                    Ok(event) => self.take(event.context("the watch of the hosts has ended")?),
                    Err(error) => self.screen.say(&format!("the watch of the hosts broke and begins anew: {error}")),
                },
                event = self.machines.try_next() => match event {
                    Ok(event) => self.take_machine(event.context("the watch of the Machines has ended")?),
                    Err(error) => self.screen.say(&format!("the watch of the Machines broke and begins anew: {error}")),
                },
                _ = frame.tick() => self.show(what),
            }
        }
        self.screen.clear();
        Ok(())
    }

    fn take_machine(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Init => self.seen.machines.clear(),
            watcher::Event::InitDone => {}
            watcher::Event::InitApply(machine) | watcher::Event::Apply(machine) => {
                if let Some(line) = machines::see(&mut self.seen.machines, &machine) {
                    self.tell(&format!("machine {}", machine.name_any()), &line);
                }
            }
            watcher::Event::Delete(machine) => {
                self.seen.machines.remove(&machine.name_any());
                self.tell(&format!("machine {}", machine.name_any()), "gone");
            }
        }
    }

    fn take(&mut self, event: watcher::Event<BareMetalHost>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(host) => {
                self.listed.insert(host.name_any());
                self.see(&host);
            }
            watcher::Event::InitDone => {
                // What went while the watch was away. A host without a state may not be there yet.
                let listed = std::mem::take(&mut self.listed);
                let missing = |story: &&Story| story.node.is_some() && !story.is_gone && !listed.contains(&story.name);
                let gone: Vec<_> = self
                    .seen
                    .hosts
                    .iter()
                    .filter(missing)
                    .map(|story| story.name.clone())
                    .collect();
                for name in gone {
                    self.vanish(&name);
                }
            }
            watcher::Event::Apply(host) => self.see(&host),
            watcher::Event::Delete(host) => self.vanish(&host.name_any()),
        }
    }

    fn see(&mut self, host: &BareMetalHost) {
        let name = host.name_any();
        let Some(story) = self.seen.hosts.iter_mut().find(|story| story.name == name) else {
            return;
        };
        if let Some(line) = story.see(host, screen::now()) {
            self.tell(&name, &line);
        }
    }

    fn vanish(&mut self, name: &str) {
        let Some(story) = self.seen.hosts.iter_mut().find(|story| story.name == name) else {
            return;
        };
        let line = story.vanish(screen::now());
        self.tell(name, &line);
    }

    /// In a terminal the table tells it.
    fn tell(&self, name: &str, line: &str) {
        if !self.screen.is_live() {
            self.screen.say(&format!("{name}  {line}"));
        }
    }

    fn show(&self, what: &str) {
        let elapsed = self.start.elapsed().as_secs();
        if self.screen.is_live() {
            let title = format!("{what}   {}:{:02}", elapsed / 60, elapsed % 60);
            self.screen.board(&self.seen, &title);
            return;
        }
        let now = screen::now();
        let under_way = self.seen.hosts.iter().filter(|story| story.waiting.is_some());
        let hosts = under_way.map(|story| {
            let spent = super::story::seconds(story.since, now);
            format!("{} {} for {spent:.0} s", story.name, story.state_text())
        });
        let machines = self.seen.machines.iter().filter(|(_, machine)| !machine.runs());
        let machines = machines.map(|(name, machine)| format!("machine {name} {}", machine.phase.to_lowercase()));
        let parts: Vec<_> = hosts.chain(machines).collect();
        let parts = if parts.is_empty() {
            what.to_owned()
        } else {
            parts.join(", ")
        };
        self.screen.beat(&format!("still under way: {parts}"));
    }

    fn overdue(&self, what: &str, limit: Duration) -> String {
        let now = screen::now();
        let hosts = self.seen.hosts.iter().map(|story| {
            let spent = super::story::seconds(story.since, now);
            let waits = match &story.waiting {
                Some(waiting) => format!("{}: {}", waiting.reason, waiting.message),
                None => "nothing".to_owned(),
            };
            let (name, state, error) = (
                &story.name,
                story.state_text(),
                story.error.as_deref().unwrap_or("none"),
            );
            format!("  {name}: {state} for {spent:.0} s; waits for: {waits}; last error: {error}")
        });
        let machines = self.seen.machines.iter().map(|(name, machine)| {
            let waits = machine
                .waiting
                .as_ref()
                .map_or("nothing", |(_, message)| message.as_str());
            format!("  machine {name}: {}; waits for: {waits}", machine.phase)
        });
        let logs = self.logs.iter().map(|log| format!("  {}", log.display()));
        let heading = format!("{what}: not done after {} s", limit.as_secs());
        let lines = std::iter::once(heading)
            .chain(hosts)
            .chain(machines)
            .chain(["what to read:".to_owned()])
            .chain(logs);
        lines.collect::<Vec<_>>().join("\n")
    }
}
