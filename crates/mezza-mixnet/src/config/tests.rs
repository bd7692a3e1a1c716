use super::*;
use mezza_core::Secret;
use proptest::prelude::*;

use crate::sign::Signer;

/// The key pair number `n` of a test.
pub fn signer(n: u8) -> Signer {
    Signer::from_seed(&Secret::init_with(|s| s.fill(n)))
}

/// Guardians 1 to `k`, in the order of their public keys.
pub fn guardians(k: u8) -> Vec<Signer> {
    let mut all = (1..=k).map(signer).collect::<Vec<_>>();
    all.sort_by_key(Signer::public_key);
    all
}

pub fn service(service: Service) -> ServicePolicy {
    ServicePolicy {
        service,
        base_round: 100,
        base_time: Time::from_ms(1_000_000),
        interval_ms: 5_000,
        ask_ms: 2_000,
        lead_ms: 5_000,
        collect_ms: 4_000,
        mix_limit_ms: 20_000,
        slots: 1,
        buckets: 1,
        mode: Mode::Gauss,
        mu: 40,
        scale: 6,
        epsilon_micro: 693_147,
        delta_pico: 100_000_000,
        rounds: 240_000,
        traps: if service.has_replies() { Traps { singles: 8, pairs: 4 } } else { Traps::NONE },
    }
}

/// A config of `n` mixes and three guardians of which two sign.
pub fn config(n: u8) -> Config {
    let server = |key: u8| Server {
        key: signer(key).public_key(),
        address: alloc::format!("mix{key}.example:70{key}"),
    };
    let mixes = (0..n).map(|i| MixServer { server: server(50 + i), operator: "Ada".into() });
    Config {
        network: NetworkId([0xaa; 16]),
        seq: 0,
        prev: [0; 32],
        valid_from: Time::from_ms(1_000_000),
        valid_until: Time::from_ms(9_000_000),
        threshold: 2,
        guardians: guardians(3).iter().map(Signer::public_key).collect(),
        coordinator: server(40),
        bucket: server(41),
        mixes: mixes.collect(),
        users_max: 1_000,
        services: Service::ALL.map(service).to_vec(),
    }
}

/// Returns the config signed by the guardians with these indices, as members of `set`.
pub fn signed(config: &Config, set: SignatureSet, by: &[u8]) -> SignedConfig {
    let mut signed = SignedConfig::new(config.clone());
    for i in by {
        signed.add_signature(set, *i, &guardians(3)[usize::from(*i)]);
    }
    signed
}

pub fn successor(of: &Config) -> Config {
    let valid_from = of.valid_from.plus_ms(1_000_000);
    let mut next = Config { seq: of.seq + 1, prev: of.hash(), valid_from, ..of.clone() };
    next.valid_until = valid_from.plus_ms(8_000_000);
    for service in &mut next.services {
        service.base_round += 1_000;
        service.base_time = valid_from;
    }
    next
}

/// The time when genesis begins.
pub const EARLY: Time = Time::from_ms(1_000_000);

/// Returns a chain with genesis only.
pub fn chain() -> Chain {
    let genesis = config(3);
    Chain::begin(&genesis.hash(), &signed(&genesis, SignatureSet::Own, &[0, 2])).expect("genesis")
}

/// Returns a chain with as many future configs as it may store, and the last of them.
fn full() -> (Chain, Config) {
    let mut chain = chain();
    for _ in 1..64 {
        let next = successor(chain.head_config());
        chain
            .accept_config(&signed(&next, SignatureSet::Predecessor, &[0, 1]), EARLY)
            .expect("it fits");
    }
    let head = chain.head_config().clone();
    (chain, head)
}

/// Returns for each refusal of [`Chain::accept`] a chain and the config that it refuses, at a time
/// when only genesis has begun.
pub fn refused_configs() -> Vec<(ChainError, Chain, SignedConfig)> {
    let next = successor(&config(3));
    let of = |config: &Config| signed(config, SignatureSet::Predecessor, &[0, 1]);
    let (full, last) = full();
    let other = Config { users_max: 7, ..config(3) };
    let mut early = next.clone();
    early.services[0].base_round = 300;
    let unsigned = ChainError::Unsigned { valid: 0, needed: 2 };
    Vec::from([
        (ChainError::Foreign, chain(), of(&Config { network: NetworkId([1; 16]), ..next.clone() })),
        (ChainError::Rollback, chain(), signed(&other, SignatureSet::Own, &[0, 1])),
        (ChainError::Gap, chain(), of(&Config { seq: 2, ..next.clone() })),
        (unsigned, chain(), SignedConfig::new(next.clone())),
        (ChainError::TooMany, full, of(&successor(&last))),
        (ChainError::Full, chain(), of(&Config { seq: 1_024, ..next })),
        (ChainError::Rounds, chain(), of(&early)),
    ])
}

#[test]
fn what_is_encoded_is_decoded() {
    for n in 1..=8 {
        let config = config(n);
        let signed = signed(&config, SignatureSet::Own, &[0, 1]);
        let bytes = signed.encode();
        assert_eq!(SignedConfig::decode(&bytes), Ok(signed));
        for cut in 0..bytes.len() {
            assert!(SignedConfig::decode(&bytes[..cut]).is_err(), "cut to {cut}");
        }
        let mut long = bytes;
        long.push(0);
        assert_eq!(SignedConfig::decode(&long), Err(DecodeError::Trailing));
    }
}

proptest! {
    #[test]
    fn what_is_decoded_is_encoded_alike(at in 0_usize..900, value: u8) {
        let mut bytes = signed(&config(3), SignatureSet::Own, &[0, 1]).encode();
        let at = at % bytes.len();
        bytes[at] = value;
        if let Ok(decoded) = SignedConfig::decode(&bytes) {
            prop_assert_eq!(decoded.encode(), bytes);
        }
    }
}

#[test]
fn values_outside_their_limits_are_refused() {
    let wrong: [fn(&mut Config); 21] = [
        |c| c.threshold = 0,
        |c| c.threshold = 4,
        |c| c.guardians.swap(0, 1),
        |c| c.guardians[1] = c.guardians[0],
        |c| c.mixes.clear(),
        |c| c.mixes[1].server.key = c.mixes[0].server.key,
        |c| c.coordinator.key = c.guardians[0],
        |c| c.coordinator.address = "host".into(),
        |c| c.bucket.address = "host:070".into(),
        |c| c.bucket.address = "ho st:70".into(),
        |c| c.bucket.address = "host:70000".into(),
        |c| c.users_max = 0,
        |c| c.users_max = 4_000_001,
        |c| c.services.clear(),
        |c| c.services.swap(0, 1),
        |c| c.services[1] = c.services[0].clone(),
        |c| c.services[0].slots = 6,
        |c| c.services[0].mu = 41,
        |c| c.services[1].buckets = 3,
        |c| c.services[1].interval_ms = 0,
        |c| c.valid_until = c.valid_from,
    ];
    for (number, change) in wrong.iter().enumerate() {
        let mut config = config(3);
        change(&mut config);
        assert_eq!(Config::decode(&config.encode()), Err(DecodeError::Value), "change {number}");
    }
}

#[test]
fn mix_2_a_successor_needs_number_predecessor_and_signatures() {
    let base = chain();
    let next = successor(base.head_config());
    let set = SignatureSet::Predecessor;
    let taken =
        |config: &Config, by: &[u8]| base.clone().accept_config(&signed(config, set, by), EARLY);
    assert_eq!(taken(&next, &[0, 1]), Ok(()));
    assert_eq!(taken(&next, &[1]), Err(ChainError::Unsigned { valid: 1, needed: 2 }));
    let mut twice = SignedConfig::new(next.clone());
    twice.add_signature(set, 0, &guardians(3)[0]);
    twice.add_signature(set, 1, &guardians(3)[0]);
    assert_eq!(
        base.clone().accept_config(&twice, EARLY),
        Err(ChainError::Unsigned { valid: 1, needed: 2 }),
        "one guardian is not two"
    );
    let own = signed(&next, SignatureSet::Own, &[0, 1]);
    assert!(base.clone().accept_config(&own, EARLY).is_err(), "the new set cannot appoint itself");
    let foreign = Config { network: NetworkId([1; 16]), ..next.clone() };
    assert_eq!(taken(&foreign, &[0, 1]), Err(ChainError::Foreign));
    assert_eq!(taken(&Config { prev: [7; 32], ..next.clone() }, &[0, 1]), Err(ChainError::Foreign));
    assert_eq!(taken(&Config { seq: 2, ..next.clone() }, &[0, 1]), Err(ChainError::Gap));
    let mut early = next;
    early.services[0].base_round = 100 + 200;
    assert_eq!(taken(&early, &[0, 1]), Err(ChainError::Rounds));
    early.services[0].base_round = 100 + 201;
    assert_eq!(taken(&early, &[0, 1]), Ok(()));
}

#[test]
fn mix_2_a_new_set_of_guardians_signs_too() {
    let mut base = chain();
    let next = Config { threshold: 3, ..successor(base.head_config()) };
    let mut both = signed(&next, SignatureSet::Predecessor, &[0, 1]);
    assert_eq!(
        base.accept_config(&both, EARLY),
        Err(ChainError::Unsigned { valid: 0, needed: 3 }),
        "the new threshold holds for the new set"
    );
    for i in 0..3 {
        both.add_signature(SignatureSet::Own, i, &guardians(3)[usize::from(i)]);
    }
    assert_eq!(base.accept_config(&both, EARLY), Ok(()));
}

#[test]
fn mix_2_genesis_is_pinned() {
    let genesis = config(3);
    let good = signed(&genesis, SignatureSet::Own, &[0, 1]);
    assert_eq!(Chain::begin(&[0; 32], &good).err(), Some(ChainError::NotPinned));
    let unsigned = SignedConfig::new(genesis.clone());
    let error = Chain::begin(&genesis.hash(), &unsigned).err();
    assert_eq!(error, Some(ChainError::Unsigned { valid: 0, needed: 2 }));
}

#[test]
fn mix_3_a_config_once_seen_stays() {
    let mut chain = chain();
    let genesis = chain.head_config().clone();
    let next = signed(&successor(&genesis), SignatureSet::Predecessor, &[0, 1]);
    chain.accept_config(&next, EARLY).expect("a successor");
    let before = chain.clone();
    let other = Config { users_max: 7, ..successor(&genesis) };
    let other = signed(&other, SignatureSet::Predecessor, &[0, 1, 2]);
    assert_eq!(chain.accept_config(&other, EARLY), Err(ChainError::Rollback));
    let other = Config { users_max: 7, ..genesis.clone() };
    let other = signed(&other, SignatureSet::Own, &[0, 1, 2]);
    assert_eq!(chain.accept_config(&other, EARLY), Err(ChainError::Rollback));
    assert_eq!(chain.accept_config(&next, EARLY), Ok(()), "the same again changes nothing");
    assert_eq!(chain, before);
}

#[test]
fn a_config_takes_over_when_it_begins_and_ends_when_it_ends() {
    let mut chain = chain();
    let genesis = chain.head_config().clone();
    let next = successor(&genesis);
    chain
        .accept_config(&signed(&next, SignatureSet::Predecessor, &[0, 1]), EARLY)
        .expect("a successor");
    assert_eq!(chain.current_config(genesis.valid_from.minus_ms(1)), None);
    assert_eq!(chain.current_config(next.valid_from.minus_ms(1)), Some(&genesis));
    assert_eq!(chain.current_config(next.valid_from), Some(&next));
    assert_eq!(chain.current_config(next.valid_until), None, "an end is an end");
    let hash = |now| chain.current_hash(now);
    assert_eq!(hash(next.valid_until.minus_ms(1)), Some(next.hash()));
    assert_eq!(hash(next.valid_until), None, "its hash ends with it");
    let from = |now| chain.from_now(now).map(|config| config.seq).collect::<Vec<_>>();
    assert_eq!(from(genesis.valid_from.minus_ms(1)), [0, 1], "none has begun");
    assert_eq!(from(next.valid_from.minus_ms(1)), [0, 1]);
    assert_eq!(from(next.valid_from), [1]);
    assert_eq!(chain.genesis_hash(), genesis.hash());
}

/// Returns the stored form of a chain, even if its configs do not follow each other.
fn stored(pin: [u8; 32], configs: &[&Config]) -> Vec<u8> {
    let mut w = Writer::new();
    w.put_bytes(&pin).put_u8(configs.len() as u8);
    for config in configs {
        w.put_var16(&config.encode());
    }
    w.finish()
}

#[test]
fn mix_3_a_stored_chain_is_read_only_if_its_configs_follow_one_another() {
    let mut chain = chain();
    let genesis = chain.head_config().clone();
    let pin = chain.genesis_hash();
    let next = successor(&genesis);
    chain
        .accept_config(&signed(&next, SignatureSet::Predecessor, &[0, 1]), EARLY)
        .expect("a successor");
    let mut w = Writer::new();
    chain.write_to(&mut w);
    let good = stored(pin, &[&genesis, &next]);
    assert_eq!(w.finish(), good);
    let read = |bytes: &[u8]| Reader::decode_exact(bytes, Chain::read_from);
    assert_eq!(read(&good), Ok(chain));
    assert!(read(&stored(pin, &[&next])).is_ok(), "the first ones are forgotten in time");
    let gap = Config { seq: 2, ..next.clone() };
    let other = Config { prev: [7; 32], ..next.clone() };
    let foreign = Config { network: NetworkId([1; 16]), ..next.clone() };
    for wrong in [
        stored([7; 32], &[&genesis, &next]),
        stored(next.hash(), &[&next]),
        stored(pin, &[&genesis, &gap]),
        stored(pin, &[&genesis, &other]),
        stored(pin, &[&genesis, &foreign]),
        stored(pin, &[&next, &next]),
        stored(pin, &[]),
    ] {
        assert_eq!(read(&wrong), Err(DecodeError::Value));
    }
}

#[test]
fn mix_50_a_clock_that_is_ahead_forgets_no_config_in_force() {
    let mut chain = chain();
    let genesis = chain.head_config().clone();
    let next = successor(&genesis);
    let late = next.valid_from.plus_ms(1_000_000_000);
    chain
        .accept_config(&signed(&next, SignatureSet::Predecessor, &[0, 1]), late)
        .expect("a successor");
    assert_eq!(chain.current_config(genesis.valid_from), Some(&genesis));
    let mut head = next;
    for _ in 0..200 {
        let next = successor(&head);
        let by = signed(&next, SignatureSet::Predecessor, &[0, 1]);
        chain.accept_config(&by, late).expect("those that are long over make room");
        assert_eq!(chain.current_config(head.valid_from), Some(&head));
        head = next;
    }
}

#[test]
fn rounds_follow_from_the_time() {
    let policy = service(Service::Conversation);
    let base = policy.base_time;
    assert_eq!(policy.round_at(base.minus_ms(1)), None);
    assert_eq!(policy.round_at(base.plus_ms(4_999)), Some(100));
    assert_eq!(policy.round_at(base.plus_ms(5_000)), Some(101));
    assert_eq!(policy.open_time(102), Some(base.plus_ms(10_000)));
    assert_eq!((policy.open_time(99), policy.open_time(u64::MAX)), (None, None));
    assert_eq!(policy.secret_ms(), 32_000);
}

#[test]
fn mix_76_a_successor_begins_after_the_config_before_it() {
    let mut chain = chain();
    let genesis = chain.head_config().clone();
    for early_ms in [0, 1] {
        let mut next = successor(&genesis);
        next.valid_from = genesis.valid_from.minus_ms(early_ms);
        next.services.iter_mut().for_each(|service| service.base_time = next.valid_from);
        let by = signed(&next, SignatureSet::Predecessor, &[0, 1]);
        assert_eq!(chain.accept_config(&by, EARLY), Err(ChainError::Rounds));
    }
}

/// A successor of the genesis that begins an hour after it and has rounds three times as long.
fn slower_successor(genesis: &Config) -> Config {
    let mut next = successor(genesis);
    next.valid_from = genesis.valid_from.plus_ms(Time::HOUR_MS);
    next.valid_until = next.valid_from.plus_ms(365 * Time::DAY_MS);
    for service in &mut next.services {
        service.base_time = next.valid_from;
        service.base_round = 100 + 3_600 / 5 + 1;
        service.interval_ms = 15_000;
    }
    next
}

#[test]
fn mix_86_a_slower_successor_that_begins_in_the_past_counts_anew() {
    let genesis = config(3);
    let next = slower_successor(&genesis);
    let none = Vec::<Service>::new();
    assert_eq!(genesis.counted_anew(&next, next.valid_from.minus_ms(1)), none, "it is in time");
    let late = next.valid_from.plus_ms(Time::DAY_MS);
    assert_eq!(genesis.counted_anew(&next, late), Service::ALL, "numbers of a day come again");
    let mut quick = next.clone();
    quick.services.iter_mut().for_each(|service| service.interval_ms = 5_000);
    assert_eq!(genesis.counted_anew(&quick, late), none, "numbers go on from the begin");

    let mut mended = next;
    for service in &mut mended.services {
        let first = genesis.base_round_after(service.service, mended.valid_from, late);
        service.base_round = first.expect("numbers are left");
    }
    for days in [0, 5] {
        let signed_at = late.plus_ms(days * Time::DAY_MS);
        assert_eq!(genesis.counted_anew(&mended, signed_at), none, "guardians get {days} days");
    }
    assert_eq!(genesis.counted_anew(&mended, late.plus_ms(30 * Time::DAY_MS)), Service::ALL);
    mended.services.truncate(2);
    assert_eq!(genesis.counted_anew(&mended, late), [Service::Invitation]);
}
