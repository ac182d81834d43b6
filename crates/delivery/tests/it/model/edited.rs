//! Script texts, as a run has them.

use std::collections::HashMap;

use parking_lot::Mutex;

/// The replacements in the product's script texts.
#[derive(Debug)]
pub(crate) struct EditedScripts {
    edits: Vec<(String, String)>,
    /// Script texts after the edits: each is kept for ever, and so is made once.
    edited: Mutex<HashMap<&'static str, &'static str>>,
}

impl EditedScripts {
    pub(crate) fn new<T: Into<String>>(edits: impl IntoIterator<Item = (T, T)>) -> Self {
        let edits = edits.into_iter().map(|(from, to)| (from.into(), to.into())).collect();
        Self { edits, edited: Mutex::default() }
    }

    pub(crate) fn edit(&self, text: &'static str) -> &'static str {
        let mut edited = self.edited.lock();
        edited.entry(text).or_insert_with(|| {
            let replaced = self.edits.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
            Box::leak(replaced.into_boxed_str())
        })
    }

    /// Whether each edit has changed a script.
    pub(crate) fn is_edited(&self) -> bool {
        let edited = self.edited.lock();
        self.edits.iter().all(|(from, _)| edited.keys().any(|text| text.contains(from)))
    }
}
