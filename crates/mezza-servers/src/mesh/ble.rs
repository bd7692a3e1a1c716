//! Links over Bluetooth Low Energy: who is near by advertisements, and one L2CAP channel to each neighbour,
//! on which frames travel both ways in one contact. No GATT, no pairing: cells are sealed.
//!
//! ```text
//! lower name    scans ── finds ── connects ── opens a channel ─┐
//! higher name   advertises ──────── accepts ───────────────────┴── frames, one an SDU
//! ```
//!
//! The host of `trouble-host` runs on a thread of its own, beside a controller at an [`HciPlace`]. When the
//! name of the node changes, all of it ends and begins again under a fresh random address: a name and an
//! address belong together, and nothing that stays links two of them (MESH-31).

mod advert;
mod hci;
mod pool;
mod radio;

use mezza_mesh::frame::Name;
use tokio::sync::watch;

use super::link::LinkSender;
pub use hci::HciPlace;
use mezza_host::api::Fault;

/// What a device shows under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BleIdentity {
    /// Its name.
    pub name: Name,
    /// Its network of today.
    pub net: [u8; 4],
    /// How long it is silent before, ms.
    pub silence_ms: u64,
}

/// A controller and the host on it, until this is dropped.
pub(super) struct Ble {
    identity: watch::Sender<Option<BleIdentity>>,
}

impl Ble {
    /// Opens the controller; nothing is sent before it has a name.
    ///
    /// # Errors
    /// 69, 75 or 77 if the controller is not there, is held by another program, or is not ours.
    pub(super) async fn open(place: HciPlace, sender: LinkSender) -> Result<Self, Fault> {
        hci::probe(&place).await?;
        let (identity, names) = watch::channel(None);
        let run = move || radio::run(&place, names, &sender);
        let thread = std::thread::Builder::new().name("ble".to_owned()).spawn(run);
        thread.map_err(|error| Fault::bug(format!("no thread: {error}")))?;
        Ok(Self { identity })
    }

    /// Takes another name, and another address with it.
    pub(super) fn rename(&self, identity: BleIdentity) {
        self.identity.send_if_modified(|held| {
            let other = *held != Some(identity);
            *held = Some(identity);
            other
        });
    }
}
