//! Reading of bodies, in bounded memory. Nothing is decompressed: reqwest's features for that are off.

use std::sync::Arc;

use reqwest::Response;

use crate::shares::{Share, Shares};
use crate::weight::weight;

/// Maximum body of a success: a page of a thousand nodes with all fields, or the inventory of one, has a few MiB.
pub(crate) const MOST: usize = 64 << 20;
/// Maximum part of an error that is read.
pub(crate) const MOST_REFUSAL: usize = 64 << 10;
/// Maximum memory of one success, as text and parsed. A page of a thousand nodes with the usual fields takes a tenth of it.
const MOST_MEMORY: usize = 192 << 20;
/// The same of an answer for a tenant, which is about one server. The largest is an inventory: one of 64 network interfaces with LLDP,
/// 256 disks and 512 PCI devices takes a third of it.
const MOST_OF_TENANT: usize = 32 << 20;
/// The same of all at a time.
const MOST_OF_ALL: usize = 256 << 20;
/// How much of it is kept for the operator's own answers: a few pages of a list.
const RESERVED: usize = 64 << 20;

/// The memory that the answers of one Ironic share. What it sends is partly what the ramdisk on a tenant's server sent to it.
#[derive(Clone)]
pub(crate) struct Room(Shares);

/// A body that is too large.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TooLarge {
    #[error("the answer has more than {} MiB", MOST >> 20)]
    Bytes,
    #[error("the objects and texts of the answer would take more than {} MiB of memory", .0 >> 20)]
    Memory(usize),
}

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    #[error(transparent)]
    Lost(#[from] reqwest::Error),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("the answers that are being read at the same time take too much memory: {} MiB are for all, a part for each namespace", MOST_OF_ALL >> 20)]
    Crowded,
}

/// A whole body. Its memory counts until this is dropped.
pub(crate) struct Whole {
    pub bytes: Vec<u8>,
    _memory: Share,
}

impl Room {
    pub fn new() -> Self {
        Self(Shares::with_reserve(MOST_OF_ALL, RESERVED))
    }

    /// The whole body of a success, for a tenant.
    pub async fn read(&self, tenant: Arc<str>, response: &mut Response) -> Result<Whole, Unread> {
        let most = most(&tenant);
        let (mut bytes, mut memory) = (Vec::new(), self.0.none(tenant));
        while let Some(chunk) = response.chunk().await? {
            if bytes.len() + chunk.len() > MOST {
                return Err(TooLarge::Bytes.into());
            }
            charge(&mut memory, weight(&chunk), most)?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(Whole { bytes, _memory: memory })
    }
}

/// Maximum memory of one answer. The operator is the tenant with the empty name.
fn most(tenant: &str) -> usize {
    if tenant.is_empty() { MOST_MEMORY } else { MOST_OF_TENANT }
}

fn charge(memory: &mut Share, more: usize, most: usize) -> Result<(), Unread> {
    if memory.size() + more > most {
        return Err(TooLarge::Memory(most).into());
    }
    if memory.grow(more) {
        Ok(())
    } else {
        Err(Unread::Crowded)
    }
}

/// The beginning of the body of an error.
pub(crate) async fn begin(response: &mut Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = MOST_REFUSAL - bytes.len();
        bytes.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if bytes.len() == MOST_REFUSAL {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const CHUNK: usize = 16 << 10;

    /// The answer of a tenant, read in small parts until it has its most or there is no more room.
    fn read(room: &Room, tenant: &str, size: usize) -> (Share, Result<(), Unread>) {
        let mut memory = room.0.none(tenant.into());
        let mut end = Ok(());
        while end.is_ok() && memory.size() < size {
            end = charge(&mut memory, CHUNK, most(tenant));
        }
        (memory, end)
    }

    // OWN 31wl: two inventories of one tenant took the memory for the answers of all others, and of the operator.
    #[test]
    fn the_answers_of_a_tenant_leave_memory_to_others() {
        let room = Room::new();
        let (_whole, end) = read(&room, "hostile", MOST_OF_TENANT);
        assert!(end.is_ok(), "{end:?}");
        let (_too_large, end) = read(&room, "hostile", MOST_OF_TENANT + 1);
        assert!(
            matches!(end, Err(Unread::TooLarge(TooLarge::Memory(MOST_OF_TENANT)))),
            "{end:?}"
        );
        let more: Vec<_> = (0..9).map(|_| read(&room, "hostile", MOST_OF_TENANT)).collect();
        assert!(more.iter().any(|(_, end)| matches!(end, Err(Unread::Crowded))));
        for tenant in ["other", "third", "fourth"] {
            let (_, end) = read(&room, tenant, 1 << 20);
            assert!(end.is_ok(), "{tenant}: {end:?}");
        }
        let (list, end) = read(&room, "", RESERVED);
        assert!(end.is_ok(), "{end:?}");
        drop((more, list));
        let (_, end) = read(&room, "", MOST_MEMORY + 1);
        assert!(
            matches!(end, Err(Unread::TooLarge(TooLarge::Memory(MOST_MEMORY)))),
            "{end:?}"
        );
    }

    /// With more of everything than servers have, and twice: Ironic's `plugin_data` repeat parts of it.
    #[test]
    fn the_inventory_of_a_large_server_takes_a_third_of_what_it_may() {
        let many = |number: usize, one: &Value| Value::from(vec![one.clone(); number]);
        let lldp = many(30, &json!([127, "00120f0b0300000000000000000000000000000000"]));
        let interface = json!({"name": "ens1f0np0", "mac_address": "52:54:00:12:34:56", "ipv4_address": "192.0.2.10",
            "ipv6_address": "fe80::5054:ff:fe12:3456%ens1f0np0", "has_carrier": true, "lldp": lldp, "vendor": "0x15b3",
            "product": "0x1017", "client_id": null, "biosdevname": "em1", "speed_mbps": 25_000,
            "pci_address": "0000:3b:00.0", "driver": "mlx5_core"});
        let disk = json!({"name": "/dev/sda", "model": "MZ7LH960HAJR0D3", "size": 960_197_124_096_u64, "rotational": false,
            "wwn": "0x5002538e00000000", "serial": "S45NNA0M000000", "vendor": "ATA", "wwn_with_extension": "0x5002538e00000000",
            "wwn_vendor_extension": null, "hctl": "0:0:0:0", "by_path": "/dev/disk/by-path/pci-0000:18:00.0-scsi-0:2:0:0",
            "logical_sectors": 512, "physical_sectors": 4096});
        let device = json!({"vendor_id": "8086", "product_id": "2021", "class": "088000", "revision": "04", "bus": "0000:00:04.0",
            "numa_node_id": 0});
        let parts = json!({"interfaces": many(64, &interface), "disks": many(256, &disk), "pci_devices": many(512, &device),
            "cpu": {"model_name": "Intel(R) Xeon(R) Platinum 8490H", "frequency": "3500.0000", "count": 480,
                "architecture": "x86_64", "flags": many(256, &json!("avx512_vpopcntdq"))}});
        let takes = weight(json!({"inventory": parts, "plugin_data": parts}).to_string().as_bytes());
        assert!(takes < MOST_OF_TENANT / 3, "{takes}");
        assert!(takes > MOST_OF_TENANT / 6, "{takes}");
    }
}
