//! Puts comments into YAML that a serialiser wrote, which knows no comments.

use anyhow::bail;

/// Writes each comment above the key at its path, such as `spec.bmc.address`, at the key's indentation.
///
/// Knows the block style that our serialiser writes, two spaces a level; keys within lists count as below the list.
///
/// # Errors
///
/// A path is not in the text: the field has gone, and its comment with it.
pub fn annotate(yaml: &str, comments: &[(&str, &str)]) -> anyhow::Result<String> {
    let mut out = String::new();
    let mut above: Vec<(usize, &str)> = Vec::new();
    let mut block_text_below: Option<usize> = None;
    let mut left: Vec<&(&str, &str)> = comments.iter().collect();
    for line in yaml.lines() {
        let indent = line.len() - line.trim_start().len();
        let is_text = block_text_below.is_some_and(|key_indent| line.trim().is_empty() || indent > key_indent);
        if !is_text {
            block_text_below = None;
            if let Some((key, value)) = line
                .trim_start()
                .split_once(':')
                .filter(|(key, _)| !key.starts_with('-'))
            {
                above.retain(|(level, _)| *level < indent);
                above.push((indent, key));
                let path = above.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".");
                if let Some(found) = left.iter().position(|(wanted, _)| *wanted == path) {
                    let (_, comment) = left.remove(found);
                    for line in comment.lines() {
                        out.extend([&" ".repeat(indent), "# ", line, "\n"]);
                    }
                }
                if value.trim_start().starts_with(['|', '>']) {
                    block_text_below = Some(indent);
                }
            }
        }
        out.push_str(line);
        out.push('\n');
    }
    if let Some((path, _)) = left.first() {
        bail!("no key at {path} to comment on");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stand_above_their_keys() {
        let yaml = "a: 1\nb:\n  a: |\n    c: text\n  c:\n  - d: 1\n    e: 2\n";
        let out = annotate(
            yaml,
            &[("b.c", "Two\nlines."), ("b.c.e", "In a list."), ("a", "First.")],
        )
        .unwrap();
        let wanted = "# First.\na: 1\nb:\n  a: |\n    c: text\n  # Two\n  # lines.\n  c:\n  - d: 1\n    # In a list.\n    e: 2\n";
        assert_eq!(out, wanted);
    }

    #[test]
    fn a_comment_without_a_key_is_an_error() {
        assert!(annotate("a: |\n  b: text\n", &[("a.b", "x")]).is_err());
    }
}
