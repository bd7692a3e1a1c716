//! The loop that drives a machine: due work, then one event, each followed by its outputs.
//!
//! ```text
//! due | event | end --> wake, hear or stop --> settle: store, carry out --> run_due_work
//! ```

use std::time::{Duration, Instant};

use mezza_core::Time;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::api::{Exit, Fault};
use crate::clock::now;

/// A machine, and the components that carry out its outputs.
pub trait Shell: Send {
    /// An event of the machine's task.
    type Event: Send;

    /// Returns the time that drives the machine: the time of day unless overridden.
    fn now(&self) -> Time {
        now()
    }

    /// Returns the latest time of the next wake-up, on that clock.
    fn deadline(&self) -> Option<Time>;

    /// Wakes the machine at its deadline, or after a long time without a wake-up.
    fn wake(&mut self, now: Time);

    /// Handles an event.
    fn handle_event(&mut self, event: Self::Event);

    /// Returns how many waiting events are handled before the outputs are carried out, so that one
    /// durable write serves all of them.
    fn events_at_once(&self) -> usize {
        1
    }

    /// Carries out the outputs of the machine, and their consequences.
    fn settle_outputs(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Does due work outside of the machine. A result ends the loop.
    fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
        None
    }

    /// Handles the end of the program; its outputs are still carried out.
    fn stop(&mut self);
}

/// Consecutive wake-ups with a machine due again after which the loop pauses.
const SPINS_MAX: u32 = 256;
/// The pause after [`SPINS_MAX`] wake-ups without progress.
const SPIN_PAUSE: Duration = Duration::from_millis(5);

/// Drives a machine until `stop` turns true, all senders of events are dropped, or its shell ends.
/// The machine is woken after `nap` at the latest, even under a stream of events: setting the clock
/// back moves its deadline far away (MIX-49).
///
/// # Errors
/// A fault that ends the shell.
pub async fn run_shell<S: Shell>(
    mut shell: S,
    mut events: mpsc::Receiver<S::Event>,
    mut stop: watch::Receiver<bool>,
    nap: Duration,
) -> Result<Exit, Fault> {
    let mut woken = Instant::now();
    let mut spins = 0;
    loop {
        let due = shell.deadline().map(|due| Duration::from_millis(due.since_ms(shell.now())));
        let longest = nap.saturating_sub(woken.elapsed());
        let pause = due.map_or(longest, |due| due.min(longest));
        // Due work comes before new events. A machine that is always due must not block events and
        // the end of the program, so work and events alternate, and after many wake-ups the loop
        // pauses.
        if pause.is_zero() {
            if *stop.borrow() {
                break;
            }
            woken = Instant::now();
            let now = shell.now();
            shell.wake(now);
            spins += 1;
            if spins > 1 {
                match events.try_recv() {
                    Ok(event) => shell.handle_event(event),
                    Err(TryRecvError::Disconnected) => break,
                    Err(TryRecvError::Empty) => tokio::task::yield_now().await,
                }
            }
            if spins % SPINS_MAX == 0 {
                if spins == SPINS_MAX {
                    tracing::warn!(target: "mezza", "a machine is due again and again: this is a bug");
                }
                sleep(SPIN_PAUSE).await;
            }
        } else {
            spins = 0;
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                event = events.recv() => match event {
                    Some(event) => shell.handle_event(event),
                    None => break,
                },
                () = sleep(pause) => continue,
            }
            for _ in 1..shell.events_at_once() {
                let Ok(event) = events.try_recv() else { break };
                shell.handle_event(event);
            }
        }
        shell.settle_outputs().await?;
        if let Some(end) = shell.run_due_work() {
            return end;
        }
    }
    shell.stop();
    shell.settle_outputs().await?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: Duration = Duration::from_millis(300);

    /// A shell that ends when it is woken.
    struct Asleep {
        begun: Instant,
        heard: u32,
        woken: bool,
    }

    impl Shell for Asleep {
        type Event = ();

        fn deadline(&self) -> Option<Time> {
            Some(now().plus_ms(Time::HOUR_MS))
        }

        fn wake(&mut self, _now: Time) {
            self.woken = true;
        }

        fn handle_event(&mut self, (): ()) {
            self.heard += 1;
            assert!(self.begun.elapsed() < 3 * NAP, "nobody woke it");
        }

        async fn settle_outputs(&mut self) -> Result<(), Fault> {
            Ok(())
        }

        fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
            self.woken.then_some(Ok(if self.heard > 1 { Exit::Done } else { Exit::No }))
        }

        fn stop(&mut self) {
            panic!("nobody stopped it");
        }
    }

    /// A shell that is always due, and counts its events.
    struct Restless {
        heard: u32,
    }

    impl Shell for Restless {
        type Event = ();

        fn deadline(&self) -> Option<Time> {
            Some(Time::from_ms(0))
        }

        fn wake(&mut self, _now: Time) {}

        fn handle_event(&mut self, (): ()) {
            self.heard += 1;
        }

        async fn settle_outputs(&mut self) -> Result<(), Fault> {
            Ok(())
        }

        fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
            (self.heard == 3).then_some(Ok(Exit::No))
        }

        fn stop(&mut self) {}
    }

    #[tokio::test]
    async fn node_18_a_machine_that_is_due_for_ever_starves_no_event_and_no_stop() {
        let (busy, events) = mpsc::channel(4);
        for () in [(); 3] {
            busy.send(()).await.unwrap();
        }
        let (_stop, stopped) = watch::channel(false);
        let shell = Restless { heard: 0 };
        assert_eq!(
            run_shell(shell, events, stopped, NAP).await,
            Ok(Exit::No),
            "all three were heard"
        );
        let (stop, stopped) = watch::channel(false);
        let (_busy, events) = mpsc::channel(1);
        let running = run_shell(Restless { heard: 10 }, events, stopped, NAP);
        let stops = async move {
            tokio::task::yield_now().await;
            stop.send(true).unwrap();
        };
        assert_eq!(tokio::join!(running, stops).0, Ok(Exit::Done));
    }

    /// A shell that handles two events before their outputs, and notes how many it settled at once.
    #[derive(Default)]
    struct Paired {
        heard: usize,
        settled: Vec<usize>,
    }

    impl Shell for Paired {
        type Event = ();

        fn deadline(&self) -> Option<Time> {
            None
        }

        fn wake(&mut self, _now: Time) {}

        fn handle_event(&mut self, (): ()) {
            self.heard += 1;
        }

        fn events_at_once(&self) -> usize {
            2
        }

        async fn settle_outputs(&mut self) -> Result<(), Fault> {
            self.settled.push(std::mem::take(&mut self.heard));
            Ok(())
        }

        fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
            (self.settled.len() == 2).then(|| {
                assert_eq!(self.settled, [2, 1]);
                Ok(Exit::No)
            })
        }

        fn stop(&mut self) {}
    }

    #[tokio::test]
    async fn node_18_events_that_wait_are_settled_together() {
        let (busy, events) = mpsc::channel(4);
        for () in [(); 3] {
            busy.send(()).await.unwrap();
        }
        let (_stop, stopped) = watch::channel(false);
        assert_eq!(run_shell(Paired::default(), events, stopped, NAP).await, Ok(Exit::No));
    }

    #[tokio::test]
    async fn mix_49_a_machine_is_woken_once_a_second_however_much_comes() {
        let (busy, events) = mpsc::channel(1);
        let comes = tokio::spawn(async move {
            while busy.send(()).await.is_ok() {
                sleep(NAP / 20).await;
            }
        });
        let (_stop, stopped) = watch::channel(false);
        let shell = Asleep { begun: Instant::now(), heard: 0, woken: false };
        assert_eq!(run_shell(shell, events, stopped, NAP).await, Ok(Exit::Done));
        comes.await.unwrap();
    }
}
