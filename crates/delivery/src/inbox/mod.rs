//! Inboxes: what is new for each user, for the receivers that the user has open.

mod keeper;
mod node_name;
mod note;
mod wake;

pub use keeper::{
    Entry, FanOut, FannedOut, Generation, InboxKeeper, Mark, Marked, Marks, Opened, Position, ReadFrom,
    Reading,
};
pub use node_name::NodeName;
pub use note::Note;
pub use wake::{Heard, NodeWake, SentMessages, Wake, Wakes, Woken};
