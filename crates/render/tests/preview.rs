//! Which keys user data takes from the metadata in vain. What the real cloud-init says of the same templates is compared
//! in `cloud_init.rs`.

#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

mod fixture;

use fixture::metadata;
use fixture::templates::{FATAL, TEMPLATES, UNJUDGED};
use metal3_render::{Key, Metadata, is_template, missing_keys};
use proptest::prelude::*;
use rstest::rstest;

fn missing(user_data: &str) -> Vec<String> {
    missing_keys(user_data, &metadata())
        .into_iter()
        .map(|key| key.0)
        .collect()
}

#[test]
fn every_template_lacks_what_it_lacks() {
    for (template, lacks) in TEMPLATES.iter().chain(FATAL) {
        assert_eq!(
            missing(&format!("## template: jinja\n{template}")),
            *lacks,
            "{template}"
        );
    }
}

#[rstest]
#[case::cloud_config("#cloud-config\nruncmd: ['echo {{ ds.meta_data.zone }}']\n")]
#[case::script("#!/bin/sh\necho {{ ds.meta_data.zone }}\n")]
#[case::ignition(r#"{"ignition": {"version": "3.4.0"}, "x": "{{ ds.meta_data.zone }}"}"#)]
#[case::second_line("\n## template: jinja\n{{ ds.meta_data.zone }}\n")]
#[case::another_engine("## template: basic\n{{ ds.meta_data.zone }}\n")]
#[case::nothing("")]
#[case::header_alone("## template: jinja")]
#[case::not_parsable("## template: jinja\n{{ ds.meta_data.zone ")]
#[case::unknown_tag("## template: jinja\n{% trans %}{{ ds.meta_data.zone }}{% endtrans %}")]
fn what_is_not_understood_is_not_judged(#[case] user_data: &str) {
    assert!(missing(user_data).is_empty());
}

#[test]
fn the_first_line_may_be_written_in_other_ways_that_cloud_init_takes() {
    assert!(
        !is_template("#cloud-config\n") && !is_template("## template: jinja") && !is_template("## template: basic\n")
    );
    for first in ["## template: jinja\r", "## TEMPLATE: Jinja", "## template: jinja  "] {
        assert!(is_template(&format!("{first}\n")), "{first:?}");
        assert_eq!(
            missing(&format!("{first}\n{{{{ ds.meta_data.zone }}}}")),
            ["zone"],
            "{first:?}"
        );
    }
}

#[test]
fn a_filter_that_is_not_known_hides_nothing() {
    let template = "## template: jinja\n{{ ds.meta_data.rack | b64encode }} {{ ds.meta_data.zone | center(9) }}";
    assert_eq!(missing(template), ["zone"]);
}

#[test]
fn a_template_with_a_ds_of_its_own_is_not_judged() {
    for set in ["{% set ds = v1 %}", "{% set a, ds = v1 %}"] {
        assert!(missing(&format!("## template: jinja\n{set}{{{{ ds.meta_data.zone }}}}")).is_empty());
    }
}

#[test]
fn only_short_and_flat_expressions_are_judged() {
    let judged = |code: &str| missing(&format!("## template: jinja\n{{{{ {code} }}}}")) == ["zone"];
    let (signs, brackets) = (|n: usize| "-".repeat(n), |n: usize| ("(".repeat(n), ")".repeat(n)));
    let is_judged = |n: usize| {
        let (open, close) = brackets(n);
        [
            judged(&format!("1 {} ds.meta_data.zone", signs(n))),
            judged(&format!("{open}ds.meta_data.zone{close}")),
        ]
    };
    assert_eq!(
        (is_judged(8), is_judged(9), is_judged(10)),
        ([true; 2], [false; 2], [false; 2])
    );
    let long = |n: usize| judged(&format!("ds.meta_data.zone ~ '{}'", "x".repeat(n - 22)));
    assert_eq!((long(512), long(513)), (true, false));
}

#[test]
fn what_is_not_certain_is_not_told() {
    let others = [
        "{% if ds.meta_data.zone.startswith('n') %}x{% endif %}",
        "{% for a in v1 %}{{ ds.meta_data.zone }}{% endfor %}",
        "{% if v1 %}{% set a = ds.meta_data.zone %}{% endif %}",
    ];
    for template in UNJUDGED.iter().map(|(template, _)| *template).chain(others) {
        assert!(
            missing(&format!("## template: jinja\n{template}")).is_empty(),
            "{template}"
        );
    }
}

/// A template of a tenant, in whatever it is deep, long or greedy, ends neither the process nor takes its memory: it is not run,
/// and what is parsed is short. On a stack as small as that of a busy thread can be.
fn survives(templates: Vec<String>) {
    let looked_at = std::thread::Builder::new().stack_size(512 * 1024).spawn(move || {
        for template in templates {
            missing(&format!("## template: jinja\n{{{{ ds.meta_data.zone }}}}{template}"));
        }
    });
    looked_at.unwrap().join().unwrap();
}

#[test]
fn a_hostile_template_is_survived() {
    let mut templates = Vec::new();
    for sign in [
        "-",
        "+",
        "not ",
        "- ",
        "~",
        "(",
        "[",
        "{",
        "{'a':",
        "a.",
        "a|",
        "a[",
        "a(",
        "a**",
        "a*",
        "a~",
        "a-",
        "a if ",
        "a if b else ",
        "a,",
        "a==",
        "a is ",
        "'a'",
        "1_",
        "{{",
        "{%",
        "{% if a %}",
        "{% elif a %}",
        "{% for a in b %}",
        "{% set a = -",
        "{% raw %}",
        "{# ",
        "}}",
        "%}",
        "\\",
        "'",
        "\"",
    ] {
        for length in [8, 64, 200, 500, 16_000] {
            let many = sign.repeat(length / sign.len() + 1);
            templates.extend([format!("{{{{ {many}a }}}}"), format!("{{% set a = {many}a %}}"), many]);
        }
    }
    templates.push("{{ 'a' * 99999999 * 99999999 }}{{ 'a' * 9 ** 99 }}{{ [1] * 99999999999 }}".to_owned());
    templates.push("{{ '%999999999999d' | format(1) }}{{ range(99999) | join(range(99999) | join) }}".to_owned());
    templates.push("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}".to_owned());
    survives(templates);
}

#[test]
fn long_texts_around_a_template_do_not_matter_and_long_code_does() {
    let text = "x".repeat(900_000);
    assert_eq!(
        missing(&format!("## template: jinja\n{text}{{{{ ds.meta_data.zone }}}}{text}")),
        ["zone"]
    );
    let code = "{{ ds.meta_data.zone }}".repeat(1000);
    assert!(missing(&format!("## template: jinja\n{code}")).is_empty());
}

#[test]
fn keys_are_shown_as_a_template_names_them() {
    assert_eq!(Key("rack".to_owned()).to_string(), "ds.meta_data.rack");
    assert_eq!(Key("rack/row".to_owned()).to_string(), r#"ds.meta_data["rack/row"]"#);
}

#[test]
fn a_template_of_kubeadm_is_understood() {
    let template = include_str!("fixture/kubeadm.yaml");
    assert!(missing(template).is_empty());
    let bare = missing_keys(template, &Metadata::default());
    assert_eq!(bare, [Key("rack".to_owned()), Key("providerid".to_owned())]);
}

/// What code consists of, so that much of what is generated is parsed.
fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "-",
        "+",
        "*",
        "**",
        "~",
        "/",
        "//",
        "%",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "|",
        ".",
        ",",
        ":",
        "=",
        "==",
        "<",
        "!",
        "not ",
        " is ",
        " in ",
        " if ",
        " else ",
        "ds",
        "ds.meta_data",
        ".zone",
        "['a/b']",
        "a",
        "1",
        "9999999999",
        "'x'",
        "\"y\"",
        "'",
        "\\",
        "{{",
        "}}",
        "{%",
        "%}",
        "{{-",
        "-%}",
        "{#",
        "#}",
        "{% if a %}",
        "{% endif %}",
        "{% set b = ",
        "{% raw %}",
        "{% endraw %}",
        " ",
        "\n",
        "default",
        "range(9)",
        "é",
    ])
}

proptest! {
    #[test]
    fn any_code_is_survived(tokens in prop::collection::vec(token(), 0..4000)) {
        survives(vec![tokens.concat(), format!("{{{{ {} }}}}", tokens.concat())]);
    }

    #[test]
    fn any_text_is_survived(body in "[{}%#a-z0-9_.\\[\\]'\"|()+ \n-]{0,80}") {
        let user_data = format!("## template: jinja\n{{{{ ds.meta_data.rack }}}}{body}");
        missing(&user_data);
    }

    #[test]
    fn every_key_that_is_printed_and_not_there_is_found(keys in proptest::collection::btree_set("[a-z]{5,9}", 0..6)) {
        let body: Vec<String> = keys.iter().map(|key| format!("- {{{{ ds.meta_data['no-{key}'] }}}}\n")).collect();
        let mut found = missing(&format!("## template: jinja\n{}", body.concat()));
        found.sort();
        let printed: Vec<String> = keys.iter().map(|key| format!("no-{key}")).collect();
        prop_assert_eq!(found, printed);
    }
}
