//! `/demo`: a page that demonstrates this node's sockets. It is part of the program and loads nothing from
//! other origins, except for the pictures of users. Its `chat.js` is the chat session of the TypeScript
//! client, bundled by `npm run demo` in `clients/typescript`.

use http::HeaderValue;

use crate::page::{CSS, HTML, JAVASCRIPT, Page};

/// No resources from other origins but pictures, nothing inline, no frame in another page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: https:; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'",
);

static FILES: [(&str, HeaderValue, &str); 10] = [
    ("/demo", HTML, include_str!("page/index.html")),
    ("/demo/style.css", CSS, include_str!("page/style.css")),
    ("/demo/app.js", JAVASCRIPT, include_str!("page/app.js")),
    ("/demo/chat.js", JAVASCRIPT, include_str!("page/chat.js")),
    ("/demo/elements.js", JAVASCRIPT, include_str!("page/elements.js")),
    ("/demo/notices.js", JAVASCRIPT, include_str!("page/notices.js")),
    ("/demo/sign-in.js", JAVASCRIPT, include_str!("page/sign-in.js")),
    ("/demo/view.js", JAVASCRIPT, include_str!("page/view.js")),
    ("/demo/wire.js", JAVASCRIPT, include_str!("page/wire.js")),
    ("/demo/words.js", JAVASCRIPT, include_str!("page/words.js")),
];

/// The demo's page with its files.
pub(crate) static PAGE: Page = Page { root: "/demo", policy: POLICY, files: &FILES };

#[cfg(test)]
mod tests {
    use http::{Request, StatusCode};

    use super::*;

    #[test]
    fn every_file_that_the_page_names_is_served() {
        PAGE.assert_serves_the_files_that_it_names();
    }

    #[test]
    fn page_loads_and_runs_only_its_own_files() {
        PAGE.assert_loads_and_runs_only_its_own_files();
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        assert!(PAGE.has("/demo") && PAGE.has("/demo/app.js"));
        assert!(!PAGE.has("/demonstration") && !PAGE.has("/"));
        assert_eq!(PAGE.get("/demo/../Cargo.toml").status(), StatusCode::NOT_FOUND);
        let posted = PAGE.answer(&Request::post("/demo").body(()).unwrap());
        assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
