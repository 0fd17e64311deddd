//! Where BMCs fetch virtual media from: those with IPv6 may have a separate address for it.

use metal3_api::metal3::ErrorType;
use metal3_bmc::BmcAddress;
use metal3_ironic::Node;
use metal3_runtime::timing::operator::SLOW_RECHECK;

use super::credentials::{Secret, try_credentials};
use crate::host::builder::{PlanBuilder, Step, Verdict};
use crate::host::conditions;
use crate::host::node_spec::MediaUrl;
use crate::host::observed::Lookup;
use crate::host::plan::{Read, Wait, WaitReason};

/// The address for this BMC, whose node may already exist.
pub(super) fn media_url<'s>(
    plan: &PlanBuilder<'s>,
    address: &BmcAddress,
    node: Option<&Node>,
) -> Result<MediaUrl<'s>, Step> {
    let Some(own) = plan.seen.settings.external_url_v6.as_deref() else {
        return Ok(MediaUrl::Ironics);
    };
    let is_ipv6 = match (address.ip(), &plan.seen.bmc_name) {
        (Some(ip), _) => ip.is_ipv6(),
        // The remaining steps of a deletion must not depend on a name server.
        (None, Lookup::NotLooked) if node.is_some() && plan.is_deleting() => return Ok(MediaUrl::AsItIs),
        (None, Lookup::NotLooked) => return Err(Step::Fetch(Read::BmcName)),
        (None, Lookup::Found(Ok(is_ipv6))) => *is_ipv6,
        // An unavailable name server is no reason to change a node.
        (None, Lookup::NotFound | Lookup::Found(Err(_))) => return Ok(MediaUrl::AsItIs),
    };
    Ok(if is_ipv6 { MediaUrl::Own(own) } else { MediaUrl::Ironics })
}

/// The host name in the address does not resolve: the host is not enrolled until it does, because it might never find
/// its media.
pub(super) fn unresolved(plan: &mut PlanBuilder<'_>, address: &BmcAddress, secret: &Secret<'_>) -> Option<Step> {
    let Lookup::Found(Err(why)) = &plan.seen.bmc_name else {
        return None;
    };
    if plan.is_deleting() {
        return None; // which must not hang on a name server
    }
    // Otherwise they would count as new in every pass, and end the back-off each time.
    try_credentials(plan, secret);
    let message = words(address.host(), why);
    Some(match plan.failure(&ErrorType::Registration, message.clone()) {
        Verdict::Hold(step) => step,
        // The name was resolved just now.
        Verdict::Retry => plan.fail(&ErrorType::Registration, message),
    })
}

/// The same for an existing node: it is left unchanged in the meantime, and may differ from the specification.
pub(super) fn is_unknown(plan: &PlanBuilder<'_>) -> bool {
    matches!(plan.seen.bmc_name, Lookup::Found(Err(_)))
}

/// The wait of such a host, once it has nothing else to wait for.
pub(in crate::host::decide) fn wait_for_name(plan: &PlanBuilder<'_>) -> Option<Wait> {
    let Lookup::Found(Err(why)) = &plan.seen.bmc_name else {
        return None;
    };
    // The node already has the media URL for this address: there is nothing to find out.
    if conditions::confirmed(&plan.status.conditions) == plan.seen.host.metadata.generation {
        return None;
    }
    let address = BmcAddress::parse(&plan.spec().bmc.address).ok()?;
    let message = format!(
        "{}. Until it can, the BMC fetches virtual media from where it did before",
        words(address.host(), why)
    );
    Some(Wait::for_time(WaitReason::BMCNameUnresolved, SLOW_RECHECK, message))
}

fn words(name: &str, why: &str) -> String {
    format!(
        "spec.bmc.address: the name {name} cannot be resolved by the operator, which has to know because of IRONIC_EXTERNAL_URL_V6 \
         whether it stands for an IPv6 address: {why}"
    )
}
