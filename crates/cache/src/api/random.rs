use std::fmt::Debug;

/// Where the jitter of expiry comes from.
pub trait Random: Debug + Send + Sync + 'static {
    /// A number from 0 to below 1, evenly spread.
    fn unit(&self) -> f64;
}

/// The generator of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadRandom;

impl Random for ThreadRandom {
    fn unit(&self) -> f64 {
        rand::random()
    }
}
