//! A program's requests to the API server and to Ironic.

use std::collections::BTreeMap;
use std::fmt;

use metal3_lab::audit::Request;

/// Counts by what was asked, such as `patch baremetalhosts.metal3.io` or `GET /v1/nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub BTreeMap<String, u64>);

impl Counts {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.of(|_| true)
    }

    /// Those of some things.
    pub fn of(&self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let meant = self.0.iter().filter(|(what, _)| is_meant(what));
        meant.map(|(_, count)| count).sum()
    }

    /// One more.
    pub fn add(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// What has come since then.
    pub fn since(mut self, before: &Self) -> Self {
        for (what, count) in &mut self.0 {
            *count -= before.0.get(what).copied().unwrap_or_default();
        }
        self.0.retain(|_, count| *count > 0);
        self
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<_> = self.0.iter().map(|(what, count)| format!("{count} {what}")).collect();
        f.write_str(&counts.join(", "))
    }
}

/// A user's requests to the API server; watches and leases left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// By verb and resource.
    pub counts: Counts,
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
            requests.counts.add(format!("{} {}", request.verb, request.resource));
            requests.conflicts += usize::from(request.status == 409);
        }
        requests
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        self.counts.sum()
    }

    /// Those that change something.
    pub fn writes(&self) -> u64 {
        self.sum() - self.reads()
    }

    /// Those that ask for something.
    pub fn reads(&self) -> u64 {
        self.counts
            .of(|what| what.starts_with("list ") || what.starts_with("get "))
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
