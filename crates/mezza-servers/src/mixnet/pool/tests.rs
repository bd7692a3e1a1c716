use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use mezza_core::{PublicKey, Secret, Wiping};
use mezza_lanes::{FixedPoint, Scalar, Strided, portable};
use mezza_mixnet::Service;
use mezza_mixnet::job::{JobId, MatchJob, TableJob, UnwrapJob};
use mezza_mixnet::onion::Layer;
use tokio::runtime::Handle;

use super::*;

const ID: RoundId = RoundId { service: Service::Conversation, round: 7 };
const PATIENCE: Duration = Duration::from_secs(20);

/// The portable kernel. It records if a Tokio runtime is reachable, and blocks at a gate.
struct Watching;

static IN_RUNTIME: AtomicBool = AtomicBool::new(false);
static GATE: Mutex<()> = Mutex::new(());

impl Kernel for Watching {
    fn name(&self) -> &'static str {
        "watching"
    }

    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        IN_RUNTIME.fetch_or(Handle::try_current().is_ok(), Ordering::SeqCst);
        drop(GATE.lock());
        portable().x25519_shared(k, u, out);
    }

    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        portable().x25519_pairwise(k, u, out);
    }

    fn fixed_point(&self, u: &[u8; 32]) -> Option<FixedPoint> {
        portable().fixed_point(u)
    }

    fn is_fixed_point(&self, u: &[u8; 32]) -> bool {
        portable().is_fixed_point(u)
    }

    fn x25519_fixed(&self, p: &FixedPoint, k: &[[u8; 32]], out: &mut [[u8; 32]]) {
        portable().x25519_fixed(p, k, out);
    }

    fn seal_each(&self, keys: &[[u8; 32]], m: Strided<'_>) {
        portable().seal_each(keys, m);
    }

    fn open_each(&self, keys: &[[u8; 32]], m: Strided<'_>, ok: &mut [u8]) {
        portable().open_each(keys, m, ok);
    }
}

/// Makes a job that unwraps one onion; an impossible `size` makes the job panic.
fn unwrap(size: usize) -> Job {
    Job::Unwrap(UnwrapJob {
        ticket: JobId { id: ID, index: 0 },
        secret: Arc::new(Scalar::copy_from(&[7; 32])),
        layer: Layer { id: ID, position: 0, key: PublicKey([9; 32]) },
        frame: Arc::new(Wiping::new(vec![1; 416])),
        part: 0..416,
        size,
    })
}

fn table() -> Job {
    Job::Table(TableJob { id: ID, layers: Vec::new() })
}

fn matching() -> Job {
    Job::Match(MatchJob { id: ID, parts: Vec::new(), seed: Secret::init_with(|_| {}) })
}

fn pool() -> (WorkerPool, Receiver<JobEnd>) {
    let (told, outcomes) = channel();
    let report = move |outcome| told.send(outcome).unwrap();
    let pool = WorkerPool::start(1, &Watching, Arc::default(), report).unwrap();
    (pool, outcomes)
}

#[tokio::test]
async fn a_job_sees_no_runtime() {
    let (pool, outcomes) = pool();
    assert!(Handle::try_current().is_ok());
    assert!(pool.submit(unwrap(416)));
    assert!(matches!(outcomes.recv_timeout(PATIENCE), Ok(JobEnd::Done(Job::Unwrap(_), _))));
    assert!(!IN_RUNTIME.load(Ordering::SeqCst));
}

#[test]
fn a_job_that_panics_loses_its_round_and_no_thread() {
    let (pool, outcomes) = pool();
    assert!(pool.submit(unwrap(1)));
    assert!(matches!(outcomes.recv_timeout(PATIENCE), Ok(JobEnd::Lost(ID))));
    assert!(pool.submit(unwrap(416)));
    assert!(matches!(outcomes.recv_timeout(PATIENCE), Ok(JobEnd::Done(..))));
}

#[test]
fn what_a_round_waits_for_comes_first_and_what_nobody_wants_never() {
    let (pool, outcomes) = pool();
    let gate = GATE.lock().unwrap();
    // The first job holds the only thread at the gate while the others queue.
    assert!(pool.submit(unwrap(416)));
    while !pool.queue.lock_waiting().round.is_empty() {
        std::thread::yield_now();
    }
    assert!([table(), table(), matching(), unwrap(416)].into_iter().all(|job| pool.submit(job)));
    pool.retain(|job| !matches!(job, Job::Unwrap(_)));
    drop(gate);
    let kinds = (0..4).map(|_| match outcomes.recv_timeout(PATIENCE) {
        Ok(JobEnd::Done(Job::Unwrap(_), _)) => "unwrap",
        Ok(JobEnd::Done(Job::Match(_), _)) => "match",
        Ok(JobEnd::Done(Job::Table(_), _)) => "table",
        other => panic!("{other:?}"),
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["unwrap", "match", "table", "table"]);
    assert!(outcomes.try_recv().is_err());
}
