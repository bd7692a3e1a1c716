//! A session: keys by direction and by subkey, packet numbers, sealing and opening of DATA frames.
//!
//! ```text
//! rot_d = H(k, "seka1 dir" | d)[..32], d = "I" (initiator to responder), "R" (back)
//! exp   = H(k, "seka1 export")[..32]
//! K_d,j = H(rot_d, "seka1 key" | u32be(j))[..16 or 32],  j = PN >> 16
//! IV    = P(sender, receiver) | u16be(PN);  AAD = DATA[0..8]
//! ```

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use hmac::Hmac;
use mezza_core::Secret;
use sha2::{Digest, Sha512};

use crate::error::FrameError;
use crate::keys::{LinkId, LinkPair, LinkRole, SessionKey, finish_hash, keyed_hash, keyed_hmac};
use crate::limits::{FRAMES_PER_SUBKEY, PACKETS_MAX, TAG_BYTES};
use crate::report::DeliveryReport;
use crate::suite::FrameKey;
use crate::window::ReplayWindow;
use crate::wire::{DATA, DATA_HEADER_BYTES};

/// Bytes of the part of a nonce that distinguishes directions.
const PREFIX_BYTES: usize = 10;

/// The nonce prefixes of a pair: `P(sender, receiver) = SHA-512(sender | receiver)[..10]`.
#[derive(Clone, Copy, Debug)]
pub struct NoncePrefixes {
    initiator: [u8; PREFIX_BYTES],
    responder: [u8; PREFIX_BYTES],
}

impl NoncePrefixes {
    /// Computes the prefixes of both directions.
    pub fn from_pair(pair: &LinkPair) -> Self {
        let LinkPair { initiator, responder } = *pair;
        Self {
            initiator: compute_prefix(initiator, responder),
            responder: compute_prefix(responder, initiator),
        }
    }

    /// Returns the prefix of the nonces of `sender`, 10 bytes.
    pub(crate) fn of_sender(&self, sender: LinkRole) -> &[u8; PREFIX_BYTES] {
        match sender {
            LinkRole::Initiator => &self.initiator,
            LinkRole::Responder => &self.responder,
        }
    }
}

fn compute_prefix(sender: LinkId, receiver: LinkId) -> [u8; PREFIX_BYTES] {
    let digest = Sha512::new().chain_update(sender.as_bytes()).chain_update(receiver.as_bytes());
    let mut prefix = [0; PREFIX_BYTES];
    prefix.copy_from_slice(&digest.finalize()[..PREFIX_BYTES]);
    prefix
}

/// Builds a nonce from the prefix of its direction and a number.
pub(crate) fn build_nonce(prefix: &[u8; PREFIX_BYTES], number: u16) -> [u8; 12] {
    let mut iv = [0; 12];
    iv[..PREFIX_BYTES].copy_from_slice(prefix);
    iv[PREFIX_BYTES..].copy_from_slice(&number.to_be_bytes());
    iv
}

/// One direction of a session.
pub(crate) struct Way {
    root: Secret<32>,
    prefix: [u8; PREFIX_BYTES],
}

impl Way {
    fn new(key: &Hmac<Sha512>, prefixes: &NoncePrefixes, sender: LinkRole) -> Self {
        let letter: &[u8] = match sender {
            LinkRole::Initiator => b"I",
            LinkRole::Responder => b"R",
        };
        Self {
            root: finish_hash(key.clone(), &[b"seka1 dir", letter]),
            prefix: *prefixes.of_sender(sender),
        }
    }

    /// Derives the key of the frames from `subkey * 2^16` on.
    pub(crate) fn derive_subkey<F: FrameKey>(&self, subkey: u32) -> F {
        // The suite decides how many bytes of the subkey it uses.
        let key: Secret<32> =
            keyed_hash(self.root.expose(), &[b"seka1 key", &subkey.to_be_bytes()]);
        F::from_subkey(&key)
    }

    pub(crate) fn packet_nonce(&self, packet: u32) -> [u8; 12] {
        build_nonce(&self.prefix, packet as u16)
    }
}

/// The keys of one exchange, shared by all threads, with one packet counter per direction.
pub struct LinkSession {
    attempt: u32,
    own_index: u32,
    peer_index: u32,
    pub(crate) out: Way,
    pub(crate) back: Way,
    exporter: Secret<32>,
    /// The next packet number of our direction.
    next: AtomicU32,
    limit: u32,
    /// One more than the highest number of the peer that opened.
    received: AtomicU32,
    /// Number of the peer's frames that opened.
    opened: AtomicU32,
    /// Number of the peer's frames that did not open.
    forged: AtomicU32,
}

/// The use of a session so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionUsage {
    /// The attempt that made the session.
    pub attempt: u32,
    /// Packet numbers that this side reserved.
    pub sent: u32,
    /// Number of the peer's frames that opened.
    pub received: u32,
}

/// The parameters of a session: role, nonce prefixes, attempt and indexes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionPlace {
    pub role: LinkRole,
    pub prefixes: NoncePrefixes,
    pub attempt: u32,
    pub own_index: u32,
    pub peer_index: u32,
    pub subkeys: u32,
}

impl LinkSession {
    #[expect(clippy::needless_pass_by_value, reason = "the session key goes with the session")]
    pub(crate) fn new(key: SessionKey, place: &SessionPlace) -> Self {
        let key = keyed_hmac(key.expose());
        Self {
            attempt: place.attempt,
            own_index: place.own_index,
            peer_index: place.peer_index,
            out: Way::new(&key, &place.prefixes, place.role),
            back: Way::new(&key, &place.prefixes, place.role.other()),
            exporter: finish_hash(key, &[b"seka1 export"]),
            next: AtomicU32::new(0),
            // The receiver's limit applies independently of the sender's settings (SEKA-41).
            limit: place.subkeys.saturating_mul(FRAMES_PER_SUBKEY).min(PACKETS_MAX),
            received: AtomicU32::new(0),
            opened: AtomicU32::new(0),
            forged: AtomicU32::new(0),
        }
    }

    /// Returns the attempt that made the session, which identifies it between machine and driver.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the index that the peer puts into DATA.
    pub fn own_index(&self) -> u32 {
        self.own_index
    }

    /// Reserves `count` packet numbers in one step. Returns the first, or `None` at the limit,
    /// where nothing is reserved (SEKA-41).
    pub fn reserve_packets(&self, count: u32) -> Option<u32> {
        // One step reserves all numbers of a super-frame, so that threads cannot interleave them
        // (SEKA-44).
        let step = |next: u32| next.checked_add(count).filter(|end| *end <= self.limit);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()
    }

    /// Returns the number of frames sent, at most [`LinkSession::limit`].
    pub fn sent(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    /// Returns the use of the session so far.
    pub fn usage(&self) -> SessionUsage {
        let opened = self.opened.load(Ordering::Relaxed);
        SessionUsage { attempt: self.attempt, sent: self.sent(), received: opened }
    }

    /// Returns one more than the highest packet number of the peer that opened.
    pub fn received(&self) -> u32 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the receive counters, for a report to the peer.
    pub fn delivery_report(&self) -> DeliveryReport {
        DeliveryReport {
            opened: self.opened.load(Ordering::Relaxed),
            next: self.received(),
            forged: self.forged.load(Ordering::Relaxed),
        }
    }

    /// Returns how many frames this side may send.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Derives a key for another purpose, 32 bytes. Labels are constants, and none is a prefix of
    /// another.
    pub fn export_key(&self, label: &str) -> Secret<32> {
        keyed_hash(self.exporter.expose(), &[label.as_bytes()])
    }
}

impl fmt::Debug for LinkSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkSession({})", self.attempt)
    }
}

/// Seals DATA frames: one per sending thread, with the key of the present subkey.
pub struct Sealer<F> {
    /// The attempt of the session, and the subkey of the key.
    of: Option<(u32, u32)>,
    key: Option<F>,
}

impl<F> Default for Sealer<F> {
    fn default() -> Self {
        Self { of: None, key: None }
    }
}

impl<F: FrameKey> Sealer<F> {
    /// Seals a frame of `header 8 | text | tag 16` in place under a reserved packet number. The
    /// caller has put the text in its position, and left the other 24 bytes free.
    ///
    /// # Panics
    /// If the frame has fewer than 24 bytes.
    pub fn seal(&mut self, session: &LinkSession, packet: u32, frame: &mut [u8]) {
        // A subkey protects 2^16 frames, because its nonce has 16 bits of the packet number.
        let key = self.select_key(session, packet / FRAMES_PER_SUBKEY);
        let (header, rest) = frame.split_at_mut(DATA_HEADER_BYTES);
        let (text, tag) = rest.split_at_mut(rest.len() - TAG_BYTES);
        header[..4].copy_from_slice(&session.peer_index.to_be_bytes());
        header[0] = DATA;
        header[4..].copy_from_slice(&packet.to_be_bytes());
        tag.copy_from_slice(&key.seal(&session.out.packet_nonce(packet), header, text));
    }

    /// Wipes the key unless it belongs to this session (SEKA-44).
    pub fn keep_only(&mut self, session: Option<&LinkSession>) {
        let kept = session.map(LinkSession::attempt);
        // Keys of an ended session must not stay in the memory of an idle thread (SEKA-44).
        if self.of.map(|(attempt, _)| attempt) != kept {
            (self.of, self.key) = (None, None);
        }
    }

    /// Returns true if a key is held.
    pub fn holds_key(&self) -> bool {
        self.key.is_some()
    }

    fn select_key(&mut self, session: &LinkSession, subkey: u32) -> &F {
        // The key is derived once per subkey and not per frame.
        if self.of != Some((session.attempt, subkey)) {
            self.of = Some((session.attempt, subkey));
            self.key = None;
        }
        self.key.get_or_insert_with(|| session.out.derive_subkey(subkey))
    }
}

/// Opens the DATA frames of one session: a window, and the keys of the subkeys around the present
/// one.
pub struct Opener<F> {
    window: ReplayWindow,
    /// Keys with their subkeys; a key is stored after a frame opened under it.
    keys: [Option<(u32, F)>; 3],
    /// The index for the next key.
    place: usize,
}

impl<F> Default for Opener<F> {
    fn default() -> Self {
        Self { window: ReplayWindow::default(), keys: [None, None, None], place: 0 }
    }
}

impl<F: FrameKey> Opener<F> {
    /// Opens a frame in place. Returns its packet number and its text, which follows the header.
    ///
    /// # Errors
    /// The frame does not open or was seen before; the state is unchanged then (SEKA-43).
    pub fn open<'a>(
        &mut self,
        session: &LinkSession,
        frame: &'a mut [u8],
    ) -> Result<(u32, &'a mut [u8]), FrameError> {
        let opened = self.open_counted(session, frame);
        let counter = match &opened {
            Ok(_) => &session.opened,
            Err(FrameError::Forged) => &session.forged,
            // A repetition by the network is no loss.
            Err(FrameError::Replayed) => return opened,
        };
        // One thread opens the frames of a session, so no update is lost.
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        opened
    }

    fn open_counted<'a>(
        &mut self,
        session: &LinkSession,
        frame: &'a mut [u8],
    ) -> Result<(u32, &'a mut [u8]), FrameError> {
        let text_bytes = frame.len().checked_sub(DATA_HEADER_BYTES + TAG_BYTES);
        let text_bytes = text_bytes.ok_or(FrameError::Forged)?;
        let (header, rest) = frame.split_at_mut(DATA_HEADER_BYTES);
        let (text, tag) = rest.split_at_mut(text_bytes);
        let (packet, tag) = read_numbers(header, tag).ok_or(FrameError::Forged)?;
        // Numbers above the last subkey would repeat a nonce (SEKA-41).
        if packet >= PACKETS_MAX {
            return Err(FrameError::Forged);
        }
        // The window is checked first: a replayed frame then costs no decryption (SEKA-42).
        if !self.window.is_new(packet) {
            return Err(FrameError::Replayed);
        }
        let subkey = packet / FRAMES_PER_SUBKEY;
        let iv = session.back.packet_nonce(packet);
        let known = self.keys.iter().flatten().find(|(of, _)| *of == subkey);
        if let Some((_, key)) = known {
            if !key.open(&iv, header, text, &tag) {
                return Err(FrameError::Forged);
            }
        } else {
            // A key is stored only after a frame opened under it, or forged numbers would evict
            // valid keys (SEKA-43).
            let key: F = session.back.derive_subkey(subkey);
            if !key.open(&iv, header, text, &tag) {
                return Err(FrameError::Forged);
            }
            self.keys[self.place] = Some((subkey, key));
            self.place = (self.place + 1) % self.keys.len();
        }
        // Marked after the tag was checked: a forged number must not advance the window (SEKA-43).
        self.window.mark_seen(packet);
        session.received.store(self.window.next(), Ordering::Relaxed);
        Ok((packet, text))
    }
}

/// Returns packet number and tag of a frame.
fn read_numbers(header: &[u8], tag: &[u8]) -> Option<(u32, [u8; TAG_BYTES])> {
    let packet = header.last_chunk::<4>()?;
    Some((u32::from_be_bytes(*packet), *tag.first_chunk()?))
}

/// Returns the index in a DATA frame, or `None` for other frames.
pub fn index_of(frame: &[u8]) -> Option<u32> {
    let head = frame.first_chunk::<4>()?;
    (head[0] == DATA).then(|| u32::from_be_bytes(*head) & 0x00ff_ffff)
}
