//! A Jinja as cloud-init has it, as far as it matters which values a template asks for.

use std::sync::Arc;

use minijinja::value::{Rest, Value};
use minijinja::{Environment, UndefinedBehavior};
use minijinja_contrib::pycompat;

use super::bounds;
use super::stand_in::{Missing, Unknown};

/// Enough for every template that is small enough to be looked at, and an end for loops that have none.
const STEPS: u64 = 100_000;

/// Its result may be of any size, as its pattern says.
const FORMAT: &str = "format";

/// The filters of Jinja, except `default`.
const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "dictsort",
    "e",
    "escape",
    "filesizeformat",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "random",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "striptags",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "urlize",
    "wordcount",
    "wordwrap",
    "xmlattr",
];

/// Those whose result templates calculate with.
const NUMBERS: &[&str] = &["abs", "count", "float", "int", "length", "round", "sum", "wordcount"];

/// What is not metadata may be undefined without an end of the rendering.
pub fn like_cloud_init() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_fuel(Some(STEPS));
    environment.set_unknown_method_callback(|state, value, method, args| {
        if method == FORMAT || !bounds::is_little(args.iter().chain([value])) {
            return Ok(Unknown::value());
        }
        pycompat::unknown_method_callback(state, value, method, args)
    });
    environment.add_test("defined", |value: Value| is_defined(&value));
    environment.add_test("undefined", |value: Value| !is_defined(&value));
    for name in ["default", "d"] {
        environment.add_filter(name, default);
    }
    let own = Arc::new(Environment::new());
    for name in FILTERS {
        let own = Arc::clone(&own);
        environment.add_filter(*name, move |args: Rest<Value>| filter(&own, name, &args));
    }
    environment
}

fn is_defined(value: &Value) -> bool {
    !value.is_undefined() && value.downcast_object_ref::<Missing>().is_none()
}

/// Its second argument makes it replace whatever is empty, not only what is undefined.
fn default(value: Value, other: Option<Value>, also_empty: Option<bool>) -> Value {
    if is_defined(&value) && (value.is_true() || also_empty != Some(true)) {
        value
    } else {
        other.unwrap_or_else(|| Value::from(""))
    }
}

/// A filter asks a missing value for its text. What a filter makes of stand-ins, or fails at, is not known; the rest of
/// the template is looked at all the same.
fn filter(own: &Environment<'_>, name: &str, args: &[Value]) -> Value {
    let missing = args.iter().filter_map(|value| value.downcast_object_ref::<Missing>());
    let mut stands_in = args
        .iter()
        .any(|value| value.downcast_object_ref::<Unknown>().is_some());
    for missing in missing {
        missing.is_used();
        stands_in = true;
    }
    let result = if stands_in || name == FORMAT || !bounds::is_little(args) {
        None
    } else {
        own.empty_state().apply_filter(name, args).ok()
    };
    result.unwrap_or_else(|| {
        if NUMBERS.contains(&name) {
            Value::from(1)
        } else {
            Unknown::value()
        }
    })
}
