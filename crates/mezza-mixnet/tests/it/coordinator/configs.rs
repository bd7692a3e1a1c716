//! Configs at the entry: whatever their number, they fit into what may wait for one client.

use mezza_core::{Machine as _, Time};
use mezza_mixnet::config::{Chain, ChainError, Config, SignatureSet, SignedConfig};
use mezza_mixnet::coordinator::{Coordinator, Input, Output};
use mezza_mixnet::limits::CONFIGS_MAX;
use mezza_mixnet::wire::{Frame, LinkDeframer};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::fixture::{OPEN, config, signer};

/// Parcels that may wait for one client in the program.
const PARCELS_MAX: usize = 64;

/// A genesis and its successors, one a minute.
fn configs(count: usize) -> Vec<SignedConfig> {
    let mut next = config(1);
    let mut all = Vec::new();
    for seq in 0..count {
        let mut signed = SignedConfig::new(next.clone());
        let set = if seq == 0 { SignatureSet::Own } else { SignatureSet::Predecessor };
        signed.add_signature(set, 0, &signer(1));
        all.push(signed);
        next = successor(&next);
    }
    all
}

fn successor(before: &Config) -> Config {
    let valid_from = before.valid_from.plus_ms(60_000);
    let mut next =
        Config { seq: before.seq + 1, prev: before.hash(), valid_from, ..before.clone() };
    for service in &mut next.services {
        service.base_round += 1_000;
        service.base_time = valid_from;
    }
    next
}

fn chain(configs: &[SignedConfig], now: Time) -> Result<Chain, ChainError> {
    let mut chain = Chain::begin(&configs[0].config().hash(), &configs[0])?;
    configs[1..].iter().try_for_each(|next| chain.accept_config(next, now))?;
    Ok(chain)
}

#[test]
fn mix_43_as_many_configs_as_a_network_may_have_reach_a_client() {
    let now = OPEN.plus_ms(Time::DAY_MS / 2);
    let rng = &mut ChaCha20Rng::seed_from_u64(1);
    let all = configs(CONFIGS_MAX);
    let behind = [(70, 0_usize), (100, 0), (CONFIGS_MAX, 0), (CONFIGS_MAX, 1), (100, 99), (64, 64)];
    for (count, from) in behind {
        let own = all[..count].to_vec();
        let known = from.checked_sub(1).map_or([0; 32], |at| own[at].config().hash());
        let chain = chain(&own, now).expect("they follow one another");
        let mut entry = Coordinator::new(signer(40), chain, own.clone());
        let ask = Frame::FetchConfig { from: known };
        entry.handle(Input::FromClient(7, ask), now, rng).expect("for the first time");
        let parcels = std::iter::from_fn(|| entry.poll()).map(|output| match output {
            Output::Bytes(7, bytes) => bytes,
            other => panic!("{other:?}"),
        });
        let parcels = parcels.collect::<Vec<_>>();
        assert!(parcels.len() <= PARCELS_MAX / 2, "{count}: {} parcels", parcels.len());
        let mut got = Vec::new();
        let mut splitter = LinkDeframer::default();
        for parcel in &parcels {
            let mut rest = &parcel[..];
            while let Some(frame) = splitter.next_frame(&mut rest).expect("frames") {
                got.push(Frame::decode(&frame).expect("our own frame"));
            }
        }
        let due = own[from..].iter().enumerate().map(|(at, config)| {
            let left = (count - from - at - 1) as u16;
            Frame::Config { left, config: config.encode() }
        });
        assert!(got.into_iter().eq(due), "{count} from {from}");
    }
}

#[test]
fn mix_43_a_network_with_more_configs_than_it_may_have_is_refused_by_name() {
    let now = OPEN.plus_ms(Time::DAY_MS / 2);
    let all = configs(CONFIGS_MAX + 1);
    assert!(chain(&all[..CONFIGS_MAX], now).is_ok());
    assert_eq!(chain(&all, now), Err(ChainError::Full));
    assert!(ChainError::Full.to_string().contains("1,024"));
}
