//! `/demo`: a page that demonstrates this node's sockets. It is part of the program and loads nothing from
//! other origins, except for the pictures of users. Its `chat.js` is the chat session of the TypeScript
//! client, bundled by `npm run demo` in `clients/typescript`.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use kith_service::error::{Error, Reason};

use crate::json;

const ROOT: &str = "/demo";
/// No resources from other origins but pictures, nothing inline, no frame in another page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: https:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
const JAVASCRIPT: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");

const FILES: [(&str, HeaderValue, &str); 9] = [
    ("/demo", HTML, include_str!("page/index.html")),
    ("/demo/style.css", CSS, include_str!("page/style.css")),
    ("/demo/app.js", JAVASCRIPT, include_str!("page/app.js")),
    ("/demo/chat.js", JAVASCRIPT, include_str!("page/chat.js")),
    ("/demo/notices.js", JAVASCRIPT, include_str!("page/notices.js")),
    ("/demo/sign-in.js", JAVASCRIPT, include_str!("page/sign-in.js")),
    ("/demo/view.js", JAVASCRIPT, include_str!("page/view.js")),
    ("/demo/wire.js", JAVASCRIPT, include_str!("page/wire.js")),
    ("/demo/words.js", JAVASCRIPT, include_str!("page/words.js")),
];

/// Whether the path belongs to the page or its files.
pub(crate) fn has(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request for the page or one of its files.
pub(crate) fn answer<B>(request: &Request<B>) -> Response<Body> {
    let path = request.uri().path();
    let path = if path == "/demo/" { ROOT } else { path };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return refused(StatusCode::METHOD_NOT_ALLOWED, "the page is read by GET");
    }
    match FILES.iter().find(|(file, _, _)| *file == path) {
        Some((_, kind, text)) => page(kind, text),
        None => refused(StatusCode::NOT_FOUND, "the page has no such file"),
    }
}

fn page(kind: &HeaderValue, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind.clone());
    guarded(headers);
    response
}

fn refused(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response =
        Response::new(Body::from(json::failure_text(&Error::new(Reason::MethodUnknown, text).into())));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    guarded(headers);
    response
}

fn guarded(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A browser that caches a file would mix files from two versions.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Response<Body> {
        answer(&Request::get(path).body(()).unwrap())
    }

    #[test]
    fn every_file_that_the_page_names_is_served() {
        let texts: Vec<&str> = FILES.iter().map(|(_, _, text)| *text).collect();
        let named = texts.iter().flat_map(|text| text.split(['"', '\'']));
        let named: Vec<_> = named.filter(|part| part.ends_with(".js") || part.ends_with(".css")).collect();
        assert!(named.len() >= FILES.len() - 1, "{named:?}");
        for name in named {
            let path = format!("/demo/{}", name.rsplit('/').next().unwrap());
            assert_eq!(get(&path).status(), StatusCode::OK, "{name}");
        }
    }

    #[test]
    fn page_loads_and_runs_only_its_own_files() {
        for path in ["/demo", "/demo/", "/demo/app.js", "/demo/nothing"] {
            assert_eq!(get(path).headers()[header::CONTENT_SECURITY_POLICY], POLICY, "{path}");
        }
        for (file, _, text) in &FILES {
            for part in [
                "http://",
                "https://",
                "innerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                " style=\"",
            ] {
                assert!(!text.contains(part), "{file}: {part}");
            }
        }
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        assert!(has("/demo") && has("/demo/app.js") && !has("/demonstration") && !has("/"));
        assert_eq!(get("/demo/../Cargo.toml").status(), StatusCode::NOT_FOUND);
        let posted = answer(&Request::post("/demo").body(()).unwrap());
        assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
