//! Matches a machine with its Node, and determines the provider ID of both. Pure.
//!
//! Cluster API finds the Node of a Machine by this ID alone. Ours is `metal3://<namespace>/<host>/<machine>`; with a cloud
//! provider in the workload cluster, that one sets the ID. Templates from before upstream's 1.2 have the kubelet give its Node
//! `metal3://<UID of the host>`, which upstream took until 1.13: a kubelet never changes it, so it becomes the machine's, too. As it
//! names no machine, the Node of an earlier one on that host may have it: only a Node that is younger than the machine counts.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::nodes::{NodeBy, Nodes, provider_id};

/// What a user can do who waits for a Node.
const BOOTING: &str = ": the server is booting, or its console tells why it cannot join";

/// The input.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Namespace of the machine and its host.
    pub namespace: &'a str,
    /// The host.
    pub host: &'a str,
    /// The UID of the host.
    pub host_uid: &'a str,
    /// The Metal3Machine.
    pub machine: &'a str,
    /// The host names from the host's hardware details.
    pub hostnames: &'a [&'a str],
    /// The workload cluster has a cloud provider, which sets the IDs of Nodes.
    pub cloud_provider: bool,
    /// A bootstrap provider creates the bootstrap data, which labels the Node with the UID of its host.
    pub labelled: bool,
    /// The ID that the machine already has.
    pub stored: Option<&'a str>,
    /// When the machine was created.
    pub created: Option<Timestamp>,
    /// Other hosts of the cluster with one of the host names.
    pub rivals: &'a [String],
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The machine's ID is known, and its Node has it.
    Known(String),
    /// The machine's ID is known, and must be set on this Node.
    Give {
        /// The ID.
        id: String,
        /// The Node's name.
        node: String,
        /// Its UID.
        uid: String,
    },
    /// The machine's ID is known, but its Node is still missing.
    Early {
        /// The ID.
        id: String,
        /// What it waits for.
        message: String,
    },
    /// The Node has not registered yet.
    Wait(String),
    /// It needs a change by a user.
    Conflict(String),
}

/// Our own provider ID.
pub fn of(namespace: &str, host: &str, machine: &str) -> String {
    format!("metal3://{namespace}/{host}/{machine}")
}

impl Question<'_> {
    /// Evaluates these Nodes. `holder` finds the other Metal3Machine of the cluster with a provider ID.
    pub fn answer(&self, nodes: &Nodes, holder: &dyn Fn(&str) -> Option<String>) -> Answer {
        match self.find(nodes, holder) {
            Answer::Known(id) if self.stored != Some(&id) => match holder(&id) {
                Some(holder) => self.is_held(&id, &holder),
                None => Answer::Known(id),
            },
            answer => answer,
        }
    }

    fn find(&self, nodes: &Nodes, holder: &dyn Fn(&str) -> Option<String>) -> Answer {
        let id = of(self.namespace, self.host, self.machine);
        let first_form = format!("metal3://{}", self.host_uid);
        // Our format is unique, whoever sets the IDs, and the ID that the machine has is never another machine's: except in the first
        // form, which a Node of this machine with its own ID goes before.
        let stored = self.stored.filter(|stored| *stored != first_form);
        for known in stored.into_iter().chain([id.as_str(), &first_form]) {
            let mut found = nodes.find(&NodeBy::ProviderId(known.to_owned()));
            if known == first_form && self.stored != Some(known) {
                found.retain(|node| self.may_be_of(node));
            }
            match found.as_slice() {
                [_] => return Answer::Known(known.to_owned()),
                [] => {}
                several => {
                    return Answer::Conflict(format!(
                        "nodes {} all carry provider ID {known}, which one of them only can have by right: keep the one that runs on \
                         host {}",
                        names(several),
                        self.host
                    ));
                }
            }
        }
        if self.cloud_provider {
            return self.given_by_the_cloud(nodes);
        }
        let labelled = nodes.find(&NodeBy::HostUid(self.host_uid.to_owned()));
        match labelled.as_slice() {
            [node] => self.give(id, node, holder),
            [] if self.labelled => Answer::Wait(format!(
                "no node with label {}={} (host {}) has joined the workload cluster yet{BOOTING}",
                super::nodes::HOST_UID,
                self.host_uid,
                self.host
            )),
            [] => self.by_hostname(id, nodes, holder),
            several => Answer::Conflict(format!(
                "nodes {} all say that they run on host {} (label {}={}); delete those that are gone",
                names(several),
                self.host,
                super::nodes::HOST_UID,
                self.host_uid
            )),
        }
    }

    /// Whether a Node has registered since the machine was created.
    fn may_be_of(&self, node: &Node) -> bool {
        let registered = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
        registered
            .zip(self.created)
            .is_some_and(|(registered, created)| registered >= created)
    }

    fn give(&self, id: String, node: &Node, holder: &dyn Fn(&str) -> Option<String>) -> Answer {
        match provider_id(node) {
            None => Answer::Give {
                id,
                node: node.name_any(),
                uid: node.uid().unwrap_or_default(),
            },
            // It would have been found by it.
            Some(other) => match holder(other) {
                Some(holder) => self.is_held(other, &holder),
                None => Answer::Conflict(format!(
                    "node {} on host {} carries provider ID {other}, which cannot be changed to {id}; delete the node object, \
                     and it is registered anew",
                    node.name_any(),
                    self.host
                )),
            },
        }
    }

    /// The Node that matches belongs to another machine, which must not lose it.
    fn is_held(&self, id: &str, holder: &str) -> Answer {
        Answer::Conflict(format!(
            "the node of host {} seems to be the one with provider ID {id}, which is that of Metal3Machine {holder}: label the node \
             of each host with {}=UID of the host",
            self.host,
            super::nodes::HOST_UID
        ))
    }

    /// Without a label on the Node: the machine gets its ID at once, and the Node once its name identifies it.
    fn by_hostname(&self, id: String, nodes: &Nodes, holder: &dyn Fn(&str) -> Option<String>) -> Answer {
        let mut found: Vec<Arc<Node>> = Vec::new();
        for name in self.hostnames {
            for node in nodes.find(&NodeBy::Hostname((*name).to_owned())) {
                if !found.iter().any(|known| known.name_any() == node.name_any()) {
                    found.push(node);
                }
            }
        }
        match found.as_slice() {
            [_] if !self.rivals.is_empty() => self.ambiguous(),
            [node] => self.give(id, node, holder),
            [] if self.hostnames.is_empty() => Answer::Early {
                id,
                message: format!(
                    "the inspection of host {} found no host name to know its node by",
                    self.host
                ),
            },
            [] => Answer::Early {
                id,
                message: format!(
                    "no node with host name {} (host {}) has joined the workload cluster yet{BOOTING}",
                    self.hostnames.join(" or "),
                    self.host
                ),
            },
            several => Answer::Conflict(format!(
                "nodes {} all carry the host name of host {}; delete those that are gone",
                names(several),
                self.host
            )),
        }
    }

    /// Several hosts share the host name of one Node.
    fn ambiguous(&self) -> Answer {
        Answer::Conflict(format!(
            "hosts {} and {} have the same host name, {}, so that it does not tell whose node it is: label the node of each host \
             with {}=UID of the host",
            self.host,
            self.rivals.join(", "),
            self.hostnames.join(" or "),
            super::nodes::HOST_UID
        ))
    }

    fn given_by_the_cloud(&self, nodes: &Nodes) -> Answer {
        let labelled = nodes.find(&NodeBy::HostUid(self.host_uid.to_owned()));
        let is_labelled = !labelled.is_empty();
        let named = self
            .hostnames
            .iter()
            .flat_map(|name| nodes.find(&NodeBy::Hostname((*name).to_owned())));
        let mut candidates: Vec<Arc<Node>> = if labelled.is_empty() { named.collect() } else { labelled };
        candidates.sort_by_key(|node| node.name_any());
        candidates.dedup_by_key(|node| node.name_any());
        match candidates.as_slice() {
            [] => Answer::Wait(format!(
                "no node on host {} has joined the workload cluster yet (looked for by label {}={} and by host name){BOOTING}",
                self.host,
                super::nodes::HOST_UID,
                self.host_uid
            )),
            [_] if !is_labelled && !self.rivals.is_empty() => self.ambiguous(),
            [node] => match provider_id(node) {
                Some(id) => Answer::Known(id.to_owned()),
                None => Answer::Wait(format!(
                    "node {} has no provider ID yet: the workload cluster's cloud provider gives it one (cloudProviderEnabled)",
                    node.name_any()
                )),
            },
            several => Answer::Conflict(format!(
                "nodes {} all seem to run on host {}; delete those that are gone",
                names(several),
                self.host
            )),
        }
    }
}

fn names(nodes: &[Arc<Node>]) -> String {
    let mut names: Vec<String> = nodes.iter().map(|node| node.name_any()).collect();
    names.sort();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::nodes::nodes;
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    const ID: &str = "metal3://ns/host-0/m";

    /// `(name, provider ID, host's UID, host name)`; empty is absent.
    type Row = (&'static str, &'static str, &'static str, &'static str);

    /// About a machine that is older than the Nodes that [`store`] makes.
    const QUESTION: Question<'_> = Question {
        namespace: "ns",
        host: "host-0",
        host_uid: "u0",
        machine: "m",
        hostnames: &["h0"],
        cloud_provider: false,
        labelled: true,
        stored: None,
        created: Some(Timestamp::UNIX_EPOCH),
        rivals: &[],
    };

    fn store(rows: &[Row]) -> Nodes {
        let nodes = nodes();
        for (name, id, uid, hostname) in rows {
            let node = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:05:00Z",
                "labels": {"metal3.io/uuid": uid, "kubernetes.io/hostname": hostname}}, "spec": {"providerID": id}});
            nodes.created(serde_json::from_value(node).unwrap());
        }
        nodes
    }

    fn ask(rows: &[Row], cloud_provider: bool, labelled: bool) -> Answer {
        Question {
            cloud_provider,
            labelled,
            ..QUESTION
        }
        .answer(&store(rows), &|_| None)
    }

    fn given(node: &str) -> Answer {
        Answer::Give {
            id: ID.to_owned(),
            node: node.to_owned(),
            uid: node.to_owned(),
        }
    }

    #[rstest]
    #[case::by_its_label(&[("n", "", "u0", ""), ("o", "", "u1", "h0")], given("n"))]
    #[case::already_done(&[("n", ID, "u0", "")], Answer::Known(ID.into()))]
    #[case::told_to_the_kubelet_but_not_labelled(&[("n", ID, "", "")], Answer::Known(ID.into()))]
    fn a_node_is_known_by_its_label(#[case] rows: &[Row], #[case] answer: Answer) {
        assert_eq!(ask(rows, false, true), answer);
    }

    #[rstest]
    #[case::by_its_name(&[("n", "", "", "h0")], given("n"))]
    #[case::by_its_label_all_the_same(&[("n", "", "u0", ""), ("o", "", "", "h0")], given("n"))]
    fn without_a_label_its_host_name_tells(#[case] rows: &[Row], #[case] answer: Answer) {
        assert_eq!(ask(rows, false, false), answer);
    }

    // OWN 31vn: the machine had our ID, so that Cluster API never found the Node, and the user was told to delete the Node.
    #[rstest]
    #[case::labelled("u0", None)]
    #[case::known_by_its_id_alone("", None)]
    #[case::that_came_after_the_machine_had_an_id("u0", Some(ID))]
    fn a_kubelet_may_give_its_node_the_id_in_its_first_form(#[case] label: &'static str, #[case] stored: Option<&str>) {
        let store = store(&[("n", "metal3://u0", label, ""), ("o", "metal3://u1", "", "h0")]);
        let question = Question { stored, ..QUESTION };
        assert_eq!(
            question.answer(&store, &|_| None),
            Answer::Known("metal3://u0".to_owned())
        );
    }

    #[rstest]
    #[case::the_node_of_a_machine_before(&[("n", "metal3://u0", "", "")], None, "2026-01-01T01:00:00Z", None)]
    #[case::the_node_with_the_id_of_now(&[("n", "metal3://u0", "", ""), ("o", ID, "u0", "")], Some("metal3://u0"), "2026-01-01T00:00:00Z", Some(ID))]
    #[case::moved_here_since(&[("n", "metal3://u0", "", "")], Some("metal3://u0"), "2026-01-01T01:00:00Z", Some("metal3://u0"))]
    fn an_id_in_its_first_form_is_of_the_host_and_not_of_the_machine(
        #[case] rows: &[Row],
        #[case] stored: Option<&str>,
        #[case] created: &str,
        #[case] known: Option<&str>,
    ) {
        let question = Question {
            hostnames: &[],
            stored,
            created: Some(created.parse().unwrap()),
            ..QUESTION
        };
        let answer = question.answer(&store(rows), &|_| None);
        match known {
            Some(id) => assert_eq!(answer, Answer::Known(id.to_owned())),
            None => assert!(matches!(answer, Answer::Wait(_)), "{answer:?}"),
        }
    }

    #[test]
    fn without_a_node_it_depends_on_who_makes_the_bootstrap_data() {
        let Answer::Wait(message) = ask(&[("n", "", "u1", "h0")], false, true) else {
            panic!()
        };
        assert!(message.contains("metal3.io/uuid=u0"), "{message}");
        let Answer::Early { id, message } = ask(&[], false, false) else {
            panic!()
        };
        assert!(id == ID && message.contains("h0"), "{message}");
    }

    #[rstest]
    #[case::two_with_the_id(&[("n", ID, "", ""), ("o", ID, "", "")], "n, o")]
    #[case::two_with_the_label(&[("n", "", "u0", ""), ("o", "", "u0", "")], "n, o")]
    #[case::the_node_of_the_machine_before(&[("n", "metal3://ns/host-0/old", "u0", "")], "metal3://ns/host-0/old")]
    #[case::a_cloud_provider_nobody_told_us_of(&[("n", "cloud://7", "u0", "")], "cloud://7")]
    fn what_contradicts_is_named(#[case] rows: &[Row], #[case] named: &str) {
        let Answer::Conflict(message) = ask(rows, false, true) else {
            panic!()
        };
        assert!(message.contains(named), "{message}");
        assert_eq!(
            message.contains("delete"),
            !rows[0].1.ends_with("host-0/m"),
            "{message}"
        );
    }

    // OWN 10b: a user was told to delete the Node that has the ID of the machine.
    #[rstest]
    #[case::of_a_cloud("cloud://7")]
    #[case::of_an_earlier_name("metal3://ns/host-0/old")]
    fn the_node_with_the_id_that_the_machine_has_is_its_node(
        #[case] id: &'static str,
        #[values(true, false)] cloud: bool,
    ) {
        let store = store(&[("n", id, "u0", "h0"), ("o", "", "", "h0")]);
        let question = Question {
            cloud_provider: cloud,
            stored: Some(id),
            ..QUESTION
        };
        assert_eq!(question.answer(&store, &|_| None), Answer::Known(id.to_owned()));
    }

    // OWN 10a: with a cloud provider, the ID of any Node with a host's name was used, for every machine with that name.
    #[rstest]
    #[case::the_clouds(true, "cloud://7")]
    #[case::none_yet(false, "")]
    fn a_host_name_of_two_hosts_tells_nothing(#[case] cloud_provider: bool, #[case] id: &'static str) {
        let ask = |rivals: &[String], label: &'static str| {
            let question = Question {
                cloud_provider,
                labelled: false,
                rivals,
                ..QUESTION
            };
            question.answer(&store(&[("n", id, label, "h0")]), &|_| None)
        };
        let rivals = ["host-1".to_owned()];
        let Answer::Conflict(message) = ask(&rivals, "") else {
            panic!()
        };
        assert!(
            message.contains("host-0 and host-1") && message.contains("metal3.io/uuid"),
            "{message}"
        );
        assert!(
            !matches!(ask(&rivals, "u0"), Answer::Conflict(_)),
            "its label tells whose it is"
        );
        assert!(!matches!(ask(&[], ""), Answer::Conflict(_)));
    }

    // OWN 10d: with equal host names, a user was told to delete the Node of another machine.
    #[rstest]
    #[case::by_its_host_name(&[("n", "metal3://ns/host-1/other", "", "h0")], false)]
    #[case::by_its_label(&[("n", "metal3://ns/host-1/other", "u0", "")], false)]
    #[case::as_the_cloud_has_it(&[("n", "metal3://ns/host-1/other", "", "h0")], true)]
    fn the_node_of_another_machine_is_not_to_be_deleted(#[case] rows: &[Row], #[case] cloud_provider: bool) {
        let question = Question {
            cloud_provider,
            labelled: false,
            ..QUESTION
        };
        let holder = |id: &str| (id == rows[0].1).then(|| "other".to_owned());
        let Answer::Conflict(message) = question.answer(&store(rows), &holder) else {
            panic!()
        };
        assert!(message.contains("Metal3Machine other"), "{message}");
        assert!(!message.contains("delete"), "{message}");
    }

    #[test]
    fn our_own_id_goes_before_a_host_name_also_with_a_cloud_provider() {
        let answer = ask(&[("n", ID, "", ""), ("o", "cloud://7", "", "h0")], true, true);
        assert_eq!(answer, Answer::Known(ID.to_owned()));
    }

    #[test]
    fn a_cloud_provider_gives_the_id() {
        assert_eq!(
            ask(&[("n", "cloud://7", "", "h0")], true, true),
            Answer::Known("cloud://7".into())
        );
        assert_eq!(
            ask(&[("n", "cloud://7", "u0", "x"), ("o", "", "", "h0")], true, true),
            Answer::Known("cloud://7".into())
        );
        assert!(
            matches!(ask(&[("n", "", "u0", "h0")], true, true), Answer::Wait(message) if message.contains("node n"))
        );
        assert!(matches!(ask(&[], true, true), Answer::Wait(_)));
        assert!(matches!(
            ask(&[("n", "a", "", "h0"), ("o", "b", "", "h0")], true, false),
            Answer::Conflict(_)
        ));
    }
}
