//! Requests whose answers are lists.

use prost::Message;

/// A request whose answers have the elements of a list: pages, the stream of an export, or a batch.
pub trait ListRequest: Message + Default + Clone + 'static {
    /// The path of the method that takes it.
    const PATH: &'static str;
    /// An answer, or a message of the stream.
    type Response: Message + Default + 'static;
    /// An element of the list.
    type Item;

    /// Takes the elements of an answer, and makes this the request for what follows them. Returns false after
    /// the last page. An export ends with its stream: it returns true.
    fn advance(&mut self, response: Self::Response) -> (Vec<Self::Item>, bool);
}

/// A request with many ids. Its answer has a result for each.
pub trait BatchRequest: ListRequest {
    /// Returns the ids.
    fn ids(&mut self) -> &mut Vec<i64>;

    /// Returns the id of a result, and the reason of its error: empty without one.
    fn id_and_reason(result: &Self::Item) -> (i64, &str);
}

include!(concat!(env!("OUT_DIR"), "/list_requests.rs"));
