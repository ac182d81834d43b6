//! The texts of `kith-session` that no later text covers.

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

const SESSION: HeaderName = HeaderName::from_static("kith-session");
/// Most texts that a call carries.
const CARRIED_MAX: usize = 4;

/// What the calls of one user have written and were answered.
#[derive(Debug, Default)]
pub(crate) struct SessionTexts(Mutex<Vec<HeaderValue>>);

impl SessionTexts {
    pub(crate) fn of(exported: &str) -> Self {
        let texts = exported.split(',').map(str::trim).filter(|text| !text.is_empty());
        Self(Mutex::new(texts.filter_map(|text| HeaderValue::try_from(text).ok()).collect()))
    }

    /// Puts the texts that a call carries in the place of those of an earlier try. An empty one asks the node
    /// for the first.
    pub(crate) fn carry(&self, headers: &mut HeaderMap) {
        let texts = self.0.lock();
        headers.remove(SESSION);
        headers.extend(texts.iter().take(CARRIED_MAX).map(|text| (SESSION, text.clone())));
        headers.entry(SESSION).or_insert(HeaderValue::from_static(""));
    }

    /// An answer covers what its call carried.
    pub(crate) fn answered(&self, carried: &HeaderMap, answer: &HeaderMap) {
        let Some(text) = answer.get(SESSION).filter(|text| !text.is_empty()) else { return };
        let mut texts = self.0.lock();
        texts
            .retain(|known| known != text && carried.get_all(SESSION).iter().all(|carried| carried != known));
        texts.push(text.clone());
    }

    pub(crate) fn export(&self) -> String {
        let texts = self.0.lock();
        let texts: Vec<_> = texts.iter().filter_map(|text| text.to_str().ok()).collect();
        texts.join(",")
    }
}
