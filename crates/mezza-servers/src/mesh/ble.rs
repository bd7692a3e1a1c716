//! Links over Bluetooth Low Energy: neighbours are found by advertisements, and one L2CAP channel
//! to each neighbour, which carries frames in both directions. No GATT, no pairing: cells are
//! sealed.
//!
//! ```text
//! lower name    scans ── finds ── connects ── opens a channel ─┐
//! higher name   advertises ──────── accepts ───────────────────┴── frames, one an SDU
//! ```
//!
//! The host of `trouble-host` runs on a thread of its own, beside a controller at an [`HciPlace`].
//! When the name of the node changes, the host restarts under a fresh random address, so that an
//! observer cannot link the old name to the new one (MESH-31).

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

/// Runs the radio, and restarts it after a panic in `trouble-host`: such a panic must not leave the
/// node without a radio.
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
    pub name: Name,
    /// The four bytes of the mesh network on this day.
    pub net: [u8; 4],
    /// Time without advertisements before this identity is shown, milliseconds.
    pub silence_ms: u64,
}

/// The reason why the controller does not respond; `None` while it does.
#[derive(Clone, Debug, Default)]
pub(super) struct RadioState(Arc<Mutex<Option<String>>>);

impl RadioState {
    /// Stores why the controller does not respond. Returns true if the controller responded before.
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

/// A Bluetooth controller and the thread of its host. Both stop when this value is dropped.
pub(super) struct Ble {
    identity: watch::Sender<Option<BleIdentity>>,
    state: RadioState,
}

impl Ble {
    /// Opens the controller; nothing is sent before [`Ble::change_identity`] gives the node a name.
    ///
    /// # Errors
    /// Exit codes 69, 75 or 77 if the controller is not there, is held by another program, or is
    /// not ours.
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

    /// Returns the current state of the radio in words for the user.
    pub(super) fn describe_state(&self) -> String {
        match self.state.why_down() {
            None => RADIO.to_owned(),
            Some(why) => {
                format!("{RADIO}: the controller does not answer ({why}); it is tried again")
            }
        }
    }

    /// Sets the name and network of the node; the radio restarts under a new address.
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

    /// The controller reads one command and disconnects, three times in a row. The host opens it a
    /// fourth time.
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
