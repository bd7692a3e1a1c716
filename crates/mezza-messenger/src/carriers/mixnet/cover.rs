//! A locked device in its mixnet: rounds go on without contacts and without the keys of the vault, so that
//! locking and unlocking show to nobody who watches the line (MIX-78).

use alloc::collections::VecDeque;

use mezza_core::{Backend, CryptoRng, EphemeralKey, Machine as _, Time, snapshot};
use mezza_lanes::Kernel;
use mezza_mixnet::client::{Client, Input, LiveLine, Output};

use super::network::{dial_address, search_address};
use super::{MixnetInput, MixnetOutput, NetworkAddress};

/// The line of a device to its mixnet, between an unlocked and a locked device.
pub struct MixnetLine {
    pub(super) link: NetworkAddress,
    pub(super) line: LiveLine,
}

snapshot!(struct MixnetLine { link, line });

/// The rounds of a locked device. It is driven as the carrier of an unlocked device is: inputs go in, and
/// `poll` returns what is to be done until it returns `None`.
pub struct MixnetCover<B: Backend> {
    link: NetworkAddress,
    client: Client<B>,
    outputs: VecDeque<MixnetOutput>,
}

impl<B: Backend> MixnetCover<B> {
    /// Goes on with the line of a device that is locked.
    pub fn new(
        line: MixnetLine,
        kernel: &'static dyn Kernel,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let MixnetLine { link, line } = line;
        let client = Client::idle(line, kernel, now, rng);
        Self { link, client, outputs: VecDeque::new() }
    }

    /// Takes a report of the line. What is refused changes nothing.
    pub fn handle(&mut self, input: MixnetInput, now: Time, rng: &mut dyn CryptoRng) {
        let input = match input {
            MixnetInput::Up { trusted } => Input::Up { trusted },
            MixnetInput::Down => Input::Down,
            MixnetInput::Frame { frame, age_ms } => Input::Frame { frame, age_ms },
            MixnetInput::Done(job, done) => Input::Done(job, done),
            MixnetInput::Lost(round) => Input::Lost(round),
            // Commands of a person need an unlocked device.
            MixnetInput::Join(_) | MixnetInput::Leave | MixnetInput::AskWho(_) => return,
        };
        // A frame that the client refuses is as one that never came, as in an unlocked device.
        let _ = self.client.handle(input, now, rng);
        self.drain_client(now, rng);
    }

    /// Does the work whose time has come.
    pub fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.client.wake(now, rng);
        self.drain_client(now, rng);
    }

    /// Returns the next order for the line.
    pub fn poll(&mut self) -> Option<MixnetOutput> {
        self.outputs.pop_front()
    }

    /// Returns the time of the next work.
    pub fn deadline(&self) -> Option<Time> {
        self.client.deadline()
    }

    /// Returns the line, for a device that is unlocked.
    pub fn into_line(self, now: Time) -> MixnetLine {
        MixnetLine { link: self.link, line: self.client.into_live_line(now) }
    }

    fn drain_client(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(output) = self.client.poll() {
            let answer = match output {
                Output::Dial { at, hello, search } => {
                    let (address, key) = match search {
                        Some(number) => (search_address(&self.link, &self.client, number), None),
                        None => dial_address(&self.link, &self.client, at.max(now)),
                    };
                    self.outputs.push_back(MixnetOutput::Connect { at, hello, address, key });
                    None
                }
                Output::Close => {
                    self.outputs.push_back(MixnetOutput::Disconnect);
                    None
                }
                Output::Frame(frame) => {
                    self.outputs.push_back(MixnetOutput::Frame(frame));
                    None
                }
                Output::Job(job) => {
                    self.outputs.push_back(MixnetOutput::Job(job));
                    None
                }
                Output::Want(pairs) => {
                    for _ in 0..pairs {
                        let pair = Input::Give(EphemeralKey::random::<B>(rng));
                        // Exactly the pairs that were asked for are never refused.
                        let _ = self.client.handle(pair, now, rng);
                    }
                    None
                }
                // Idle rounds serve nobody, so that nothing of them must outlive the process. The last rounds
                // are handed to the device when it is unlocked.
                Output::Store { seq, .. } => Some(Input::Stored(seq)),
                // The rest is for people and their contacts.
                _ => None,
            };
            if let Some(answer) = answer {
                // A row that was just asked for is never refused.
                let _ = self.client.handle(answer, now, rng);
            }
        }
    }
}
