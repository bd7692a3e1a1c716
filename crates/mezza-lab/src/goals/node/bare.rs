//! An empty path: the handovers between threads and sockets and the two sequential commits of a
//! note, without its cryptography. Its time is the lower bound for M1 on this machine.
//!
//! ```text
//! person -> writer: commit -> relay: reader thread -> queue -> reader: commit -> reader thread -> queue -> writer -> person
//! ```

use std::io::{Read as _, Result, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use super::disk::SyncedLog;
use crate::clock::to_ns;

/// Bytes of a note on the wire between a node and its relay.
const PARCEL_BYTES: usize = 558;
/// Pages that a node writes to commit one note.
const PAGES: usize = 3;

type Parcel = [u8; PARCEL_BYTES];

/// The running path; its threads end on drop.
pub struct EmptyPath {
    person: TcpStream,
}

impl EmptyPath {
    /// Starts the empty path, with the files that writer and reader commit to in `folder`.
    ///
    /// # Errors
    /// If a socket or a file cannot be opened.
    pub fn start(folder: &Path) -> Result<Self> {
        let ((writer, to_writer), (reader, to_reader)) = (open_wire()?, open_wire()?);
        let (person, api) = open_wire()?;
        start_relay([to_writer, to_reader])?;
        let log = SyncedLog::fill_log(&folder.join("bare-reader"), PAGES)?;
        spawn_worker(move || serve_reader(reader, log));
        let log = SyncedLog::fill_log(&folder.join("bare-writer"), PAGES)?;
        spawn_worker(move || serve_writer(api, writer, log));
        Ok(Self { person })
    }

    /// Measures one round trip in ms: from the user's request to the response that all steps are
    /// done.
    ///
    /// # Errors
    /// If a step of the path fails.
    pub fn round_trip(&mut self) -> Result<f64> {
        let mut parcel = [0; PARCEL_BYTES];
        let began = Instant::now();
        self.person.write_all(&parcel)?;
        self.person.read_exact(&mut parcel)?;
        Ok(to_ns(began.elapsed()) / 1e6)
    }
}

/// Returns both ends of a connection over loopback.
fn open_wire() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    one.set_nodelay(true)?;
    other.set_nodelay(true)?;
    Ok((one, other))
}

/// Starts a thread that ends with its connection.
fn spawn_worker(work: impl FnOnce() -> Result<()> + Send + 'static) {
    thread::spawn(work);
}

/// Starts a relay: a thread for each connection reads and sends to one queue, whose thread writes
/// to the other connection.
fn start_relay(mut ends: [TcpStream; 2]) -> Result<()> {
    let (hand_over, queue) = mpsc::channel::<(usize, Parcel)>();
    for (n, end) in ends.iter().enumerate() {
        let mut end = end.try_clone()?;
        let hand_over = hand_over.clone();
        spawn_worker(move || {
            let mut parcel = [0; PARCEL_BYTES];
            while end.read_exact(&mut parcel).is_ok() && hand_over.send((1 - n, parcel)).is_ok() {}
            Ok(())
        });
    }
    spawn_worker(move || queue.iter().try_for_each(|(n, parcel)| ends[n].write_all(&parcel)));
    Ok(())
}

fn serve_reader(mut relay: TcpStream, mut log: SyncedLog) -> Result<()> {
    let mut parcel = [0; PARCEL_BYTES];
    loop {
        relay.read_exact(&mut parcel)?;
        log.commit_pages()?;
        relay.write_all(&parcel)?;
    }
}

fn serve_writer(mut api: TcpStream, mut relay: TcpStream, mut log: SyncedLog) -> Result<()> {
    let mut parcel = [0; PARCEL_BYTES];
    loop {
        api.read_exact(&mut parcel)?;
        log.commit_pages()?;
        relay.write_all(&parcel)?;
        relay.read_exact(&mut parcel)?;
        api.write_all(&parcel)?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::PAGE;
    use super::*;

    #[test]
    fn every_pass_is_committed_on_both_sides() {
        let folder = tempfile::tempdir().unwrap();
        let mut bare = EmptyPath::start(folder.path()).unwrap();
        assert!((0..3).all(|_| bare.round_trip().unwrap() > 0.0));
        for name in ["bare-reader", "bare-writer"] {
            let bytes = std::fs::read(folder.path().join(name)).unwrap();
            let (written, zeros) = bytes.split_at(3 * PAGES * PAGE.len());
            assert!(written.chunks(PAGE.len()).all(|page| page == PAGE));
            assert!(!zeros.is_empty() && zeros.iter().all(|byte| *byte == 0));
        }
    }
}
