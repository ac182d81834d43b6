//! Pages that are part of the program. A page loads and runs its own files alone, and no other page may
//! frame it.

use axum::body::Body;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use kith_service::error::{Error, Reason};

use crate::json;

pub(crate) const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
pub(crate) const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
pub(crate) const JAVASCRIPT: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");

/// A page and its files.
#[derive(Debug)]
pub(crate) struct Page {
    /// The page's path. Its files are below.
    pub(crate) root: &'static str,
    /// Its content security policy.
    pub(crate) policy: HeaderValue,
    /// Path, content type and text of the page and its files.
    pub(crate) files: &'static [(&'static str, HeaderValue, &'static str)],
}

impl Page {
    /// Whether the path belongs to the page or its files.
    pub(crate) fn has(&self, path: &str) -> bool {
        path.strip_prefix(self.root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers a request for the page or one of its files.
    pub(crate) fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let path = request.uri().path();
        let path = if path.strip_suffix('/') == Some(self.root) { self.root } else { path };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return self.refused(StatusCode::METHOD_NOT_ALLOWED, "the page is read by GET");
        }
        match self.files.iter().find(|(file, _, _)| *file == path) {
            Some((_, kind, text)) => self.file(kind, text),
            None => self.refused(StatusCode::NOT_FOUND, "the page has no such file"),
        }
    }

    fn file(&self, kind: &HeaderValue, text: &'static str) -> Response<Body> {
        let mut response = Response::new(Body::from(text));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, kind.clone());
        self.guard(headers);
        response
    }

    fn refused(&self, code: StatusCode, text: &'static str) -> Response<Body> {
        let mut response =
            Response::new(Body::from(json::failure_text(&Error::new(Reason::MethodUnknown, text).into())));
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.guard(headers);
        response
    }

    fn guard(&self, headers: &mut HeaderMap) {
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        // A browser that caches a file would mix files from two versions.
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// Checks of a page's files, for the tests of each page.
#[cfg(test)]
impl Page {
    pub(crate) fn get(&self, path: &str) -> Response<Body> {
        self.answer(&Request::get(path).body(()).unwrap())
    }

    #[track_caller]
    pub(crate) fn assert_serves_the_files_that_it_names(&self) {
        let texts: Vec<&str> = self.files.iter().map(|(_, _, text)| *text).collect();
        let named = texts.iter().flat_map(|text| text.split(['"', '\'']));
        let named: Vec<_> = named.filter(|part| part.ends_with(".js") || part.ends_with(".css")).collect();
        assert!(named.len() >= self.files.len() - 1, "{named:?}");
        for name in named {
            let path = format!("{}/{}", self.root, name.rsplit('/').next().unwrap());
            assert_eq!(self.get(&path).status(), StatusCode::OK, "{name}");
        }
    }

    #[track_caller]
    pub(crate) fn assert_loads_and_runs_only_its_own_files(&self) {
        for below in ["", "/", "/app.js", "/nothing"] {
            let path = format!("{}{below}", self.root);
            assert_eq!(self.get(&path).headers()[header::CONTENT_SECURITY_POLICY], self.policy, "{path}");
        }
        for (file, _, text) in self.files {
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
}
