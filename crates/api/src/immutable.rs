//! Rules of schemas for what cannot be changed, and for how much there can be. The API server holds them whether or not a webhook is there. They compare with
//! what is stored, so that an object that is stored already is never refused for what nobody changes.

use schemars::Schema;
use serde_json::{Value, json};

/// The value itself cannot be changed.
pub fn fixed(schema: &mut Schema) {
    add(schema, [("self == oldSelf".to_owned(), "cannot be changed".to_owned())]);
}

/// What a reference leads to cannot be changed. A part that was empty may be filled in: rules that compare whole references are
/// too dear for the API server. Comparing is left out where a part is gone, so that a name must not go either; a namespace may,
/// as it never counts.
pub fn fixed_reference(schema: &mut Schema) {
    let Some(parts) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for name in ["name", "namespace", "kind"] {
        let part = parts.get_mut(name).and_then(|part| <&mut Schema>::try_from(part).ok());
        part.into_iter().for_each(fixed);
    }
    staying(schema, &["name"]);
}

/// These fields must not go once they are there. Together with [`fixed`], which says nothing of a field that is gone, they cannot
/// be changed in two steps either.
fn staying(schema: &mut Schema, fields: &[&str]) {
    let rules = fields.iter().map(|field| {
        let rule = format!("!has(oldSelf.{field}) || has(self.{field})");
        (rule, format!("{field} cannot be removed"))
    });
    add(schema, rules);
}

/// The same of what a Metal3DataClaim asks for.
pub fn staying_template(schema: &mut Schema) {
    staying(schema, &["template"]);
}

/// The same of what a Metal3Data was made for.
pub fn staying_data(schema: &mut Schema) {
    staying(schema, &["index", "claim", "template"]);
}

/// What a Metal3DataTemplate renders cannot be changed: machines that have been rendered, and Secrets that are lost, would
/// differ from each other.
///
/// For the stored version only. Empty lists and structures of v1beta1 are not stored, and come back as none: applying the same
/// manifest again would count as a change.
///
/// v1beta1 admits what these rules cannot compare, and a finalizer must be written then as well: two entries with one key make a
/// list that is not even equal to itself, and a parameter of a bond that is no structure fails every rule that looks at it. The
/// webhook compares those.
pub fn fixed_data(schema: &mut Schema) {
    let network = "has(self.networkData) == has(oldSelf.networkData)".to_owned();
    add(
        schema,
        [
            (same("metaData"), changed("metaData")),
            (network, changed("networkData")),
        ],
    );
}

/// The network data of a template, without its links.
pub fn fixed_network(schema: &mut Schema) {
    let links = "has(self.links) == has(oldSelf.links)".to_owned();
    let rules = [same("networks"), same("services"), links];
    add(schema, rules.map(|rule| (rule, changed("networkData"))));
}

/// The links of a template. Of bonds, only which there are.
pub fn fixed_links(schema: &mut Schema) {
    let bonds = "has(self.bonds) == has(oldSelf.bonds) && \
                 (!has(self.bonds) || self.bonds.map(bond, bond.id) == oldSelf.bonds.map(bond, bond.id))";
    let rules = [same("ethernets"), same("vlans"), bonds.to_owned()];
    add(schema, rules.map(|rule| (rule, changed("networkData"))));
}

/// A rule: the field is what it was, or cannot be compared.
fn same(field: &str) -> String {
    format!(
        "has(self.{field}) == has(oldSelf.{field}) && \
         (!has(self.{field}) || self.{field} == oldSelf.{field} || oldSelf.{field} != oldSelf.{field})"
    )
}

fn changed(field: &str) -> String {
    format!("{field} cannot be changed: {ANOTHER_TEMPLATE}")
}

/// What to do instead of changing a Metal3DataTemplate.
pub const ANOTHER_TEMPLATE: &str = "make another Metal3DataTemplate, and another machine template that names it";

/// A boot MAC address cannot be changed once it is set; the case of its letters may.
pub fn fixed_boot_mac(schema: &mut Schema) {
    let field = "bootMACAddress";
    let rule = format!(
        "!has(oldSelf.{field}) || oldSelf.{field} == '' || \
         (has(self.{field}) && self.{field}.lowerAscii() == oldSelf.{field}.lowerAscii())"
    );
    add(schema, [(rule, format!("{field} cannot be changed once it is set"))]);
}

/// A list has 10,000 entries at most. The API server leaves a longer one alone that is stored already and that nobody changes.
pub fn bounded(schema: &mut Schema) {
    let message = "there can be 10000 entries at most: split them into several pools";
    add(schema, [("size(self) <= 10000".to_owned(), message.to_owned())]);
}

fn add(schema: &mut Schema, rules: impl IntoIterator<Item = (String, String)>) {
    let mut all = schema
        .get(KEYWORD)
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    all.extend(
        rules
            .into_iter()
            .map(|(rule, message)| json!({"rule": rule, "message": message})),
    );
    schema.insert(KEYWORD.to_owned(), all.into());
}

const KEYWORD: &str = "x-kubernetes-validations";
