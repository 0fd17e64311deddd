//! The operator's share of the time. Pure.
//!
//! Ironic's conductor logs when a node became idle and when work on it resumed (`states.jsonl`), and its API logs when each call
//! was answered and its duration (`requests.jsonl`). Whenever a node was idle, none of our calls on it was in progress, and the
//! host was not finished, the next step was ours: that is our share. Both logs have milliseconds.

use metal3_lab::ironic::{Moment, Request};

/// A host's node, by the two names that calls use for it.
#[derive(Debug, Clone)]
pub struct NodeNames {
    /// The UUID that Ironic gave it.
    pub uuid: String,
    /// The name that it was enrolled under.
    pub name: String,
}

/// Seconds of our own between `from` and `to` (seconds since 1970) for a node. Before the node exists all time is ours but
/// for the calls that look for it and create it.
pub fn own_seconds(moments: &[Moment], requests: &[Request], names: &NodeNames, from: f64, to: f64) -> f64 {
    let node = names.uuid.as_str();
    let created = moments
        .iter()
        .find(|m| m.node == node)
        .map_or(f64::INFINITY, |m| m.time);
    let mut busy: Vec<(f64, f64)> = Vec::new();
    let mut since: Option<f64> = None;
    for moment in moments.iter().filter(|m| m.node == node) {
        match (moment.is_at_rest(), since) {
            (false, None) => since = Some(moment.time),
            (true, Some(start)) => {
                busy.push((start, moment.time));
                since = None;
            }
            _ => {}
        }
    }
    busy.extend(since.map(|start| (start, f64::INFINITY)));
    let spans = requests.iter().map(|r| (r, (r.time - r.ms / 1000.0, r.time)));
    busy.extend(
        spans
            .filter(|(r, span)| is_about(r, *span, names, created))
            .map(|(_, span)| span),
    );
    (to - from).max(0.0) - covered(busy, from, to)
}

/// A creation names no member of the collection: it is the one in which the node came to be.
fn is_about(request: &Request, (start, end): (f64, f64), names: &NodeNames, created: f64) -> bool {
    request.member == names.uuid
        || request.member == names.name
        || (request.method == "POST" && request.path == "/v1/nodes" && (start..=end).contains(&created))
}

/// The length of the union of intervals within a window.
fn covered(mut intervals: Vec<(f64, f64)>, from: f64, to: f64) -> f64 {
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut reached) = (0.0, from);
    for (start, end) in intervals {
        let (start, end) = (start.max(reached), end.min(to));
        if end > start {
            sum += end - start;
            reached = end;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> NodeNames {
        NodeNames {
            uuid: "n".into(),
            name: "ns~h".into(),
        }
    }

    fn moment(time: f64, state: &str, lock: bool) -> Moment {
        Moment {
            time,
            node: "n".into(),
            provision_state: Some(state.into()),
            target_provision_state: None,
            power_state: None,
            target_power_state: None,
            reservation: lock.then(|| "conductor".into()),
        }
    }

    fn request(answered: f64, ms: f64) -> Request {
        Request {
            time: answered,
            method: "PUT".into(),
            path: String::new(),
            member: "n".into(),
            query: false,
            status: 202,
            user: String::new(),
            agent: String::new(),
            ms,
        }
    }

    #[test]
    fn time_at_rest_without_a_call_is_ours() {
        let moments = [
            moment(1.0, "enroll", false),
            moment(2.0, "verifying", true),
            moment(5.0, "manageable", false),
        ];
        // 0 to 2 ours but for the call from 1.5 to 2.1, 2 to 5 Ironic's, 5 to 6 ours.
        let own = own_seconds(&moments, &[request(2.1, 600.0)], &names(), 0.0, 6.0);
        assert!((own - 2.5).abs() < 1e-9, "{own}");
    }

    #[test]
    fn the_calls_that_find_and_create_the_node_are_not_ours() {
        let find = Request {
            member: "ns~h".into(),
            ..request(0.5, 300.0)
        };
        let create = Request {
            method: "POST".into(),
            path: "/v1/nodes".into(),
            member: String::new(),
            ..request(1.2, 400.0)
        };
        let other = Request {
            time: 3.0,
            ..create.clone()
        };
        let own = own_seconds(
            &[moment(1.0, "enroll", false)],
            &[find, create, other],
            &names(),
            0.0,
            2.0,
        );
        assert!((own - 1.3).abs() < 1e-9, "{own}");
    }

    #[test]
    fn a_lock_and_an_unfinished_state_are_not_ours() {
        let moments = [
            moment(1.0, "manageable", true),
            moment(2.0, "manageable", false),
            moment(3.0, "cleaning", false),
        ];
        let own = own_seconds(&moments, &[], &names(), 0.0, 10.0);
        assert!((own - 2.0).abs() < 1e-9, "{own}");
    }
}
