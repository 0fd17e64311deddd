//! Rules of schemas: what cannot be changed, what must be there, and how much there can be. The API server enforces them with or
//! without a webhook. They compare with the stored object, so that no object is rejected for what did not change.

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

/// The index of a Metal3Data in v1beta1, which leaves out 0.
pub fn fixed_index(schema: &mut Schema) {
    let is_zero = |spec: &str| format!("(!has({spec}.index) || {spec}.index == 0)");
    let is_same = "(has(self.index) && has(oldSelf.index) && self.index == oldSelf.index)";
    let rule = format!("{is_same} || ({} && {})", is_zero("self"), is_zero("oldSelf"));
    push(
        schema,
        json!({"rule": rule, "message": "cannot be changed", "fieldPath": ".index"}),
    );
}

/// The rule of a whole object that its specification cannot be removed: rules for what cannot be changed say nothing of one that is
/// gone, and would admit another one afterwards.
pub fn staying_spec() -> Value {
    json!([{"rule": "!has(oldSelf.spec) || has(self.spec)", "message": "cannot be removed", "fieldPath": ".spec"}])
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
    let boot_mac = "oldSelf.spec.bootMACAddress";
    let has_boot_mac = format!("has(oldSelf.spec) && has({boot_mac}) && {boot_mac} != ''");
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
        {
            // Ironic takes names of nodes for UUIDs if they look like one.
            "rule": "!self.metadata.name.matches('^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$') || \
                     oldSelf.hasValue()",
            "message": "metadata.name: must not be a UUID, which identifies nodes in Ironic",
            "optionalOldSelf": true,
        },
        {
            // The rule of the specification holds as long as there is one.
            "rule": format!("has(self.spec) || !({has_boot_mac})"),
            "message": "cannot be changed once it is set",
            "fieldPath": ".spec.bootMACAddress",
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
    unless_before_at(
        schema,
        "firmware",
        |spec| format!("has({spec}.firmware)"),
        "is no longer supported: use HostFirmwareSettings",
    );
    let name = "rootDeviceHints.deviceName";
    unless_before_at(
        schema,
        name,
        // Looking for another slash is too dear for the API server.
        |spec| format!("{} && !{spec}.{name}.startsWith('/dev/')", has_text(spec, name)),
        "must be a device such as /dev/sda, or a link in /dev/disk/by-path/",
    );
    let mac = "bootMACAddress";
    unless_before_at(
        schema,
        mac,
        |spec| {
            let is_disabled = format!("has({spec}.inspectionMode) && {spec}.inspectionMode == 'disabled'");
            format!(
                "{is_disabled} && {} && !{}",
                has_text(spec, "bmc.address"),
                has_text(spec, mac)
            )
        },
        "is required because inspection is disabled",
    );
    host_image(schema);
}

/// The image of a host, in its specification or in that of a HostClaim. Not in the status, which must take what was stored before
/// these rules.
pub fn host_image(schema: &mut Schema) {
    // Upstream takes a type of checksum for any image.
    checksums(schema, "image.format", &["image.checksum"], |spec| {
        has_text(spec, "image.url")
    });
}

/// A switch port in mode access takes no tagged frames.
pub fn untagged_access(schema: &mut Schema) {
    unless_before(
        schema,
        |spec| format!("{spec}.mode == 'access' && has({spec}.allowedVLANs) && size({spec}.allowedVLANs) > 0"),
        "allowedVLANs must be empty in mode access",
    );
}

/// A BMCEventSubscription has a host and a destination, and cannot be changed. Empty texts count as absent.
pub fn fixed_subscription(schema: &mut Schema) {
    required_text(schema, "hostName", "is required: the name of a BareMetalHost");
    required_text(schema, "destination", "is required: the URL that events are sent to");
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
    push(schema, ratcheted(is_wrong, message));
}

/// The same for a field below the value, which the error names.
fn unless_before_at(schema: &mut Schema, field: &str, is_wrong: impl Fn(&str) -> String, message: &str) {
    let mut rule = ratcheted(is_wrong, message);
    rule["fieldPath"] = json!(format!(".{field}"));
    push(schema, rule);
}

fn ratcheted(is_wrong: impl Fn(&str) -> String, message: &str) -> Value {
    let (now, before) = (is_wrong("self"), is_wrong("oldSelf.value()"));
    let rule = format!("!({now}) || (oldSelf.hasValue() && {before})");
    json!({"rule": rule, "message": message, "optionalOldSelf": true})
}

/// Whether the value has a field, by the field's path. A stored object may lack even what the schema requires.
fn has(value: &str, path: &str) -> String {
    let ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
    let steps = ends.map(|end| format!("has({value}.{})", &path[..end]));
    steps.collect::<Vec<_>>().join(" && ")
}

/// Whether the value has a text that is not empty there. v1beta1 stores empty texts.
fn has_text(value: &str, path: &str) -> String {
    format!("({} && {value}.{path} != '')", has(value, path))
}

/// The structure has a text that is not empty in this field.
fn required_text(schema: &mut Schema, path: &str, message: &str) {
    unless_before_at(schema, path, |value| format!("!{}", has_text(value, path)), message);
}

/// A Metal3DataClaim names its template.
pub fn claim_of_template(schema: &mut Schema) {
    required_text(schema, "template.name", "is required: the name of a Metal3DataTemplate");
}

/// An IPClaim names its pool.
pub fn claim_of_pool(schema: &mut Schema) {
    required_text(schema, "pool.name", "is required: the name of an IPPool");
}

/// An IPAddress names its pool and its claim.
pub fn address_of_pool(schema: &mut Schema) {
    claim_of_pool(schema);
    required_text(schema, "claim.name", "is required: the name of an IPClaim");
}

/// The endpoint of a cluster has a host. The webhook sets the port.
pub fn cluster_endpoint(schema: &mut Schema) {
    let message = "is required: the name or address of the API server";
    required_text(schema, "controlPlaneEndpoint.host", message);
}

/// The endpoint in a cluster template has a port, too.
pub fn template_endpoint(schema: &mut Schema) {
    let port = "template.spec.controlPlaneEndpoint.port";
    let is_missing = |value: &str| format!("!({} && {value}.{port} != 0)", has(value, port));
    unless_before_at(
        schema,
        port,
        is_missing,
        "is required: the port of the API server, such as 6443",
    );
}

/// The rules for the image of a machine, also in a machine template.
pub fn machine_image(schema: &mut Schema) {
    image(schema, "image.diskFormat");
}

/// The same in v1beta1.
pub fn machine_image_v1beta1(schema: &mut Schema) {
    image(schema, "image.format");
}

/// A machine has an image or a custom deploy step; without the latter, an image has a checksum unless it is a live ISO or comes
/// from a registry, whose images are identified by their digests.
fn image(schema: &mut Schema, format: &str) {
    let url = "image.url";
    let method = |spec: &str| has_text(spec, "customDeploy.method");
    unless_before_at(
        schema,
        "image",
        |spec| format!("!{} && !{}", method(spec), has_text(spec, url)),
        "either an image with a URL or customDeploy.method is required",
    );
    // Only an image that is installed is checked.
    let refused_for_oci = ["image.checksum", "image.checksumType"];
    checksums(schema, format, &refused_for_oci, |spec| {
        format!("!{} && {}", method(spec), has_text(spec, url))
    });
}

/// An image has a checksum unless it is a live ISO or comes from a registry, wherever `is_checked` holds.
fn checksums(schema: &mut Schema, format: &str, refused_for_oci: &[&str], is_checked: impl Fn(&str) -> String) {
    let (url, checksum) = ("image.url", "image.checksum");
    // The API server does not know how long an old text is, so changing its case would be over the budget.
    let is_oci = |spec: &str| {
        let prefixes = ["oci", "ocI", "oCi", "oCI", "Oci", "OcI", "OCi", "OCI"];
        let any = prefixes.map(|scheme| format!("{spec}.{url}.startsWith('{scheme}://')"));
        format!("({})", any.join(" || "))
    };
    let is_live = |spec: &str| format!("({} && {spec}.{format} == 'live-iso')", has(spec, format));
    unless_before_at(
        schema,
        checksum,
        |spec| {
            let (checked, oci, live) = (is_checked(spec), is_oci(spec), is_live(spec));
            format!("{checked} && !{oci} && !{live} && !{}", has_text(spec, checksum))
        },
        "is required: a digest, or the URL of a file of digests; only a live ISO and an oci:// image need none",
    );
    for field in refused_for_oci {
        unless_before_at(
            schema,
            field,
            |spec| format!("{} && {} && {}", is_checked(spec), is_oci(spec), has_text(spec, field)),
            "must not be set for an oci:// image, which is identified by its digest",
        );
    }
}

/// An entry of metadata for a MAC address names either an interface or the one that the host boots from.
pub fn host_interfaces(schema: &mut Schema) {
    let field = "fromHostInterfaces";
    unless_before_at(
        schema,
        field,
        |data| {
            let boot = "(has(i.fromBootMAC) && i.fromBootMAC)";
            let interface = has_text("i", "interface");
            format!("has({data}.{field}) && {data}.{field}.exists(i, {boot} == {interface})")
        },
        "each entry needs either an interface or fromBootMAC: true",
    );
}

/// A network has a source of its address.
pub fn address_sources(schema: &mut Schema) {
    let texts = ["ipAddressFromIPPool", "fromPoolRef.name"].map(|path| has_text("n", path));
    let sources = texts.join(" || ");
    for family in ["ipv4", "ipv6"] {
        unless_before_at(
            schema,
            family,
            |networks| {
                let list = format!("{networks}.{family}");
                format!("has({list}) && {list}.exists(n, !({sources} || has(n.fromPoolAnnotation)))")
            },
            "each network needs one of fromPoolRef, fromPoolAnnotation and ipAddressFromIPPool",
        );
    }
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
