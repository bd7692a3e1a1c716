use super::*;
use crate::stream::Sender;
use alloc::vec;

/// The pieces of messages of these lengths, with their numbers.
fn pieces(lengths: &[usize]) -> Vec<(u32, Piece)> {
    let mut sender = Sender::default();
    for length in lengths {
        sender.push_message(1, &vec![1; *length]).expect("room");
    }
    core::iter::from_fn(|| sender.take_piece()).collect()
}

/// Returns a full piece, which may be followed by further pieces of its message.
fn full() -> Piece {
    Piece::new(&[7; PIECE_BYTES]).expect("a full piece")
}

/// Returns the piece of a message of one byte.
fn short() -> Piece {
    Piece::new(&[0, 1, 7]).expect("a short piece")
}

fn written(receiver: &Receiver) -> Vec<u8> {
    let mut w = Writer::new();
    receiver.write_to(&mut w);
    w.finish()
}

/// Returns a receiver that has piece 2, and whose messenger has stored the first message (pieces 0
/// and 1).
fn second_begun(second: &Piece) -> (Receiver, Result<Vec<ReceivedMessage>, StreamBroken>) {
    let mut receiver = Receiver::default();
    for (seq, piece) in &pieces(&[300]) {
        receiver.receive_piece(*seq, piece).expect("an honest partner");
        receiver.mark_durable(*seq);
    }
    receiver.mark_kept(1);
    let received = receiver.receive_piece(2, second);
    receiver.mark_durable(2);
    (receiver, received)
}

#[test]
fn a_piece_is_taken_once_and_not_from_before_the_start() {
    let mut receiver = Receiver::default();
    assert!(receiver.wants_piece(1));
    receiver.receive_piece(1, &full()).expect("a good piece");
    assert!(!receiver.wants_piece(1), "it is there");
    receiver.was_at(5, 5).expect("nothing is missing");
    receiver.restore_piece(4, &full());
    assert_eq!(receiver.held_pieces().count(), 0, "its message is with the messenger");
    receiver.restore_piece(5, &full());
    assert_eq!(receiver.held_pieces().collect::<Vec<_>>(), [5]);
}

#[test]
fn no_more_pieces_are_held_than_a_row_can_count() {
    let mut receiver = Receiver::default();
    for seq in 0..=HELD_MAX as u32 {
        assert_eq!(receiver.has_room(seq), seq < 255, "{seq}");
        receiver.restore_piece(seq, &full());
    }
    assert_eq!(receiver.held_pieces().count(), 255);
    let bytes = written(&receiver);
    let again = Reader::decode_exact(&bytes, Receiver::read_from).expect("what was written");
    assert_eq!(written(&again), bytes);
}

#[test]
fn what_is_read_goes_on_where_it_was_written() {
    let all = pieces(&[300, 500]);
    let (receiver, _) = second_begun(&all[2].1);
    let bytes = written(&receiver);
    let mut again = Reader::decode_exact(&bytes, Receiver::read_from).expect("what was written");
    assert_eq!(written(&again), bytes);
    assert_eq!((again.start(), again.ack_fields()), (2, (3, 0)));
    assert_eq!(alloc::format!("{again:?}"), "Receiver(at 3, 1 pieces)");
    assert_eq!(again.receive_piece(3, &all[3].1), Ok(Vec::new()));
    let whole = again.receive_piece(4, &all[4].1).expect("an honest partner");
    assert_eq!((whole[0].last, whole[0].bytes.len()), (4, 500));
}

#[test]
fn a_stream_that_broke_is_broken_after_a_start() {
    let (receiver, received) = second_begun(&Piece::new(&[0, 0]).expect("short"));
    assert_eq!(received, Err(StreamBroken), "a message of no length");
    let bytes = written(&receiver);
    let again = Reader::decode_exact(&bytes, Receiver::read_from).expect("what was written");
    assert_eq!(written(&again), bytes);
    for mut receiver in [receiver, again] {
        assert_eq!((receiver.start(), receiver.ack_fields()), (2, (2, 0)));
        assert!(!receiver.wants_piece(2) && receiver.held_pieces().next().is_none());
        assert_eq!(receiver.receive_piece(2, &short()), Err(StreamBroken));
        receiver.restore_piece(2, &short());
        assert!(receiver.held_pieces().next().is_none(), "records do not mend it");
    }
}

#[test]
fn bytes_that_no_receiver_writes_are_refused() {
    let read = |start: u32, ack: u32, broken: u8, seqs: &[u32]| {
        let mut w = Writer::new();
        w.put_u32(start).put_u32(ack).put_u8(broken).put_u8(seqs.len() as u8);
        for seq in seqs {
            w.put_u32(*seq).put_var8(full().bytes());
        }
        Reader::decode_exact(w.as_slice(), Receiver::read_from)
            .map(|receiver| receiver.held_pieces().count())
    };
    assert_eq!(read(0, 2, 0, &[0, 1]), Ok(2));
    assert_eq!(read(0, 0, 0, &[0, 1]), Ok(2), "a piece may wait for those before it");
    assert_eq!(read(2, 2, 1, &[]), Ok(0));
    for (start, ack, broken, seqs) in [
        (0, 0, 0, &[0, 0][..]),
        (0, 0, 0, &[1, 0]),
        (2, 3, 0, &[1]),
        (0, 0, 1, &[0]),
        (0, 0, 2, &[]),
        (0, 2, 0, &[0]),
        (3, 2, 0, &[]),
    ] {
        let refused = Err(DecodeError::Value);
        assert_eq!(read(start, ack, broken, seqs), refused, "{start} {ack} {broken} {seqs:?}");
    }
}

#[test]
fn a_record_that_says_nothing_new_gives_no_message_again() {
    let mut receiver = Receiver::default();
    assert_eq!(receiver.receive_piece(0, &short()).expect("a message").len(), 1);
    receiver.mark_durable(0);
    receiver.was_at(0, 0).expect("nothing is missing");
    assert_eq!(receiver.take_messages(), Ok(Vec::new()));
    receiver.mark_kept(0);
    assert_eq!(receiver.ack_fields(), (1, 0), "its end is known as one");
}

#[test]
fn mix_33_a_short_piece_that_nobody_looked_at_is_not_named() {
    let mut receiver = Receiver::default();
    assert_eq!(receiver.receive_piece(0, &short()).expect("a message").len(), 1);
    receiver.mark_durable(0);
    // Complete messages are only searched for after all records were read.
    receiver.restore_piece(1, &short());
    assert_eq!(receiver.ack_fields(), (0, 0));
    receiver.restore_piece(2, &full());
    assert_eq!(receiver.ack_fields(), (0, 0b10));
}
