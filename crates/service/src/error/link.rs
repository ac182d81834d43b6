//! Where a reason is explained.

use std::sync::OnceLock;

use super::Reason;

/// Within the repository, from its root.
const REPOSITORY: &str = "docs/";

/// Of the whole process, as its metrics are: a node inside another program shares it.
static DOCS: OnceLock<String> = OnceLock::new();

/// Says where the documents are, for the links of all errors of this process. The first call counts; one
/// that comes after the first error changes nothing.
pub fn docs_at(url: &str) {
    DOCS.get_or_init(|| url.trim_end_matches('/').to_owned() + "/");
}

impl Reason {
    /// The link to its explanation: `docs/errors.md#name_taken`, below the base that was set by [`docs_at`].
    #[must_use]
    pub fn link(self) -> String {
        let docs = DOCS.get_or_init(|| REPOSITORY.to_owned());
        format!("{docs}errors.md#{}", self.anchor())
    }

    /// The anchor of its entry in `errors.md`.
    #[must_use]
    pub fn anchor(self) -> String {
        self.name().to_lowercase()
    }
}
