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

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mezza_mesh::frame::Name;
use tokio::sync::watch;

use super::link::LinkSender;
use super::links::RADIO;
pub use hci::HciPlace;
use mezza_host::api::Fault;

/// Runs the radio. A panic in the host of another crate ends one run of it, and not the radio for as long as
/// the node lives.
fn supervise_radio(
    place: &HciPlace,
    names: &watch::Receiver<Option<BleIdentity>>,
    sender: &LinkSender,
    state: &RadioState,
) {
    let run = || radio::run_radio(place, names.clone(), sender, state);
    while std::panic::catch_unwind(AssertUnwindSafe(run)).is_err() {
        state.is_down("the radio's thread panicked");
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The identity that a device advertises under one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BleIdentity {
    /// Its name.
    pub name: Name,
    /// Its network of today.
    pub net: [u8; 4],
    /// How long it is silent before, ms.
    pub silence_ms: u64,
}

/// True if the controller answers, and why not.
#[derive(Clone, Debug, Default)]
pub(super) struct RadioState(Arc<Mutex<Option<String>>>);

impl RadioState {
    /// The controller does not answer. True if that is news.
    fn is_down(&self, why: &str) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news = held.is_none();
        *held = Some(why.to_owned());
        news
    }

    fn is_up(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn why_down(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A controller and the host on it, until this is dropped.
pub(super) struct Ble {
    identity: watch::Sender<Option<BleIdentity>>,
    state: RadioState,
}

impl Ble {
    /// Opens the controller; nothing is sent before it has a name.
    ///
    /// # Errors
    /// 69, 75 or 77 if the controller is not there, is held by another program, or is not ours.
    pub(super) async fn open(place: HciPlace, sender: LinkSender) -> Result<Self, Fault> {
        hci::probe_controller(&place).await?;
        let (identity, names) = watch::channel(None);
        let state = RadioState::default();
        let shown = state.clone();
        let run = move || supervise_radio(&place, &names, &sender, &shown);
        let thread = std::thread::Builder::new().name("ble".to_owned()).spawn(run);
        thread.map_err(|error| Fault::bug(format!("no thread: {error}")))?;
        Ok(Self { identity, state })
    }

    /// The radio, for people: what it does now, not that it was asked for.
    pub(super) fn describe_state(&self) -> String {
        match self.state.why_down() {
            None => RADIO.to_owned(),
            Some(why) => {
                format!("{RADIO}: the controller does not answer ({why}); it is tried again")
            }
        }
    }

    /// Takes another name, and another address with it.
    pub(super) fn change_identity(&self, identity: BleIdentity) {
        self.identity.send_if_modified(|held| {
            let other = *held != Some(identity);
            *held = Some(identity);
            other
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    /// A controller that reads one command and goes away, three times: it is opened a fourth time.
    #[tokio::test(flavor = "multi_thread")]
    async fn mesh_68_a_controller_that_goes_away_is_opened_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place: HciPlace = format!("tcp:{}", listener.local_addr().unwrap()).parse().unwrap();
        let (events, _kept) = mpsc::channel(8);
        let opened = Ble::open(place, LinkSender::new(events));
        let (ble, probed) = tokio::join!(opened, listener.accept());
        let ble = ble.unwrap();
        let _ = probed.unwrap();
        ble.change_identity(BleIdentity { name: 7, net: [0; 4], silence_ms: 0 });
        for _ in 0..3 {
            let (mut controller, _) = listener.accept().await.unwrap();
            let _ = controller.read(&mut [0; 64]).await;
        }
        listener.accept().await.unwrap();
        assert!(ble.describe_state().contains("does not answer"), "{}", ble.describe_state());
    }
}
