//! Links to the explanations of reasons.

use std::sync::OnceLock;

use super::Reason;

/// The path within the repository.
const REPOSITORY: &str = "docs/";

/// Process-wide, as metrics are: a node inside another program shares it.
static DOCS: OnceLock<String> = OnceLock::new();

/// Sets where the links in this process's errors lead. Only the first call counts, and only before the first
/// error.
pub fn docs_at(url: &str) {
    DOCS.get_or_init(|| url.trim_end_matches('/').to_owned() + "/");
}

impl Reason {
    /// The link to its explanation: `docs/reference/errors.md#name_taken`, below the base that was set by
    /// [`docs_at`].
    #[must_use]
    pub fn link(self) -> String {
        let docs = DOCS.get_or_init(|| REPOSITORY.to_owned());
        format!("{docs}reference/errors.md#{}", self.anchor())
    }

    /// The anchor of its entry in `reference/errors.md`.
    #[must_use]
    pub fn anchor(self) -> String {
        self.name().to_lowercase()
    }
}
