//! User data that cloud-init renders, looked at for the metadata keys that it names.

use std::thread;

use crate::bounded::is_bounded;
use metal3_render::{Metadata, missing_keys};

const HEADER: &str = "## template: jinja\n";

/// In bytes: an eighth of what a thread of the provider has. What parses without a bound of its depth overflows it.
const STACK: usize = 256 << 10;

/// A template ends neither its thread nor the process, and no key is told that it does not contain.
pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let template = text.strip_prefix(HEADER).unwrap_or(&text);
    let looked_at = thread::scope(|scope| {
        let thread = thread::Builder::new().name("a template".to_owned()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, || {
            is_whole(template, &format!("{HEADER}{template}"));
            // An expression, for which no delimiters need to be found by chance.
            is_whole(template, &format!("{HEADER}{{{{ {template} }}}}"));
        });
        thread.expect("a thread").join()
    });
    if let Err(failure) = looked_at {
        std::panic::resume_unwind(failure);
    }
}

fn is_whole(template: &str, user_data: &str) {
    // Keys of metadata are a tenant's, too.
    let given: String = template.chars().take(64).collect();
    let missing = missing_keys(user_data, &Metadata([(given.clone(), String::new())].into()));
    is_bounded(
        template.as_bytes(),
        missing.iter().map(|key| key.to_string().len()).sum(),
    );
    for key in &missing {
        assert!(template.contains(&key.0), "{key} is not in the text");
        assert!(key.0 != given, "{key} is there");
    }
}
