//! The receiving thread of a carrier: from its socket to the interfaces of its links.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use mezza_seka::offload::{
    Assembler, JOINED_MAX, JoinedRun, Joiner, SegmentKind, TextPlace, VIRTIO_BYTES, VirtioHeader,
};
use mezza_seka::session::index_of;
use mezza_seka::suite::FrameKey;
use mezza_seka::wire::{DATA_HEADER_BYTES, DATA_OVERHEAD_BYTES, HANDSHAKE_BYTES_MAX, kind_of};
use mezza_seka::{DeliveryReport, FrameError, LinkSession, Opener};
use tokio::sync::mpsc;

use super::TunnelEvent;
use super::address::Endpoint;
use super::carrier::{ArrivedFrame, Batch, Carrier};
use super::shared::{Drop, LinkShared, SessionTable, Welcome};
use super::tap::may_pass;

/// A session as this thread opens its frames.
struct Opening<F> {
    link: Arc<LinkShared>,
    session: Arc<LinkSession>,
    opener: Opener<F>,
    assembler: Assembler,
    /// True if the machine was notified of the first frame of the session.
    told: bool,
    /// The source of the session's last frame.
    from: Option<Endpoint>,
}

/// The state of the thread.
struct Receiver<F> {
    carrier: Arc<Carrier>,
    table: Arc<SessionTable>,
    /// The table from which `open` was made.
    seen: Arc<Welcome>,
    /// Open sessions, by the index in their frames.
    open: BTreeMap<u32, Opening<F>>,
    events: mpsc::Sender<TunnelEvent>,
    joiner: Joiner,
}

/// Delivers the frames of a carrier until its socket is gone.
pub(super) fn receive_frames<F: FrameKey>(
    carrier: Arc<Carrier>,
    table: Arc<SessionTable>,
    events: mpsc::Sender<TunnelEvent>,
) {
    let mut buffer = vec![0; carrier.read_bytes()];
    let mut batch = Batch::default();
    let mut receiver = Receiver::<F> {
        carrier,
        table,
        seen: Arc::default(),
        open: BTreeMap::new(),
        events,
        joiner: Joiner::default(),
    };
    loop {
        match receiver.carrier.read(&mut buffer, &mut batch) {
            // The carrier's interface is gone, and another thread serves the next carrier.
            _ if receiver.carrier.is_closed() => return,
            Ok(()) => receiver.take_batch(&mut buffer, &batch),
            // No frame arrived for a while: wipe the keys of ended sessions (SEKA-44).
            Err(error) if error.kind() == ErrorKind::WouldBlock => receiver.refresh_sessions(),
            // The interface is down, or a sent frame found no receiver: later frames may pass.
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                tracing::error!(%error, "a carrier of links is gone");
                let interface = receiver.carrier.interface();
                let _ = receiver.events.blocking_send(TunnelEvent::Lost(interface));
                return;
            }
        }
    }
}

fn is_passing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable,
    };
    let kinds = [ConnectionRefused, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable];
    if error.kind() == NetworkDown {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    kinds.contains(&error.kind())
}

impl<F: FrameKey> Receiver<F> {
    fn take_batch(&mut self, buffer: &mut [u8], batch: &Batch) {
        self.refresh_sessions();
        let mut last = None;
        for ArrivedFrame { range, from } in &batch.frames {
            let from = *from;
            let frame = &mut buffer[range.clone()];
            if kind_of(frame).is_some() && frame.len() <= HANDSHAKE_BYTES_MAX {
                if self.seen.is_for_control(frame) {
                    self.hand_to_control(frame.to_vec(), from);
                }
                continue;
            }
            let Some(index) = index_of(frame) else { continue };
            // The first frame under the session of a pairing; the pairing has no link yet.
            if self.seen.pairs
                && frame.len() == DATA_OVERHEAD_BYTES
                && !self.open.contains_key(&index)
            {
                self.hand_to_control(frame.to_vec(), from);
                continue;
            }
            if last != Some(index) {
                self.finish_run(buffer, last);
                last = Some(index);
            }
            self.take_data(buffer, range, index, from);
        }
        self.finish_run(buffer, last);
    }

    /// Passes a frame to the control task. A full queue drops it (SEKA-72); its sender repeats it.
    fn hand_to_control(&self, frame: Vec<u8>, from: Endpoint) {
        let interface = self.carrier.interface();
        let _ = self.events.try_send(TunnelEvent::Frame { interface, from, frame });
    }

    /// Drops the keys of sessions that are gone, and opens new ones.
    fn refresh_sessions(&mut self) {
        let table = self.table.load_full();
        if Arc::ptr_eq(&table, &self.seen) {
            return;
        }
        self.open.retain(|_, open| {
            table.open.iter().any(|entry| Arc::ptr_eq(&entry.session, &open.session))
        });
        for entry in &table.open {
            self.open.entry(entry.session.own_index()).or_insert_with(|| Opening {
                link: Arc::clone(&entry.link),
                session: Arc::clone(&entry.session),
                opener: Opener::default(),
                assembler: Assembler::default(),
                told: false,
                from: None,
            });
        }
        self.seen = table;
    }

    /// Opens a DATA frame in place; then joins, reassembles or delivers it.
    fn take_data(&mut self, buffer: &mut [u8], range: &Range<usize>, index: u32, from: Endpoint) {
        let Some(open) = self.open.get_mut(&index) else { return };
        let (packet, text_bytes) = match open.opener.open(&open.session, &mut buffer[range.clone()])
        {
            Ok((packet, text)) => (packet, text.len()),
            Err(error) => {
                return open.link.counters.count_dropped(match error {
                    FrameError::Replayed => Drop::Replayed,
                    FrameError::Forged => Drop::Forged,
                });
            }
        };
        open.report_opened(from, &self.events);
        let at = range.start + DATA_HEADER_BYTES;
        let text = &buffer[at..at + text_bytes];
        // A keep-alive has flags and no content.
        if text.len() <= 1 {
            return;
        }
        if let Some(report) = DeliveryReport::decode(text) {
            let about = (open.session.attempt(), report);
            return open.link.report.store(Some(Arc::new(about)));
        }
        open.link.counters.count_received(1, text_bytes - 1);
        if Assembler::is_fragment(text) {
            let whole = open.assembler.push_fragment(packet, text);
            open.link.counters.dropped_many(Drop::Incomplete, open.assembler.take_lost());
            if let Some(whole) = whole {
                deliver_whole(&open.link, &whole);
            }
            return;
        }
        if !may_pass(&text[1..]) {
            return open.link.counters.count_dropped(Drop::Reserved);
        }
        let place = TextPlace { packet, range: at..at + text_bytes };
        let link = &open.link;
        let buffer = &*buffer;
        let taken =
            self.joiner.push_text(buffer, &place, &mut |run| deliver_run(link, buffer, run));
        if !taken {
            link.counters.count_dropped(Drop::Fragment);
        }
    }

    /// Delivers the pending run.
    fn finish_run(&mut self, buffer: &[u8], index: Option<u32>) {
        let Some(open) = index.and_then(|index| self.open.get(&index)) else { return };
        let link = &open.link;
        self.joiner.finish_run(&mut |run| deliver_run(link, buffer, run));
    }
}

impl<F> Opening<F> {
    /// Notifies the machine of the first frame of a session, and of a new address.
    fn report_opened(&mut self, from: Endpoint, events: &mpsc::Sender<TunnelEvent>) {
        let link = self.link.number;
        let attempt = self.session.attempt();
        if !self.told {
            self.told = events.try_send(TunnelEvent::Fresh { link, attempt }).is_ok();
        }
        if self.from != Some(from) {
            self.from = Some(from);
            let known = self.link.endpoint.load();
            if known.as_deref() != Some(&from) {
                self.link.endpoint.store(Some(Arc::new(from)));
                let _ = events.try_send(TunnelEvent::Moved { link, to: from });
            }
        }
    }
}

/// Writes a run to the interface: as one frame, or segment by segment on a kernel that refuses joined
/// frames.
fn deliver_run(link: &LinkShared, buffer: &[u8], run: &JoinedRun<'_>) {
    if run.pieces.len() > 1 && !link.joins() {
        return deliver_alone(link, buffer, run);
    }
    let mut parts = [IoSlice::new(&[]); JOINED_MAX + 1];
    parts[0] = IoSlice::new(run.head);
    for (part, piece) in parts[1..].iter_mut().zip(run.pieces) {
        *part = IoSlice::new(&buffer[piece.clone()]);
    }
    match link.tap.write(&parts[..=run.pieces.len()]) {
        Ok(_) => {}
        Err(error) if run.pieces.len() > 1 && refuses_joined(&error) => {
            link.stop_joining("the kernel refuses joined frames");
            deliver_alone(link, buffer, run);
        }
        Err(_) => link.counters.count_dropped(Drop::Interface),
    }
}

/// Returns true if the kernel refuses a joined frame although it accepted the capability.
fn refuses_joined(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::InvalidInput
}

/// Writes the segments of a run one by one, each with the headers that it arrived with.
fn deliver_alone(link: &LinkShared, buffer: &[u8], run: &JoinedRun<'_>) {
    let Some(head) = run.head.first_chunk::<VIRTIO_BYTES>() else { return };
    let headers = run.head.len() - VIRTIO_BYTES;
    let joined = VirtioHeader::decode(head);
    let virtio =
        VirtioHeader { segments: SegmentKind::None, segment_bytes: 0, header_bytes: 0, ..joined };
    let virtio = virtio.encode();
    for piece in run.pieces {
        let frame = &buffer[piece.start - headers..piece.end];
        if link.tap.write(&[IoSlice::new(&virtio), IoSlice::new(frame)]).is_err() {
            link.counters.count_dropped(Drop::Interface);
        }
    }
}

/// Delivers a reassembled frame: `flags | frame`.
fn deliver_whole(link: &LinkShared, text: &[u8]) {
    if text.get(1..).is_none_or(|frame| !may_pass(frame)) {
        return link.counters.count_dropped(Drop::Reserved);
    }
    let mut joiner = Joiner::default();
    let place = TextPlace { packet: 0, range: 0..text.len() };
    let emit = &mut |run: &JoinedRun<'_>| deliver_run(link, text, run);
    if joiner.push_text(text, &place, emit) {
        joiner.finish_run(emit);
    } else {
        link.counters.count_dropped(Drop::Fragment);
    }
}
