//! Networks, their routes and name servers, and the pools that all these name.

use metal3_api::infra::v1beta2::{
    AddressFamily, DynamicNetwork, Gateway, NetworkData as Template, NetworkServices, Networks, Route as RouteTemplate,
    StaticNetwork,
};

use super::{Network, NetworkType, Route, Service};
use crate::address::{Addresses, Family, of_pool};
use crate::error::{Problem, RenderError};
use crate::facts::Facts;
use crate::pool::Pool;

pub(super) fn render(
    networks: &Networks,
    facts: &Facts<'_>,
    addresses: &Addresses,
) -> Result<Vec<Network>, RenderError> {
    let given = Given { facts, addresses };
    let mut rendered = Vec::new();
    for network in &networks.ipv4 {
        rendered.push(given.fixed("ipv4", NetworkType::Ipv4, Family::V4, network)?);
    }
    for network in &networks.ipv6 {
        rendered.push(given.fixed("ipv6", NetworkType::Ipv6, Family::V6, network)?);
    }
    for network in &networks.ipv4_dhcp {
        rendered.push(given.dynamic("ipv4DHCP", NetworkType::Ipv4Dhcp, Family::V4, network)?);
    }
    for network in &networks.ipv6_dhcp {
        rendered.push(given.dynamic("ipv6DHCP", NetworkType::Ipv6Dhcp, Family::V6, network)?);
    }
    for network in &networks.ipv6_slaac {
        rendered.push(given.dynamic("ipv6SLAAC", NetworkType::Ipv6Slaac, Family::V6, network)?);
    }
    Ok(rendered)
}

/// Name servers for everything: those of the template, then those of a pool.
pub(super) fn services(services: &NetworkServices, addresses: &Addresses) -> Result<Vec<Service>, RenderError> {
    let literals = services.dns.iter().map(|address| address.0.as_str());
    name_servers(SERVICES, literals, &services.dns_from_ip_pool, addresses)
}

/// Collects the pools that network data names, each with the field that names it.
pub(crate) fn pools_of(data: &Template, facts: &Facts<'_>, pools: &mut Vec<(String, Pool)>) -> Result<(), RenderError> {
    let networks = &data.networks;
    let mut of = PoolsOf { facts, pools };
    networks.ipv4.iter().try_for_each(|network| of.fixed("ipv4", network))?;
    networks.ipv6.iter().try_for_each(|network| of.fixed("ipv6", network))?;
    for network in &networks.ipv4_dhcp {
        of.routes(&path("ipv4DHCP", &network.id), &network.routes)?;
    }
    for network in &networks.ipv6_dhcp {
        of.routes(&path("ipv6DHCP", &network.id), &network.routes)?;
    }
    for network in &networks.ipv6_slaac {
        of.routes(&path("ipv6SLAAC", &network.id), &network.routes)?;
    }
    of.name_servers(SERVICES, &data.services.dns_from_ip_pool);
    Ok(())
}

/// What pools are collected from and into.
struct PoolsOf<'a, 'b> {
    facts: &'a Facts<'a>,
    pools: &'b mut Vec<(String, Pool)>,
}

impl PoolsOf<'_, '_> {
    fn fixed<A: AddressFamily>(&mut self, list: &str, network: &StaticNetwork<A>) -> Result<(), RenderError> {
        let field = path(list, &network.id);
        self.pools.push(address_source(&field, network, self.facts)?);
        self.routes(&field, &network.routes)
    }

    fn routes<A: AddressFamily>(&mut self, network: &str, routes: &[RouteTemplate<A>]) -> Result<(), RenderError> {
        for route in routes {
            let field = route_path(network, route);
            if let GatewaySource::Pool(field, pool) = gateway_source(&field, &route.gateway, self.facts)? {
                self.pools.push((field, pool));
            }
            self.name_servers(&format!("{field}.services"), &route.services.dns_from_ip_pool);
        }
        Ok(())
    }

    fn name_servers(&mut self, services: &str, pool: &str) {
        if !pool.is_empty() {
            self.pools
                .push((format!("{services}.dnsFromIPPool"), Pool::metal3(pool)));
        }
    }
}

/// What networks are rendered from.
struct Given<'a> {
    facts: &'a Facts<'a>,
    addresses: &'a Addresses,
}

impl Given<'_> {
    fn fixed<A: AddressFamily>(
        &self,
        list: &str,
        type_: NetworkType,
        family: Family,
        network: &StaticNetwork<A>,
    ) -> Result<Network, RenderError> {
        let field = path(list, &network.id);
        let (source, pool) = address_source(&field, network, self.facts)?;
        let given = of_pool(&source, &pool, self.addresses)?;
        family.check(&source, &pool, &given.address)?;
        // Addresses of Cluster API may have none: upstream leaves it empty, and cloud-init takes 24 or 64 bits.
        let netmask = given.prefix.map(|prefix| family.netmask(&source, prefix));
        Ok(Network {
            id: network.id.clone(),
            ip_address: Some(given.address.clone()),
            link: network.link.clone(),
            netmask: Some(netmask.transpose()?.unwrap_or_default()),
            routes: self.routes(&field, family, &network.routes)?,
            type_,
        })
    }

    fn dynamic<A: AddressFamily>(
        &self,
        list: &str,
        type_: NetworkType,
        family: Family,
        network: &DynamicNetwork<A>,
    ) -> Result<Network, RenderError> {
        Ok(Network {
            id: network.id.clone(),
            ip_address: None,
            link: network.link.clone(),
            netmask: None,
            routes: self.routes(&path(list, &network.id), family, &network.routes)?,
            type_,
        })
    }

    /// The gateway that a pool tells, or an empty text.
    fn gateway(&self, field: &str, pool: &Pool, family: Family) -> Result<String, RenderError> {
        let given = of_pool(field, pool, self.addresses)?;
        if !given.gateway.is_empty() {
            family.check(field, pool, &given.gateway)?;
        }
        Ok(given.gateway.clone())
    }

    fn routes<A: AddressFamily>(
        &self,
        network: &str,
        family: Family,
        routes: &[RouteTemplate<A>],
    ) -> Result<Vec<Route>, RenderError> {
        let route = |route: &RouteTemplate<A>| {
            let field = route_path(network, route);
            let gateway = match gateway_source(&field, &route.gateway, self.facts)? {
                GatewaySource::None => String::new(),
                GatewaySource::Text(text) => text.to_owned(),
                GatewaySource::Pool(field, pool) => self.gateway(&field, &pool, family)?,
            };
            let services = &route.services;
            let literals = services.dns.iter().map(AsRef::as_ref);
            Ok(Route {
                gateway,
                netmask: family.netmask(&format!("{field}.prefix"), route.prefix.unwrap_or_default())?,
                network: route.network.as_ref().to_owned(),
                services: name_servers(
                    &format!("{field}.services"),
                    literals,
                    &services.dns_from_ip_pool,
                    self.addresses,
                )?,
            })
        };
        routes.iter().map(route).collect()
    }
}

/// Where the services for everything stand in a template.
const SERVICES: &str = "spec.networkData.services";

fn path(list: &str, id: &str) -> String {
    format!("spec.networkData.networks.{list}[{id}]")
}

fn route_path<A: AddressFamily>(network: &str, route: &RouteTemplate<A>) -> String {
    format!("{network}.routes[{}]", route.network.as_ref())
}

/// The pool that an address comes from, with the field that names it: an annotation goes before a reference, and that
/// before the name alone.
fn address_source<A: AddressFamily>(
    field: &str,
    network: &StaticNetwork<A>,
    facts: &Facts<'_>,
) -> Result<(String, Pool), RenderError> {
    if let Some(reference) = &network.from_pool_annotation {
        let field = format!("{field}.fromPoolAnnotation");
        let pool = Pool::metal3(facts.annotation(&field, reference)?);
        return Ok((field, pool));
    }
    match &network.from_pool_ref {
        Some(reference) if !reference.name.is_empty() => {
            return Ok((format!("{field}.fromPoolRef"), Pool::from(reference)));
        }
        _ => {}
    }
    if network.ip_address_from_ip_pool.is_empty() {
        return Err(RenderError::new(field, Problem::NoPool));
    }
    let pool = Pool::metal3(&network.ip_address_from_ip_pool);
    Ok((format!("{field}.ipAddressFromIPPool"), pool))
}

/// Where a router's address comes from.
enum GatewaySource<'a> {
    None,
    Text(&'a str),
    /// A pool, with the field that names it.
    Pool(String, Pool),
}

/// The address itself goes before an annotation, that before a reference, and that before the name alone.
fn gateway_source<'a, A: AddressFamily>(
    route: &str,
    gateway: &'a Gateway<A>,
    facts: &Facts<'_>,
) -> Result<GatewaySource<'a>, RenderError> {
    let text = gateway.string.as_ref();
    if !text.is_empty() {
        return Ok(GatewaySource::Text(text));
    }
    if let Some(reference) = &gateway.from_pool_annotation {
        let field = format!("{route}.gateway.fromPoolAnnotation");
        let pool = Pool::metal3(facts.annotation(&field, reference)?);
        return Ok(GatewaySource::Pool(field, pool));
    }
    match &gateway.from_pool_ref {
        Some(reference) if !reference.name.is_empty() => Ok(GatewaySource::Pool(
            format!("{route}.gateway.fromPoolRef"),
            Pool::from(reference),
        )),
        _ if gateway.from_ip_pool.is_empty() => Ok(GatewaySource::None),
        _ => Ok(GatewaySource::Pool(
            format!("{route}.gateway.fromIPPool"),
            Pool::metal3(&gateway.from_ip_pool),
        )),
    }
}

fn name_servers<'a>(
    services: &str,
    literals: impl Iterator<Item = &'a str>,
    pool: &str,
    addresses: &Addresses,
) -> Result<Vec<Service>, RenderError> {
    let dns = |address: &str| Service {
        address: address.to_owned(),
        type_: "dns".to_owned(),
    };
    let mut servers: Vec<Service> = literals.map(dns).collect();
    if !pool.is_empty() {
        let given = of_pool(&format!("{services}.dnsFromIPPool"), &Pool::metal3(pool), addresses)?;
        servers.extend(given.dns_servers.iter().map(|address| dns(address)));
    }
    Ok(servers)
}
