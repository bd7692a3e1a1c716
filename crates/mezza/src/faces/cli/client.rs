//! The command line's HTTP client: one connection, one request, one response.
//!
//! The server is this program itself, so the client needs no redirects, proxies, TLS or encodings
//! except lengths and chunks. It connects to a Unix socket whose other end must run as the same
//! user (NODE-20), so that a passphrase never goes to a process of another user.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::show::steers_terminal;
use crate::faces::served::{self, ApiEndpoint};
use crate::faces::web::person::PRESENCE;
use mezza_host::api::json::Problem;
use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::{Home, private};
use mezza_host::process::local_socket;

/// Maximum size of a response, in bytes.
const ANSWER_BYTES_MAX: u64 = 32 << 20;
/// Maximum length of a header line, in bytes.
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Time limit for a response: unlocking takes longest.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of the HTTP interface of one node.
#[derive(Clone)]
pub struct ApiClient {
    api: ApiEndpoint,
    socket: PathBuf,
    /// True if a person causes the requests (MSG-83).
    is_person: bool,
}

impl ApiClient {
    /// Returns a client of this home's node.
    ///
    /// # Errors
    /// If no node is running.
    pub fn for_home(home: &Home) -> Result<Self, Fault> {
        let path = home.run().join("api.json");
        let bytes = private::read(&path, 4_096)
            .map_err(|fault| if fault.code == Exit::NotFound { no_node() } else { fault })?;
        let api = serde_json::from_slice(&bytes).map_err(|_| no_node())?;
        Ok(Self { api, socket: served::socket_path(home), is_person: true })
    }

    /// Returns the page's address and the process number, as the node wrote them at its start.
    pub fn api(&self) -> &ApiEndpoint {
        &self.api
    }

    /// Sends GET. Returns the decoded response.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        parse_body(&self.connect()?.exchange_http("GET", path, None)?)
    }

    /// Returns a client whose requests do not count as activity of the user, which keeps the vault
    /// unlocked (MSG-83). It is for commands that scripts repeat, and for those that run without
    /// the user.
    #[must_use]
    pub fn as_watcher(&self) -> Self {
        Self { is_person: false, ..self.clone() }
    }

    /// Sends POST. Returns the decoded response.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Fault> {
        self.connect()?.post(path, body)
    }

    /// Sends PATCH. Returns the decoded response.
    pub fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Fault> {
        parse_body(&self.connect()?.send("PATCH", path, body)?)
    }

    /// Sends a PUT request and reads the result.
    pub fn put<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Fault> {
        parse_body(&self.connect()?.send("PUT", path, body)?)
    }

    /// Sends DELETE. Returns the decoded response.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        parse_body(&self.connect()?.exchange_http("DELETE", path, None)?)
    }

    /// Sends a request with a body, whose response has none.
    pub fn act_with(&self, method: &str, path: &str, body: &impl Serialize) -> Result<(), Fault> {
        self.connect()?.send(method, path, body).map(drop)
    }

    /// Sends a request whose response has no body.
    pub fn act(&self, method: &str, path: &str) -> Result<(), Fault> {
        self.connect()?.exchange_http(method, path, None).map(drop)
    }

    /// Connects ahead of a request, as a browser does.
    ///
    /// # Errors
    /// If the node is gone.
    pub fn connect(&self) -> Result<ApiConnection, Fault> {
        Ok(ApiConnection { stream: self.open_socket()?, is_person: self.is_person })
    }

    /// Connects to the process of our own user that serves the home.
    ///
    /// # Errors
    /// If the node is gone, or another user's process is there.
    pub(crate) fn open_socket(&self) -> Result<UnixStream, Fault> {
        let connected = local_socket::connect_to(&self.socket);
        connected.map_err(|fault| if fault.code == Exit::Unreachable { no_node() } else { fault })
    }
}

/// A connection to a node, good for one request.
pub struct ApiConnection {
    stream: UnixStream,
    /// True if a person caused the request.
    is_person: bool,
}

impl ApiConnection {
    /// Sends POST. Returns the decoded response.
    ///
    /// # Errors
    /// The refusal of the node, or a fault if the node is gone.
    pub fn post<T: DeserializeOwned>(self, path: &str, body: &impl Serialize) -> Result<T, Fault> {
        parse_body(&self.send("POST", path, body)?)
    }

    fn send(self, method: &str, path: &str, body: &impl Serialize) -> Result<Vec<u8>, Fault> {
        let body =
            serde_json::to_vec(body).map_err(|_| Fault::bug("a request cannot be written"))?;
        self.exchange_http(method, path, Some(&body))
    }

    fn exchange_http(
        mut self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, Fault> {
        let presence = if self.is_person { format!("{PRESENCE}: 1\r\n") } else { String::new() };
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{presence}\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.map_or(0, <[u8]>::len),
        )
        .into_bytes();
        // Send head and body in one write: two small writes would wake the node twice.
        request.extend_from_slice(body.unwrap_or_default());
        let stream = &mut self.stream;
        let sent =
            stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.write_all(&request));
        sent.map_err(|_| no_answer())?;
        let (status, body) = read_answer(&mut BufReader::new(stream)).ok_or_else(no_answer)?;
        if (200..300).contains(&status) { Ok(body) } else { Err(fault_of(status, &body)) }
    }
}

fn read_answer(stream: &mut impl BufRead) -> Option<(u16, Vec<u8>)> {
    let status = read_line(stream)?.split(' ').nth(1)?.parse().ok()?;
    let mut length = None;
    let mut chunked = false;
    loop {
        let line = read_line(stream)?.to_ascii_lowercase();
        let Some((name, value)) = line.split_once(':') else { break };
        match name {
            "content-length" => length = Some(value.trim().parse().ok()?),
            "transfer-encoding" => chunked = value.trim() == "chunked",
            _ => {}
        }
    }
    let body =
        if chunked { read_chunks(stream)? } else { read_exactly(stream, length.unwrap_or(0))? };
    Some((status, body))
}

fn read_chunks(stream: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let length = u64::from_str_radix(read_line(stream)?.trim(), 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        if body.len() as u64 + length > ANSWER_BYTES_MAX {
            return None;
        }
        body.extend(read_exactly(stream, length)?);
        read_line(stream)?;
    }
}

fn read_exactly(stream: &mut impl BufRead, length: u64) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    stream.take(length.min(ANSWER_BYTES_MAX)).read_to_end(&mut body).ok()?;
    (body.len() as u64 == length).then_some(body)
}

fn read_line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    stream.take(LINE_BYTES_MAX).read_line(&mut line).ok()?;
    line.strip_suffix("\r\n").map(Into::into)
}

/// Decodes a body. An empty body counts as `null`.
fn parse_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Fault> {
    let body = if body.is_empty() { b"null".as_slice() } else { body };
    serde_json::from_slice(body).map_err(|_| {
        Fault::new(
            Exit::Unreachable,
            "the node answers in a way that this program does not know",
            "restart it: `mezza node stop`, then `mezza node run`",
        )
    })
}

fn fault_of(status: u16, body: &[u8]) -> Fault {
    match serde_json::from_slice::<Problem>(body) {
        Ok(_) if status == 401 => no_node(),
        Ok(problem) => Fault::new(exit_of(problem.exit), problem.title, problem.next),
        Err(_) => Fault::bug(format!("the node answers {status}")),
    }
}

fn exit_of(number: u8) -> Exit {
    use Exit::{
        Bug, Busy, CannotWrite, Config, Denied, Malformed, No, NotFound, Unreachable, Usage,
    };
    let all = [No, Usage, Malformed, NotFound, Unreachable, CannotWrite, Busy, Denied, Config];
    all.into_iter().find(|exit| exit.number() == number).unwrap_or(Bug)
}

fn no_node() -> Fault {
    Fault::new(Exit::Unreachable, "no node is running", "start it with `mezza node run`")
}

fn no_answer() -> Fault {
    Fault::new(
        Exit::Unreachable,
        "the node does not answer",
        "look at it with `mezza node status`, or stop it and run it again",
    )
}

/// Encodes a value as one line of JSON. Characters that control a terminal are escaped; JSON has
/// none outside of strings.
pub(crate) fn json_line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| Value::Null.to_string());
    if !text.chars().any(steers_terminal) {
        return text;
    }
    let escaped =
        |c: char| if steers_terminal(c) { format!("\\u{:04x}", u32::from(c)) } else { c.into() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_with_lengths_and_chunks() {
        let mut whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd".as_slice();
        assert_eq!(read_answer(&mut whole), Some((200, b"abc".to_vec())));
        let mut chunks =
            b"HTTP/1.1 201 x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
                .as_slice();
        assert_eq!(read_answer(&mut chunks), Some((201, b"abc".to_vec())));
        let mut none = b"HTTP/1.1 204 No Content\r\n\r\n".as_slice();
        assert_eq!(read_answer(&mut none), Some((204, vec![])));
    }

    #[test]
    fn answers_that_are_cut_or_absurd_are_none() {
        for answer in [
            "",
            "HTTP/1.1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\nab",
        ] {
            assert_eq!(read_answer(&mut answer.as_bytes()), None, "{answer}");
        }
    }
}
