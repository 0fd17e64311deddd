//! Why the server refuses a write.

/// Whether the server finds something wrong in what was written.
pub(super) fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_invalid())
}

/// Whether the server names the UID as what is wrong. Its words alone do not tell: names of objects are in them, too.
pub(super) fn is_about_uid(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.field == "metadata.uid")
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    /// As the server refuses a patch of a claim of this name.
    fn refused(name: &str, field: &str, why: &str) -> kube::Error {
        let status = json!({
            "status": "Failure", "reason": "Invalid", "code": 422,
            "message": format!("IPClaim.ipam.metal3.io \"{name}\" is invalid: {field}: {why}"),
            "details": {
                "name": name, "group": "ipam.metal3.io", "kind": "IPClaim",
                "causes": [{"reason": "FieldValueInvalid", "message": why, "field": field}],
            },
        });
        let status: Status = serde_json::from_value(status).unwrap();
        kube::Error::Api(status.boxed())
    }

    #[test]
    fn what_is_refused_because_of_its_uid_is_told_by_the_field_that_the_server_names() {
        let immutable = "Invalid value: \"8d5c\": field is immutable";
        assert!(is_about_uid(&refused("c", "metadata.uid", immutable)));
        let too_long = "Too long: may not be more than 32768 bytes";
        assert!(!is_about_uid(&refused(
            "fluid-1",
            "status.conditions[0].message",
            too_long
        )));
    }
}
