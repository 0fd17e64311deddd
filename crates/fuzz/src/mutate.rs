//! Random changes of inputs.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// A changed input: changed as JSON if it is JSON, otherwise as bytes.
pub fn change(input: &[u8], rng: &mut Rng) -> Vec<u8> {
    let times = rng.usize(1..5);
    match serde_json::from_slice::<Value>(input) {
        Ok(mut value) if (value.is_object() || value.is_array()) && rng.u8(0..8) > 0 => {
            for _ in 0..times {
                alter(&mut value, rng);
            }
            value.to_string().into_bytes()
        }
        _ => (0..times).fold(input.to_vec(), |bytes, _| alter_bytes(bytes, rng)),
    }
}

/// Replaces, removes, repeats or renames a part, so that mostly a meaningful object remains.
fn alter(value: &mut Value, rng: &mut Rng) {
    match value {
        Value::Object(map) if !map.is_empty() && rng.u8(0..16) > 0 => {
            let key = map.keys().nth(rng.usize(..map.len())).cloned().unwrap_or_default();
            match rng.u8(0..16) {
                0 => drop(map.remove(&key)),
                1 => {
                    let part = map.remove(&key).unwrap_or_default();
                    map.insert(text(rng), part);
                }
                2 => {
                    let part = map[&key].clone();
                    let other = map.keys().nth(rng.usize(..map.len())).cloned().unwrap_or_default();
                    map.insert(other, part);
                }
                3 => spoil(&mut map[&key], rng),
                _ => alter(&mut map[&key], rng),
            }
        }
        Value::Array(items) if !items.is_empty() && rng.u8(0..16) > 0 => {
            let at = rng.usize(..items.len());
            match rng.u8(0..8) {
                0 => drop(items.remove(at)),
                1 => items.insert(at, items[at].clone()),
                _ => alter(&mut items[at], rng),
            }
        }
        Value::String(old) if rng.bool() => {
            let changed = alter_bytes(old.clone().into_bytes(), rng);
            *old = String::from_utf8_lossy(&changed).into_owned();
        }
        Value::Number(_) if rng.bool() => *value = json!(rng.i64(-3..20_000)),
        Value::Bool(old) => *old = !*old,
        other => *other = any(rng, 2),
    }
}

fn alter_bytes(mut bytes: Vec<u8>, rng: &mut Rng) -> Vec<u8> {
    let from = rng.usize(..=bytes.len());
    let to = rng.usize(from..=bytes.len().min(from + 32));
    match rng.u8(0..6) {
        0 => drop(bytes.drain(from..to)),
        1 => {
            let part = bytes[from..to].to_vec();
            let at = rng.usize(..=bytes.len());
            bytes.splice(at..at, part);
        }
        2 => drop(bytes.splice(from..from, text(rng).into_bytes())),
        3 => drop(bytes.splice(from..from, [rng.u8(..)])),
        4 => drop(bytes.splice(from..from, [rng.u8(b' '..=b'~')])),
        _ => {
            if let Some(byte) = bytes.get_mut(from) {
                *byte ^= 1 << rng.u8(0..8);
            }
        }
    }
    bytes
}

/// Any text: often one that programs misunderstand.
pub fn text(rng: &mut Rng) -> String {
    const ODD: [&str; 24] = [
        "",
        " ",
        "\0",
        "\n- a",
        "\u{202e}txt",
        "..",
        "../../v1/nodes",
        "%2e%2e%2f",
        "victim~node-0",
        "00000000-0000-0000-0000-000000000000",
        "http://user:p4ss@169.254.169.254/latest",
        "file:///etc/shadow",
        "redfish+https://[::1%25eth0]:99999/x",
        "ipmi://-oProxyCommand=x",
        "{{ ds.meta_data.name }}",
        "{% for i in range(10**9) %}",
        "*a",
        "&a [*a, *a]",
        "0x7f000001",
        "10.0.0.0/0",
        "::ffff:10.0.0.1",
        "9223372036854775808",
        "$(reboot)",
        "a=b c=d\r\nx",
    ];
    match rng.u8(0..8) {
        0 => "x".repeat(rng.usize(0..3_000)),
        1 => (0..rng.usize(0..64)).map(|_| rng.char(..)).collect(),
        2 => "-(".repeat(rng.usize(0..1_000)),
        3 => format!("{}{}", ODD[rng.usize(..ODD.len())], ODD[rng.usize(..ODD.len())]),
        _ => ODD[rng.usize(..ODD.len())].to_owned(),
    }
}

/// Any JSON, no deeper than about a hundred levels.
pub fn any(rng: &mut Rng, depth: u8) -> Value {
    match rng.u8(0..if depth == 0 { 7 } else { 10 }) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(rng.i64(..)),
        3 => json!(rng.f64() * 1e300),
        4..7 => json!(text(rng)),
        7 => (0..rng.usize(0..12)).map(|_| any(rng, depth - 1)).collect(),
        8 => {
            let pairs = (0..rng.usize(0..8)).map(|_| (text(rng), any(rng, depth - 1)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        _ => (0..rng.usize(0..100)).fold(json!(1), |inner, _| json!([inner])),
    }
}

/// Replaces a part of JSON by something else.
pub fn spoil(value: &mut Value, rng: &mut Rng) {
    match value {
        Value::Object(map) if !map.is_empty() && rng.u8(0..8) > 0 => {
            let key = map.keys().nth(rng.usize(..map.len())).cloned().unwrap_or_default();
            match rng.u8(0..12) {
                0 => {
                    map.remove(&key);
                }
                1 => {
                    map.insert(text(rng), any(rng, 2));
                }
                _ => spoil(&mut map[&key], rng),
            }
        }
        Value::Array(items) if !items.is_empty() && rng.u8(0..6) > 0 => {
            let at = rng.usize(..items.len());
            if rng.u8(0..12) == 0 {
                let item = items[at].clone();
                items.extend(std::iter::repeat_n(item, 20));
            } else {
                spoil(&mut items[at], rng);
            }
        }
        other => *other = any(rng, 3),
    }
}
