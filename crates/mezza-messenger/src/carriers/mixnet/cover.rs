//! Mixnet rounds of a locked device. Rounds continue without contacts and without the vault's keys,
//! so that an observer of the line cannot see when the device is locked (MIX-78).

use alloc::collections::VecDeque;

use mezza_core::{Backend, CryptoRng, EphemeralKey, Machine as _, Time, snapshot};
use mezza_lanes::Kernel;
use mezza_mixnet::client::{Client, Input, LiveLine, Output};

use super::network::{dial_address, search_address};
use super::{MixnetInput, MixnetOutput, NetworkAddress};

/// The mixnet line of a device, passed between its locked and unlocked form.
pub struct MixnetLine {
    pub(super) link: NetworkAddress,
    pub(super) line: LiveLine,
}

snapshot!(struct MixnetLine { link, line });

/// The rounds of a locked device. Its driver works as for an unlocked device: it passes inputs to
/// `handle` and carries out the results of `poll` until `None`.
pub struct MixnetCover<B: Backend> {
    link: NetworkAddress,
    client: Client<B>,
    outputs: VecDeque<MixnetOutput>,
}

impl<B: Backend> MixnetCover<B> {
    /// Continues the line of a device that was locked.
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

    /// Handles a report of the line. A refused input changes nothing.
    pub fn handle(&mut self, input: MixnetInput, now: Time, rng: &mut dyn CryptoRng) {
        let input = match input {
            MixnetInput::Up { trusted } => Input::Up { trusted },
            MixnetInput::Down => Input::Down,
            MixnetInput::Frame { frame, age_ms } => Input::Frame { frame, age_ms },
            MixnetInput::Done(job, done) => Input::Done(job, done),
            MixnetInput::Lost(round) => Input::Lost(round),
            // Commands of the user need an unlocked device.
            MixnetInput::Join(_) | MixnetInput::Leave | MixnetInput::AskWho(_) => return,
        };
        // A refused frame is treated like a lost one, as in an unlocked device.
        let _ = self.client.handle(input, now, rng);
        self.drain_client(now, rng);
    }

    /// Runs all work that is due at `now`.
    pub fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.client.wake(now, rng);
        self.drain_client(now, rng);
    }

    /// Returns the next request to the driver.
    pub fn poll(&mut self) -> Option<MixnetOutput> {
        self.outputs.pop_front()
    }

    /// Returns the time of the next work, or `None` if none is planned.
    pub fn deadline(&self) -> Option<Time> {
        self.client.deadline()
    }

    /// Returns the line for the device that is being unlocked.
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
                        // The client refuses no key pair that it requested.
                        let _ = self.client.handle(pair, now, rng);
                    }
                    None
                }
                // Idle rounds carry no user data, so none of their state must survive the process.
                // At unlock the last rounds are passed to the device.
                Output::Store { seq, .. } => Some(Input::Stored(seq)),
                // The other outputs concern the user or contacts, which a locked device does not
                // serve.
                _ => None,
            };
            if let Some(answer) = answer {
                // The client accepts the result that it just requested.
                let _ = self.client.handle(answer, now, rng);
            }
        }
    }
}
