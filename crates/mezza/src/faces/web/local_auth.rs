//! Authentication of the local interface (P8): only its owner may use it.
//!
//! ```text
//! TCP    -> Host ours? -> Origin ours, or none? -> open path, or a bearer? -> handler
//!           else 421      else 403                 else 401
//! socket -> handler       the kernel names the user at the other end (NODE-20)
//! ```
//!
//! A page of another site reaches a loopback port by DNS rebinding (wrong Host) or directly (wrong
//! Origin); another user of the machine has neither ticket nor bearer. Cookies are not used,
//! because all ports of a host share them.
//!
//! A tab that lost its node requires a proof before it trusts the port again (WEB-17): any user may
//! listen there once the node is gone. The key of the proof is sent once, with the bearer.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use rand_core::CryptoRng;
use subtle::ConstantTimeEq;

use super::seats::Caller;
use mezza_host::api::problem::Closed;
use mezza_host::backend::hmac_sha256;

/// Maximum number of unused tickets; the oldest is dropped first.
const TICKETS_MAX: usize = 16;
/// Maximum number of bearers per launch; the one that was unused for longest is dropped first.
const BEARERS_MAX: usize = 64;

/// The content security policy of the page (WEB-3).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' blob:; font-src 'self'; frame-ancestors 'none'; \
    base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

type Key = [u8; 32];

/// The domain separation label of proofs.
const PROOF_LABEL: &[u8] = b"mezza/page-proof";

/// Marks a request of the owner: it came with a bearer, or over the socket in `run/`.
#[derive(Clone, Copy)]
pub(crate) struct FromOwner;

/// Checks the host, origin, tickets and bearers of requests.
pub(crate) struct LocalAuth {
    port: u16,
    names: [String; 3],
    proof: Key,
    tickets: Mutex<VecDeque<Key>>,
    bearers: Mutex<VecDeque<Key>>,
}

impl LocalAuth {
    /// Makes the authentication of a port, with a fresh key for proofs.
    pub(crate) fn new(port: u16, rng: &mut dyn CryptoRng) -> Self {
        let names = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}"));
        let tickets = Mutex::default();
        let bearers = Mutex::default();
        Self { port, names, proof: draw_key(rng), tickets, bearers }
    }

    /// Returns the key with which tabs check proofs, 64 hexadecimal digits.
    pub(crate) fn proof_key(&self) -> String {
        HEXLOWER.encode(&self.proof)
    }

    /// Proves to a tab that this is the launch that issued the tab's bearer: a MAC of the
    /// challenge, 64 hexadecimal digits. Returns `None` if the challenge is malformed.
    pub(crate) fn prove_launch(&self, challenge: &str) -> Option<String> {
        let challenge = key_of(challenge)?;
        Some(HEXLOWER.encode(&hmac_sha256(&self.proof, &[PROOF_LABEL, &challenge])))
    }

    /// Returns the address of the page.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Returns a new one-time address for a browser.
    pub(crate) fn ticket_url(&self, rng: &mut dyn CryptoRng) -> String {
        let ticket = draw_key(rng);
        push_key(&self.tickets, ticket, TICKETS_MAX);
        format!("http://{}/#t={}", self.address(), HEXLOWER.encode(&ticket))
    }

    /// Exchanges a ticket for a bearer. Returns `None` if the ticket is unknown or was used.
    pub(crate) fn exchange_ticket(&self, ticket: &str, rng: &mut dyn CryptoRng) -> Option<String> {
        let ticket = key_of(ticket)?;
        let mut tickets = lock_keys(&self.tickets);
        let at = tickets.iter().position(|known| is_same(known, &ticket))?;
        tickets.remove(at);
        let bearer = draw_key(rng);
        push_key(&self.bearers, bearer, BEARERS_MAX);
        Some(HEXLOWER.encode(&bearer))
    }

    /// Returns true if this is a valid bearer, which then counts as used last.
    pub(crate) fn use_bearer(&self, bearer: &str) -> bool {
        let Some(key) = key_of(bearer) else { return false };
        let mut bearers = lock_keys(&self.bearers);
        let known = bearers.iter().enumerate();
        // Compare with all bearers, so that the time does not reveal the position of a match.
        let find = |place, (at, bearer)| if is_same(bearer, &key) { Some(at) } else { place };
        let place = known.fold(None, find);
        let Some(used) = place.and_then(|at| bearers.remove(at)) else { return false };
        bearers.push_back(used);
        true
    }

    fn host_is_ours(&self, request: &Request) -> bool {
        let ours = |name: &str| self.names.iter().any(|own| own.eq_ignore_ascii_case(name));
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let absolute = request.uri().authority().is_none_or(|authority| ours(authority.as_str()));
        host.is_some_and(ours) && hosts.next().is_none() && absolute
    }

    fn origin_is_ours(&self, headers: &HeaderMap) -> bool {
        headers.get_all(header::ORIGIN).iter().all(|origin| {
            let name = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            name.is_some_and(|name| self.names.iter().any(|own| own.eq_ignore_ascii_case(name)))
        })
    }

    /// Returns true if a request carries a bearer.
    fn bearer_is_known(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        value.and_then(|value| value.strip_prefix("Bearer ")).is_some_and(|b| self.use_bearer(b))
    }
}

/// The middleware that checks every request.
pub(crate) async fn check_request(
    State(auth): State<Arc<LocalAuth>>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_owner = caller.is_owner || auth.bearer_is_known(request.headers());
    // No web page can reach the socket, so Host and Origin are not checked there.
    let refused = if caller.is_owner { None } else { find_refusal(&auth, &request, is_owner) };
    if is_owner && refused.is_none() {
        caller.seat.prefer_known();
        request.extensions_mut().insert(FromOwner);
    }
    let mut response = match refused {
        Some(closed) => closed.into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn find_refusal(auth: &LocalAuth, request: &Request, is_owner: bool) -> Option<Closed> {
    if !auth.host_is_ours(request) {
        return Some(Closed::Host);
    }
    if !auth.origin_is_ours(request.headers()) {
        return Some(Closed::Origin);
    }
    let open = is_open(request.method(), request.uri().path());
    (!open && !is_owner).then_some(Closed::Bearer)
}

/// Returns true for requests without a bearer: the page and its assets, the ticket exchange, the
/// proof, and the WebSocket, which checks its bearer itself.
fn is_open(method: &Method, path: &str) -> bool {
    let interface = path.starts_with("/v1/") || path == "/v1" || path == "/openapi.json";
    match path {
        "/v1/session" | "/v1/proof" => method == Method::POST,
        "/v1/events" => method == Method::GET,
        _ => !interface,
    }
}

fn draw_key(rng: &mut dyn CryptoRng) -> Key {
    let mut key = [0; 32];
    rng.fill_bytes(&mut key);
    key
}

fn key_of(text: &str) -> Option<Key> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

fn is_same(a: &Key, b: &Key) -> bool {
    a.as_slice().ct_eq(b.as_slice()).into()
}

fn lock_keys(keys: &Mutex<VecDeque<Key>>) -> MutexGuard<'_, VecDeque<Key>> {
    keys.lock().unwrap_or_else(PoisonError::into_inner)
}

fn push_key(keys: &Mutex<VecDeque<Key>>, key: Key, max: usize) {
    let mut keys = lock_keys(keys);
    if keys.len() == max {
        keys.pop_front();
    }
    keys.push_back(key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_host::process::rng::OsRng;

    /// Returns a ticket from the address for a browser.
    fn ticket(auth: &LocalAuth) -> String {
        auth.ticket_url(&mut OsRng).rsplit_once("#t=").unwrap().1.to_owned()
    }

    #[test]
    fn the_oldest_ticket_goes_when_one_too_many_waits() {
        let auth = LocalAuth::new(7_100, &mut OsRng);
        let tickets: Vec<String> = (0..=TICKETS_MAX).map(|_| ticket(&auth)).collect();
        assert!(auth.exchange_ticket(&tickets[0], &mut OsRng).is_none());
        for kept in &tickets[1..] {
            assert!(auth.exchange_ticket(kept, &mut OsRng).is_some());
        }
    }

    #[test]
    fn the_oldest_bearer_goes_when_one_too_many_was_given() {
        let auth = LocalAuth::new(7_100, &mut OsRng);
        let bearers: Vec<String> = (0..=BEARERS_MAX)
            .map(|_| auth.exchange_ticket(&ticket(&auth), &mut OsRng).unwrap())
            .collect();
        assert!(!auth.use_bearer(&bearers[0]));
        assert!(bearers[1..].iter().all(|bearer| auth.use_bearer(bearer)));
    }

    #[test]
    fn web_2_a_bearer_in_use_stays_however_many_are_given() {
        let auth = LocalAuth::new(7_100, &mut OsRng);
        let [used, idle] = [0; 2].map(|_| bearer(&auth));
        for _ in 0..=2 * BEARERS_MAX {
            bearer(&auth);
            assert!(auth.use_bearer(&used));
        }
        assert!(!auth.use_bearer(&idle));
    }

    #[test]
    fn a_key_that_is_there_twice_is_known() {
        let auth = LocalAuth::new(7_100, &mut OsRng);
        let bearer = bearer(&auth);
        push_key(&auth.bearers, key_of(&bearer).unwrap(), BEARERS_MAX);
        assert!(auth.use_bearer(&bearer));
    }

    #[test]
    fn web_17_a_proof_is_of_this_launch_and_this_challenge() {
        let [auth, other] = [0; 2].map(|_| LocalAuth::new(7_100, &mut OsRng));
        let [one, two] = ["1", "2"].map(|digit| digit.repeat(64));
        assert_eq!(auth.prove_launch(&one), auth.prove_launch(&one));
        assert_ne!(auth.prove_launch(&one), auth.prove_launch(&two));
        assert_ne!(
            auth.prove_launch(&one),
            other.prove_launch(&one),
            "a node that took the port later"
        );
        let key = key_of(&auth.proof_key()).unwrap();
        let mac = hmac_sha256(&key, &[PROOF_LABEL, &key_of(&one).unwrap()]);
        assert_eq!(auth.prove_launch(&one), Some(HEXLOWER.encode(&mac)));
        assert!(!auth.use_bearer(&auth.proof_key()), "it opens nothing");
        for wrong in ["", "11", &one[1..], &format!("{one}11"), &"zz".repeat(32)] {
            assert!(auth.prove_launch(wrong).is_none(), "{wrong}");
        }
    }

    fn bearer(auth: &LocalAuth) -> String {
        auth.exchange_ticket(&ticket(auth), &mut OsRng).unwrap()
    }

    /// Returns the refusal of a request over TCP.
    fn refused_with(auth: &LocalAuth, request: &Request) -> Option<Closed> {
        find_refusal(auth, request, auth.bearer_is_known(request.headers()))
    }

    fn request(method: Method, uri: &str, headers: &[(HeaderName, &str)]) -> Request {
        let request = Request::builder().method(method).uri(uri);
        let add = |request: axum::http::request::Builder, (name, value): &(HeaderName, &str)| {
            request.header(name, *value)
        };
        headers.iter().fold(request, add).body(axum::body::Body::empty()).unwrap()
    }

    #[test]
    fn only_our_own_names_are_hosts_and_one_at_a_time() {
        let auth = LocalAuth::new(7_100, &mut OsRng);
        let ours = |uri: &str, hosts: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(|host| (header::HOST, *host)).collect();
            auth.host_is_ours(&request(Method::GET, uri, &hosts))
        };
        for name in ["127.0.0.1:7100", "LocalHost:7100", "[::1]:7100"] {
            assert!(ours("/", &[name]), "{name}");
        }
        for name in ["localhost", "localhost:7101", "evil.example:7100", ""] {
            assert!(!ours("/", &[name]), "{name}");
        }
        assert!(!ours("/", &[]) && !ours("/", &["localhost:7100", "localhost:7100"]));
        assert!(ours("http://localhost:7100/", &["localhost:7100"]));
        assert!(!ours("http://evil.example:7100/", &["localhost:7100"]));
        assert!(!ours("http://localhost:7100/", &["evil.example:7100"]));
    }

    #[test]
    fn every_origin_is_ours_or_there_is_none() {
        let auth = LocalAuth::new(7_100, &mut OsRng);
        let ours = |origins: &[&str]| {
            let origins: Vec<_> = origins.iter().map(|name| (header::ORIGIN, *name)).collect();
            auth.origin_is_ours(request(Method::GET, "/", &origins).headers())
        };
        assert!(ours(&[]) && ours(&["http://LOCALHOST:7100"]) && ours(&["http://[::1]:7100"]));
        for origin in ["null", "localhost:7100", "https://localhost:7100", "http://localhost:71"] {
            assert!(!ours(&[origin]), "{origin}");
        }
        assert!(!ours(&["http://localhost:7100", "http://evil.example"]));
    }

    #[test]
    fn the_interface_asks_for_a_bearer_and_the_page_for_none() {
        let auth = LocalAuth::new(7_100, &mut OsRng);
        let refused = |method: &Method, path: &str, bearer: Option<&str>| {
            let mut headers = vec![(header::HOST, "localhost:7100")];
            headers.extend(bearer.map(|bearer| (header::AUTHORIZATION, bearer)));
            refused_with(&auth, &request(method.clone(), path, &headers)).is_some()
        };
        let get = &Method::GET;
        let post = &Method::POST;
        for (method, path) in
            [(get, "/"), (post, "/v1/proof"), (post, "/v1/session"), (get, "/v1/events")]
        {
            assert!(!refused(method, path, None), "{path}");
        }
        let known = bearer(&auth);
        let right = format!("Bearer {known}");
        for (method, path) in [
            (get, "/v1"),
            (get, "/v1/contacts"),
            (get, "/openapi.json"),
            (get, "/v1/session"),
            (post, "/v1/events"),
        ] {
            assert!(!refused(method, path, Some(right.as_str())), "{path}");
            let wrong = format!("Bearer {}", "0".repeat(64));
            for bearer in
                [None, Some(known.as_str()), Some(wrong.as_str()), Some("Bearer "), Some("")]
            {
                assert!(refused(method, path, bearer), "{path}");
            }
        }
    }

    #[test]
    fn a_wrong_host_or_origin_is_refused_with_the_right_bearer_too() {
        let auth = LocalAuth::new(7_100, &mut OsRng);
        let bearer = format!("Bearer {}", bearer(&auth));
        let refused = |host: &str, origin: &str| {
            let headers = [
                (header::HOST, host),
                (header::ORIGIN, origin),
                (header::AUTHORIZATION, bearer.as_str()),
            ];
            refused_with(&auth, &request(Method::GET, "/v1/contacts", &headers))
        };
        let (name, ours) = ("localhost:7100", "http://localhost:7100");
        assert!(refused(name, ours).is_none());
        assert!(matches!(refused("evil.example", ours), Some(Closed::Host)));
        assert!(matches!(refused(name, "http://evil.example"), Some(Closed::Origin)));
    }
}
