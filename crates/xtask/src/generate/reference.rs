//! `docs/api`: a page per group and version with every field of every kind, from its CRD.

use super::files::Files;
use metal3_api::crd::{self, Crd};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

pub const FOLDER: &str = "docs/api";

const HEADER: &str = "<!-- Made by `cargo xtask generate` from crates/api. -->\n";

/// Longer patterns tell a reader nothing that the text beside them does not.
const LONGEST_PATTERN: usize = 60;

/// One version of one kind.
struct Kind<'a> {
    crd: &'a Crd,
    version: &'a Value,
}

pub fn files() -> anyhow::Result<Files> {
    let crds = crd::all()?;
    let mut pages: BTreeMap<String, Vec<Kind<'_>>> = BTreeMap::new();
    for crd in &crds {
        let spec = &crd.manifest()["spec"];
        for version in spec["versions"].as_array().into_iter().flatten() {
            let page = format!("{}/{}", text(&spec["group"]), text(&version["name"]));
            pages.entry(page).or_default().push(Kind { crd, version });
        }
    }
    let mut index = format!(
        "{HEADER}# API reference\n\n\
         Every field of every kind. The same texts come from the API server: `kubectl explain ippools.spec.pools`.\n\n\
         | group and version | kinds |\n|---|---|\n"
    );
    let mut files = Files::new();
    for (title, mut kinds) in pages {
        kinds.sort_by(|a, b| a.name().cmp(b.name()));
        let name = format!("{}.md", title.replace('/', "-"));
        let links: Vec<_> = kinds
            .iter()
            .map(|kind| format!("[{0}]({name}#{1})", kind.name(), kind.name().to_lowercase()))
            .collect();
        writeln!(index, "| [`{title}`]({name}) | {} |", links.join(", "))?;
        files.insert(Path::new(FOLDER).join(&name), page(&title, &kinds)?);
    }
    files.insert(Path::new(FOLDER).join("README.md"), index);
    Ok(files)
}

fn page(title: &str, kinds: &[Kind<'_>]) -> anyhow::Result<String> {
    let mut out = format!(
        "{HEADER}# {title}\n\n\
         A required field must be there where the object around it is. `[]` stands for each item of a list, `*` for each \
         value of a map.\n"
    );
    for kind in kinds {
        kind.write(&mut out)?;
    }
    Ok(out)
}

impl Kind<'_> {
    fn name(&self) -> &str {
        text(&self.crd.manifest()["spec"]["names"]["kind"])
    }

    fn write(&self, out: &mut String) -> anyhow::Result<()> {
        let schema = &self.version["schema"]["openAPIV3Schema"];
        let names = &self.crd.manifest()["spec"]["names"];
        writeln!(out, "\n## {}\n\n{}\n", self.name(), text(&schema["description"]))?;
        let short = code_list(&names["shortNames"]);
        let short = if short.is_empty() {
            String::new()
        } else {
            format!(", short {short}")
        };
        write!(out, "`kubectl get {}`{short}.", self.crd.name())?;
        let columns: Vec<_> = self.version["additionalPrinterColumns"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|column| {
                let wide = column["priority"].as_i64().unwrap_or_default() > 0;
                format!("{}{}", text(&column["name"]), if wide { " (`-o wide`)" } else { "" })
            })
            .collect();
        if !columns.is_empty() {
            write!(out, " Columns: {}.", columns.join(", "))?;
        }
        if self.version["deprecated"] == true {
            write!(out, " This version is deprecated.")?;
        }
        if self.version["storage"] != true {
            write!(out, " Objects are stored in another version.")?;
        }
        writeln!(out, "{}", rules_of(schema))?;
        writeln!(out, "\n| field | type | meaning |\n|---|---|---|")?;
        for part in ["spec", "status"] {
            if schema["properties"][part].is_object() {
                fields(&schema["properties"][part], part, required(schema, part), out)?;
            }
        }
        Ok(())
    }
}

/// Writes the row of a field and those of all fields below it.
fn fields(schema: &Value, path: &str, is_required: bool, out: &mut String) -> anyhow::Result<()> {
    let mut type_ = type_of(schema);
    if is_required {
        type_.push_str(", required");
    }
    writeln!(out, "| `{path}` | {type_} | {} |", meaning(schema))?;
    let (below, path) = innermost(schema, path);
    for (name, field) in below["properties"].as_object().into_iter().flatten() {
        fields(field, &format!("{path}.{name}"), required(below, name), out)?;
    }
    Ok(())
}

/// The schema within lists and maps, and the path to it.
fn innermost<'a>(schema: &'a Value, path: &str) -> (&'a Value, String) {
    if schema["items"].is_object() {
        innermost(&schema["items"], &format!("{path}[]"))
    } else if schema["additionalProperties"].is_object() {
        innermost(&schema["additionalProperties"], &format!("{path}.*"))
    } else {
        (schema, path.to_owned())
    }
}

fn type_of(schema: &Value) -> String {
    if schema["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match (text(&schema["type"]), text(&schema["format"])) {
        ("array", _) => format!("list of {}", type_of(&schema["items"])),
        ("object", _) if schema["additionalProperties"].is_object() => {
            format!("map of {}", type_of(&schema["additionalProperties"]))
        }
        ("string", "date-time") => "time".to_owned(),
        ("", _) => "any".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// The description, and what else the schema says in words.
fn meaning(schema: &Value) -> String {
    let mut parts = vec![text(&schema["description"]).to_owned()];
    if !schema["default"].is_null() {
        parts.push(format!("Default: `{}`.", schema["default"]));
    }
    if schema["nullable"] == true {
        parts.push("May be null.".to_owned());
    }
    let keys = &schema["x-kubernetes-list-map-keys"];
    if keys.is_array() {
        parts.push(format!("Items are told apart by {}.", code_list(keys)));
    }
    parts.extend(limits(schema));
    let (values, path) = innermost(schema, "");
    if !path.is_empty() && !values["properties"].is_object() {
        parts.extend(limits(values).into_iter().map(|limit| format!("Each: {limit}")));
    }
    parts.push(rules_of(schema).trim_start().to_owned());
    parts.retain(|part| !part.is_empty());
    // A table's cell is one line, and a bar ends it.
    parts.join(" ").replace('\n', " ").replace('|', "\\|")
}

/// The rules that the API server applies, each after a space.
fn rules_of(schema: &Value) -> String {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    let texts = rules.map(|rule| {
        let (field, said) = (text(&rule["fieldPath"]).trim_start_matches('.'), text(&rule["message"]));
        match (field, said) {
            (_, "") => format!(" Rule: `{}`.", text(&rule["rule"])),
            ("", said) => format!(" Rule: {said}."),
            (field, said) => format!(" Rule: `{field}` {said}."),
        }
    });
    texts.collect()
}

/// What values may be.
fn limits(schema: &Value) -> Vec<String> {
    const BOUNDS: [(&str, &str); 8] = [
        ("minimum", "At least"),
        ("maximum", "At most"),
        ("minLength", "Shortest length"),
        ("maxLength", "Longest length"),
        ("minItems", "Fewest items"),
        ("maxItems", "Most items"),
        ("minProperties", "Fewest entries"),
        ("maxProperties", "Most entries"),
    ];
    let mut limits = Vec::new();
    let texts = code_list(&schema["enum"]);
    if !texts.is_empty() {
        limits.push(format!("One of {texts}."));
    }
    for (keyword, words) in BOUNDS {
        if !schema[keyword].is_null() {
            limits.push(format!("{words} {}.", schema[keyword]));
        }
    }
    let pattern = text(&schema["pattern"]);
    if !pattern.is_empty() && pattern.len() <= LONGEST_PATTERN {
        limits.push(format!("Pattern `{pattern}`."));
    }
    limits
}

fn required(schema: &Value, name: &str) -> bool {
    schema["required"]
        .as_array()
        .is_some_and(|names| names.iter().any(|required| required == name))
}

/// Values in code style, the empty text visible.
fn code_list(values: &Value) -> String {
    let shown = values.as_array().into_iter().flatten().map(|value| match value {
        Value::String(text) if !text.is_empty() => format!("`{text}`"),
        other => format!("`{other}`"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_says_all_that_the_schema_says() {
        let schema = json!({
            "type": "object", "description": "A.",
            "properties": {
                "a": {
                    "type": "array", "description": "Some\ntext | more.", "x-kubernetes-list-map-keys": ["name"], "maxItems": 3,
                    "items": {
                        "type": "object", "required": ["name"],
                        "properties": { "name": { "type": "string", "description": "N.", "enum": ["", "x"], "default": "x" } },
                    },
                },
                "b": {
                    "type": "object", "description": "B.",
                    "additionalProperties": { "type": "string", "pattern": "^a$", "minLength": 1 },
                },
                "c": { "x-kubernetes-int-or-string": true, "description": "C.", "nullable": true },
                "d": { "type": "boolean", "description": "D.", "enum": [true, false] },
            },
        });
        let mut out = String::new();
        fields(&schema, "spec", false, &mut out).unwrap();
        let expected = "| `spec` | object | A. |\n\
            | `spec.a` | list of object | Some text \\| more. Items are told apart by `name`. Most items 3. |\n\
            | `spec.a[].name` | string, required | N. Default: `\"x\"`. One of `\"\"`, `x`. |\n\
            | `spec.b` | map of string | B. Each: Shortest length 1. Each: Pattern `^a$`. |\n\
            | `spec.c` | integer or string | C. May be null. |\n\
            | `spec.d` | boolean | D. One of `true`, `false`. |\n";
        assert_eq!(out, expected);
    }

    /// A field without a text would be a row that says nothing.
    #[test]
    fn no_row_is_empty() {
        for (path, text) in files().unwrap() {
            let empty: Vec<_> = text.lines().filter(|line| line.ends_with("|  |")).collect();
            assert!(empty.is_empty(), "{}: {empty:#?}", path.display());
            assert!(text.contains("\n| "), "{}: {text}", path.display());
        }
    }
}
