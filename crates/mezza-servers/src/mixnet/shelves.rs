//! Buckets as files: a folder for each round, which appears whole or not at all.
//!
//! ```text
//! DIR/2-815.new/   1 2 .. m manifest      while the last mix puts
//! DIR/2-815/       1 2 .. m manifest      synced, then renamed, then said to be stored
//! ```

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use mezza_core::{DecodeError, Reader};
use mezza_mixnet::sign::Signature;
use mezza_mixnet::wire::{FrameBody, Manifest};
use mezza_mixnet::{RoundId, Service};

use mezza_host::api::Fault;
use mezza_host::process::home::private;

/// Rounds of one service that are stored; the entry fetches each round once, at its end.
const ROUNDS: usize = 16;
/// Most bytes of an object in one CHUNK.
const CHUNK_BYTES: usize = 262_000;
/// The suffix of the folder of an unfinished round.
const NEW: &str = ".new";

/// The folder of a bucket store.
#[derive(Debug)]
pub(crate) struct BucketDir {
    dir: PathBuf,
}

/// A round that is being uploaded.
#[derive(Debug)]
pub(crate) struct Upload {
    manifest: Manifest,
    signature: Signature,
    dir: PathBuf,
    object: Vec<u8>,
    /// The index in the manifest of that object.
    at: usize,
}

impl BucketDir {
    /// Opens the folder, or makes it with mode 0700, and removes the unfinished rounds of a crash.
    ///
    /// # Errors
    /// A folder with wrong owner or mode, or one that cannot be written.
    pub(crate) fn open(dir: &Path) -> Result<Self, Fault> {
        private::make_folder(dir)?;
        let shelves = Self { dir: dir.into() };
        for (path, _) in shelves.entries()?.into_iter().filter(|(_, id)| id.is_none()) {
            if path.extension().is_some_and(|end| end == &NEW[1..]) {
                fs::remove_dir_all(&path).map_err(|error| private::cannot_write(&path, &error))?;
            }
        }
        Ok(shelves)
    }

    /// Begins a round whose manifest was checked.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub(crate) fn begin_round(
        &self,
        manifest: Manifest,
        signature: Signature,
    ) -> Result<Upload, Fault> {
        let dir = self.dir.join(format!("{}{NEW}", round_name(manifest.id)));
        let made =
            fs::remove_dir_all(&dir).or_else(ignore_absent).and_then(|()| fs::create_dir(&dir));
        made.map_err(|error| private::cannot_write(&dir, &error))?;
        Ok(Upload { manifest, signature, dir, object: Vec::new(), at: 0 })
    }

    /// Makes a whole round durable and removes rounds beyond the limit: first those above `newest`,
    /// which a wrong clock caused, then the oldest. An existing round is kept: it was reported as
    /// stored, a mix signs each round once, and a folder cannot replace another atomically.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub(crate) fn keep_round(&self, upload: &Upload, newest: u64) -> Result<(), Fault> {
        let id = upload.id();
        let to = self.dir.join(round_name(id));
        let place = |from: &Path| if to.exists() { Ok(()) } else { fs::rename(from, &to) };
        let manifest = [&upload.manifest.encode()[..], &upload.signature].concat();
        let kept = write_synced(&upload.dir.join("manifest"), &manifest)
            .and_then(|()| sync_dir(&upload.dir))
            .and_then(|()| place(&upload.dir))
            .and_then(|()| sync_dir(&self.dir));
        kept.map_err(|error| private::cannot_write(&to, &error))?;
        self.forget_old(id.service, newest)
    }

    /// Returns true if round `id` may still be stored, where `latest` was stored last.
    pub(crate) fn may_hold(id: RoundId, latest: RoundId) -> bool {
        id.service != latest.service || id.round + ROUNDS as u64 > latest.round
    }

    fn forget_old(&self, service: Service, newest: u64) -> Result<(), Fault> {
        let mut rounds: Vec<_> = self
            .entries()?
            .into_iter()
            .filter_map(|(path, id)| Some((id?, path)))
            .filter(|(id, _)| id.service == service)
            .collect();
        rounds.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        let (due, ahead): (Vec<_>, Vec<_>) = rounds.iter().partition(|(id, _)| id.round <= newest);
        for (_, path) in ahead.into_iter().chain(due.into_iter().skip(ROUNDS)) {
            fs::remove_dir_all(path).map_err(|error| private::cannot_write(path, &error))?;
        }
        Ok(())
    }

    /// Returns the response for a bucket: OBJECT and its CHUNKs, or an empty OBJECT if the bucket
    /// is missing.
    ///
    /// # Errors
    /// If the disk cannot be read.
    pub(crate) fn read_bucket(&self, id: RoundId, bucket: u32) -> Result<Vec<FrameBody>, Fault> {
        let dir = self.dir.join(round_name(id));
        let read = |file: String| match fs::read(dir.join(file)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(private::cannot_read(&dir, &error)),
        };
        let described = read("manifest".into())?.and_then(|bytes| {
            let described = |r: &mut Reader<'_>| {
                Ok::<_, DecodeError>((Manifest::read_from(r)?, r.read_array()?))
            };
            Reader::decode_exact(&bytes, described).ok()
        });
        let Some((manifest, object)) = described.zip(read(bucket.to_string())?) else {
            return Ok(vec![FrameBody::Object(None)]);
        };
        let chunks = object.chunks(CHUNK_BYTES).zip(0_u32..).map(|(bytes, at)| FrameBody::Chunk {
            bucket,
            offset: at * CHUNK_BYTES as u32,
            bytes: bytes.to_vec(),
        });
        Ok(std::iter::once(FrameBody::Object(Some(manifest))).chain(chunks).collect())
    }

    /// Returns the entries of the folder; `None`: no complete round.
    fn entries(&self) -> Result<Vec<(PathBuf, Option<RoundId>)>, Fault> {
        let entry = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| (entry.path(), entry.file_name().to_str().and_then(id_of)))
        };
        let entries = fs::read_dir(&self.dir).and_then(|all| all.map(entry).collect());
        entries.map_err(|error| private::cannot_read(&self.dir, &error))
    }
}

impl Upload {
    /// Returns the round of this upload.
    pub(crate) const fn id(&self) -> RoundId {
        self.manifest.id
    }

    /// Appends a piece of an object. Returns false if the manifest expects another piece.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub(crate) fn put_piece(
        &mut self,
        bucket: u32,
        offset: u32,
        bytes: &[u8],
    ) -> Result<bool, Fault> {
        let Some(entry) = self.manifest.entries.get(self.at) else { return Ok(false) };
        let end = self.object.len() + bytes.len();
        let due = (self.at as u32 + 1, self.object.len() as u32) == (bucket, offset);
        if !due || bytes.is_empty() || end > entry.len as usize {
            return Ok(false);
        }
        self.object.extend_from_slice(bytes);
        if end == entry.len as usize {
            if !self.manifest.holds_object(bucket, &self.object) {
                return Ok(false);
            }
            let path = self.dir.join(bucket.to_string());
            write_synced(&path, &self.object)
                .map_err(|error| private::cannot_write(&path, &error))?;
            self.object = Vec::new();
            self.at += 1;
        }
        Ok(true)
    }

    /// Returns true if all objects of the round have arrived.
    pub(crate) fn is_whole(&self) -> bool {
        self.at == self.manifest.entries.len()
    }
}

/// Dropping an unfinished upload removes its folder.
impl Drop for Upload {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn round_name(id: RoundId) -> String {
    format!("{}-{}", id.service.number(), id.round)
}

fn id_of(name: &str) -> Option<RoundId> {
    let (service, round) = name.split_once('-')?;
    let service = Service::from_number(service.parse().ok()?).ok()?;
    Some(RoundId { service, round: round.parse().ok()? })
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn ignore_absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_mixnet::wire::bucket::ObjectDigest;

    fn manifest(round: u64, objects: &[&[u8]]) -> Manifest {
        let entries = objects.iter().map(|object| ObjectDigest::from_object(object)).collect();
        Manifest { id: RoundId { service: Service::Call, round }, entries }
    }

    fn stored(shelves: &BucketDir, round: u64, objects: &[&[u8]]) {
        let mut upload = shelves.begin_round(manifest(round, objects), [7; 64]).unwrap();
        for (object, bucket) in objects.iter().zip(1..) {
            let (front, back) = object.split_at(2);
            assert!(upload.put_piece(bucket, 0, front).unwrap());
            assert!(!upload.is_whole());
            assert!(upload.put_piece(bucket, 2, back).unwrap());
        }
        assert!(upload.is_whole() && !upload.put_piece(3, 0, b"more").unwrap());
        shelves.keep_round(&upload, round).unwrap();
    }

    #[test]
    fn a_round_is_there_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("buckets");
        let shelves = BucketDir::open(&dir).unwrap();
        let objects: [&[u8]; 2] = [b"first", b"second"];
        let about = manifest(5, &objects);
        assert_eq!(shelves.read_bucket(about.id, 1).unwrap(), [FrameBody::Object(None)]);
        stored(&shelves, 5, &objects);
        let expected = [
            FrameBody::Object(Some((about.clone(), [7; 64]))),
            FrameBody::Chunk { bucket: 2, offset: 0, bytes: b"second".to_vec() },
        ];
        assert_eq!(shelves.read_bucket(about.id, 2).unwrap(), expected);
        assert_eq!(shelves.read_bucket(about.id, 3).unwrap(), [FrameBody::Object(None)]);
        let mut half = shelves.begin_round(manifest(6, &objects), [7; 64]).unwrap();
        assert!(half.put_piece(1, 0, b"first").unwrap());
        // `forget` simulates a process that dies without running destructors.
        std::mem::forget(half);
        assert!(dir.join("2-6.new").exists());
        let shelves = BucketDir::open(&dir).unwrap();
        assert!(!dir.join("2-6.new").exists() && dir.join("2-5").exists());
        let id = RoundId { round: 6, ..about.id };
        assert_eq!(shelves.read_bucket(id, 1).unwrap(), [FrameBody::Object(None)]);
    }

    #[test]
    fn a_round_that_was_said_to_be_stored_is_put_again_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let shelves = BucketDir::open(&folder.path().join("b")).unwrap();
        stored(&shelves, 5, &[b"first"]);
        // The mark proves that the folder was not replaced: removing the folder would lose the
        // round if the next step failed.
        let mark = folder.path().join("b/2-5/mark");
        fs::write(&mark, b"").unwrap();
        stored(&shelves, 5, &[b"first"]);
        assert!(mark.exists() && !folder.path().join("b/2-5.new").exists());
    }

    #[test]
    fn pieces_out_of_order_too_long_or_wrong_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let shelves = BucketDir::open(&folder.path().join("b")).unwrap();
        let begin = || shelves.begin_round(manifest(1, &[b"abcd", b"efgh"]), [7; 64]).unwrap();
        for (bucket, offset, bytes) in
            [(2, 0, &b"efgh"[..]), (1, 1, b"abc"), (1, 0, b"abcde"), (1, 0, b""), (1, 0, b"abce")]
        {
            assert!(
                !begin().put_piece(bucket, offset, bytes).unwrap(),
                "{bucket} {offset} {bytes:?}"
            );
        }
        assert!(!folder.path().join("b/2-1.new").exists());
    }

    #[test]
    fn the_last_sixteen_rounds_of_a_service_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let shelves = BucketDir::open(&folder.path().join("b")).unwrap();
        (1..=20).for_each(|round| stored(&shelves, round, &[b"abcd"]));
        let mut kept: Vec<u64> =
            shelves.entries().unwrap().into_iter().map(|(_, id)| id.unwrap().round).collect();
        kept.sort_unstable();
        assert_eq!(kept, (5..=20).collect::<Vec<_>>());
    }
}
