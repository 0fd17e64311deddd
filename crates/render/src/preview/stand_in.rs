//! Values that stand in for what is missing, and for what is not known.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, State};

use super::Found;

/// Stands for a key that the metadata does not have.
#[derive(Debug)]
pub struct Missing {
    key: String,
    found: Found,
}

impl Missing {
    pub fn value(key: &str, found: &Found) -> Value {
        found.look_up(key);
        Value::from_object(Self {
            key: key.to_owned(),
            found: found.clone(),
        })
    }

    /// Notes that the key is needed.
    pub fn is_used(&self) {
        self.found.is_used(&self.key);
    }
}

impl Object for Missing {
    /// A loop over it is an empty one, which is no fault.
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Empty
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }

    /// An undefined value has no attributes: Jinja fails.
    fn get_value(self: &Arc<Self>, _: &Value) -> Option<Value> {
        self.is_used();
        Some(Unknown::value())
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, _: &[Value]) -> Result<Value, Error> {
        self.is_used();
        Ok(Unknown::value())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, _: &str, _: &[Value]) -> Result<Value, Error> {
        self.is_used();
        Ok(Unknown::value())
    }

    fn render(self: &Arc<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.is_used();
        Ok(())
    }
}

/// Stands for what only the machine knows, such as `v1.kernel_release`: it is there, and has whatever is asked of it.
#[derive(Debug)]
pub struct Unknown;

impl Unknown {
    pub fn value() -> Value {
        Value::from_object(Self)
    }
}

impl Object for Unknown {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Empty
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn get_value(self: &Arc<Self>, _: &Value) -> Option<Value> {
        Some(Self::value())
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, _: &[Value]) -> Result<Value, Error> {
        Ok(Self::value())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, _: &str, _: &[Value]) -> Result<Value, Error> {
        Ok(Self::value())
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown")
    }
}
