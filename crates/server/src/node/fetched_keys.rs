//! Keeps the last answers from the issuers' addresses.

use std::{collections::BTreeMap, sync::Arc};

use futures::future::join_all;
use parking_lot::Mutex;

use crate::{auth::tokens, config::IssuerConfig};

/// Each address's last answer by its issuer's name, or why it cannot be read. Cheap to clone: clones have the
/// same answers.
#[derive(Clone, Debug, Default)]
pub(super) struct FetchedKeys {
    answers: Arc<Mutex<BTreeMap<String, KeysAnswer>>>,
}

/// The keys, or why there are none, in words that follow the address.
pub(super) type KeysAnswer = Result<Arc<[u8]>, String>;

impl FetchedKeys {
    /// Asks each issuer that has an address, all at the same time. Takes 5 s at most. Returns whether all
    /// have answered. Cancelling it changes nothing.
    pub(super) async fn fetch(&self, issuers: &[IssuerConfig]) -> bool {
        let fetched = issuers.iter().filter_map(|issuer| {
            let url = issuer.jwks_url.as_ref()?;
            Some(async {
                let answer = tokens::fetch(url, issuer.jwks_ca_file.as_deref()).await;
                (issuer.issuer.clone(), answer.map(Arc::from))
            })
        });
        let fetched = join_all(fetched).await;
        let all = fetched.iter().all(|(_, answer): &(String, KeysAnswer)| answer.is_ok());
        self.answers.lock().extend(fetched);
        all
    }

    /// The last answer from this issuer's address.
    pub(super) fn of(&self, issuer: &IssuerConfig) -> KeysAnswer {
        let not_yet = || Err(" has not been read yet".to_owned());
        self.answers.lock().get(&issuer.issuer).cloned().unwrap_or_else(not_yet)
    }
}
