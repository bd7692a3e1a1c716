//! Interfaces and carriers of links may appear and disappear. A link that cannot run is suspended
//! with its reason and tried again, and all others continue (SEKA-86).
//!
//! ```text
//! loaded, paired --raise--> runs --carrier or interface gone--> aside --news, or its pause--> raise
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mezza_core::Time;
use mezza_seka::PeerInput;
use mezza_seka::keys::interface_address;
use mezza_seka::wire::DATA_OVERHEAD_BYTES;

use super::super::TunnelEvent;
use super::super::address::Endpoint;
use super::super::carrier::{Carrier, no_interface};
use super::super::config::{CarrierKind, LinkPlan};
use super::super::link::Aside;
use super::super::netlink;
use super::super::shared::{LinkShared, Road, SessionTable};
use super::super::tap::Tap;
use super::{CarrierEntry, Daemon, spawn_thread};
use mezza_host::api::{Exit, Fault};

/// Bytes of an Ethernet header with one VLAN tag.
const ETHERNET_BYTES: usize = 14 + 4;
/// The smallest MTU of an interface that carries IPv6 (RFC 8200, section 5).
const MTU_MIN: usize = 1_280;
/// The first pause before a suspended link is tried again, ms, and the longest one.
const PAUSE_MS: u64 = 1_000;
const PAUSE_MS_MAX: u64 = 30_000;
/// How often the MTU of each path is read, ms: the kernel forgets a learned one after ten minutes.
pub(super) const SIZES_MS: u64 = 60_000;

impl Daemon {
    /// Creates what a link needs to run, or suspends the link with the reason.
    pub(super) fn raise_link(&mut self, number: u16, now: Time) {
        let raised = self.try_raise(number);
        let Some(link) = self.links.get_mut(&number) else { return };
        match raised {
            Ok(()) => {
                if link.aside.take().is_some() {
                    tracing::info!(link = link.plan.name, "it runs again");
                }
                link.apply_input(PeerInput::Carrier(true), now);
                self.fit_size(number);
                self.publish_tables();
            }
            Err(fault) => self.set_aside(number, fault, now),
        }
    }

    /// Tries links whose pause is over.
    pub(super) fn raise_due(&mut self, now: Time) {
        let due = |aside: &Aside| aside.next <= now;
        let links = self.links.iter().filter(|(_, link)| link.aside.as_ref().is_some_and(due));
        let numbers: Vec<u16> = links.map(|(number, _)| *number).collect();
        for number in numbers {
            self.raise_link(number, now);
        }
    }

    fn set_aside(&mut self, number: u16, fault: Fault, now: Time) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let before = link.aside.take();
        if before.as_ref().is_none_or(|before| before.fault.text != fault.text) {
            tracing::warn!(link = link.plan.name, reason = fault.text, "it cannot run now");
        }
        let pause = before.map_or(PAUSE_MS, |before| before.pause_ms);
        let pause_ms = (pause * 2).min(PAUSE_MS_MAX);
        link.aside = Some(Aside { fault, next: now.plus_ms(pause), pause_ms });
    }

    fn try_raise(&mut self, number: u16) -> Result<(), Fault> {
        let Some(link) = self.links.get(&number) else { return Ok(()) };
        let plan = link.plan.clone();
        let shared = link.shared.clone();
        check_plan(&plan)?;
        let CarrierEntry { carrier, table } =
            self.open_carrier(&plan.on, plan.carrier, plan.listen)?;
        if !plan.offload {
            carrier.stop_joining("the settings say so");
        }
        let shared = match shared.filter(|shared| shared.tap.is_there()) {
            Some(shared) => shared,
            None => self.plug_interface(number, &plan, &carrier)?,
        };
        let Some(link) = self.links.get_mut(&number) else { return Ok(()) };
        let interface = carrier.interface();
        let known = shared.endpoint.load_full();
        // A link-local address belongs to the interface of its number, which may have changed.
        let known =
            known.and_then(|known| Endpoint::from_stored(&known.stored_address(), interface));
        let set = plan.endpoints.first().map(|address| Endpoint::from_socket(*address, interface));
        let hint = Endpoint::from_stored(&link.peer.record().address, interface);
        shared.endpoint.store(known.or(set).or(hint).map(Arc::new));
        shared.road.store(Some(Arc::new(Road { carrier, table })));
        link.shared = Some(shared);
        Ok(())
    }

    /// Makes the interface of a link and the thread that reads it.
    fn plug_interface(
        &self,
        number: u16,
        plan: &LinkPlan,
        carrier: &Arc<Carrier>,
    ) -> Result<Arc<LinkShared>, Fault> {
        let Some(link) = self.links.get(&number) else { return Err(Fault::bug("no such link")) };
        let record = link.peer.record();
        let room = carrier.frame_bytes(None) - DATA_OVERHEAD_BYTES;
        let mtu = interface_mtu(plan, room)?;
        let tap = Tap::make(&plan.name, mtu, interface_address(record.own, record.peer))?;
        for (ip, prefix) in &plan.addresses {
            netlink::add_address(&plan.name, *ip, *prefix)?;
        }
        if let Some(bridge) = &plan.bridge {
            netlink::join_bridge(&plan.name, bridge)?;
        }
        let counters = Arc::clone(&link.counters);
        let shared = Arc::new(LinkShared::new(number, tap, room, counters));
        if !plan.offload {
            shared.stop_joining("the settings say so");
        }
        let run = Arc::clone(&shared);
        let threads = self.threads.transmit;
        let events = self.events.clone();
        spawn_thread("link transmit", move || threads(run, events))?;
        Ok(shared)
    }

    /// Returns the carrier of an interface; opens it and starts its thread if needed.
    pub(super) fn open_carrier(
        &mut self,
        on: &str,
        kind: CarrierKind,
        port: u16,
    ) -> Result<CarrierEntry, Fault> {
        let place = (on.to_owned(), kind, if kind == CarrierKind::Udp { port } else { 0 });
        if let Some(entry) = self.carriers.get(&place) {
            if entry.carrier.is_there() {
                return Ok(entry.clone());
            }
            entry.carrier.close();
        }
        let carrier = Arc::new(Carrier::open(on, kind, port)?);
        let table = Arc::<SessionTable>::default();
        let own = Arc::clone(&carrier);
        let open = Arc::clone(&table);
        let threads = self.threads.receive;
        let events = self.events.clone();
        spawn_thread("link receive", move || threads(own, open, events))?;
        let entry = CarrierEntry { carrier, table };
        self.carriers.insert(place, entry.clone());
        Ok(entry)
    }

    /// Handles interfaces that appeared, disappeared or changed: links that lost theirs are
    /// suspended, suspended links are tried again.
    pub(super) fn interfaces_changed(&mut self, now: Time) {
        let lost: Vec<_> = self
            .carriers
            .iter()
            .filter(|(_, entry)| !entry.carrier.is_there())
            .map(|(place, _)| place.clone())
            .collect();
        for place in lost {
            self.lose_carrier(&place, now);
        }
        let unplugged =
            |link: &&super::Link| link.shared.as_ref().is_some_and(|shared| !shared.tap.is_there());
        let unplugged: Vec<u16> =
            self.links.values().filter(unplugged).map(|link| link.number).collect();
        for number in unplugged {
            self.handle_unplugged(number, now);
        }
        let names = self.other_interfaces();
        if names != self.interfaces {
            self.interfaces = names;
            // The interface that a link waits for may exist now.
            for link in self.links.values_mut() {
                if let Some(aside) = &mut link.aside {
                    aside.next = now;
                }
            }
            self.raise_due(now);
        }
        let numbers: Vec<u16> = self.links.keys().copied().collect();
        for number in numbers {
            self.fit_size(number);
        }
    }

    /// Returns all interfaces except those of our links, by name.
    fn other_interfaces(&self) -> BTreeMap<String, u32> {
        let found = nix::net::if_::if_nameindex().ok();
        let found = found
            .iter()
            .flatten()
            .map(|one| (one.name().to_string_lossy().into_owned(), one.index()));
        let ours = |name: &str| self.links.values().any(|link| link.plan.name == name);
        found.filter(|(name, _)| !ours(name)).collect()
    }

    fn lose_carrier(&mut self, place: &super::CarrierPlace, now: Time) {
        let Some(entry) = self.carriers.remove(place) else { return };
        entry.carrier.close();
        let uses = |link: &&super::Link| {
            link.road().is_some_and(|road| Arc::ptr_eq(&road.carrier, &entry.carrier))
        };
        let numbers: Vec<u16> = self.links.values().filter(uses).map(|link| link.number).collect();
        for number in numbers {
            if let Some(link) = self.links.get_mut(&number) {
                if let Some(shared) = &link.shared {
                    shared.road.store(None);
                }
                link.apply_input(PeerInput::Carrier(false), now);
            }
            self.set_aside(number, no_interface(&place.0), now);
        }
    }

    /// Handles a carrier that cannot be read any more.
    pub(super) fn carrier_lost(&mut self, interface: u32, now: Time) {
        let found = self.carriers.iter().find(|(_, entry)| entry.carrier.interface() == interface);
        if let Some(place) = found.map(|(place, _)| place.clone()) {
            self.lose_carrier(&place, now);
        }
    }

    /// Handles the removal of a link's interface, which is made again at the next try.
    pub(super) fn handle_unplugged(&mut self, number: u16, now: Time) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if link.shared.as_ref().is_none_or(|shared| shared.tap.is_there()) {
            return;
        }
        link.shared = None;
        link.apply_input(PeerInput::Carrier(false), now);
        let text = format!("its interface {} was removed", link.plan.name);
        let next = format!(
            "it is made again by itself; to end the link: `mezza link forget {}`",
            link.plan.name
        );
        self.set_aside(number, Fault::new(Exit::Config, text, next), now);
        self.raise_link(number, now);
    }

    /// Fits a link to its path: the size of its frames, and the MTU of its interface unless the
    /// settings fix it. A bridge keeps its MTU, and longer frames are sent in fragments.
    pub(super) fn fit_size(&mut self, number: u16) {
        let Some(link) = self.links.get(&number) else { return };
        let (Some(shared), Some(road)) = (&link.shared, link.road()) else { return };
        let to = shared.endpoint.load_full();
        let room = road.carrier.frame_bytes(to.as_deref()) - DATA_OVERHEAD_BYTES;
        if shared.set_room(room) {
            tracing::info!(link = link.plan.name, room, "the path takes frames of another size");
        }
        if link.plan.mtu.is_some() || link.plan.bridge.is_some() {
            return;
        }
        let mtu = auto_mtu(room);
        if shared.tap.mtu() != mtu
            && let Err(fault) = netlink::set_mtu(&link.plan.name, mtu)
        {
            // Until the MTU can be set, longer frames are sent in fragments.
            tracing::warn!(link = link.plan.name, reason = fault.text, "its MTU stays");
        }
    }

    /// Checks the paths of all links, once a minute.
    pub(super) fn sizes_due(&mut self) {
        let numbers: Vec<u16> = self.links.keys().copied().collect();
        for number in numbers {
            self.fit_size(number);
        }
    }
}

/// Returns the MTU of an interface whose frames each fit into one frame of the carrier.
fn auto_mtu(room: usize) -> u16 {
    // IPv6 needs 1,280 bytes: on a narrower path its frames are sent in fragments.
    room.saturating_sub(ETHERNET_BYTES).max(MTU_MIN).min(usize::from(u16::MAX)) as u16
}

/// Returns the MTU for the interface of a link: from the settings, the bridge, or the path.
fn interface_mtu(plan: &LinkPlan, room: usize) -> Result<u16, Fault> {
    let bridge =
        plan.bridge.as_deref().map(|bridge| mtu_of(bridge).ok_or_else(|| no_interface(bridge)));
    let asked = plan.mtu.or(bridge.transpose()?);
    let Some(mtu) = asked else { return Ok(auto_mtu(room)) };
    let most = mezza_seka::offload::FRAGMENTS_MAX * room - ETHERNET_BYTES;
    if usize::from(mtu) > most {
        let text = format!(
            "an MTU of {mtu} needs more than four frames on {}; the largest that can be is {most}",
            plan.on
        );
        let next = format!(
            "write `mtu = {most}` or less into [link.{}], or lower that of the bridge",
            plan.name
        );
        return Err(Fault::new(Exit::Config, text, next));
    }
    Ok(mtu)
}

fn mtu_of(interface: &str) -> Option<u16> {
    let path = Path::new("/sys/class/net").join(interface).join("mtu");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Refuses a plan without an interface, and one that would carry a link's frames through the link
/// itself.
fn check_plan(plan: &LinkPlan) -> Result<(), Fault> {
    if plan.on.is_empty() {
        let text = format!("it is not known on which interface {} was paired", plan.name);
        let next = format!("write `on` into [link.{}] of the settings", plan.name);
        return Err(Fault::new(Exit::Config, text, next));
    }
    let Some(bridge) = &plan.bridge else { return Ok(()) };
    let master = std::fs::read_link(Path::new("/sys/class/net").join(&plan.on).join("master"));
    let is_port =
        master.is_ok_and(|master| master.file_name().is_some_and(|name| name == bridge.as_str()));
    if *bridge == plan.on || is_port {
        let text =
            format!("{} carries {} and would be bridged with it: a loop", plan.on, plan.name);
        let next = "let `on` be an interface outside of the bridge";
        return Err(Fault::new(Exit::Config, text, next));
    }
    Ok(())
}

/// Forwards changes of interfaces to the control task, for the life of the process.
pub(super) fn watch_interfaces(events: tokio::sync::mpsc::Sender<TunnelEvent>) {
    let news = match netlink::InterfaceNews::subscribe() {
        Ok(news) => news,
        // Suspended links are still tried again after their pauses.
        Err(error) => return tracing::warn!(%error, "interfaces cannot be watched"),
    };
    let run = move || {
        loop {
            news.wait();
            if events.blocking_send(TunnelEvent::Interfaces).is_err() {
                return;
            }
        }
    };
    if let Err(fault) = spawn_thread("link interfaces", run) {
        tracing::warn!(reason = fault.text, "interfaces cannot be watched");
    }
}
