//! The one loop around a machine: what is due, then one event, each with what follows from it.
//!
//! ```text
//! due | event | end --> wake, hear or stop --> settle: store, carry out --> run_due_work
//! ```

use std::time::{Duration, Instant};

use mezza_core::Time;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::api::{Exit, Fault};
use crate::clock::now;

/// A machine, and all that its outputs go to.
pub trait Shell: Send {
    /// An event of the machine's task.
    type Event: Send;

    /// The time that the machine is driven by: the time of day, unless the shell says otherwise.
    fn now(&self) -> Time {
        now()
    }

    /// When it is to be woken at the latest, by that time.
    fn deadline(&self) -> Option<Time>;

    /// Wakes the machine: its deadline has passed, or it has not been woken for long.
    fn wake(&mut self, now: Time);

    /// Takes an event in.
    fn hear(&mut self, event: Self::Event);

    /// Carries out what the machine wants, and what follows from that.
    fn settle(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Looks after what is no machine's; with an answer the loop ends.
    fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
        None
    }

    /// The program ends; what follows from that is settled.
    fn stop(&mut self);
}

/// Drives a machine until `stop` turns true, all senders of events are gone, or its shell ends it.
/// It is woken after `nap` at the latest, however many events come: a clock that was put back moves
/// its deadline far away (MIX-49).
///
/// # Errors
/// A fault that ends the shell.
pub async fn run<S: Shell>(
    mut shell: S,
    mut events: mpsc::Receiver<S::Event>,
    mut stop: watch::Receiver<bool>,
    nap: Duration,
) -> Result<Exit, Fault> {
    let mut woken = Instant::now();
    loop {
        let due = shell.deadline().map(|due| Duration::from_millis(due.since_ms(shell.now())));
        let longest = nap.saturating_sub(woken.elapsed());
        let pause = due.map_or(longest, |due| due.min(longest));
        // Due work goes before new events.
        if pause.is_zero() {
            if *stop.borrow() {
                break;
            }
            woken = Instant::now();
            let now = shell.now();
            shell.wake(now);
        } else {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                event = events.recv() => match event {
                    Some(event) => shell.hear(event),
                    None => break,
                },
                () = sleep(pause) => continue,
            }
        }
        shell.settle().await?;
        if let Some(end) = shell.run_due_work() {
            return end;
        }
    }
    shell.stop();
    shell.settle().await?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAP: Duration = Duration::from_millis(300);

    /// Ends when it is woken.
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

        fn hear(&mut self, (): ()) {
            self.heard += 1;
            assert!(self.begun.elapsed() < 3 * NAP, "nobody woke it");
        }

        async fn settle(&mut self) -> Result<(), Fault> {
            Ok(())
        }

        fn run_due_work(&mut self) -> Option<Result<Exit, Fault>> {
            self.woken.then_some(Ok(if self.heard > 1 { Exit::Done } else { Exit::No }))
        }

        fn stop(&mut self) {
            panic!("nobody stopped it");
        }
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
        assert_eq!(run(shell, events, stopped, NAP).await, Ok(Exit::Done));
        comes.await.unwrap();
    }
}
