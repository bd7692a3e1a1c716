//! Authentication of the local interface: which requests are refused, and with what.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use mezza::testing::carriers::Dialer;
use mezza::testing::clock::Clock;
use mezza::testing::faces::cli::client::ApiClient;
use mezza::testing::faces::served::{self, ApiEndpoint, ServedNode};
use mezza::testing::node::NodeOptions;
use mezza::testing::process::home::Home;
use tungstenite::client::{IntoClientRequest, client};
use tungstenite::{Message, WebSocket};

/// A node without identity, served in this process.
struct Served {
    api: ApiEndpoint,
    ticket: String,
    bearer: String,
    folder: tempfile::TempDir,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    fn start() -> Self {
        Self::start_with(0)
    }

    /// A node that locks itself when nobody is there for so many seconds.
    fn start_with(idle_lock_s: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::find(Some(&folder.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let path = home.run().join("api.json");
        let client = home.clone();
        let thread = std::thread::spawn(move || serve(&home, idle_lock_s, &tell, stopped));
        let url: String = told.recv().unwrap();
        let api = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let ticket = ticket_of(&url);
        // Another ticket, over the owner's socket: some tests use the first one.
        let other: serde_json::Value =
            ApiClient::for_home(&client).unwrap().post("/v1/ticket", &()).unwrap();
        let stop = Some(stop);
        let thread = Some(thread);
        let mut served = Self { api, ticket, bearer: String::new(), folder, stop, thread };
        let answer = served.session(&ticket_of(other["url"].as_str().unwrap())).body;
        let session: serde_json::Value = serde_json::from_str(&answer).unwrap();
        served.bearer = session["bearer"].as_str().unwrap().into();
        served
    }

    fn host(&self) -> String {
        self.api.address.to_string()
    }

    /// Status, head and body of one request.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.api.address).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        write!(head, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Answer { status, head: head.to_lowercase(), body: body.into() }
    }

    fn known(&self) -> String {
        format!("Bearer {}", self.bearer)
    }

    fn session(&self, ticket: &str) -> Answer {
        let body = format!("{{\"ticket\":\"{ticket}\"}}");
        let headers = [("Host", self.host()), ("Content-Type", "application/json".into())];
        let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
        self.ask("POST", "/v1/session", &headers, &body)
    }

    fn socket(&self) -> WebSocket<TcpStream> {
        let stream = TcpStream::connect(self.api.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!("ws://{}/v1/events", self.host()).into_client_request().unwrap();
        client(request, stream).unwrap().0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn serve(
    home: &Home,
    idle_lock_s: u64,
    tell: &std::sync::mpsc::Sender<String>,
    stopped: tokio::sync::oneshot::Receiver<()>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let lock = served::lock_home(home).unwrap();
        let vault = home.vault();
        let witness = None;
        let dialer = Dialer::default();
        let observer = None;
        let clock = Clock::system();
        let options = NodeOptions {
            vault,
            witness,
            demo: true,
            idle_lock_s,
            clock,
            dialer,
            mesh: None,
            link: None,
            observer,
        };
        let served = ServedNode::open(home, lock, 0, options).await.unwrap();
        tell.send(served.url.clone()).unwrap();
        let _ = stopped.await;
        served.close().await;
    });
}

fn ticket_of(url: &str) -> String {
    url.split_once("#t=").unwrap().1.to_owned()
}

/// Every method and path of the description, and what stands beside it.
fn all_paths() -> Vec<(String, String)> {
    let text = mezza::testing::faces::web::describe_interface().unwrap();
    let description: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut all =
        vec![("GET".into(), "/openapi.json".into()), ("GET".into(), "/v1/nothing".into())];
    for (path, item) in description["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys().filter(|key| key.len() <= 6) {
            all.push((method.to_uppercase(), path.replace("{id}", "1")));
        }
    }
    assert!(all.len() > 25, "{}", all.len());
    all
}

#[test]
fn web_1_strangers_stay_outside() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let port = served.api.address.port();
    for (method, path) in all_paths() {
        let ask = |headers: &[(&str, &str)]| served.ask(&method, &path, headers, "").status;
        let rebound = [("Host", "evil.example:7100"), ("Authorization", &known)];
        assert_eq!(ask(&rebound), 421, "{method} {path}");
        let foreign =
            [("Host", host.as_str()), ("Origin", "http://evil.example"), ("Authorization", &known)];
        assert_eq!(ask(&foreign), 403, "{method} {path}");
        if !["/v1/session", "/v1/proof"].contains(&path.as_str()) {
            assert_eq!(ask(&[("Host", &host)]), 401, "{method} {path}");
            let wrong = [("Host", host.as_str()), ("Authorization", "Bearer 00")];
            assert_eq!(ask(&wrong), 401, "{method} {path}");
        }
    }
    // Another port of the same machine is another site; so is the same name without a port.
    let next = format!("127.0.0.1:{}", port ^ 1);
    for other in [next.as_str(), "127.0.0.1", "localhost", ""] {
        let headers = [("Host", other), ("Authorization", known.as_str())];
        assert_eq!(served.ask("GET", "/v1/status", &headers, "").status, 421, "{other}");
    }
    for origin in ["null", "http://localhost", "https://127.0.0.1:7100", "file://"] {
        let headers = [("Host", host.as_str()), ("Origin", origin), ("Authorization", &known)];
        assert_eq!(served.ask("GET", "/v1/status", &headers, "").status, 403, "{origin}");
    }
    for own in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")] {
        let origin = format!("http://{own}");
        let headers = [("Host", own.as_str()), ("Origin", &origin), ("Authorization", &known)];
        assert_eq!(served.ask("GET", "/v1/status", &headers, "").status, 200, "{own}");
    }
    assert_eq!(served.ask("GET", "/", &[("Host", &host)], "").status, 200);
}

#[test]
fn web_1_one_host_is_named_and_an_address_of_another_one_is_foreign() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let ask = |target: &str, hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| ("Host", *host));
        let headers: Vec<_> = hosts.chain([("Authorization", known.as_str())]).collect();
        served.ask("GET", target, &headers, "").status
    };
    assert_eq!(ask("/v1/status", &[&host]), 200);
    assert_eq!(ask("/v1/status", &[&host, "evil.example"]), 421);
    assert_eq!(ask("/v1/status", &["evil.example", &host]), 421);
    assert_eq!(ask("/v1/status", &[&host, &host]), 421);
    assert_eq!(ask(&format!("http://{host}/v1/status"), &[&host]), 200);
    assert_eq!(ask("http://evil.example/v1/status", &[&host]), 421);
    assert_eq!(ask("http://evil.example/v1/status", &["evil.example"]), 421);
}

/// Seconds until the node of this test locks itself.
const IDLE_S: u64 = 6;

#[test]
fn msg_83_slow_only_what_a_person_causes_keeps_the_vault_open() {
    let served = Served::start_with(IDLE_S);
    let host = served.host();
    let known = served.known();
    let json = ("Content-Type", "application/json");
    let person = ("Mezza-Person", "1");
    let own = [("Host", host.as_str()), ("Authorization", known.as_str()), json];
    let caused = [own[0], own[1], json, person];
    let body = r#"{"name":"Nora","passphrase":"long enough"}"#;
    assert_eq!(served.ask("POST", "/v1/create", &own, body).status, 201);
    let is_open = || served.ask("GET", "/v1/status", &own, "").body.contains("\"open\"");
    // Somebody with a bearer is there for longer than the time.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1_200 * IDLE_S) {
        assert_eq!(served.ask("GET", "/v1/contacts", &caused, "").status, 200);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(is_open());
    // A page makes requests by itself, for notes that arrive; somebody without a bearer asks for
    // whatever is open to all, and says that a person is there.
    let strange = [("Host", host.as_str()), json, person];
    let end = Instant::now() + Duration::from_secs(60);
    while is_open() {
        assert!(Instant::now() < end, "the vault is kept open without a person");
        assert!([200, 423].contains(&served.ask("GET", "/v1/me", &own, "").status));
        let seen = served.ask("POST", "/v1/contacts/1/seen", &own, r#"{"note":"1"}"#).status;
        assert!(seen >= 400, "{seen}");
        assert_eq!(served.session("00").status, 403);
        assert_eq!(served.ask("GET", "/v1/contacts", &strange, "").status, 401);
        // The page repeats these by itself while their screens are open.
        for repeated in ["/v1/mixnet", "/v1/carriers", "/v1/health"] {
            served.ask("GET", repeated, &own, "");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn web_1_a_socket_closes_unless_it_says_who_it_is() {
    let served = Served::start();
    for first in [None, Some("{\"bearer\":\"00\"}"), Some("no json")] {
        let mut socket = served.socket();
        let began = Instant::now();
        if let Some(first) = first {
            socket.send(Message::text(first)).unwrap();
        }
        let Message::Close(Some(frame)) = socket.read().unwrap() else { panic!("not closed") };
        assert_eq!(u16::from(frame.code), 4_401, "{first:?}");
        assert!(first.is_some() || began.elapsed() >= Duration::from_millis(1_900));
    }
    let mut socket = served.socket();
    socket.send(Message::text(format!("{{\"bearer\":\"{}\"}}", served.bearer))).unwrap();
    socket.send(Message::Ping(b"x".to_vec().into())).unwrap();
    assert!(matches!(socket.read().unwrap(), Message::Pong(_)));
    let host = served.host();
    let upgrade = [
        ("Host", host.as_str()),
        ("Origin", "http://evil.example"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    assert_eq!(served.ask("GET", "/v1/events", &upgrade, "").status, 403);
}

#[test]
fn web_2_a_ticket_works_once() {
    let served = Served::start();
    let first = served.session(&served.ticket);
    assert_eq!(first.status, 200);
    let session: serde_json::Value = serde_json::from_str(&first.body).unwrap();
    let bearer = format!("Bearer {}", session["bearer"].as_str().unwrap());
    let home = served.folder.path().join("home");
    assert_eq!(session["command"], format!("mezza --home {} url", home.display()));
    let host = served.host();
    let headers = [("Host", host.as_str()), ("Authorization", bearer.as_str())];
    assert_eq!(served.ask("GET", "/v1/status", &headers, "").status, 200);
    for used in [served.ticket.as_str(), "", "zz", &"0".repeat(64)] {
        let again = served.session(used);
        assert_eq!(again.status, 403, "{used}");
        assert!(again.body.contains("mezza url"), "{}", again.body);
    }
    let answer = served.ask("POST", "/v1/ticket", &headers, "");
    let url: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let fresh = url["url"].as_str().unwrap().split_once("#t=").unwrap().1;
    assert_eq!((served.session(fresh).status, served.session(fresh).status), (200, 403));
}

#[test]
fn web_17_a_node_proves_that_a_tab_came_in_here() {
    let served = Served::start();
    let session: serde_json::Value =
        serde_json::from_str(&served.session(&served.ticket).body).unwrap();
    let key = session["proof_key"].as_str().unwrap();
    let host = served.host();
    let challenge = "7".repeat(64);
    let headers = [("Host", host.as_str()), ("Content-Type", "application/json")];
    let ask = |challenge: &str| {
        served.ask("POST", "/v1/proof", &headers, &format!("{{\"challenge\":\"{challenge}\"}}"))
    };
    let bytes = |hex: &str| {
        <[u8; 32]>::try_from(data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap()).unwrap()
    };
    let mac = mezza::testing::backend::hmac_sha256(
        &bytes(key),
        &[b"mezza/page-proof".as_slice(), bytes(&challenge).as_slice()],
    );
    let answer: serde_json::Value = serde_json::from_str(&ask(&challenge).body).unwrap();
    assert_eq!(answer["mac"], data_encoding::HEXLOWER.encode(&mac));
    assert_eq!(ask("77").status, 422);
}

/// ```text
///   node            killed: run/api.json stays
///   another user    listens on its port and notes what comes
///   command line    `unlock`, `send`, `node status`
/// ```
#[test]
fn node_20_the_command_line_sends_nothing_to_whoever_took_the_port() {
    let (folder, home, pass) = crate::node::lonely();
    let mut node = crate::program::Program::node(&home, &[], &[]);
    let api: ApiEndpoint =
        serde_json::from_slice(&std::fs::read(home.join("run/api.json")).unwrap()).unwrap();
    node.stop(nix::sys::signal::Signal::SIGKILL);
    assert!(home.join("run/api.json").exists() && home.join("run/api.sock").exists());
    let listener = std::net::TcpListener::bind(api.address).unwrap();
    listener.set_nonblocking(true).unwrap();
    for words in [
        vec!["unlock", "--passphrase-file", &pass],
        vec!["send", "Olga", "a secret"],
        vec!["node", "status"],
        vec!["log", "Olga", "-f"],
    ] {
        let done = crate::program::mezza(&home, &words);
        assert_eq!(done.status.code(), Some(69), "{words:?}");
    }
    let came = listener.accept().map(|(_, from)| from).map_err(|error| error.kind());
    assert_eq!(came, Err(std::io::ErrorKind::WouldBlock), "nobody so much as connects");
    drop(folder);
}

#[test]
fn web_10_settings_are_kept_in_the_file_and_hold_at_once() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let own = [
        ("Host", host.as_str()),
        ("Authorization", known.as_str()),
        ("Content-Type", "application/json"),
    ];
    let set = |body: &str| served.ask("PATCH", "/v1/settings", &own, body);
    assert_eq!(set(r#"{"idle_lock_s":600}"#).status, 404, "there is nobody yet");
    let body = r#"{"name":"Nora","passphrase":"long enough"}"#;
    assert_eq!(served.ask("POST", "/v1/create", &own, body).status, 201);
    let answer = set(r#"{"idle_lock_s":600}"#);
    assert!(answer.status == 200 && answer.body.contains("\"idle_lock_s\":600"), "{}", answer.body);
    let file = served.folder.path().join("home/config.toml");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "idle_lock_s = 600\n");
    for wrong in [r#"{"idle_lock_s":59}"#, r#"{"idle_lock_s":604801}"#] {
        let answer = set(wrong);
        assert_eq!(answer.status, 400, "{}", answer.body);
        assert!(answer.body.contains("0 for never"), "{}", answer.body);
    }
    assert_eq!(set(r#"{"idle_lock_s":0,"observe":true}"#).status, 200);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "idle_lock_s = 0\nobserve = true\n");
    // A file that no program may change: nothing holds that is not kept.
    std::fs::write(&file, "log = \"\"\"\nidle_lock_s = 1\n\"\"\"\n").unwrap();
    assert_eq!(set(r#"{"idle_lock_s":900}"#).status, 500);
    assert!(served.ask("GET", "/v1/status", &own, "").body.contains("\"idle_lock_s\":0"));
}

#[test]
fn web_10_the_relay_of_this_home_is_offered() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let own = [("Host", host.as_str()), ("Authorization", known.as_str())];
    let offer = || {
        let answer = served.ask("GET", "/v1/relay", &own, "").body;
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()["relay"].clone()
    };
    assert!(offer().is_null());
    let home = served.folder.path().join("home");
    let init = crate::program::command(&home, &["relay", "init", "--listen", "127.0.0.1:7199"])
        .output()
        .unwrap();
    assert!(init.status.success(), "{init:?}");
    let found = offer();
    assert!(found["uri"].as_str().unwrap().starts_with("mezzavoce:r1/"), "{found}");
    assert_eq!((found["up"].as_bool(), found["only_here"].as_bool()), (Some(false), Some(true)));
    // One that listens on all addresses has none that could be told.
    std::fs::write(home.join("config.toml"), "relay_listen = \"0.0.0.0:7199\"\n").unwrap();
    assert!(offer().is_null());
    let public = "relay_listen = \"0.0.0.0:7199\"\nrelay_public = \"relay.example:7199\"\n";
    std::fs::write(home.join("config.toml"), public).unwrap();
    assert_eq!(offer()["relay"]["host"], "relay.example");
}

#[test]
fn web_10_a_relay_runs_beside_the_node_and_only_at_an_address_that_can_be_reached() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let own = [
        ("Host", host.as_str()),
        ("Authorization", known.as_str()),
        ("Content-Type", "application/json"),
    ];
    let home = served.folder.path().join("home");
    let port = crate::program::free_port();
    std::fs::write(home.join("config.toml"), format!("relay_listen = \"127.0.0.1:{port}\"\n"))
        .unwrap();
    let run = |body: &str| served.ask("POST", "/v1/relay", &own, body);
    for wrong in ["0.0.0.0:7101", "no port", "relay.example:0"] {
        let answer = run(&format!(r#"{{"public":"{wrong}"}}"#));
        assert_eq!(answer.status, 500, "{wrong}: {}", answer.body);
        let kept = std::fs::read_to_string(home.join("config.toml")).unwrap();
        assert!(!kept.contains("relay_with_node"), "a refused address changes nothing: {kept}");
    }
    // Twice: a relay that runs already stays as it is.
    for _ in 0..2 {
        let answer = run("{}");
        assert_eq!(answer.status, 200, "{}", answer.body);
        let relay: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(relay["relay"]["up"], true, "{relay}");
        assert_eq!(relay["relay"]["relay"]["port"], port);
    }
    let kept = std::fs::read_to_string(home.join("config.toml")).unwrap();
    assert!(kept.contains("relay_with_node = true"), "{kept}");
    drop(std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
}

#[test]
fn web_25_a_search_is_bounded_and_finds_nothing_in_a_locked_vault() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let own = [
        ("Host", host.as_str()),
        ("Authorization", known.as_str()),
        ("Content-Type", "application/json"),
    ];
    let search = |body: &str| served.ask("POST", "/v1/search", &own, body);
    assert_eq!(search(r#"{"text":"a"}"#).status, 404, "there is nobody yet");
    let body = r#"{"name":"Nora","passphrase":"long enough"}"#;
    assert_eq!(served.ask("POST", "/v1/create", &own, body).status, 201);
    let answer = search(r#"{"text":"a"}"#);
    assert!(answer.status == 200 && answer.body.contains("\"notes\":[]"), "{}", answer.body);
    for wrong in [String::new(), "  ".into(), "x".repeat(257)] {
        let answer = search(&format!(r#"{{"text":"{wrong}"}}"#));
        assert!(answer.status == 422 && answer.body.contains("1 to 256 bytes"), "{}", answer.body);
    }
    assert_eq!(search(r#"{"text":"a","contact":"99"}"#).status, 404);
    assert_eq!(served.ask("POST", "/v1/lock", &own, "").status, 200);
    assert_eq!(search(r#"{"text":"a"}"#).status, 423);
}

#[test]
fn web_8_the_description_in_the_repository_is_what_is_served() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let headers = [("Host", host.as_str()), ("Authorization", known.as_str())];
    let answer = served.ask("GET", "/openapi.json", &headers, "");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.body == kept, "write it anew: `mezza openapi > crates/mezza/openapi.json`");
}

#[test]
fn every_answer_carries_the_headers_of_the_door() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let asked = [
        served.ask("GET", "/", &[("Host", &host)], ""),
        served.ask("GET", "/", &[("Host", "evil")], ""),
        served.ask("GET", "/v1/status", &[("Host", &host), ("Authorization", &known)], ""),
    ];
    for answer in asked {
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; ",
            "require-trusted-types-for 'script'",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "referrer-policy: no-referrer",
            "x-content-type-options: nosniff",
        ] {
            assert!(answer.head.contains(header), "{header}\n{}", answer.head);
        }
    }
}

#[test]
fn errors_are_problems_with_a_next_step() {
    let served = Served::start();
    let host = served.host();
    let known = served.known();
    let headers = [
        ("Host", host.as_str()),
        ("Authorization", known.as_str()),
        ("Content-Type", "application/json"),
    ];
    let cases = [
        ("GET", "/v1/me", "", 404, "empty"),
        ("POST", "/v1/unlock", "{\"passphrase\":\"x\"}", 404, "empty"),
        ("POST", "/v1/unlock", "{}", 422, "malformed"),
        (
            "POST",
            "/v1/create",
            "{\"name\":\"Bob\",\"passphrase\":\"short\"}",
            400,
            "passphrase_short",
        ),
        ("POST", "/v1/qr?width=2&height=2", "abcd", 422, "no_code"),
        ("POST", "/v1/qr?width=2", "abcd", 422, "malformed"),
        ("GET", "/v1/observer", "", 404, "no_observer"),
    ];
    for (method, path, body, status, code) in cases {
        let answer = served.ask(method, path, &headers, body);
        assert!(answer.head.contains("content-type: application/problem+json"), "{}", answer.head);
        let problem: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, problem["code"].as_str().unwrap()), (status, code), "{path}");
        assert_eq!(problem["status"].as_u64().unwrap(), u64::from(status));
        assert!(!problem["next"].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_picture_larger_than_other_bodies_is_read() {
    use mezza::testing::faces::qr::{Medium, QrImage};
    let served = Served::start();
    let text = format!("MEZZAVOCE:C1/{}", "A7".repeat(300));
    let code = QrImage::draw(&text, Medium::Screen).unwrap();
    let edge = code.size() * 4;
    assert!(edge * edge > 64 << 10);
    let png = code.to_png().unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let host = served.host();
    let known = served.known();
    let mut stream = TcpStream::connect(served.api.address).unwrap();
    let head = format!(
        "POST /v1/qr?width={}&height={} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {known}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        info.width,
        info.height,
        pixels.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&pixels).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(&text), "{answer}");
}
