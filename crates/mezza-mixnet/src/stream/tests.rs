use super::*;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::wire::cell::Piece;
use alloc::vec;
use alloc::vec::Vec;
use mezza_core::{DecodeError, Reader, Writer};
use proptest::prelude::*;

/// The outcome of one round for each side of a pair.
#[derive(Clone, Copy, Debug)]
struct Outcomes {
    at_alice: CellOutcome,
    at_bob: CellOutcome,
}

impl Outcomes {
    const MET: Self = Self::both(CellOutcome::Met);

    const fn both(outcome: CellOutcome) -> Self {
        Self { at_alice: outcome, at_bob: outcome }
    }
}

/// Returns the outcomes that a round can have, most often a meeting.
fn round() -> impl Strategy<Value = Outcomes> {
    prop_oneof![
        4 => Just(Outcomes::MET),
        1 => Just(Outcomes { at_alice: CellOutcome::Absent, at_bob: CellOutcome::Missed }),
        1 => Just(Outcomes { at_alice: CellOutcome::Missed, at_bob: CellOutcome::Absent }),
        1 => Just(Outcomes::both(CellOutcome::Garbage)),
        // The round was returned to one side alone: the other one got no reply.
        1 => Just(Outcomes { at_alice: CellOutcome::Met, at_bob: CellOutcome::Missed }),
        1 => Just(Outcomes { at_alice: CellOutcome::Missed, at_bob: CellOutcome::Met }),
    ]
}

/// Returns random message lengths, some of which fill the last piece exactly.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 1_usize..1_200, 1 => Just(223_usize), 1 => Just(448)]
}

#[derive(Default)]
struct Side {
    sender: Sender,
    receiver: Receiver,
    got: Vec<Vec<u8>>,
}

struct Sent {
    seq: Option<u32>,
    piece: Option<(u32, Piece)>,
    ack: (u32, u32),
}

impl Side {
    fn seal(&mut self) -> Sent {
        let piece = self.sender.take_piece();
        Sent { seq: piece.as_ref().map(|(seq, _)| *seq), piece, ack: self.receiver.ack_fields() }
    }

    fn settle(&mut self, own: &Sent, theirs: &Sent, outcome: CellOutcome) {
        self.sender.settle_piece(own.seq, outcome);
        if outcome != CellOutcome::Met {
            return;
        }
        assert!(self.sender.apply_ack(theirs.ack.0, theirs.ack.1));
        if let Some((seq, piece)) = &theirs.piece {
            let messages = self.receiver.receive_piece(*seq, piece).expect("an honest partner");
            self.receiver.mark_durable(*seq);
            for message in messages {
                self.receiver.mark_kept(message.last);
                self.got.push(message.bytes.to_vec());
            }
        }
    }
}

fn meet(alice: &mut Side, bob: &mut Side, outcomes: Outcomes) {
    let to_bob = alice.seal();
    let to_alice = bob.seal();
    alice.settle(&to_bob, &to_alice, outcomes.at_alice);
    bob.settle(&to_alice, &to_bob, outcomes.at_bob);
}

proptest! {
    #[test]
    fn every_message_comes_once_and_in_order_whatever_is_lost(
        lengths in proptest::collection::vec(length(), 1..12),
        rounds in proptest::collection::vec(round(), 0..120),
    ) {
        let mut alice = Side::default();
        let mut bob = Side::default();
        let message = |(i, len): (usize, &usize)| vec![i as u8 + 1; *len];
        let messages = lengths.iter().enumerate().map(message).collect::<Vec<_>>();
        for (ticket, message) in messages.iter().enumerate() {
            alice.sender.push_message(ticket as u64, message).expect("room");
        }
        bob.sender.push_message(0, b"an answer").expect("room");
        let mut handed = Vec::new();
        for outcome in rounds {
            meet(&mut alice, &mut bob, outcome);
            handed.extend(alice.sender.take_handed());
        }
        // From here on every round is a meeting.
        let mut left = 0;
        while !(alice.sender.is_idle() && bob.sender.is_idle()) {
            meet(&mut alice, &mut bob, Outcomes::MET);
            handed.extend(alice.sender.take_handed());
            left += 1;
            prop_assert!(left < 1_000, "{alice:?}", alice = alice.sender);
        }
        prop_assert_eq!(&bob.got, &messages);
        prop_assert_eq!(&alice.got, &[b"an answer".to_vec()]);
        handed.sort_unstable();
        prop_assert_eq!(handed, (0..messages.len() as u64).collect::<Vec<_>>());
    }
}

fn send(sender: &mut Sender, bytes: usize) {
    sender.push_message(1, &vec![1; bytes]).expect("room");
}

#[test]
fn pieces_in_flight_wait_failed_ones_go_first_then_lost_ones_then_new_ones() {
    let mut sender = Sender::default();
    send(&mut sender, 225 * 20);
    let seqs = |sender: &mut Sender, n: usize| {
        (0..n).map(|_| sender.take_piece().expect("a piece").0).collect::<Vec<_>>()
    };
    assert_eq!(seqs(&mut sender, 3), [0, 1, 2], "nothing in flight is sent again");
    sender.settle_piece(Some(0), CellOutcome::Met);
    sender.settle_piece(Some(1), CellOutcome::Absent);
    assert_eq!(seqs(&mut sender, 2), [1, 3], "1 failed; 2 is in flight");
    sender.settle_piece(Some(2), CellOutcome::Missed);
    for seq in [1, 3] {
        sender.settle_piece(Some(seq), CellOutcome::Met);
    }
    sender.settle_piece(None, CellOutcome::Met);
    assert_eq!(seqs(&mut sender, 2), [2, 4], "0 is sent and has patience: three later meetings");
    sender.settle_piece(Some(2), CellOutcome::Met);
    assert_eq!(seqs(&mut sender, 2), [0, 5], "four later meetings without an acknowledgement");
    assert!(sender.apply_ack(1, 0b11), "0, 2 and 3 are there");
    sender.settle_piece(Some(0), CellOutcome::Absent);
    sender.settle_piece(Some(4), CellOutcome::Garbage);
    assert_eq!(seqs(&mut sender, 1), [4], "what is acknowledged is not sent again");
}

#[test]
fn the_window_is_what_acknowledgements_can_name() {
    let mut sender = Sender::default();
    let mut receiver = Receiver::default();
    send(&mut sender, 8_000);
    let mut pieces = Vec::new();
    while let Some(piece) = sender.take_piece() {
        pieces.push(piece);
    }
    assert_eq!(pieces.len(), WINDOW as usize);
    // All pieces but the first arrive, the last one first.
    for (seq, piece) in pieces.iter().skip(1).rev() {
        assert_eq!(receiver.receive_piece(*seq, piece).map(|m| m.len()), Ok(0));
    }
    assert_eq!(receiver.ack_fields(), (0, 0), "not durable yet");
    (0..WINDOW).for_each(|seq| receiver.mark_durable(seq));
    assert_eq!(receiver.ack_fields(), (0, 0x7fff_ffff));
    assert!(sender.apply_ack(0, 0x7fff_ffff));
    assert!(sender.take_piece().is_none(), "the first one is in flight");
    sender.settle_piece(Some(0), CellOutcome::Absent);
    assert_eq!(sender.take_piece().map(|(seq, _)| seq), Some(0));
    receiver.receive_piece(0, &pieces[0].1).expect("a good piece");
    receiver.mark_durable(0);
    assert_eq!(receiver.ack_fields(), (32, 0));
}

#[test]
fn mix_33_acknowledgements_name_only_what_is_durable() {
    let mut sender = Sender::default();
    let mut receiver = Receiver::default();
    send(&mut sender, 300);
    send(&mut sender, 500);
    let pieces = core::iter::from_fn(|| sender.take_piece()).collect::<Vec<_>>();
    let receive = |receiver: &mut Receiver, seq: usize| {
        receiver.receive_piece(seq as u32, &pieces[seq].1).unwrap()
    };
    assert!(receive(&mut receiver, 0).is_empty());
    assert_eq!(receiver.ack_fields(), (0, 0));
    receiver.mark_durable(0);
    assert_eq!(receiver.ack_fields(), (1, 0));
    // The last piece of the second message arrives early, before the receiver can know that it is
    // the last one.
    receive(&mut receiver, 4);
    receive(&mut receiver, 3);
    (3..=4).for_each(|seq| receiver.mark_durable(seq));
    assert_eq!(receiver.ack_fields(), (1, 0b10), "a short piece is the end of a message");
    let whole = receive(&mut receiver, 1);
    assert_eq!(whole.iter().map(|message| message.last).collect::<Vec<_>>(), [1]);
    receiver.mark_durable(1);
    assert_eq!(receiver.ack_fields(), (1, 0b10), "the message is not with the messenger yet");
    receiver.mark_kept(1);
    assert_eq!(receiver.ack_fields(), (2, 0b1));
    assert_eq!(receive(&mut receiver, 2)[0].last, 4);
    receiver.mark_durable(2);
    assert_eq!(receiver.ack_fields(), (4, 0));
    receiver.mark_kept(4);
    assert_eq!(receiver.ack_fields(), (5, 0));
}

#[test]
fn acknowledgements_of_what_was_never_sent_change_nothing() {
    let mut sender = Sender::default();
    send(&mut sender, 500);
    sender.take_piece();
    let before = alloc::format!("{sender:?}");
    for (ack, sack) in [(2, 0), (0, 1), (1, 1), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
        assert!(!sender.apply_ack(ack, sack), "{ack} {sack}");
        assert_eq!(alloc::format!("{sender:?}"), before);
    }
    assert!(sender.apply_ack(1, 0));
    assert_eq!(sender.take_piece().map(|(seq, _)| seq), Some(1));
}

#[test]
fn a_message_that_is_acknowledged_before_its_turn_leaves_no_gap_behind() {
    let mut sender = Sender::default();
    send(&mut sender, 500);
    send(&mut sender, 20);
    let taken = core::iter::from_fn(|| sender.take_piece()).map(|(seq, _)| seq).collect::<Vec<_>>();
    assert_eq!(taken, [0, 1, 2, 3]);
    assert!(sender.apply_ack(0, 0b100), "the second message whole, nothing of the first");
    let mut w = Writer::new();
    sender.write_to(&mut w);
    let read = Reader::decode_exact(w.as_slice(), Sender::read_from).expect("what was written");
    for mut sender in [sender, read] {
        send(&mut sender, 10);
        sender.settle_piece(Some(0), CellOutcome::Absent);
        let seqs =
            core::iter::from_fn(|| sender.take_piece()).map(|(seq, _)| seq).collect::<Vec<_>>();
        assert!(seqs.starts_with(&[0]) && seqs.ends_with(&[4]), "{seqs:?}");
        assert!(sender.apply_ack(5, 0) && sender.is_idle());
    }
}

/// Writes a sender and reads it again.
fn started_anew(sender: &Sender) -> Sender {
    let mut w = Writer::new();
    sender.write_to(&mut w);
    Reader::decode_exact(w.as_slice(), Sender::read_from).expect("what was written")
}

/// Two messages without tickets whose pieces were in meetings. The partner has only the second
/// message, which waits there for the first.
fn second_alone(messages: &[Vec<u8>; 2]) -> Sender {
    let mut sender = Sender::default();
    let mut receiver = Receiver::default();
    for (ticket, message) in (0..).zip(messages) {
        sender.push_message(ticket, message).expect("room");
    }
    let pieces = [0, 1].map(|_| sender.take_piece().expect("a piece"));
    for (seq, _) in &pieces {
        sender.settle_piece(Some(*seq), CellOutcome::Met);
    }
    assert_eq!(sender.take_handed(), [0, 1]);
    let (seq, piece) = &pieces[1];
    assert_eq!(receiver.receive_piece(*seq, piece), Ok(Vec::new()));
    receiver.mark_durable(*seq);
    let (ack, sack) = receiver.ack_fields();
    assert_eq!((ack, sack), (0, 1));
    assert!(sender.apply_ack(ack, sack));
    sender
}

#[test]
fn nothing_that_was_handed_is_lost_with_an_older_root() {
    let messages = [vec![1; 223], vec![2; 223]];
    for (before, after) in [(false, false), (true, false), (false, true)] {
        let mut old = second_alone(&messages);
        if before {
            old = started_anew(&old);
        }
        let mut young = Sender::default();
        young.adopt_unsent(&mut old);
        young.detach_tickets();
        if after {
            young = started_anew(&young);
        }
        let mut receiver = Receiver::default();
        let mut got = Vec::new();
        while let Some((seq, piece)) = young.take_piece() {
            got.extend(receiver.receive_piece(seq, &piece).expect("an honest partner"));
        }
        let got: Vec<Vec<u8>> = got.iter().map(|message| message.bytes.to_vec()).collect();
        assert_eq!(got, messages, "a start before {before}, after {after}");
        assert!(young.apply_ack(2, 0) && young.is_idle());
    }
}

#[test]
fn what_is_cut_anew_keeps_to_the_window() {
    let mut old = Sender::default();
    send(&mut old, 8_000);
    assert_eq!(core::iter::from_fn(|| old.take_piece()).count(), WINDOW as usize);
    let mut young = Sender::default();
    young.adopt_unsent(&mut old);
    assert_eq!(core::iter::from_fn(|| young.take_piece()).count(), WINDOW as usize);
    assert!(young.apply_ack(WINDOW, 0));
    assert_eq!(young.take_piece().map(|(seq, _)| seq), Some(WINDOW));
}

#[test]
fn messages_have_a_length_and_queues_an_end() {
    let mut sender = Sender::default();
    assert_eq!(sender.push_message(0, b""), Err(StreamError::TooBig));
    assert_eq!(sender.push_message(0, &vec![1; MESSAGE_BYTES_MAX + 1]), Err(StreamError::TooBig));
    assert_eq!(
        sender.push_message(0, &[0; 20]),
        Err(StreamError::Blank),
        "zeros stand for what was taken back"
    );
    let mut taken = 0;
    while sender.push_message(0, &vec![1; MESSAGE_BYTES_MAX]).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, QUEUE_BYTES_MAX / MESSAGE_BYTES_MAX);
    assert_eq!(sender.push_message(0, &vec![1; MESSAGE_BYTES_MAX]), Err(StreamError::Full));
    assert_eq!(MESSAGE_BYTES_MAX + LENGTH_BYTES, 40 * 225, "forty cells");
}

#[test]
fn a_stream_that_no_sender_makes_breaks_for_good() {
    let piece = |bytes: &[u8]| Piece::new(bytes).expect("short");
    let no_messages = [&[][..], &[0], &[0, 0, 1], &[0x23, 0x27, 1], &[0, 1, 7, 8], &[0, 2, 7]];
    for wrong in no_messages {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.receive_piece(0, &piece(wrong)).err(), Some(StreamBroken), "{wrong:?}");
        assert_eq!(receiver.receive_piece(1, &piece(&[0, 1, 7])).err(), Some(StreamBroken));
    }
    let mut receiver = Receiver::default();
    assert_eq!(receiver.receive_piece(40, &piece(&[0, 1, 7])), Ok(Vec::new()), "too far");
    let whole = receiver.receive_piece(0, &piece(&[0, 1, 7])).expect("a message");
    assert_eq!(whole[0].bytes.as_slice(), [7]);
}

#[test]
fn a_stream_that_breaks_behind_a_gap_goes_on_breaking() {
    let ahead = Piece::new(b"ahead").unwrap();
    let empty = Piece::new(&[0, 0]).unwrap();
    let mut receiver = Receiver::default();
    assert_eq!(receiver.receive_piece(1, &ahead).unwrap().len(), 0);
    assert_eq!(receiver.receive_piece(0, &empty).unwrap_err(), StreamBroken);
    receiver.mark_durable(0);
    assert_eq!(receiver.ack_fields(), (0, 0));
    assert_eq!(receiver.receive_piece(1, &ahead).unwrap_err(), StreamBroken);
}

#[test]
fn a_message_that_is_given_again_goes_on_where_it_was() {
    let mut sender = Sender::default();
    let mut receiver = Receiver::default();
    let long = vec![1; 600];
    let short = vec![2; 10];
    let mut sealed = Vec::new();
    sender.push_message(1, &long).expect("room");
    for _ in 0..2 {
        let (seq, piece) = sender.take_piece().expect("a piece");
        sealed.push((seq, sender.first_of(seq).expect("a message"), piece));
    }
    // After a restart two of three pieces are known, and no ticket waits for them.
    let mut again = Sender::default();
    for (seq, first, piece) in &sealed {
        again.restore_sealed(*seq, *first, piece).expect("in order");
        again.restore_sealed(*seq, *first, piece).expect("twice does no harm");
    }
    let empty = Piece::new(b"").expect("short");
    assert!(
        again.restore_sealed(2, 0, &empty).is_err(),
        "a piece of another size than its place has"
    );
    assert!(again.restore_sealed(3, 0, &sealed[0].2).is_err(), "a piece is missing");
    again.push_message(7, &long).expect("room");
    again.push_message(8, &short).expect("room");
    let mut got = Vec::new();
    while let Some((seq, piece)) = again.take_piece() {
        again.settle_piece(Some(seq), CellOutcome::Met);
        got.extend(receiver.receive_piece(seq, &piece).expect("an honest partner"));
    }
    assert_eq!(got.iter().map(|m| m.bytes.to_vec()).collect::<Vec<_>>(), [long, short]);
    assert_eq!(again.take_handed(), [7, 8]);
    assert!(again.apply_ack(4, 0) && again.is_idle());
    assert_eq!(again.take_acked(), [7, 8]);
}

#[test]
fn a_message_that_nobody_gives_again_does_not_stop_the_next_one() {
    let mut sender = Sender::default();
    let mut receiver = Receiver::default();
    let first = Piece::new(&[&[1, 244][..], &[1; 223]].concat()).expect("short");
    sender.restore_sealed(0, 0, &first).expect("the beginning of 500 bytes");
    assert_eq!(sender.take_piece().map(|(seq, _)| seq), Some(0));
    assert!(sender.take_piece().is_none(), "its rest may still come");
    sender.push_message(3, b"next").expect("room");
    assert!(receiver.receive_piece(0, &first).expect("a good piece").is_empty());
    let mut got = Vec::new();
    while let Some((seq, piece)) = sender.take_piece() {
        got.extend(receiver.receive_piece(seq, &piece).expect("whole messages"));
    }
    assert_eq!(got.len(), 2, "the first one with a rest of zeros");
    assert_eq!(got[1].bytes.as_slice(), b"next");
}

#[test]
fn both_sides_are_written_and_read() {
    let mut sender = Sender::default();
    let mut receiver = Receiver::default();
    for length in [700, 20, 300] {
        send(&mut sender, length);
    }
    for _ in 0..6 {
        let (seq, piece) = sender.take_piece().expect("a piece");
        if seq != 1 {
            receiver.receive_piece(seq, &piece).expect("an honest partner");
        }
    }
    sender.settle_piece(Some(2), CellOutcome::Met);
    assert!(sender.apply_ack(1, 0b10));
    let mut w = Writer::new();
    sender.write_to(&mut w);
    receiver.write_to(&mut w);
    let bytes = w.finish();
    let read = |bytes: &[u8]| {
        Reader::decode_exact(bytes, |r| {
            Ok::<_, DecodeError>((Sender::read_from(r)?, Receiver::read_from(r)?))
        })
    };
    let (mut again, mut receiver) = read(&bytes).expect("what was written");
    let mut w = Writer::new();
    again.write_to(&mut w);
    receiver.write_to(&mut w);
    assert_eq!(w.finish(), bytes);
    assert_eq!(receiver.take_messages(), Ok(Vec::new()), "piece 1 is missing");
    let (seq, piece) = again.take_piece().expect("a piece");
    assert_eq!(seq, 1, "0 and 3 are acknowledged; what became of the others is not known");
    assert_eq!(receiver.receive_piece(seq, &piece).expect("whole messages").len(), 2);
    for cut in 0..bytes.len() {
        assert!(read(&bytes[..cut]).is_err(), "cut to {cut}");
    }
}

#[test]
fn a_piece_beyond_what_sack_can_name_is_not_taken() {
    let mut receiver = Receiver::default();
    assert!(receiver.wants_piece(WINDOW) && !receiver.wants_piece(WINDOW + 1));
    let piece = Piece::new(&[7; 225]).expect("a full piece");
    assert_eq!(receiver.receive_piece(WINDOW + 1, &piece), Ok(Vec::new()));
    assert!(receiver.held_pieces().next().is_none());
}

/// Returns the whole messages of a partner who meets the sender in each round from now on.
fn all_come(sender: &mut Side, receiver: &mut Side) -> Vec<Vec<u8>> {
    for _ in 0..120 {
        let a = sender.seal();
        let b = receiver.seal();
        sender.settle(&a, &b, CellOutcome::Met);
        receiver.settle(&b, &a, CellOutcome::Met);
    }
    core::mem::take(&mut receiver.got)
}

#[test]
fn mix_66_what_is_taken_back_goes_nowhere_or_as_zeros() {
    let mut ann = Side::default();
    let mut ben = Side::default();
    let [begun, waits, last] = [[7; 500], [8; 500], [9; 500]];
    for (ticket, message) in [begun, waits, last].iter().enumerate() {
        ann.sender.push_message(ticket as u64, message).unwrap();
    }
    // The first cell was sealed, but the partner was absent in its round.
    let cell = ann.seal();
    ann.sender.settle_piece(cell.seq, CellOutcome::Absent);
    assert!(ann.sender.retract_message(&begun), "a piece of it was sealed");
    assert!(!ann.sender.retract_message(&waits) && !ann.sender.retract_message(&[1; 500]));
    let mut w = Writer::new();
    ann.sender.write_to(&mut w);
    let stored = w.finish();
    assert!(!stored.windows(16).any(|bytes| bytes == [7; 16]), "nor is it stored");
    assert_eq!(all_come(&mut ann, &mut ben), [vec![0; 500], last.to_vec()]);
    assert!(
        ann.sender.is_idle() && ann.sender.take_handed() == [2] && ann.sender.take_acked() == [2]
    );
}

#[test]
fn mix_66_what_the_partner_has_is_not_taken_back() {
    let mut ann = Side::default();
    let mut ben = Side::default();
    ann.sender.push_message(1, &[7; 100]).unwrap();
    let cell = ann.seal();
    let other = ben.seal();
    ann.sender.settle_piece(cell.seq, CellOutcome::Met);
    ben.settle(&other, &cell, CellOutcome::Met);
    assert!(!ann.sender.retract_message(&[7; 100]));
    assert_eq!(ben.got, [vec![7; 100]]);
}

#[test]
fn mix_66_a_message_that_lost_its_ticket_is_taken_back_too() {
    let mut ann = Side::default();
    let mut ben = Side::default();
    ann.sender.push_message(1, &[7; 500]).unwrap();
    let cell = ann.seal();
    ann.sender.settle_piece(cell.seq, CellOutcome::Missed);
    ann.sender.detach_tickets();
    assert!(ann.sender.retract_message(&[7; 500]));
    assert_eq!(all_come(&mut ann, &mut ben), [vec![0; 500]]);
}

#[test]
fn mix_75_what_is_acknowledged_while_nobody_waits_goes_once() {
    let mut sender = Sender::default();
    let mut receiver = Receiver::default();
    let messages = [vec![1; 300], vec![2; 300]];
    for (ticket, message) in (0..).zip(&messages) {
        sender.push_message(ticket, message).expect("room");
    }
    // Both pieces of the first message are in flight when the tickets are removed, and arrive
    // afterwards.
    let pieces = [0, 1].map(|_| sender.take_piece().expect("a piece"));
    sender.detach_tickets();
    for (seq, piece) in &pieces {
        receiver.receive_piece(*seq, piece).expect("an honest partner");
        receiver.mark_durable(*seq);
        sender.settle_piece(Some(*seq), CellOutcome::Met);
    }
    receiver.mark_kept(1);
    let (ack, sack) = receiver.ack_fields();
    assert!(sender.apply_ack(ack, sack) && sender.is_idle());
    for (ticket, message) in (7..).zip(&messages) {
        sender.push_message(ticket, message).expect("room");
    }
    assert_eq!(
        (sender.take_handed(), sender.take_acked()),
        (vec![7], vec![7]),
        "the first one is there"
    );
    assert_eq!(sender.take_piece().expect("the second one").0, 2);
    // Queued once more, it counts as a new message.
    sender.push_message(9, &messages[0]).expect("room");
    assert!(sender.take_handed().is_empty());
}
