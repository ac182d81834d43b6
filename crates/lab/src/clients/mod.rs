//! Programs that send messages by the clients of each language, to a cluster under faults. Each message must
//! be stored once and in order, and be read on the other node at once.

mod disturbance;
mod judge;
mod near;
mod program;
mod table;
mod trial;

pub use judge::{Acknowledged, Kind, StoredMessage, Violation, judge};
pub use near::{NearReport, NearTrial, read_near};
pub use table::table;
pub use trial::{CLIENTS, Trial, TrialReport};
