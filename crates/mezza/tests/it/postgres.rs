//! A PostgreSQL server of our own: on a free port, as an unprivileged user, gone with the tests.
//!
//! The server's shell waits for the end of its standard input. That input is a pipe whose other
//! end lives as long as this process, so the server and its folder go even after a SIGKILL.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};

/// The program that starts another as another user.
const SETPRIV: &str = "setpriv";

struct Server {
    port: u16,
    /// Holds the pipe; never waited for.
    _shell: Child,
}

/// The address of a new, empty database; `None` (with a printed line that says what is missing)
/// where no server can be started.
///
/// # Panics
/// Where no server can be started and `MEZZA_REQUIRE_ALL=1`.
pub async fn database() -> Option<String> {
    static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let server = match SERVER.get_or_init(start) {
        Ok(server) => server,
        Err(reason) => {
            println!("SKIPPED postgres: {reason}");
            let required = std::env::var_os("MEZZA_REQUIRE_ALL").is_some_and(|v| v == "1");
            assert!(!required, "MEZZA_REQUIRE_ALL=1, but {reason}");
            return None;
        }
    };
    let name = format!("test{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let url = |database: &str| format!("postgres://mezza@127.0.0.1:{}/{database}", server.port);
    let (client, session) =
        tokio_postgres::connect(&url("postgres"), tokio_postgres::NoTls).await.unwrap();
    let session = tokio::spawn(session);
    client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    drop(client);
    session.await.unwrap().unwrap();
    Some(url(&name))
}

fn start() -> Result<Server, String> {
    let bin = binaries().ok_or("no server binaries; apt install postgresql")?;
    let user = if Uid::effective().is_root() { Some(unprivileged()?) } else { None };
    let dir = tempfile::Builder::new().prefix("mezza-postgres-").tempdir().map_err(text)?.keep();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(text)?;
    if let Some(user) = &user {
        chown(&dir, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(text)?;
    }
    let data = dir.join("data");
    let mut initdb = as_user(user.as_ref(), &bin.join("initdb"));
    initdb.arg("-D").arg(&data).args(["-U", "mezza", "-A", "trust", "-E", "UTF8", "--no-locale"]);
    let made = initdb.arg("--no-sync").current_dir(&dir).output().map_err(text)?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        return Err(format!("initdb failed ({said}); run it by hand"));
    }
    let port = free_port().map_err(text)?;
    let shell = as_user(user.as_ref(), Path::new("sh"))
        .args(["-c", SHELL, "sh"])
        .args([&bin.join("postgres"), &data, &dir])
        .arg(port.to_string())
        .current_dir(&dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(text)?;
    let server = Server { port, _shell: shell };
    await_ready(&bin, port).map(|()| server)
}

/// `$1` server, `$2` data, `$3` folder, `$4` port.
const SHELL: &str = r#"
    "$1" -D "$2" -p "$4" -k "$3" -c listen_addresses=127.0.0.1 -c logging_collector=off &
    server=$!
    cat > /dev/null
    kill -INT $server
    wait $server
    rm -rf "$3"
"#;

/// Where `initdb` and `postgres` are.
fn binaries() -> Option<PathBuf> {
    let asked = Command::new("pg_config").arg("--bindir").output().ok();
    let told = asked.and_then(|out| String::from_utf8(out.stdout).ok());
    let packaged = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let packaged = packaged.flatten().map(|version| version.path().join("bin"));
    told.map(|dir| PathBuf::from(dir.trim()))
        .into_iter()
        .chain(packaged)
        .find(|dir| dir.join("initdb").exists() && dir.join("postgres").exists())
}

/// PostgreSQL refuses to run as root.
fn unprivileged() -> Result<User, String> {
    if Command::new(SETPRIV).arg("--version").output().is_err() {
        return Err("root, and no setpriv to become somebody else; apt install util-linux".into());
    }
    ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| User::from_name(name).ok().flatten())
        .ok_or_else(|| "root, and no user postgres or nobody; run the tests as a user".into())
}

fn as_user(user: Option<&User>, program: &Path) -> Command {
    let Some(user) = user else { return Command::new(program) };
    let mut command = Command::new(SETPRIV);
    command
        .arg(format!("--reuid={}", user.uid))
        .arg(format!("--regid={}", user.gid))
        .args(["--clear-groups", "--"])
        .arg(program);
    command
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn await_ready(bin: &Path, port: u16) -> Result<(), String> {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        let port = port.to_string();
        let asked = Command::new(bin.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &port])
            .status()
            .map_err(text)?;
        if asked.success() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("the server did not start within 60 s; start one by hand to see why".into())
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err asks for")]
fn text(error: std::io::Error) -> String {
    format!("{error}; start a server by hand to see why")
}
