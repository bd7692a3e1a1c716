//! Where the files are, and who may read them; passphrases from files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use mezza::testing::api::Exit;
use mezza::testing::faces::passphrase;
use mezza::testing::process::home::{Home, private};
use tempfile::tempdir;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn found(flag: Option<&str>, variables: &[(&str, &str)]) -> Result<PathBuf, Exit> {
    let variable = |name: &str| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
    };
    Home::find_among(flag.map(Path::new), variable)
        .map(|home| home.root().to_path_buf())
        .map_err(|fault| fault.code)
}

#[test]
fn flag_beats_variable_beats_data_folder_beats_home() {
    let all = [("MEZZA_HOME", "/m"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(found(Some("f"), &all), Ok("f".into()));
    assert_eq!(found(None, &all), Ok("/m".into()));
    assert_eq!(found(None, &all[1..]), Ok("/x/mezza".into()));
    assert_eq!(found(None, &all[2..]), Ok("/h/.local/share/mezza".into()));
    let relative = [("XDG_DATA_HOME", "x"), ("HOME", "/h")];
    assert_eq!(found(None, &relative), Ok("/h/.local/share/mezza".into()));
    assert_eq!(found(None, &[]), Err(Exit::Config));
}

#[test]
fn the_state_lies_outside_of_the_home_where_there_is_a_place_for_it() {
    let home = Home::find(Some(Path::new("/m"))).unwrap();
    let state = |variables: &[(&str, &str)]| {
        home.state_among(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| PathBuf::from(value))
        })
    };
    let all = [("XDG_STATE_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(state(&all), Path::new("/x/mezza"));
    assert_eq!(state(&[("XDG_STATE_HOME", "x"), all[1]]), Path::new("/h/.local/state/mezza"));
    assert_eq!(state(&[]), Path::new("/m/state"));
}

#[test]
fn what_is_made_is_private_and_what_is_not_is_refused() {
    let dir = tempdir().unwrap();
    let home = Home::find(Some(&dir.path().join("a/b"))).unwrap();
    assert_eq!(home.check_folders(), Ok(()));
    home.make_folders().unwrap();
    home.make_folders().unwrap();
    for folder in [home.root().to_path_buf(), home.vault(), home.relay(), home.run()] {
        assert_eq!(mode(&folder), 0o700);
        set_mode(&folder, 0o750);
        let fault = home.check_folders().unwrap_err();
        assert_eq!(fault.code, Exit::Denied);
        assert!(fault.to_string().contains("has mode 0750 instead of 0700"), "{fault}");
        assert!(fault.next.contains("chmod 700"), "{fault}");
        assert_eq!(home.make_folders().unwrap_err().code, Exit::Denied);
        set_mode(&folder, 0o700);
    }
    fs::write(home.config(), "").unwrap();
    set_mode(&home.config(), 0o644);
    assert_eq!(home.check_folders(), Ok(()));
    set_mode(&home.config(), 0o664);
    assert_eq!(home.check_folders().unwrap_err().code, Exit::Denied);
}

#[test]
fn links_are_not_followed() {
    let dir = tempdir().unwrap();
    let home = Home::find(Some(dir.path())).unwrap();
    set_mode(dir.path(), 0o700);
    symlink("/tmp", home.vault()).unwrap();
    assert_eq!(home.make_folders().unwrap_err().code, Exit::Denied);
    let file = dir.path().join("file");
    symlink("/etc/hostname", &file).unwrap();
    assert_eq!(private::read(&file, 9).unwrap_err().code, Exit::Denied);
}

#[test]
fn replacing_keeps_mode_and_survives_leftovers() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(dir.path().join("file.new"), "half").unwrap();
    private::replace(&file, b"one").unwrap();
    private::replace(&file, b"two").unwrap();
    assert_eq!(private::read(&file, 9).unwrap(), b"two");
    assert_eq!(private::read(&file, 2).unwrap(), b"tw");
    assert_eq!(mode(&file), 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    fs::write(dir.path().join("file.new"), "half").unwrap();
    private::sweep_leftover(&file).unwrap();
    private::sweep_leftover(&file).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    set_mode(&file, 0o640);
    assert_eq!(private::read(&file, 9).unwrap_err().code, Exit::Denied);
    assert_eq!(private::read(&dir.path().join("none"), 9).unwrap_err().code, Exit::NotFound);
    let nowhere = dir.path().join("none/file");
    assert_eq!(private::replace(&nowhere, b"x").unwrap_err().code, Exit::CannotWrite);
}

#[test]
fn cli_4_passphrases_come_from_private_files() {
    let dir = tempdir().unwrap();
    let file = dir.path().join("pass");
    let ask = |content: &[u8]| {
        fs::write(&file, content).unwrap();
        set_mode(&file, 0o600);
        passphrase::ask(Some(&file), "").map(|pass| pass.to_vec()).map_err(|fault| fault.code)
    };
    assert_eq!(ask(b"six words"), Ok(b"six words".to_vec()));
    assert_eq!(ask(b"six words\n"), Ok(b"six words".to_vec()));
    assert_eq!(ask(b" six\nwords \r\n"), Ok(b" six\nwords ".to_vec()));
    assert_eq!(ask(&[b'x'; 1_024]).map(|pass| pass.len()), Ok(1_024));
    assert_eq!(ask(&[b'x'; 1_025]), Err(Exit::Denied));
    assert_eq!(ask(b"\n"), Err(Exit::Denied));
    set_mode(&file, 0o604);
    let fault = passphrase::ask_new(Some(&file)).unwrap_err();
    assert_eq!(fault.code, Exit::Denied);
    assert!(fault.next.contains("chmod 600"), "{fault}");
    let missing = dir.path().join("none");
    assert_eq!(passphrase::ask(Some(&missing), "").unwrap_err().code, Exit::NotFound);
}
