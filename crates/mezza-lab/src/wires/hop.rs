//! The hop between the ends: the firewall, which changes messages, and the observer, which reads
//! them.

use anyhow::{Result, anyhow};
use mezza_guard::{Group, Message};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;
use serde_json::json;

use super::{Connection, WireJob, hex, print_value};
use crate::asa::element;
use crate::variant::{self, Variant, Way};

/// Relays `count` handshakes, each through a fresh firewall.
pub fn run_firewall<G: Group + 'static>(group: &G, variant: Variant, job: &WireJob) -> Result<()> {
    let mut inside = Connection::accept_one()?;
    let mut wire = Connection::dial_next(job)?;
    let mut rng = ChaCha20Rng::seed_from_u64(job.seed);
    for _ in 0..job.count {
        let firewall = variant::make_firewall(variant, &job.firewall, group)?;
        let mut firewall = firewall.ok_or_else(|| anyhow!("no firewall is named"))?;
        for way in variant.script() {
            let (from, to) = match way {
                Way::Out => (&mut inside, &mut wire),
                Way::In => (&mut wire, &mut inside),
            };
            let before = from.receive_message(group)?;
            let seen = before.encode(group);
            let after = match way {
                Way::Out => firewall.change_outgoing(before, &mut rng)?,
                Way::In => firewall.change_incoming(before, &mut rng)?,
            };
            to.send_message(group, &after)?;
            if job.shows {
                let seen = hex(&seen);
                let after = hex(&after.encode(group));
                let (inside, wire) = if *way == Way::Out { (seen, after) } else { (after, seen) };
                let way = if *way == Way::Out { "-->" } else { "<--" };
                print_value(&json!({ "way": way, "inside": inside, "wire": wire }))?;
            }
        }
    }
    Ok(())
}

/// Relays `count` handshakes. Prints the observed fields, or the blocks read with the attacker's
/// key.
pub fn run_observer<G: Group>(group: &G, variant: Variant, job: &WireJob) -> Result<()> {
    let mut towards = Connection::accept_one()?;
    let mut beyond = Connection::dial_next(job)?;
    let element = job.attack.as_ref().and_then(|attack| {
        let named =
            element::elements_of_variant(variant).find(|element| element.name == attack.element)?;
        Some((attack, named))
    });
    for number in 0..job.count {
        let mut went_out = Vec::new();
        for way in variant.script() {
            let (from, to) = match way {
                Way::Out => (&mut towards, &mut beyond),
                Way::In => (&mut beyond, &mut towards),
            };
            let bytes = from.receive_bytes()?;
            to.send_bytes(&bytes)?;
            if job.shows {
                let way = if *way == Way::Out { "-->" } else { "<--" };
                print_value(&json!({ "way": way, "wire": hex(&bytes) }))?;
            }
            if *way == Way::Out {
                went_out.push(Message::decode(group, &bytes)?);
            }
        }
        let Some((attack, element)) = element else { continue };
        if let Some(field) = element.find_observed(group, &went_out) {
            let symbol = attack.key().find_symbol(&field, attack.lambda);
            let blocks = crate::asa::symbol::count_blocks(attack.lambda) as usize;
            let index = attack.sequence().block_index(symbol, number, blocks);
            print_value(
                &json!({ "handshake": number + 1, "index": index, "block": symbol.block }),
            )?;
        }
    }
    Ok(())
}
