//! The format in which nodes share data. Nodes with two versions may run side by side, and neither
//! misinterprets what it cannot read.

/// The format number of this build, whose usual number is this.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub(in crate::remote) const fn wire_format(usual: u8) -> u8 {
    usual
}

#[cfg(feature = "failpoints")]
pub(in crate::remote) use configured::wire_format;

#[cfg(feature = "failpoints")]
mod configured {
    use std::sync::OnceLock;

    /// The format that a test build is configured with (`KITH_FORM=2`) to act as a newer version; otherwise
    /// the usual.
    pub(in crate::remote) fn wire_format(usual: u8) -> u8 {
        static FORMAT: OnceLock<Option<u8>> = OnceLock::new();
        #[expect(clippy::disallowed_methods, reason = "only in test builds that stand for a newer version")]
        let configured =
            FORMAT.get_or_init(|| std::env::var("KITH_FORM").ok().and_then(|text| text.parse().ok()));
        configured.unwrap_or(usual)
    }
}
