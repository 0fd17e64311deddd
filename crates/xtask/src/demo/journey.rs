//! Watches the progress of the demo's hosts and Machines.

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
use super::story::{Story, seconds};

/// The refresh interval of the progress line.
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
    logs: Vec<PathBuf>,
}

impl<'a> Journey<'a> {
    /// Begins to watch the namespace of `api`. `logs` are named when something goes wrong.
    pub fn new(api: Api<BareMetalHost>, screen: &'a Screen, logs: Vec<PathBuf>) -> Self {
        Self {
            seen: Seen::default(),
            screen,
            hosts: watcher(api, watcher::Config::default()).default_backoff().boxed(),
            machines: stream::pending().boxed(),
            logs,
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
                    Ok(event) => self.host(event.context("the watch of the hosts has ended")?),
                    Err(error) => self.screen.say(&format!("the watch of the hosts broke and begins anew: {error}")),
                },
                event = self.machines.try_next() => match event {
                    Ok(event) => self.machine(event.context("the watch of the Machines has ended")?),
                    Err(error) => self.screen.say(&format!("the watch of the Machines broke and begins anew: {error}")),
                },
                _ = frame.tick() => self.screen.progress(&format!("still under way: {}", self.under_way(what))),
            }
        }
        self.screen.clear();
        Ok(())
    }

    fn machine(&mut self, event: watcher::Event<DynamicObject>) {
        let (name, line) = match event {
            watcher::Event::Init | watcher::Event::InitDone => return,
            watcher::Event::InitApply(machine) | watcher::Event::Apply(machine) => {
                (machine.name_any(), machines::see(&mut self.seen.machines, &machine))
            }
            watcher::Event::Delete(machine) => {
                self.seen.machines.remove(&machine.name_any());
                (machine.name_any(), Some("gone".to_owned()))
            }
        };
        if let Some(line) = line {
            self.screen.say(&format!("machine {name}  {line}"));
        }
    }

    fn host(&mut self, event: watcher::Event<BareMetalHost>) {
        let (host, is_gone) = match event {
            watcher::Event::Init | watcher::Event::InitDone => return,
            watcher::Event::InitApply(host) | watcher::Event::Apply(host) => (host, false),
            watcher::Event::Delete(host) => (host, true),
        };
        let name = host.name_any();
        let Some(story) = self.seen.hosts.iter_mut().find(|story| story.name == name) else {
            return;
        };
        let line = if is_gone {
            Some(story.vanish(screen::now()))
        } else {
            story.see(&host, screen::now())
        };
        if let Some(line) = line {
            self.screen.say(&format!("{name}  {line}"));
        }
    }

    fn under_way(&self, what: &str) -> String {
        let hosts = self.seen.hosts.iter().filter(|story| story.waiting.is_some());
        let hosts = hosts.map(|story| format!("{} {}", story.name, story.state_text()));
        let machines = self.seen.machines.iter().filter(|(_, machine)| !machine.runs());
        let machines = machines.map(|(name, machine)| format!("machine {name} {}", machine.phase.to_lowercase()));
        let parts: Vec<_> = hosts.chain(machines).collect();
        if parts.is_empty() {
            what.to_owned()
        } else {
            parts.join(", ")
        }
    }

    fn overdue(&self, what: &str, limit: Duration) -> String {
        let mut lines = vec![format!("{what}: not done after {} s", limit.as_secs())];
        for story in &self.seen.hosts {
            let spent = seconds(story.since, screen::now());
            let waits = story.waiting.as_ref();
            let waits = waits.map_or("nothing".to_owned(), |waiting| {
                format!("{}: {}", waiting.reason, waiting.message)
            });
            let (name, state) = (&story.name, story.state_text());
            let error = story.error.as_deref().unwrap_or("none");
            lines.push(format!(
                "  {name}: {state} for {spent:.0} s; waits for: {waits}; last error: {error}"
            ));
        }
        for (name, machine) in &self.seen.machines {
            let waits = machine.waiting.as_ref().map_or("nothing", |(_, message)| message);
            lines.push(format!("  machine {name}: {}; waits for: {waits}", machine.phase));
        }
        lines.push("what to read:".to_owned());
        lines.extend(self.logs.iter().map(|log| format!("  {}", log.display())));
        lines.join("\n")
    }
}
