//! What answers take when they are parsed. A program of its own, as it counts what is allocated.

use std::alloc::System;

use cap::Cap;
use metal3_ironic::{Inventory, Node};
use serde::de::DeserializeOwned;
use serde_json::Value;

#[path = "../src/weight.rs"]
mod weight;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What stays of a text, with the text.
fn taken<T: DeserializeOwned>(text: &str) -> usize {
    let before = ALLOCATOR.allocated();
    let parsed: Option<T> = serde_json::from_slice(text.as_bytes()).ok();
    let taken = ALLOCATOR.allocated() - before + text.len();
    drop(parsed);
    taken
}

// OWN 31se
#[test]
fn a_parsed_answer_takes_no_more_than_its_estimate() {
    for element in [
        "0",
        "{}",
        "[]",
        r#""""#,
        r#""a""#,
        r#"{"":0}"#,
        r#"{"a":{"b":{"c":[{}]}}}"#,
        "[[[0]]]",
        r#"{"name":"eth0","mac_address":"00:11:22:33:44:55","vendor":"v"}"#,
        r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":12}"#,
    ] {
        let many = vec![element; 10_000].join(",");
        let list = format!("[{many}]");
        let inventory =
            format!(r#"{{"inventory":{{"interfaces":[{many}],"disks":[{many}],"cpu":{{"flags":[{many}]}}}}}}"#);
        let node = format!(r#"{{"uuid":"u","driver_info":{{"a":[{many}]}},"traits":[{many}]}}"#);
        for (text, taken) in [
            (&list, taken::<Value>(&list)),
            (&inventory, taken::<Value>(&inventory)),
            (&inventory, taken::<Inventory>(&inventory)),
            (&node, taken::<Node>(&node)),
        ] {
            let estimate = weight::weight(text.as_bytes());
            assert!(
                taken <= estimate,
                "{element}: {taken} bytes, and {estimate} were estimated"
            );
        }
    }
}
