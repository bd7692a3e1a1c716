//! Moves over real sockets, with strangers of the network that come before the old device.
//!
//! ```text
//!   strangers (silent, slow, with claims, with files of their own) ----> new device <---- old device
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use mezza_host::backup::prepare_move;

use super::receive::ChosenFile;
use super::*;

/// The length of an offer that is never complete.
const OFFER_BYTES: u16 = 1_000;

/// A new device that waits, and what its user sees and types.
struct Waiting {
    folder: tempfile::TempDir,
    address: SocketAddr,
    recipient: PublicKey,
    shown: Receiver<LanNotice>,
    typed: Sender<String>,
    end: JoinHandle<Result<ChosenFile, Fault>>,
}

fn folder_with_key() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    prepare_move(&folder.path().join("vault"), &mut OsRng).unwrap();
    folder
}

/// Room for one mebibyte.
fn small_room(_: &Path) -> u64 {
    1 << 20
}

impl Waiting {
    fn start() -> Self {
        Self::start_with(folder_with_key(), WaitLimits::DEFAULT)
    }

    fn start_with(folder: tempfile::TempDir, limits: WaitLimits) -> Self {
        let vault = folder.path().join("vault");
        let recipient = prepare_move(&vault, &mut OsRng).unwrap();
        let listener = listen("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (show, shown) = channel();
        let (typed, lines) = channel();
        let wait = LanWait { listener, folder: vault.clone(), vault, limits, room: small_room };
        let end = thread::spawn(move || {
            wait.wait_for_choice(move || lines.recv().ok(), &mut |notice| drop(show.send(notice)))
        });
        Self { folder, address, recipient, shown, typed, end }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).unwrap()
    }

    /// Returns the next text.
    fn text(&self) -> String {
        match self.shown.recv().unwrap() {
            LanNotice::Text(text) => text,
            LanNotice::Stored { digits } => panic!("a file with the digits {digits}"),
        }
    }

    /// Returns the next digits.
    fn digits(&self) -> String {
        loop {
            if let LanNotice::Stored { digits } = self.shown.recv().unwrap() {
                return digits;
            }
        }
    }

    /// Writes a file for a move, and sends it.
    fn send(&self, content: &[u8]) -> SentFile {
        let file = self.folder.path().join(format!("sent-{}", content.len()));
        std::fs::write(&file, content).unwrap();
        send_file(&self.address.to_string(), &file, &self.recipient).unwrap()
    }

    /// A holder of the recipient offers a file of this length, and sends nothing of it.
    fn claim(&self, bytes: u64) -> TcpStream {
        let offer = MoveOffer::new(bytes, [7; 32], &mut OsRng);
        let sealed = offer.seal(&self.recipient, &mut OsRng).unwrap();
        let mut stream = self.connect();
        stream.write_all(HELLO).unwrap();
        stream.read_exact(&mut [0; PROOF_BYTES]).unwrap();
        stream.write_all(&with_length(&sealed)).unwrap();
        stream
    }

    /// The files of moves on the disk of the new device.
    fn files(&self) -> Vec<PathBuf> {
        files_in(&self.folder)
    }

    /// The old device sends its file, and the user types the digits on both devices.
    fn move_in(self, content: &[u8]) {
        let sent = self.send(content);
        let digits = sent.digits();
        while self.digits() != digits {}
        self.typed.send(digits).unwrap();
        let key = thread::spawn(|| sent.send_key("mezza-move:true"));
        let chosen = self.end.join().unwrap().unwrap();
        assert_eq!(std::fs::read(&chosen.file).unwrap(), content);
        assert_eq!(chosen.key, "mezza-move:true");
        chosen.confirm();
        assert!(key.join().unwrap(), "the old device has the proof of the vault");
        delete_files(&self.folder.path().join("vault")).unwrap();
        assert!(files_in(&self.folder).is_empty());
    }
}

fn files_in(folder: &tempfile::TempDir) -> Vec<PathBuf> {
    let entries = folder.path().join("vault").read_dir().unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            path.file_name().unwrap().to_str().unwrap().starts_with("move-")
                && !path.ends_with("move-in")
        })
        .collect()
}

/// Writes one byte after the other until the other side closes.
fn dribble(mut stream: TcpStream) -> JoinHandle<()> {
    thread::spawn(move || {
        while stream.write_all(&[0]).is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    })
}

/// Silent, foreign and slow connections, some of them with an offer that opens: the old device moves while
/// all of them are open.
#[test]
fn backup_33_strangers_do_not_keep_the_old_device_out() {
    let wait = Waiting::start();
    let silent: Vec<_> = (0..20).map(|_| wait.connect()).collect();
    for bytes in [&b"GET / HTTP/1.1\r\nHost: someone\r\n\r\n"[..], HELLO, b""] {
        wait.connect().write_all(bytes).unwrap();
    }
    let mut other = wait.connect();
    other.write_all(HELLO).unwrap();
    other.read_exact(&mut [0; PROOF_BYTES]).unwrap();
    other.write_all(&with_length(&[9; 300])).unwrap();
    assert_eq!(other.read(&mut [0]).unwrap(), 0, "an offer to another device ends a connection");
    let slow = [dribble(wait.connect()), dribble(wait.claim(500_000))];
    wait.move_in(&vec![7; 200_000]);
    // The wait is over, and with it every connection.
    for slow in slow {
        slow.join().unwrap();
    }
    drop(silent);
}

/// A connection that sends on and on, and never its whole offer or file, ends.
#[test]
fn backup_33_a_whole_file_has_a_deadline() {
    let limits = WaitLimits { offer_ms: 300, ..WaitLimits::DEFAULT };
    let wait = Waiting::start_with(folder_with_key(), limits);
    let mut hello = wait.connect();
    hello.write_all(HELLO).unwrap();
    hello.write_all(&OFFER_BYTES.to_be_bytes()).unwrap();
    dribble(hello).join().unwrap();
    let limits = WaitLimits { file_ms: 300, slowest_rate: u64::MAX, ..WaitLimits::DEFAULT };
    let wait = Waiting::start_with(folder_with_key(), limits);
    dribble(wait.claim(500_000)).join().unwrap();
    assert!(wait.text().contains("too slowly"));
    assert!(wait.files().is_empty(), "{:?}", wait.files());
}

/// A claim above the limit, above the room, and above the room that an earlier claim has left: each is shown
/// and nothing is stored. The wait goes on.
#[test]
fn backup_33_a_claimed_length_is_checked_before_anything_is_stored() {
    let wait = Waiting::start();
    for (bytes, why) in [(u64::MAX, "longer than any vault"), ((1 << 20) + 1, "1048576 are free")] {
        let mut stream = wait.claim(bytes);
        let text = wait.text();
        assert!(text.contains(why), "{text}");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the connection is closed");
        assert!(wait.files().is_empty());
    }
    let first = wait.claim(700_000);
    let second = wait.claim(700_000);
    // Either of the two comes first.
    let text = wait.text();
    assert!(text.contains("348576 are free"), "{text}");
    drop(first);
    drop(second);
    assert!(wait.text().contains("connection broke"));
    wait.move_in(&vec![7; 200_000]);
}

/// A party that knows the recipient sends a whole file and a key. It becomes a vault only if the user types
/// its digits.
#[test]
fn backup_34_the_file_of_another_device_does_not_end_the_wait() {
    let wait = Waiting::start();
    let others = wait.send(&vec![1; 100_000]);
    assert_eq!(wait.digits(), others.digits());
    let others_key = thread::spawn(|| others.send_key("mezza-move:false"));
    wait.typed.send("00000000".into()).unwrap();
    assert!(wait.text().contains("no connection has these digits"));
    wait.move_in(&vec![7; 200_000]);
    assert!(!others_key.join().unwrap(), "nothing is proven to the other device");
}

/// A file that came is kept: after its digits were typed it may be the only copy of an identity.
#[test]
fn backup_33_a_connection_that_breaks_leaves_its_file() {
    let wait = Waiting::start();
    drop(wait.send(&vec![1; 100_000]));
    let digits = wait.digits();
    assert!(wait.text().contains(&digits));
    let kept = wait.files();
    assert_eq!(std::fs::read(&kept[0]).unwrap(), vec![1; 100_000]);
    drop(wait.typed);
    let fault = wait.end.join().unwrap().err().expect("no digits were typed");
    assert_eq!(fault.code, Exit::Usage);
    // Another wait names it, and no connection replaces it.
    let wait = Waiting::start_with(wait.folder, WaitLimits::DEFAULT);
    assert!(wait.text().contains(kept[0].to_str().unwrap()));
    drop(wait.claim(500_000));
    assert!(wait.text().contains("connection broke"));
    assert_eq!(wait.files(), kept);
    // The old device sends the same file once more.
    wait.move_in(&vec![1; 100_000]);
}

/// Relays a connection, and changes one byte in one direction.
fn relay_changed(to: SocketAddr, at: usize, back: bool) -> SocketAddr {
    let listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let copy = |mut from: TcpStream, mut to: TcpStream, changed: Option<usize>| {
        thread::spawn(move || {
            let mut passed = 0;
            let mut piece = [0; 4_096];
            while let Ok(count @ 1..) = from.read(&mut piece) {
                if let Some(at) = changed.filter(|at| (passed..passed + count).contains(at)) {
                    piece[at - passed] ^= 1;
                }
                passed += count;
                if to.write_all(&piece[..count]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(std::net::Shutdown::Both);
        })
    };
    thread::spawn(move || {
        let (old, _) = listener.accept().unwrap();
        let new = TcpStream::connect(to).unwrap();
        let [old_again, new_again] = [&old, &new].map(|stream| stream.try_clone().unwrap());
        copy(old, new, (!back).then_some(at));
        copy(new_again, old_again, back.then_some(at));
    });
    address
}

/// A party on the way changes the offer, the file, the commitment, the nonce or the proof: the old device
/// destroys nothing, because no digits are asked for.
#[test]
fn backup_34_a_changed_connection_proves_nothing() {
    let wait = Waiting::start();
    let file = wait.folder.path().join("sent");
    std::fs::write(&file, vec![7; 200_000]).unwrap();
    let offer = HELLO.len() + 10;
    let commitment = 5;
    let nonce = PROOF_BYTES + 5;
    let proof = 2 * PROOF_BYTES + 5;
    let changes =
        [(offer, false), (100_000, false), (commitment, true), (nonce, true), (proof, true)];
    for (at, back) in changes {
        let address = relay_changed(wait.address, at, back).to_string();
        let sent = send_file(&address, &file, &wait.recipient);
        assert_eq!(sent.err().map(|fault| fault.code), Some(Exit::Unreachable), "byte {at}");
    }
    wait.move_in(&vec![7; 200_000]);
}

/// A party that does not know the key of the recipient proves nothing.
#[test]
fn backup_34_a_device_without_the_key_gets_no_digits() {
    let folder = folder_with_key();
    let recipient = prepare_move(&folder.path().join("vault"), &mut OsRng).unwrap();
    let file = folder.path().join("sent");
    std::fs::write(&file, vec![7; 20_000]).unwrap();
    let listener = listen("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stranger = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let nonce = [3; PROOF_BYTES];
        stream.read_exact(&mut [0; HELLO.len()]).unwrap();
        stream.write_all(&commit_to_nonce(&nonce)).unwrap();
        stream.read_exact(&mut vec![0; 20_000]).unwrap();
        stream.write_all(&[nonce, [4; PROOF_BYTES]].concat()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let sent = send_file(&address, &file, &recipient);
    assert_eq!(sent.err().map(|fault| fault.code), Some(Exit::Unreachable));
    stranger.join().unwrap();
}
