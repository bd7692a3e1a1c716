//! The two connections to one relay, kept up for as long as the device wants them.
//!
//! ```text
//! Down --TLS, HELLO on both--> Up --either breaks--> Down        pause 1, 2, 4 .. 60 s, +-20 %
//! control: OPEN CLOSE WATCH TAKEN BUNDLE_SET     put: PUT BUNDLE_GET     both: PING every 55 s
//! ```
//!
//! The second connection keeps the relay from linking our outgoing mail to our own mailboxes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mezza_messenger::RelayOutput;
use mezza_messenger::card::RelayEntry;
use mezza_messenger::relay_wire::{ClientFrame, RelayFrame};
use rand_core::Rng as _;
use tokio::sync::mpsc;
use tokio::time;

use super::Dialer;
use super::flight::{InFlight, RelayChannel};
use crate::carriers::pace::Pace;
use crate::carriers::{ConnectionEvent, ConnectionReport, ORDERS_MAX, Reporter};
use mezza_host::clock::Clock;
use mezza_host::connection::relay::{
    self, ConnectError, Connection, RelayReadHalf, RelayWriteHalf,
};
use mezza_host::process::rng::OsRng;

/// Interval between two PINGs.
const PING: Duration = Duration::from_secs(55);
/// A connection without data for this time is dead: a response to a PING would have arrived.
const SILENCE: Duration = Duration::from_secs(85);
/// A connection that broke sooner does not reset the pauses, so that a relay that accepts and drops
/// us is not dialled in a loop.
const STEADY: Duration = Duration::from_secs(10);
/// The first pause before a new try.
const PAUSE_MS_MIN: u64 = 1_000;
/// The longest pause before a new try.
const PAUSE_MS_MAX: u64 = 60_000;

/// Keeps the connections until the task is aborted.
pub(super) async fn keep_connected<E: From<ConnectionReport>>(
    relay: RelayEntry,
    dialer: Dialer,
    clock: Clock,
    reporter: Reporter<E>,
) {
    let connection = RelayConnector { relay, dialer, clock, reporter, pace: Pace::new() };
    let mut pause_ms = PAUSE_MS_MIN;
    loop {
        match connection.connect_both().await {
            Ok((control, put)) => {
                let began = time::Instant::now();
                connection.serve_both(control, put).await;
                pause_ms = after_standing(began.elapsed(), pause_ms);
            }
            Err(error) => {
                tracing::debug!(exit = error.exit_code().number(), "a relay cannot be reached");
                connection
                    .reporter
                    .send_news(ConnectionEvent::Trouble(Some(error.to_string())))
                    .await;
            }
        }
        time::sleep(jitter_pause(pause_ms)).await;
        pause_ms = (pause_ms * 2).min(PAUSE_MS_MAX);
    }
}

/// Returns the pause after a connection that lasted for `stood`.
fn after_standing(stood: Duration, pause_ms: u64) -> u64 {
    if stood >= STEADY { PAUSE_MS_MIN } else { pause_ms }
}

/// Returns a random time between 80 % and 120 % of a pause, so that clients do not reconnect in
/// step.
fn jitter_pause(pause_ms: u64) -> Duration {
    let fifth = pause_ms / 5;
    Duration::from_millis(pause_ms - fifth + OsRng.next_u64() % (2 * fifth + 1))
}

/// The queues for orders to a connected relay. Dropping them closes the connections.
pub(crate) struct RelayCommands {
    flight: Arc<Mutex<InFlight>>,
    control: mpsc::Sender<ClientFrame>,
    put: mpsc::Sender<ClientFrame>,
}

impl RelayCommands {
    /// Queues an order for its connection. Returns false if that queue is full.
    pub(crate) fn send_order(&self, order: RelayOutput) -> bool {
        let Some((way, frame)) = lock_flight(&self.flight).send_off(order) else { return true };
        let to = if way == RelayChannel::Control { &self.control } else { &self.put };
        to.try_send(frame).is_ok()
    }
}

struct RelayConnector<E> {
    relay: RelayEntry,
    dialer: Dialer,
    clock: Clock,
    reporter: Reporter<E>,
    pace: Pace,
}

impl<E: From<ConnectionReport>> RelayConnector<E> {
    async fn connect_both(&self) -> Result<(Connection, Connection), ConnectError> {
        let at_home = self.dialer.at_home.get(&self.relay.key);
        let host = at_home.map_or_else(|| self.relay.host.clone(), |at| at.ip().to_string());
        let port = at_home.map_or(self.relay.port, std::net::SocketAddr::port);
        let one = || {
            relay::connect_relay(&self.relay.key, &host, port, &self.clock, self.dialer.tap.clone())
        };
        tokio::try_join!(one(), one())
    }

    /// Serves both connections until one breaks.
    async fn serve_both(&self, control: Connection, put: Connection) {
        let flight = Arc::new(Mutex::new(InFlight::new(self.relay.connection_id())));
        let (to_control, control_frames) = mpsc::channel(ORDERS_MAX);
        let (to_put, put_frames) = mpsc::channel(ORDERS_MAX);
        let orders =
            RelayCommands { flight: Arc::clone(&flight), control: to_control, put: to_put };
        let time = control.time_elsewhere().map(|time| (self.relay.key, time));
        if !self.reporter.send_news(ConnectionEvent::Up { orders, time }).await {
            return;
        }
        let (control_sender, control_receiver) = control.split();
        let (put_sender, put_receiver) = put.split();
        tokio::select! {
            // Poll the outgoing frames of `put` first: a receipt has a waiting reader, a TAKEN has
            // none.
            biased;
            () = write_frames(put_frames, put_sender) => {}
            () = write_frames(control_frames, control_sender) => {}
            () = self.read_frames(RelayChannel::Control, control_receiver, &flight) => {}
            () = self.read_frames(RelayChannel::Put, put_receiver, &flight) => {}
        }
        self.reporter.send_news(ConnectionEvent::Down).await;
    }

    async fn read_frames(
        &self,
        way: RelayChannel,
        mut receiver: RelayReadHalf,
        flight: &Mutex<InFlight>,
    ) {
        while let Ok(Ok(frame)) = time::timeout(SILENCE, receiver.recv()).await {
            self.pace.wait_for_frame().await;
            if matches!(frame, RelayFrame::Stock { .. }) && !self.pace.admit_stock() {
                continue;
            }
            let input = lock_flight(flight).take_in(way, frame);
            if let Some(input) = input
                && !self.reporter.send_news(ConnectionEvent::Input(input.into())).await
            {
                return;
            }
        }
    }
}

async fn write_frames(mut frames: mpsc::Receiver<ClientFrame>, mut sender: RelayWriteHalf) {
    let mut ping = time::interval_at(time::Instant::now() + PING, PING);
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => frame,
                None => return,
            },
            _ = ping.tick() => ClientFrame::Ping,
        };
        if sender.send(&frame).await.is_err() {
            return;
        }
    }
}

fn lock_flight(flight: &Mutex<InFlight>) -> MutexGuard<'_, InFlight> {
    flight.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use mezza_core::Secret;
    use mezza_messenger::CarrierId;
    use mezza_messenger::card::RelayKey;
    use mezza_messenger::relay_wire::{MailboxAddress, VERSION};
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use mezza_host::tls::{TlsIdentity, server_config};

    /// Starts a relay that sends these frames on one of the two connections, and then closes it.
    async fn relay_that_says(frames: Vec<u8>) -> RelayEntry {
        let identity = TlsIdentity::from_seed(Secret::init_with(|seed| seed.fill(7))).unwrap();
        let tls = TlsAcceptor::from(server_config(&identity).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let now_ms = Clock::system().wall().as_ms();
        let version = VERSION;
        let envelope_bytes_max = 16_384;
        let ttl_h_max = 720;
        let hello = RelayFrame::Hello { version, now_ms, envelope_bytes_max, ttl_h_max };
        tokio::spawn(async move {
            let mut both = Vec::new();
            for _ in 0..2 {
                let mut stream = tls.accept(listener.accept().await.unwrap().0).await.unwrap();
                stream.write_all(&hello.encode().unwrap()).await.unwrap();
                stream.flush().await.unwrap();
                both.push(stream);
            }
            both[0].write_all(&frames).await.unwrap();
            both[0].shutdown().await.unwrap();
            // The other connection stays open until the test ends.
            std::future::pending::<()>().await;
        });
        let key = RelayKey(*identity.public());
        let host = "127.0.0.1".into();
        RelayEntry { key, address: MailboxAddress([0; 16]), port, host }
    }

    #[tokio::test]
    async fn msg_77_a_relay_that_talks_without_end_is_heard_at_a_pace() {
        let frames = RelayFrame::Ping.encode().unwrap().repeat(2_250);
        let (jobs, mut reports) = mpsc::channel::<ConnectionReport>(ORDERS_MAX);
        let relay = relay_that_says(frames).await;
        let reporter = Reporter::new(CarrierId::RELAY, jobs);
        let keeper =
            tokio::spawn(keep_connected(relay, Dialer::default(), Clock::system(), reporter));
        let Some(ConnectionEvent::Up { orders, .. }) =
            reports.recv().await.map(|report| report.news)
        else {
            panic!("it stands")
        };
        let began = time::Instant::now();
        while !matches!(reports.recv().await.map(|report| report.news), Some(ConnectionEvent::Down))
        {
        }
        // 2,000 frames at once, then 250 at 4 ms each; the first of those may be due at once.
        assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
        keeper.abort();
        drop(orders);
    }

    #[test]
    fn a_relay_that_drops_us_at_once_is_left_in_peace() {
        assert_eq!(after_standing(Duration::ZERO, 8_000), 8_000);
        assert_eq!(after_standing(STEADY.saturating_sub(Duration::from_millis(1)), 8_000), 8_000);
        assert_eq!(after_standing(STEADY, 8_000), PAUSE_MS_MIN);
    }

    #[test]
    fn pauses_stay_within_a_fifth() {
        for _ in 0..1_000 {
            let ms = jitter_pause(10_000).as_millis();
            assert!((8_000..=12_000).contains(&ms), "{ms}");
        }
    }
}
