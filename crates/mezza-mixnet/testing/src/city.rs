//! A whole network in one test, with the virtual clock of its coordinator. Clients are frames.

use std::collections::BTreeMap;

use mezza_core::{Backend, Machine as _, PortableBackend, Time};
use mezza_mixnet::RoundId;
use mezza_mixnet::config::{Config, SignatureSet, SignedConfig};
use mezza_mixnet::coordinator::{Coordinator, CoordinatorError, Ending, Input, Output};
use mezza_mixnet::mix::{self, Neighbour};
use mezza_mixnet::wire::frame::VERSION;
use mezza_mixnet::wire::{Frame, FrameBody, LinkDeframer, Manifest, MissedReason, SignedSettings};
use mezza_sim::handle_checked;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::fixture::{Net, OPEN, chain, config, signer};

/// A network with all servers but no clients: tests send the clients' frames.
pub struct City<B: Backend = PortableBackend> {
    pub net: Net<B>,
    pub entry: Coordinator,
    pub told: BTreeMap<u64, Vec<Frame>>,
    pub all: Vec<Frame>,
    pub hung_up: Vec<u64>,
    pub over: Vec<(RoundId, Ending)>,
    pub refused: Vec<CoordinatorError>,
    /// The contents of the bucket store; `None` while it is away.
    pub store: Option<BTreeMap<RoundId, Stored>>,
    /// Mixes to which no input is delivered.
    pub deaf: Vec<u8>,
    /// Number of times that a mix died.
    pub deaths: u32,
}

#[derive(Clone)]
pub struct Stored {
    manifest: (Manifest, [u8; 64]),
    objects: Vec<Vec<u8>>,
}

impl City {
    pub fn new() -> Self {
        Self::with_config(config(3))
    }

    pub fn with_config(config: Config) -> Self {
        Self::around_net(Net::new(config, 7))
    }
}

impl<B: Backend> City<B> {
    /// Creates a network whose entry server uses these mixes.
    pub fn around_net(mut net: Net<B>) -> Self {
        let config = &net.config;
        let mut genesis = SignedConfig::new(config.clone());
        genesis.add_signature(SignatureSet::Own, 0, &signer(1));
        let entry = Coordinator::new(signer(40), chain(config), vec![genesis]);
        net.now = OPEN.minus_ms(8_000);
        Self {
            net,
            entry,
            told: BTreeMap::new(),
            all: Vec::new(),
            hung_up: Vec::new(),
            over: Vec::new(),
            refused: Vec::new(),
            store: Some(BTreeMap::new()),
            deaf: Vec::new(),
            deaths: 0,
        }
    }

    pub fn input(&mut self, input: Input) {
        self.handle(input);
        self.settle();
    }

    pub fn handle(&mut self, input: Input) {
        let mut rng = ChaCha20Rng::seed_from_u64(0);
        let entry = &mut self.entry;
        let now = self.net.now;
        let outcome = if self.net.checks {
            handle_checked(entry, input, now, &mut rng)
        } else {
            entry.handle(input, now, &mut rng)
        };
        if let Err(error) = outcome {
            self.refused.push(error);
        }
    }

    pub fn settle(&mut self) {
        loop {
            while let Some(output) = self.entry.poll() {
                match output {
                    Output::ToMix(at, _) if self.deaf.contains(&at) => {}
                    Output::ToMix(at, frame) => {
                        let data = matches!(
                            frame,
                            Frame::Round(
                                _,
                                FrameBody::BatchStart { .. }
                                    | FrameBody::Onions(_)
                                    | FrameBody::BatchEnd { .. }
                            )
                        );
                        let from = if data { Neighbour::Previous } else { Neighbour::Coordinator };
                        self.net.input(at.into(), mix::Input::Frame(from, frame));
                    }
                    Output::ToStore(frame) => self.ask_store(&frame),
                    Output::ToClient(client, frame) => {
                        self.told.entry(client).or_default().push(frame);
                    }
                    Output::Bytes(client, bytes) => {
                        let told = self.told.entry(client).or_default();
                        let mut splitter = LinkDeframer::default();
                        let mut rest = &bytes[..];
                        while let Some(frame) = splitter.next_frame(&mut rest).expect("frames") {
                            told.push(Frame::decode(&frame).expect("our own frame"));
                        }
                    }
                    Output::ToAll(frame) => self.all.push(frame),
                    Output::Close(client) => self.hung_up.push(client),
                    Output::Over(id, ending) => self.over.push((id, ending)),
                }
            }
            let out = std::mem::take(&mut self.net.out);
            let died = std::mem::take(&mut self.net.died);
            if out.is_empty() && died.is_empty() {
                return;
            }
            for at in died {
                self.deaths += 1;
                self.handle(Input::MixLost(at as u8));
            }
            for (at, to, frame) in out {
                if to == Neighbour::Store {
                    self.tell_store(at, frame);
                } else {
                    self.handle(Input::FromMix(at as u8, frame));
                }
            }
        }
    }

    pub fn tell_store(&mut self, at: usize, frame: Frame) {
        let (Some(store), Frame::Round(id, body)) = (&mut self.store, frame) else { return };
        match body {
            FrameBody::Put { manifest, signature } => {
                let objects = vec![Vec::new(); manifest.entries.len()];
                store.insert(id, Stored { manifest: (manifest, signature), objects });
            }
            FrameBody::Chunk { bucket, bytes, .. } => {
                let held = store.get_mut(&id).expect("a manifest came before");
                held.objects[bucket as usize - 1].extend(bytes);
            }
            other => panic!("the store does not take {other:?}"),
        }
        let held = &store[&id];
        let lens = held.manifest.0.entries.iter().map(|entry| entry.len as usize);
        if held.objects.iter().map(Vec::len).eq(lens) {
            self.net.send_frame(at, Neighbour::Store, id, FrameBody::Stored);
        }
    }

    pub fn ask_store(&mut self, frame: &Frame) {
        let (Some(store), Frame::Round(id, FrameBody::Fetch { bucket })) = (&self.store, frame)
        else {
            return;
        };
        let held = store[id].clone();
        let bytes = held.objects[*bucket as usize - 1].clone();
        self.handle(Input::FromStore(Frame::Round(*id, FrameBody::Object(Some(held.manifest)))));
        let chunk = FrameBody::Chunk { bucket: *bucket, offset: 0, bytes };
        self.handle(Input::FromStore(Frame::Round(*id, chunk)));
    }

    /// Runs until a time, from deadline to deadline.
    pub fn run_until(&mut self, end: Time) {
        let mut rng = ChaCha20Rng::seed_from_u64(0);
        while let Some(due) = self.entry.deadline().filter(|due| *due <= end) {
            self.net.now = due.max(self.net.now);
            self.entry.wake(self.net.now, &mut rng);
            self.settle();
        }
        self.net.now = end;
    }

    pub fn send_hello(&mut self, client: u64) {
        let hello = Frame::Hello { version: VERSION, config: [0; 32] };
        self.input(Input::FromClient(client, hello));
    }

    pub fn send_onions(&mut self, client: u64, id: RoundId, onions: &[u8]) {
        let submit = Frame::Round(id, FrameBody::Submit(onions.to_vec()));
        self.input(Input::FromClient(client, submit));
    }

    pub fn announced_settings(&self, id: RoundId) -> Option<SignedSettings> {
        self.all.iter().find_map(|frame| match frame {
            Frame::Round(its, FrameBody::Settings(announcement)) if *its == id => {
                Some(announcement.clone())
            }
            _ => None,
        })
    }

    pub fn missed_reasons(&self, client: u64) -> Vec<MissedReason> {
        let frames = self.told.get(&client).into_iter().flatten();
        frames
            .filter_map(|frame| match frame {
                Frame::Round(_, FrameBody::Missed(reason)) => Some(*reason),
                _ => None,
            })
            .collect()
    }

    pub fn returned_replies(&self, client: u64, id: RoundId) -> Option<(u32, Vec<u8>)> {
        self.told.get(&client)?.iter().find_map(|frame| match frame {
            Frame::Round(its, FrameBody::Return { users, replies }) if *its == id => {
                Some((*users, replies.clone()))
            }
            _ => None,
        })
    }
}
