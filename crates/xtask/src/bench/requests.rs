//! What one user asked of the API server.

use std::collections::BTreeMap;

use metal3_lab::audit::Request;

/// Counts of a user's requests; watches and leases left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// By verb and resource, such as `patch baremetalhosts.metal3.io`.
    pub counts: BTreeMap<String, usize>,
    /// How many of them met a conflict.
    pub conflicts: usize,
}

impl Requests {
    /// Those of `user` among all.
    pub fn of(all: &[Request], user: &str) -> Self {
        let mut requests = Self::default();
        let is_counted =
            |r: &&Request| r.user == user && r.verb != "watch" && r.resource != "leases.coordination.k8s.io";
        for request in all.iter().filter(is_counted) {
            let what = format!("{} {}", request.verb, request.resource);
            *requests.counts.entry(what).or_default() += 1;
            requests.conflicts += usize::from(request.status == 409);
        }
        requests
    }

    /// All of them.
    pub fn sum(&self) -> usize {
        self.counts.values().sum()
    }

    /// Those that change something.
    pub fn writes(&self) -> usize {
        self.with(&["create ", "update ", "patch ", "delete "])
    }

    /// Those that ask for something.
    pub fn reads(&self) -> usize {
        self.with(&["list ", "get "])
    }

    fn with(&self, verbs: &[&str]) -> usize {
        let counted = self
            .counts
            .iter()
            .filter(|(what, _)| verbs.iter().any(|verb| what.starts_with(verb)));
        counted.map(|(_, count)| *count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_leases_and_others_are_left_out() {
        let request = |user: &str, verb: &str, resource: &str, status| Request {
            user: user.to_owned(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: "bench".to_owned(),
            name: String::new(),
            status,
        };
        let all = [
            request("us", "watch", "secrets", 200),
            request("us", "update", "leases.coordination.k8s.io", 200),
            request("other", "list", "secrets", 200),
            request("us", "get", "secrets", 200),
            request("us", "patch", "baremetalhosts.metal3.io", 200),
            request("us", "patch", "baremetalhosts.metal3.io", 409),
        ];
        let requests = Requests::of(&all, "us");
        assert_eq!((requests.sum(), requests.writes(), requests.reads()), (3, 2, 1));
        assert_eq!(requests.conflicts, 1);
    }
}
