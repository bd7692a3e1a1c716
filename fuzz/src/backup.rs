//! Backups: their header, and the archive behind it.

use mezza_core::{Secret, StaticKey, Time};
use mezza_host::backend::AwsLc;
use mezza_host::backup::{BackupKey, BackupReader, Identity, Recipient, seal_archive};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use std::io::Cursor;

/// A backup that every later version reads, and its passphrase.
const SAMPLE: &[u8] = include_bytes!("../../vectors/backup/format1.age");
const PASSPHRASE: &[u8] = b"abacus above absorb accent access acorn";
const NOW: Time = Time::from_ms(1_795_100_000_000);

fn own_key() -> StaticKey {
    StaticKey::from_scalar::<AwsLc>(Secret::init_with(|scalar| scalar.fill(0x42)))
}

fn seal(archive: &[u8]) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let own = own_key();
    let key = BackupKey::draw(&Recipient::Key(own.public_key()), &mut rng).expect("a key");
    seal_archive(archive, &key, &mut rng).expect("it is sealed")
}

/// Opens any bytes as a backup file, which succeeds or is refused.
fn file(data: &[u8]) {
    let own = own_key();
    let Ok(mut reader) = BackupReader::new(Cursor::new(data), &Identity::Key(&own)) else { return };
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let _ = reader.read_rows(NOW, &mut rng, &mut |_| Ok(()));
}

/// Seals any bytes as the archive of a backup, which is then read to its end or refused.
pub fn archive(data: &[u8]) {
    file(&seal(data));
}

/// Returns the archive of the sample.
pub fn archive_seeds() -> Vec<Vec<u8>> {
    let identity = Identity::Passphrase(PASSPHRASE);
    let mut reader = BackupReader::new(Cursor::new(SAMPLE), &identity).expect("the sample opens");
    vec![reader.read_archive().expect("the sample is whole")]
}
