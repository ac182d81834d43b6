use std::fmt::Debug;

/// Supplies the jitter that spreads expiry.
pub trait Random: Debug + Send + Sync + 'static {
    /// A uniform random number from 0 to below 1.
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
