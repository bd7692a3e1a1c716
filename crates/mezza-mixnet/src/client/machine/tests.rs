mod locked;
mod partners;
mod refusals;
mod rejoin;
mod repeats;
mod rounds;
mod standing;
mod turns;

use alloc::vec;

use mezza_core::{PublicKey, Secret, StaticKey, Wiping};
use mezza_lanes::portable;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::*;
use crate::config::tests::{config, signed};
use crate::config::{Config, SignatureSet};
use crate::contact::Role;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::privacy::NoisePreset;
use crate::privacy::ledger::PrivacyCost;
use crate::stream::WINDOW;
use crate::wire::cell::{PIECE_BYTES, Piece};

const NOW: Time = Time::from_ms(1_001_000);

fn setup(config: &Config) -> ClientOptions {
    let dialling = StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(8)));
    ClientOptions { pin: config.hash(), dialling, floor: NoiseFloor::None, kernel: portable() }
}

/// Returns a client that has joined the network of this config.
fn joined(config: &Config) -> Client {
    let mut client = Client::new(setup(config), NOW);
    let genesis = signed(config, SignatureSet::Own, &[0, 1]);
    client.chain = Some(Chain::begin(&config.hash(), &genesis).expect("genesis"));
    client.ledger = Some(Ledger::new(config.network, 1));
    client.outputs.clear();
    client
}

/// A row that a client stores: its number, the number of the first row that is needed from then on,
/// and its bytes.
type Store = (u64, u64, Vec<u8>);

fn stores(client: &mut Client) -> Vec<Store> {
    let store = |output| match output {
        Output::Store { seq, first, record } => Some((seq, first, record.to_vec())),
        _ => None,
    };
    core::iter::from_fn(|| client.poll()).filter_map(store).collect()
}

fn store(rows: &mut BTreeMap<u64, Vec<u8>>, (seq, first, row): &Store) {
    rows.retain(|seq, _| seq >= first);
    rows.insert(*seq, row.clone());
}

/// Returns the rows that a client stores.
fn rows(client: &mut Client) -> BTreeMap<u64, Vec<u8>> {
    let mut rows = BTreeMap::new();
    for row in &stores(client) {
        store(&mut rows, row);
    }
    rows
}

fn restore(config: &Config, rows: &BTreeMap<u64, Vec<u8>>) -> Result<Client, RestoreError> {
    let rows = rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
    Client::restore(setup(config), rows, NOW, &mut ChaCha20Rng::seed_from_u64(1))
}

fn line(id: u32) -> PartnerRoot {
    let root = Secret::init_with(|s| s.fill(id as u8));
    PartnerRoot::begin(id, &root, Role::Initiator, 100, 100)
}

/// Returns a root with as many pieces on their way as possible, in both directions.
fn full(id: u32) -> PartnerRoot {
    let mut line = line(id);
    for ticket in 0..2 {
        line.sender.push_message(ticket, &vec![9; MESSAGE_BYTES_MAX]).expect("room");
    }
    // All but the last piece of the first window were acknowledged, and none of the second window.
    (0..WINDOW).for_each(|_| drop(line.sender.take_piece()));
    assert!(line.sender.apply_ack(WINDOW, 0));
    (0..WINDOW).for_each(|_| drop(line.sender.take_piece()));
    let mut first = [7; PIECE_BYTES];
    first[..2].copy_from_slice(&(MESSAGE_BYTES_MAX as u16).to_be_bytes());
    for seq in 0..72 {
        let piece = Piece::new(if seq % 40 == 0 { &first } else { &[7; PIECE_BYTES] });
        line.receiver.receive_piece(seq, &piece.expect("short")).expect("sound");
        line.receiver.mark_durable(seq);
    }
    line
}

#[test]
fn mix_44_slow_no_row_is_longer_than_the_vault_takes() {
    let config = config(3);
    let mut sizes = Vec::new();
    for (people, busy) in [(0, 0), (1_200, 0), (4_096, 40), (1_100, 1_100)] {
        let mut client = joined(&config);
        for id in 0..people {
            let of = |id| if id / 2 < busy { full(id) } else { line(id) };
            let mut contact = Partner::new(1, of(2 * id));
            contact.add_root(of(2 * id + 1));
            client.contacts.all.insert(id, contact);
            client.contacts.line_number();
            client.contacts.line_number();
        }
        client.goes_to(RoundId { service: Service::Call, round: 77 });
        client.take_snapshot(NOW);
        let stored = rows(&mut client);
        assert!(stored.values().all(|row| row.len() <= ROW_BYTES_MAX));
        let again = restore(&config, &stored).expect("what a client wrote");
        assert!(again.stream_marks().eq(client.stream_marks()) && again.rows_aside().is_empty());
        assert_eq!(again.last_sealed(Service::Call), Some(77));
        sizes.push(stored.len());
    }
    assert_eq!(sizes, [1, 2, 16, 512]);
}

#[test]
fn mix_40_what_waits_for_a_time_waits_as_long_as_before_when_the_clock_is_put_back() {
    let rng = &mut ChaCha20Rng::seed_from_u64(1);
    let mut client = joined(&config(3));
    client.contacts.line_number();
    client.contacts.line_number();
    client.contacts.all.insert(0, Partner::new(1, line(0)));
    client.contacts.activate_contact(0, NOW);
    client.contacts.all.insert(1, Partner::new(1, full(1)));
    client.contacts.activate_contact(1, NOW);
    client.contacts.all.get_mut(&1).expect("it was added").deactivate(NOW);
    client.link = Link::Down { at: NOW.plus_ms(5_000), failed: 1 };
    let waits = |client: &Client, now: Time| {
        let contacts = client.contacts.all.values().map(Partner::deadline);
        let own = [client.link.deadline(), Some(client.snapshot_at), client.walk_at];
        let all = contacts.chain(own).collect::<Vec<_>>();
        all.into_iter().map(|at| at.map(|at| at.as_ms() - now.as_ms())).collect::<Vec<_>>()
    };
    client.walk_at = Some(NOW.plus_ms(70));
    let before = waits(&client, NOW);
    let past = NOW.minus_ms(900_000);
    client.wake(past, rng);
    assert_eq!(waits(&client, past), before);
    let soon = NOW.plus_ms(9);
    for link in [
        Link::Greeted { trusted: true, failed: 0, until: Some(soon) },
        Link::Joined {
            trusted: true,
            failed: 0,
            asked: Some(NOW),
            fetching: false,
            until: Some(soon),
        },
    ] {
        (client.seen, client.link) = (NOW, link);
        client.wake(past, rng);
        assert_eq!(client.link.deadline(), Some(past.plus_ms(9)));
    }
    // A restored end of service is no later than that of a service that begins now.
    client.contacts.activate_contact(0, past);
    client.take_snapshot(past);
    let stored = rows(&mut client);
    let again = |now| {
        let rows = stored.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let rng = &mut ChaCha20Rng::seed_from_u64(1);
        Client::<PortableBackend>::restore(setup(&config(3)), rows, now, rng).expect("its own rows")
    };
    let end = |now| again(now).contacts.all[&0].deadline();
    let earlier = past.minus_ms(90_000);
    assert_eq!(end(past), Some(past.plus_ms(600_000)));
    assert_eq!(end(earlier), Some(earlier.plus_ms(600_000)));
}

#[test]
fn mix_40_a_clock_at_its_beginning_leaves_rows_that_are_read() {
    let mut client = joined(&config(3));
    client.contacts.line_number();
    client.contacts.all.insert(0, Partner::new(1, line(0)));
    client.contacts.activate_contact(0, NOW);
    // The service time of the contact has ended, and the client was not woken since.
    client.seen = NOW.plus_ms(700_000);
    let rng = &mut ChaCha20Rng::seed_from_u64(1);
    client.handle(Input::AllowMore(true), Time::from_ms(100_000), rng).expect("it may");
    let stored = rows(&mut client);
    assert!(restore(&config(3), &stored).is_ok());
}

#[test]
fn mix_44_parts_without_the_rest_are_no_snapshot() {
    let config = config(3);
    let mut client = joined(&config);
    client.take_snapshot(NOW);
    let before = rows(&mut client);
    for id in 0..2_000 {
        client.contacts.line_number();
        client.contacts.all.insert(id, Partner::new(1, line(id)));
    }
    (2_000..2_100).for_each(|id| drop(client.contacts.all.insert(id, Partner::new(1, full(0)))));
    client.take_snapshot(NOW);
    let parts = stores(&mut client);
    assert!(parts.len() > 4);
    for count in 0..=parts.len() {
        let mut stored = before.clone();
        parts[..count].iter().for_each(|part| store(&mut stored, part));
        let again = restore(&config, &stored).expect("the one before is there");
        assert_eq!(again.contacts.all.len(), if count < parts.len() { 0 } else { 2_100 });
        assert!(again.rows_aside().is_empty());
    }
}

#[test]
fn mix_41_a_row_that_cannot_be_read_costs_no_more_than_it_can_have_held() {
    let config = config(3);
    let mut client = joined(&config);
    client.contacts.line_number();
    client.contacts.all.insert(0, Partner::new(1, line(0)));
    client.take_snapshot(NOW);
    let sound = rows(&mut client);
    let seq = sound.keys().next_back().expect("a snapshot") + 1;
    let spent = |client: &Client| {
        let ledger = client.ledger().expect("it joined");
        Service::ALL.map(|service| ledger.used_rounds(service))
    };
    assert_eq!(spent(&restore(&config, &sound).expect("sound")), [0; 3]);
    let strange = [(vec![9; 2_048], RowFault::Unknown), (vec![], RowFault::Unknown)];
    let damaged = (vec![1; 2_048], RowFault::Damaged(mezza_core::DecodeError::Value));
    for (row, fault) in strange.into_iter().chain([damaged]) {
        let mut stored = sound.clone();
        stored.insert(seq, row);
        let again = restore(&config, &stored).expect("one row is no network");
        assert_eq!(again.rows_aside(), [RowsSetAside { seq, fault }]);
        assert!(again.has_contact(0));
        assert_eq!(spent(&again), [1; 3], "it may have been real");
        let last = Service::ALL.map(|service| again.last_sealed(service));
        assert_eq!(last, [None; 3], "which round it was is no word of the clock");
    }
    let mut cut = sound;
    for row in cut.values_mut() {
        row.truncate(100);
    }
    assert!(matches!(restore(&config, &cut), Err(RestoreError::Damaged(_))));
}

#[test]
fn mix_41_a_stream_that_does_not_go_on_costs_one_contact_its_root() {
    use crate::client::record::{RoundRecord, SealedSlot};
    let config = config(3);
    let policy = &config.services[0];
    let mut client = joined(&config);
    for id in 0..2 {
        client.contacts.line_number();
        client.contacts.all.insert(id, Partner::new(1, line(id)));
    }
    client.take_snapshot(NOW);
    let mut stored = rows(&mut client);
    let slot = SealedSlot { line: 1, start: 0, ack: 5, acked_by_partner: 0, piece: None };
    let id = RoundId { service: Service::Conversation, round: 101 };
    let record = RoundRecord {
        id,
        at: NOW,
        kind: PrivacyCost::from_policy(policy),
        interval_ms: policy.interval_ms,
        base: policy.base_round,
        charged: true,
        sealed: vec![slot],
        received: Vec::new(),
    };
    stored.insert(100, record.encode().to_vec());
    let mut again = restore(&config, &stored).expect("one contact is no network");
    assert_eq!(again.rows_aside(), [RowsSetAside { seq: 100, fault: RowFault::Stream }]);
    assert!(again.has_contact(0) && !again.has_contact(1));
    assert_eq!(again.last_sealed(Service::Conversation), Some(101), "the rest of the row counts");
    assert_eq!(again.ledger().map(|ledger| ledger.used_rounds(Service::Conversation)), Some(1));
    assert!(matches!(again.poll(), Some(Output::Broken(1))));
}

/// Versions before MIX-40 sealed rounds as their times came.
#[test]
fn mix_41_rounds_of_records_may_descend_and_the_last_one_does_not_fall() {
    use crate::client::record::RoundRecord;
    let config = config(3);
    let policy = &config.services[0];
    let mut client = joined(&config);
    client.take_snapshot(NOW);
    let mut stored = rows(&mut client);
    for (seq, round) in [(100, 105), (101, 103)] {
        let record = RoundRecord {
            id: RoundId { service: Service::Conversation, round },
            at: NOW,
            kind: PrivacyCost::from_policy(policy),
            interval_ms: policy.interval_ms,
            base: policy.base_round,
            charged: false,
            sealed: Vec::new(),
            received: Vec::new(),
        };
        stored.insert(seq, record.encode().to_vec());
    }
    let again = restore(&config, &stored).expect("its own rows");
    assert_eq!(
        (again.last_sealed(Service::Conversation), again.rows_aside().len()),
        (Some(105), 0)
    );
}

#[test]
fn mix_31_level_4_needs_budget_in_every_service() {
    let mut config = config(3);
    config.services.iter_mut().for_each(|policy| NoisePreset::Standard.fill_policy(policy));
    for at in 0..3 {
        let mut client = joined(&config);
        client.link =
            Link::Joined { trusted: true, failed: 0, asked: None, fetching: false, until: None };
        client.standing.verified = true;
        client.standing.draw_needed(&mut ChaCha20Rng::seed_from_u64(1));
        (0..8).for_each(|_| client.on_round_returned(128, 5_000, config.hash(), NOW));
        client.outputs.clear();
        client.notify_changes(NOW);
        assert!(matches!(client.poll(), Some(Output::Level(4))));
        let policy = config.services[at].clone();
        let mut levels = Vec::new();
        for _ in 0..policy.rounds {
            client
                .ledger
                .iter_mut()
                .for_each(|ledger| ledger.charge_round(PrivacyCost::from_policy(&policy)));
        }
        client.notify_changes(NOW);
        while let Some(output) = client.poll() {
            levels.extend(if let Output::Level(level) = output { Some(level) } else { None });
        }
        assert_eq!(levels, [1], "{:?}", policy.service);
    }
}

#[test]
fn invitations_wait_twice_as_long_each_time() {
    let invite =
        |ticket, to: u8| Invite { ticket, to: PublicKey([to; 32]), body: Wiping::new([0; 208]) };
    let mut invites = Invites::default();
    assert!(invites.push(invite(1, 1)) && invites.push(invite(2, 2)));
    let mut round = 10;
    for wait in [2, 4, 8, 16] {
        let waiting = invites.take_next(round, true).expect("its time has come");
        assert_eq!(waiting.invite.as_ref().map(|invite| invite.ticket), Some(1));
        invites.put_off(waiting, round);
        // The connection is lost, and the caller queues the invitation again.
        invites.detach_tickets();
        assert!(invites.take_next(round + wait, true).is_none());
        assert!(invites.push(invite(1, 1)));
        assert!(invites.take_next(round + wait - 1, true).is_none());
        assert!(invites.take_next(round + wait, false).is_none(), "half of the budget is used");
        round += wait;
    }
    (2..17).for_each(|to| assert!(invites.push(invite(9, to))));
    assert!(!invites.push(invite(9, 17)), "16 wait");
}
