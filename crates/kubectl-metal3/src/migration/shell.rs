//! Lines for a shell. What stands in them comes from objects of the cluster, which anybody may have written.

/// A command whose words mean themselves, whatever is in them.
pub fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // A shell cannot have a NUL in a word, and neither can a program's argument.
    let quoter = shlex::Quoter::new().allow_nul(true);
    let words = words.into_iter().map(|word| quoter.quote(word).unwrap_or_default());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_shell_reads_the_words_as_they_are() {
        let hostile = [
            "printf",
            "%s|",
            "a b",
            "https://h/?a=1&b=$(touch x)",
            "it's `id`",
            "a\nb",
            "",
            "{a,b}",
            "~",
            "!1",
            "*",
        ];
        let output = std::process::Command::new("sh")
            .args(["-c", &line(hostile)])
            .output()
            .unwrap();
        let expected = hostile[2..].join("|") + "|";
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        assert_eq!(
            line(["helm", "--set-literal", "a.b=https://10.0.0.1:6385/v1/"]),
            "helm --set-literal 'a.b=https://10.0.0.1:6385/v1/'"
        );
    }
}
