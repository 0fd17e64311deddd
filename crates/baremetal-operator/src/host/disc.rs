//! Changes of the disc in a server's virtual drive.

/// A change of the disc in a server's virtual drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscRequest {
    /// One is put in.
    Attach,
    /// The drive is emptied.
    Detach,
}

/// A change of the disc that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscFailure {
    /// Which change.
    pub request: DiscRequest,
    /// `metadata.generation` of the DataImage at that time.
    pub generation: Option<i64>,
}
