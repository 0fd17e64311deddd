//! The simulator's own API when it runs as a process: below `/sim/`, without credentials.
//!
//! | Request | Does |
//! |---|---|
//! | `GET counters` | what servers went through, by number |
//! | `GET requests` | requests so far, by kind |
//! | `GET states` | how many nodes are in each state |
//! | `GET servers/N` | a server as its administrator knows it |
//! | `PUT servers/N/faults` | makes the body, [`Faults`], the only faults of a server |
//! | `DELETE servers/N/faults` | ends them |
//! | `POST rules` | adds the body, a [`Rule`] |
//! | `DELETE rules` | ends all rules |
//! | `POST wipe` | empties the database |
//! | `POST crash` | the conductor dies and starts again |
//! | `POST advance` | moves a manual clock by the body's `ms` |

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::rules::Rule;
use crate::server::Faults;
use crate::sim::Sim;

pub(crate) fn answer(sim: &Sim, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let parts: Vec<&str> = path.split('/').collect();
    let number = parts.get(1).and_then(|part| part.parse::<u32>().ok());
    let done = (200, json!({}));
    match (method, parts.as_slice(), number) {
        ("GET", ["counters"], _) => (200, json!(sim.all_counters())),
        ("GET", ["requests"], _) => (200, json!(sim.requests())),
        ("GET", ["states"], _) => (200, json!(sim.states())),
        ("GET", ["servers", _], Some(number)) => {
            let server = sim.server(number);
            let access = json!({
                "name": server.name, "address": server.redfish_address(), "username": server.credentials.username,
                "password": server.credentials.password, "macs": server.macs,
            });
            (200, access)
        }
        ("PUT", ["servers", _, "faults"], Some(number)) => read(body, |faults: Faults| sim.set_faults(number, faults)),
        ("DELETE", ["servers", _, "faults"], Some(number)) => {
            sim.clear_faults(number);
            done
        }
        ("POST", ["rules"], _) => read(body, |rule: Rule| sim.add_rule(rule)),
        ("DELETE", ["rules"], _) => {
            sim.clear_rules();
            done
        }
        ("POST", ["wipe"], _) => {
            sim.wipe();
            done
        }
        ("POST", ["crash"], _) => {
            sim.crash();
            done
        }
        ("POST", ["advance"], _) => read(body, |span: Span| sim.advance(Duration::from_millis(span.ms))),
        _ => (404, json!({"error": "no such path"})),
    }
}

#[derive(serde::Deserialize)]
struct Span {
    ms: u64,
}

fn read<T: DeserializeOwned>(body: &[u8], use_it: impl FnOnce(T)) -> (u16, Value) {
    match serde_json::from_slice(body) {
        Ok(read) => {
            use_it(read);
            (200, json!({}))
        }
        Err(error) => (400, json!({"error": error.to_string()})),
    }
}
