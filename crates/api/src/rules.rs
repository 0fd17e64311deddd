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
    for part in ["name", "namespace", "kind"] {
        property(schema, part).into_iter().for_each(fixed);
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
fn fixed_boot_mac(schema: &mut Schema) {
    let field = "bootMACAddress";
    let rule = format!(
        "!has(oldSelf.{field}) || oldSelf.{field} == '' || \
         (has(self.{field}) && self.{field}.lowerAscii() == oldSelf.{field}.lowerAscii())"
    );
    add(schema, [(rule, format!("{field} cannot be changed once it is set"))]);
}

/// The rules of a whole BareMetalHost: changes that depend on its status. The operator's webhook has the same; here an address
/// can also be corrected before the host has a state, because no webhook may have seen it.
pub fn host_rules() -> Value {
    // The API server estimates the cost of a comparison by its operands, and does not know the size of a conditional expression.
    let has_address = |host: &str| {
        let bmc = format!("{host}.spec.bmc");
        format!("has({host}.spec) && has({bmc}) && has({bmc}.address) && {bmc}.address")
    };
    let external = |host: &str| {
        let field = format!("{host}.spec.externallyProvisioned");
        format!("(has({host}.spec) && has({field}) && {field})")
    };
    let state = |host: &str, condition: &str| {
        let provisioning = format!("{host}.status.provisioning");
        format!("(has({host}.status) && has({provisioning}) && {provisioning}.state {condition})")
    };
    let either = |is: &dyn Fn(&str) -> String| format!("{} || {}", is("self"), is("oldSelf"));
    let detached = |host: &str| {
        let field = format!("{host}.status.operationalStatus");
        format!("(has({host}.status) && has({field}) && {field} == 'detached')")
    };
    let is_first = format!("!({} != '')", has_address("oldSelf"));
    let is_same = format!("({} == oldSelf.spec.bmc.address)", has_address("self"));
    let registering = either(&|host| state(host, "== 'registering'"));
    let has_state = state("oldSelf", "!= ''");
    let available = either(&|host| state(host, "== 'available'"));
    json!([
        {
            "rule": format!("{is_first} || {is_same} || !{has_state} || {registering} || {}", either(&detached)),
            "message": "can be changed only while the host is registering or detached: detach the host first \
                        (baremetalhost.metal3.io/detached)",
            "fieldPath": ".spec.bmc.address",
        },
        {
            "rule": format!("!{} || {} || {available}", external("self"), external("oldSelf")),
            "message": "can be set only at creation, or while the host is available",
            "fieldPath": ".spec.externallyProvisioned",
        },
    ])
}

/// The rules of a host's specification that need no status.
pub fn host_spec(schema: &mut Schema) {
    fixed_boot_mac(schema);
    unless_before(
        schema,
        |spec| format!("has({spec}.disablePowerOff) && {spec}.disablePowerOff && !{spec}.online"),
        "disablePowerOff cannot be used with online: false: the host would have to be powered off",
    );
    unless_before(
        schema,
        |spec| {
            let interfaces = format!("{spec}.networkInterfaces");
            format!("has({interfaces}) && {interfaces}.exists(i, has(i.name) == has(i.macAddress))")
        },
        "each of networkInterfaces needs either a name or a macAddress",
    );
}

/// A switch port in mode access takes no tagged frames.
pub fn untagged_access(schema: &mut Schema) {
    unless_before(
        schema,
        |spec| format!("{spec}.mode == 'access' && has({spec}.allowedVLANs) && size({spec}.allowedVLANs) > 0"),
        "allowedVLANs must be empty in mode access",
    );
}

/// A BMCEventSubscription cannot be changed. Empty texts count as absent.
pub fn fixed_subscription(schema: &mut Schema) {
    let (texts, headers) = (["hostName", "destination", "context"], "httpHeadersRef");
    for field in texts {
        property(schema, field).into_iter().for_each(fixed);
    }
    if let Some(headers) = property(schema, headers) {
        for part in ["name", "namespace"] {
            property(headers, part).into_iter().for_each(fixed);
        }
    }
    // The rules so far compare what is there before and after.
    let text = |field: &str| {
        let none = |spec: &str| format!("!has({spec}.{field}) || {spec}.{field} == ''");
        let stays = format!("({} || has(self.{field}))", none("oldSelf"));
        format!("{stays} && ({} || has(oldSelf.{field}))", none("self"))
    };
    let same = |part: &str| format!("has(self.{headers}{part}) == has(oldSelf.{headers}{part})");
    // `namespace` is a reserved word.
    let parts = format!("{} && {}", same(".name"), same(".__namespace__"));
    let headers = format!("{} && (!has(self.{headers}) || {parts})", same(""));
    let rule = [texts.map(text).join(" && "), headers].join(" && ");
    let message = "cannot be changed: create another BMCEventSubscription";
    add(schema, [(rule, message.to_owned())]);
}

fn property<'a>(schema: &'a mut Schema, name: &str) -> Option<&'a mut Schema> {
    let property = schema.get_mut("properties")?.get_mut(name)?;
    property.try_into().ok()
}

/// Rejects a value for which `is_wrong` holds, unless it held before: an object that is stored already can be written.
fn unless_before(schema: &mut Schema, is_wrong: impl Fn(&str) -> String, message: &str) {
    let (now, before) = (is_wrong("self"), is_wrong("oldSelf.value()"));
    let rule = format!("!({now}) || (oldSelf.hasValue() && {before})");
    push(
        schema,
        json!({"rule": rule, "message": message, "optionalOldSelf": true}),
    );
}

/// A list has 10,000 entries at most. A longer one that is stored already can be changed, unless it grows.
pub fn bounded(schema: &mut Schema) {
    let rule = "size(self) <= 10000 || (oldSelf.hasValue() && size(self) <= size(oldSelf.value()))";
    let message = "there can be 10000 entries at most: split them into several pools";
    push(
        schema,
        json!({"rule": rule, "message": message, "optionalOldSelf": true}),
    );
}

fn add(schema: &mut Schema, rules: impl IntoIterator<Item = (String, String)>) {
    for (rule, message) in rules {
        push(schema, json!({"rule": rule, "message": message}));
    }
}

fn push(schema: &mut Schema, rule: Value) {
    let rules = schema.get(KEYWORD).and_then(Value::as_array).cloned();
    let rules: Vec<Value> = rules.into_iter().flatten().chain([rule]).collect();
    schema.insert(KEYWORD.to_owned(), rules.into());
}

/// The keyword of rules in schemas.
pub const KEYWORD: &str = "x-kubernetes-validations";
