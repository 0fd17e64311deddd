//! Which keys user data takes from the metadata in vain. What the real cloud-init says of the same templates is compared
//! in `cloud_init.rs`.

#![expect(clippy::unwrap_used, reason = "a test, helpers included")]

mod fixture;

use fixture::metadata;
use fixture::templates::{FATAL, TEMPLATES, UNJUDGED};
use metal3_render::{Key, Metadata, missing_keys};
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
    for first in ["## template: jinja\r", "## TEMPLATE: Jinja", "## template: jinja  "] {
        assert_eq!(
            missing(&format!("{first}\n{{{{ ds.meta_data.zone }}}}")),
            ["zone"],
            "{first:?}"
        );
    }
}

#[test]
fn a_branch_that_only_the_machine_can_choose_is_looked_at_as_it_is_taken_here() {
    let template =
        "## template: jinja\n{% if v1.region %}{{ ds.meta_data.a }}{% else %}{{ ds.meta_data.b }}{% endif %}";
    assert_eq!(missing(template), ["a"]);
}

#[test]
fn a_filter_that_is_not_known_hides_nothing() {
    let template = "## template: jinja\n{{ ds.meta_data.rack | b64encode }} {{ ds.meta_data.zone }}";
    assert!(
        missing(template).is_empty(),
        "Jinja refuses an unknown filter before it renders anything"
    );
    let template = "## template: jinja\n{{ ds.meta_data.rack | filesizeformat }} {{ ds.meta_data.zone | center(9) }}";
    assert_eq!(missing(template), ["zone"]);
}

#[test]
fn a_loop_without_end_ends() {
    let template =
        "## template: jinja\n{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}";
    assert!(missing(template).is_empty());
}

#[test]
fn what_could_take_much_memory_is_not_looked_at() {
    for (template, _) in UNJUDGED {
        assert!(
            missing(&format!("## template: jinja\n{template}")).is_empty(),
            "{template}"
        );
    }
    // With each of these a few hundred bytes would make terabytes.
    let many = |text: &str| text.repeat(60);
    let bombs = [
        many("{% set a = a ~ a %}"),
        many("{% set a = a or [a, a] %}"),
        many("{% set a = a if v1 else (a, a) %}"),
        many("{% set a %}{{ a }}{{ a }}{% endset %}"),
        many("{% set a = a | replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaa') %}"),
        many("{% set a = a.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaa') %}"),
        many("{% set a = a | center(60000) | replace(' ', a) %}"),
        format!("{}{}", many("{% for a in [a ~ a] %}"), many("{% endfor %}")),
        "{{ range(99999) | join(range(99999) | join) }}".to_owned(),
        "{{ '%999999999999d' | format(1) }}{{ '{:>999999999999}'.format(1) }}".to_owned(),
        "{{ '}}' ~ ('a' * 99999999) ~ ('a' * 99999999) }}".to_owned(),
    ];
    for bomb in bombs {
        let template =
            format!("## template: jinja\n{{% set a = 'aaaaaaaa' %}}{bomb}{{{{ a }}}}{{{{ ds.meta_data.zone }}}}");
        let found = missing(&template);
        assert!(found.is_empty() || found == ["zone"], "{template}: {found:?}");
    }
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

proptest! {
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
