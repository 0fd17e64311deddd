//! Ironic's words without the answers of foreign servers that it repeats.
//!
//! Ironic and its ramdisk fetch what users name: images, checksums, firmware, BMCs. Their errors repeat parts of the answers, and who
//! may name a URL may not be one who may read what its server says to Ironic. What Ironic says itself stays: the URL, the status code,
//! the kind of error.

/// What stands before a foreign text, and what is shown instead of both. The foreign text may contain anything, so nothing after it
/// is shown either.
const ANSWERS: [(&str, &str); 17] = [
    // ironic-python-agent, extensions/standby.py: a refused download, with the headers after the body.
    ("Response body:", "The server's answer is not shown"),
    // The same file: a checksum file of one line that is no checksum; the second is of releases before 2023.
    (
        "(No valid checksum found)",
        "(no valid checksum found; the file is not shown)",
    ),
    ("(No checksum found)", "(no checksum found; the file is not shown)"),
    // http.client and urllib3: the first line of a server that does not speak HTTP, or speaks it wrongly.
    ("BadStatusLine(", "the server does not answer in HTTP"),
    ("InvalidChunkLength(", "the server does not answer in HTTP"),
    ("InvalidHeader(", "the server does not answer in HTTP"),
    ("HeaderParsingError(", "the server does not answer in HTTP"),
    ("UnknownProtocol(", "the server does not answer in HTTP"),
    ("Unsupported transfer encoding:", "the server does not answer in HTTP"),
    // requests: the target of a redirect.
    (
        "No connection adapters were found for",
        "the server redirects to what is no http URL",
    ),
    ("Failed to parse:", "the server redirects to what is no URL"),
    // ironic/common/image_service.py and oci_registry.py: headers of a server, and what a registry has.
    (
        "invalid literal for int()",
        "the server gives a length that is no number",
    ),
    (
        "Unknown authentication method for headers:",
        "the registry asks for no authentication that Ironic knows",
    ),
    (
        "Unknown www-authenticate value",
        "the registry asks for no authentication that Ironic knows",
    ),
    ("available tags are", "the tags of the registry are not shown"),
    // ironic/drivers/modules/agent_client.py: the ramdisk names the address.
    ("\nResponse: \"", "\nThe answer is not shown"),
    (" Response: \"", " The answer is not shown"),
];

/// The beginnings of web pages and of other foreign texts in a message of an unknown form. Ironic's own dictionaries are Python's,
/// with `'`.
const UNKNOWN: [&str; 6] = ["<!DOCTYPE", "<!doctype", "<html", "<HTML", "<?xml", "{\""];

/// What stands before a JSON text of our own, which Ironic refuses.
const OURS: &str = "apply patch '";

const NOT_SHOWN: &str = "(the answer is not shown)";

/// The text up to what a foreign server has answered.
pub(crate) fn without_answers(text: &str) -> String {
    let text = of_redfish(text);
    let known = ANSWERS
        .iter()
        .filter_map(|(before, instead)| Some((text.find(before)?, *instead)));
    let unknown = UNKNOWN.iter().filter_map(|start| text.find(start));
    let unknown = unknown
        .filter(|at| !text[..*at].trim_end_matches('[').ends_with(OURS))
        .chain(bytes(&text));
    let first = known.chain(unknown.map(|at| (at, NOT_SHOWN))).min_by_key(|(at, _)| *at);
    let told = match first {
        Some((at, instead)) => [&text[..at], instead].concat(),
        None => text,
    };
    without_phrases(&told)
}

/// Where Python shows bytes, such as `b'SSH-2.0'`: a foreign text that it has not read as one.
fn bytes(text: &str) -> Option<usize> {
    let starts = text.match_indices("b'").chain(text.match_indices("b\""));
    let is_word = |at: usize| text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '\'');
    starts.map(|(at, _)| at).filter(|at| !is_word(*at)).min()
}

/// requests gives the reason phrase of a server: `404 Client Error: phrase for url: http://…`.
fn without_phrases(text: &str) -> String {
    let mut told = text.to_owned();
    for kind in [" Client Error: ", " Server Error: "] {
        if let Some(at) = told.find(kind)
            && let Some(end) = told.rfind(" for url: ")
            && at + kind.len() <= end + 1
        {
            let before = &told[..at + kind.len() - ": ".len()];
            told = [before, &told[end..]].concat();
        }
    }
    told
}

/// sushy says `returned code 400. CODE: MESSAGE Extended information: …`. Only the text of a BMC is shown, which names its messages as
/// Redfish does: any other JSON with an `error` has the same form.
fn of_redfish(text: &str) -> String {
    let Some((before, answer)) = text.split_once(" returned code ") else {
        return text.to_owned();
    };
    let Some((code, told)) = answer.split_once(". ") else {
        return text.to_owned();
    };
    let (error, more) = told.split_once("Extended information:").unwrap_or((told, ""));
    let id = error.split(": ").next().unwrap_or_default();
    // Without a code of the server sushy takes this one.
    let is_named = id != "Base.1.0.GeneralError" && is_message_id(id);
    let is_silent = ["unknown error", "Base.1.0.GeneralError: unknown error"]
        .iter()
        .any(|own| error.trim_end_matches(['.', ' ']) == *own);
    if is_named || more.contains("'MessageId': ") || is_silent && matches!(more.trim(), "" | "None" | "none") {
        return text.to_owned();
    }
    format!("{before} returned code {code}. The answer is not one of Redfish, and is not shown")
}

/// Whether this is the name of a message in one of Redfish's registries, such as `Base.1.12.GeneralError`; some BMCs write
/// `Base.v1_4_0`, or have a registry of their own.
fn is_message_id(text: &str) -> bool {
    let mut parts = text.split('.');
    let is_name =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_version = |part: &str| part.starts_with(|c: char| c.is_ascii_digit() || c == 'v');
    let registry = parts.next().is_some_and(|part| is_name(part) && !is_version(part));
    let rest: Vec<&str> = parts.collect();
    registry && (2..=4).contains(&rest.len()) && is_version(rest[0]) && rest.iter().all(|part| is_name(part))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// What a foreign server says in the cases.
    const FOREIGN: &str = "secret-of-theirs";

    // OWN 31wd: who could name a URL read the answer of an internal server, in part, in the error of the host.
    #[rstest]
    #[case::body(
        "Agent returned error for deploy step {'step': 'write_image', 'priority': 80} on node n : Error downloading image: Download of \
         image http://internal/a failed: URL: http://internal/a; time: 0.1 seconds. Error: Received status code 403 from \
         http://internal/a, expected 200. Response body: {\"token\": \"secret-of-theirs\"} Response headers: {'Server': 'secret-of-theirs'}",
        "Agent returned error for deploy step {'step': 'write_image', 'priority': 80} on node n : Error downloading image: Download of \
         image http://internal/a failed: URL: http://internal/a; time: 0.1 seconds. Error: Received status code 403 from \
         http://internal/a, expected 200. The server's answer is not shown"
    )]
    #[case::checksum_file(
        "Error downloading image: Download of image http://internal/sums failed: Invalid checksum file (No valid checksum found) \
         ['secret-of-theirs']",
        "Error downloading image: Download of image http://internal/sums failed: Invalid checksum file (no valid checksum found; the \
         file is not shown)"
    )]
    #[case::ironics_own_checksum_file(
        "Failed to download image http://h/sums, reason: Invalid checksum file (No checksum found) secret-of-theirs",
        "Failed to download image http://h/sums, reason: Invalid checksum file (no checksum found; the file is not shown)"
    )]
    #[case::not_http(
        "Validation of image href http://internal:22/a failed, reason: ('Connection aborted.', BadStatusLine('SSH-2.0-secret-of-theirs\\r\\n'))",
        "Validation of image href http://internal:22/a failed, reason: ('Connection aborted.', the server does not answer in HTTP"
    )]
    #[case::chunks(
        "Failed to download image http://internal/a, reason: (\"Connection broken: InvalidChunkLength(got length b'secret-of-theirs', 0 bytes \
         read)\", InvalidChunkLength(got length b'secret-of-theirs', 0 bytes read))",
        "Failed to download image http://internal/a, reason: (\"Connection broken: the server does not answer in HTTP"
    )]
    #[case::phrase(
        "Deploy failed: 418 Client Error: secret-of-theirs for url: http://internal/v2/",
        "Deploy failed: 418 Client Error for url: http://internal/v2/"
    )]
    #[case::redirect(
        "reason: No connection adapters were found for 'secret-of-theirs:///etc'",
        "reason: the server redirects to what is no http URL"
    )]
    #[case::length(
        "invalid literal for int() with base 10: 'secret-of-theirs'",
        "the server gives a length that is no number"
    )]
    #[case::tags(
        "Image tag oci://internal/a:b could not be found, available tags are secret-of-theirs, latest",
        "Image tag oci://internal/a:b could not be found, the tags of the registry are not shown"
    )]
    #[case::registry(
        "Unknown authentication method for headers: {'Server': 'secret-of-theirs'}",
        "the registry asks for no authentication that Ironic knows"
    )]
    #[case::agent(
        "Unable to decode response as JSON. Request URL: http://internal/v1/commands Request body: \"{}\" Response status code: 200 \
         Response: \"secret-of-theirs\"",
        "Unable to decode response as JSON. Request URL: http://internal/v1/commands Request body: \"{}\" Response status code: 200 \
         The answer is not shown"
    )]
    #[case::no_bmc(
        "Redfish exception occurred. Error: HTTP GET https://internal/redfish/v1/ returned code 400. Base.1.0.GeneralError: secret-of-theirs \
         Extended information: None",
        "Redfish exception occurred. Error: HTTP GET https://internal/redfish/v1/ returned code 400. The answer is not one of Redfish, \
         and is not shown"
    )]
    #[case::no_bmc_with_a_code(
        "Error: HTTP POST https://internal/a returned code 500. 17: secret-of-theirs Extended information: {'secret-of-theirs': 1}",
        "Error: HTTP POST https://internal/a returned code 500. The answer is not one of Redfish, and is not shown"
    )]
    #[case::page("It broke: <html><h1>secret-of-theirs</h1>", "It broke: (the answer is not shown)")]
    #[case::json("It broke: {\"secret-of-theirs\": 1}", "It broke: (the answer is not shown)")]
    #[case::bytes("It broke: b'secret-of-theirs'", "It broke: (the answer is not shown)")]
    fn an_answer_of_a_foreign_server_is_not_repeated(#[case] text: &str, #[case] told: &str) {
        assert!(text.contains(FOREIGN));
        assert_eq!(without_answers(text), told);
        assert_eq!(without_answers(told), told, "it is in its last form");
    }

    #[rstest]
    #[case("Failed to change power state to 'power off' by 'power off': Timeout of 30 s")]
    #[case(
        "Validation of image href http://h/a failed, reason: Got HTTP code 404 instead of 200 in response to HEAD request."
    )]
    #[case(
        "Validation of image href http://h/a failed, reason: HTTPConnectionPool(host='h', port=80): Max retries exceeded with url: /a \
         (Caused by NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f>: Failed to establish a new connection: \
         [Errno 111] Connection refused'))"
    )]
    #[case("('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))")]
    #[case(
        "Image failed to verify against checksum. location: /dev/sda; image ID: http://h/a; image checksum: aa; verification checksum: bb"
    )]
    #[case("Failed to download image http://h/sums, reason: Checksum file does not contain name a.img")]
    #[case(
        "Redfish exception occurred. Error: HTTP GET https://bmc/redfish/v1/Systems/1 returned code 401. unknown error Extended \
         information: None"
    )]
    #[case("HTTP GET http://bmc/ returned code 503. Base.1.0.GeneralError: unknown error. Extended information: None")]
    #[case(
        "HTTP POST https://bmc/a returned code 400. iLO.2.19.UnsupportedOperation: It cannot. Extended information: [{'MessageId': \
         'iLO.2.19.UnsupportedOperation'}]"
    )]
    #[case(
        "HTTP PATCH https://bmc/a returned code 400. Base.1.0.GeneralError: Bad. Extended information: [{'MessageId': \
         'Base.1.8.PropertyUnknown'}]"
    )]
    #[case("HTTP GET https://bmc/ returned code 503. Base.v1_4_0.GeneralError: Busy.")]
    #[case("Couldn't apply patch '[{\"op\": \"add\", \"path\": \"/x\"}]'. Reason: no such path")]
    #[case("Agent returned error for clean step {'step': 'erase_devices'} on node n : Error erasing block device: b")]
    fn what_ironic_says_itself_stays(#[case] text: &str) {
        assert_eq!(without_answers(text), text);
    }

    proptest! {
        #[test]
        fn nothing_follows_the_sign_of_an_answer(which in 0..ANSWERS.len(), before in "[a-z .]{0,20}", after in "\\PC{0,40}") {
            let text = format!("{before}{} {FOREIGN} {after}", ANSWERS[which].0);
            prop_assert!(!without_answers(&text).contains(FOREIGN), "{text}");
        }

        #[test]
        fn any_text_is_read(text in "\\PC{0,200}") {
            without_answers(&text);
        }
    }
}
