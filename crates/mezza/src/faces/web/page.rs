//! The page, embedded in the program. A program built by cargo alone has no page and reports that.

use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::Embed;

#[derive(Embed)]
#[folder = "page"]
#[allow_missing = true]
struct Page;

const NONE: &str = "This program was built without its page.\n\n\
    Build it with `cargo xtask up` (needs Node 20.19 or newer), or use the command line: \
    `mezza --help`.\n";

/// Returns true if the program contains the page.
pub(crate) fn is_here() -> bool {
    Page::get("index.html").is_some()
}

/// Serves one file of the page; a path without a file gets the page itself.
pub(crate) async fn serve_file(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    if path.starts_with("v1/") {
        return StatusCode::NOT_FOUND.into_response();
    }
    let asset = Page::get(path).map(|file| (path, file));
    // A missing name with a dot is a missing file; any other path is a screen of the page.
    let screen = || (!path.contains('.')).then(|| Page::get("index.html")).flatten();
    let found = asset.or_else(|| screen().map(|file| ("index.html", file)));
    let Some((name, file)) = found else {
        return if is_here() {
            StatusCode::NOT_FOUND.into_response()
        } else {
            NONE.into_response()
        };
    };
    let cache =
        if name.starts_with("assets/") { "max-age=31536000, immutable" } else { "no-store" };
    let kind = [(header::CONTENT_TYPE, kind_of(name)), (header::CACHE_CONTROL, cache)]
        .map(|(name, value)| (name, HeaderValue::from_static(value)));
    (kind.into_iter().collect::<axum::http::HeaderMap>(), file.data).into_response()
}

fn kind_of(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json" | "webmanifest") => "application/json",
        Some("txt" | "ftl") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
